"""`make soak MINUTES=30`: load, rebalances, retention and store failovers, together and for long.

    python -m tests.soak [--minutes 30] [--seed N] [--summary build/soak.json]

Six partitions of 240 records a second in all; two members that stay and one that comes, goes and
is killed; retention by age behind the cursors, and records deleted before anybody read them; a
store with sentinels that is handed over, killed, and replaced by a replica that knows less. The
seed decides the order. Exit 1 when a record is not accounted for, a commit was ahead of the store,
or something grows beyond its bound (`tests.soak.slopes`).

The commits are looked at from outside all the while, except while a store is being replaced: then
nobody outside knows what it had acknowledged.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benches.kafka import KafkaBroker
from tests.benches.process import REPOSITORY, BenchError
from tests.benches.redis import Sentinels
from tests.soak.samples import Sampler
from tests.soak.slopes import Slope
from tests.soak.world import ACTIONS, Soak

SAY_EVERY_SECONDS = 15.0


class Progress:
    """One line that changes on a terminal, a line now and then elsewhere; on standard error."""

    def __init__(self, seconds: float) -> None:
        self._console = Console(stderr=True)
        self._began = time.monotonic()
        self._seconds = seconds
        self._said = -SAY_EVERY_SECONDS
        self._status = self._console.status("starting") if self._console.is_terminal else None
        if self._status is not None:
            self._status.start()

    @property
    def passed(self) -> float:
        return time.monotonic() - self._began

    def say(self, doing: str, soak: Soak, sampler: Sampler) -> None:
        line = (
            f"{self.passed / 60:5.1f} of {self._seconds / 60:g} min · "
            f"{soak.world.ledger.count} applied · {doing} · {sampler.latest()}"
        )
        if self._status is not None:
            self._status.update(line)
        elif self.passed - self._said >= SAY_EVERY_SECONDS:
            self._said = self.passed
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._status is not None:
            self._status.stop()


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 10**6))
    parser.add_argument("--summary", type=Path, default=REPOSITORY / "build" / "soak.json")
    given = parser.parse_args(argv)
    print(f"seed {given.seed}", file=sys.stderr)
    summary: dict[str, Any] = {"minutes": given.minutes, "seed": given.seed}
    try:
        summary |= _soaked(given.minutes * 60, random.Random(given.seed))
    except (BenchError, TimeoutError, AssertionError) as error:
        summary |= {"ok": False, "error": str(error)}
        print(error, file=sys.stderr)
    given.summary.parent.mkdir(parents=True, exist_ok=True)
    given.summary.write_text(json.dumps({"ok": False, **summary}, indent=2) + "\n")
    return 0 if summary["ok"] else 1


def _soaked(seconds: float, chance: random.Random) -> dict[str, Any]:
    with ExitStack() as stack:
        kafka = stack.enter_context(KafkaBroker())
        kafka.start()
        sentinels = stack.enter_context(Sentinels())
        sentinels.start()
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        soak = stack.enter_context(closing(Soak(kafka, sentinels, directory, chance)))
        soak.flows(1)
        members = {member.name: member for member in soak.residents}
        sampler = Sampler(members, soak.used).start()
        progress = Progress(seconds)
        stack.callback(progress.end)
        deck: list[Any] = []
        while progress.passed < seconds:
            if not deck:
                deck = chance.sample(ACTIONS, len(ACTIONS))
            action = deck.pop()
            progress.say(action.__name__.replace("_", " "), soak, sampler)
            soak.act(action)
        sampler.stop()
        progress.say("coming to rest", soak, sampler)
        account, gaps, forgotten = soak.settle()
        soak.watch.stop()
        progress.end()
        slopes = sampler.slopes()
        revocations = sum(len(m.events("partitions_revoked")) for m in soak.world.sidecars)
        faults = [*account.faults, *soak.watch.faults]
        still = all(member.running for member in soak.residents)
        ok = still and not faults and all(one.ok for one in slopes)
        _show(slopes)
        print(account)
        print(f"{len(gaps)} gaps in the store, {len(forgotten)} decided ones that it forgot")
        print(f"{soak.watch.looks} looks at commits; {revocations} revocations; {soak.done}")
        print("\n".join(faults[:20]))
        return {
            "ok": ok,
            "seconds": round(progress.passed, 1),
            "produced": account.produced,
            "applied": account.applied,
            "repeated_flagged": account.repeated_flagged,
            "in_gaps": account.in_gaps,
            "gaps": len(gaps),
            "gaps_forgotten_by_the_store": len(forgotten),
            "faults": faults[:100],
            "inflicted": soak.done,
            "revocations": revocations,
            "looks_at_commits": soak.watch.looks,
            "slopes": [asdict(one) for one in slopes],
        }


def _show(slopes: Sequence[Slope]) -> None:
    table = Table("what", "an hour", "first", "last", "low", "high", "samples", "")
    for one in slopes:
        table.add_row(
            one.what,
            f"{one.per_hour:+.2f} {one.unit}",
            *(f"{value:.4g}" for value in (one.first, one.last, one.low, one.high)),
            str(one.samples),
            "" if one.ok else "TOO MUCH",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
