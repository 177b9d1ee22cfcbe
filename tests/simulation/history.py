"""A schedule on file, and the shortest one that still breaks the same thing.

A history is its setup and its moves. Taking moves out leaves a history, since each move carries all
its chance with it; so the shortest is found by taking out ever smaller runs of them (delta
debugging), then by making what is left plainer: fewer sidecars, one partition, nothing in the log,
small numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from sidecar.core.policy import Adopt, Start
from sidecar.core.types import GapReason
from tests.simulation.schedule import ORDINARY, Result, recorded, run, setup
from tests.simulation.world import Move, Setup

TRIES_MAX = 3_000


@dataclass(frozen=True, slots=True)
class History:
    setup: Setup
    moves: tuple[Move, ...]
    found: str = ""
    """What was wrong when it was kept."""

    def run(self, *, telling: bool = False) -> Result:
        return run(self.setup, self.moves, telling=telling)

    def text(self) -> str:
        begin = {f.name: getattr(self.setup, f.name) for f in fields(Setup)}
        head = json.dumps({"found": self.found, "setup": begin})[:-1]
        lines = ",\n  ".join(json.dumps(move) for move in self.moves)
        return f'{head}, "moves": [\n  {lines}\n]}}\n'


def of_seed(seed: int, count: int) -> History:
    """The first `count` moves of a seed."""
    return History(setup(seed), tuple(recorded(seed, count)))


def load(path: Path) -> History:
    return parse(json.loads(path.read_text()))


def parse(document: Any) -> History:
    begin = document["setup"]
    begin["start"] = Start(begin["start"])
    begin["adopt"] = Adopt(begin["adopt"])
    begin["accepting"] = tuple(GapReason(reason) for reason in begin["accepting"])
    moves = tuple((str(name), int(number)) for name, number in document["moves"])
    return History(Setup(**begin), moves, document["found"])


def shrink(history: History, tries_max: int = TRIES_MAX) -> History:
    """The shortest history found that breaks the same invariant, within so many runs."""
    first = history.run()
    if first.violation is None:
        return history
    invariant = first.violation.invariant
    tries = 0

    def broken(candidate: History) -> History | None:
        """The candidate, as far as it got, if it breaks the same thing."""
        nonlocal tries
        if tries >= tries_max:
            return None
        tries += 1
        result = candidate.run()
        if result.violation is None or result.violation.invariant != invariant:
            return None
        moves = candidate.moves[: result.moves]
        return replace(candidate, moves=moves, found=str(result.violation))

    best = _plainer_begin(broken(history) or history, broken)
    while tries < tries_max:
        shorter = _plainer(_fewer_moves(best, broken), broken)
        if (shorter.moves, shorter.setup) == (best.moves, best.setup):
            break
        best = shorter
    return best


def _fewer_moves(best: History, broken: Callable[[History], History | None]) -> History:
    size = max(1, len(best.moves) // 2)
    while True:
        at, shortened = 0, False
        while at < len(best.moves):
            moves = best.moves[:at] + best.moves[at + size :]
            shorter = broken(replace(best, moves=moves))
            if shorter is None:
                at += size
            else:
                best, shortened = shorter, True
        if size > 1:
            size //= 2
        elif not shortened:
            return best


def _plainer(best: History, broken: Callable[[History], History | None]) -> History:
    best = _plainer_begin(best, broken)
    for at, (name, number) in enumerate(best.moves):
        for plain in (0, 1, 2, 3):
            if at >= len(best.moves) or number == plain:
                break
            moves = (*best.moves[:at], (name, plain), *best.moves[at + 1 :])
            plainer = broken(replace(best, moves=moves))
            if plainer is not None:
                best = plainer
                break
    return best


def _plainer_begin(best: History, broken: Callable[[History], History | None]) -> History:
    for begin in _plainer_setups(best.setup):
        if begin != best.setup:
            best = broken(replace(best, setup=begin)) or best
    return best


def _plainer_setups(begin: Setup) -> Iterator[Setup]:
    plain = Setup(partitions=1, sidecars=1)
    yield plain
    for f in fields(Setup):
        yield replace(begin, **{f.name: getattr(plain, f.name)})


def told(history: History) -> str:
    """For a person: the moves, and everything that every sidecar was told and commanded."""
    result = history.run(telling=True)
    faults = sum(1 for name, _ in history.moves if name not in ORDINARY)
    head = f"{len(history.moves)} moves, {faults} of them faults; {history.setup}"
    return "\n".join([head, *result.world.story, str(result.violation or "no violation")])


def digest_of(lines: Sequence[str]) -> str:
    """Of a history, byte for byte."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
