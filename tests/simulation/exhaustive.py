"""Every order in which a small world can happen, crashes included, as deep as the time allows.

The seeded simulator goes deep along few ways; this goes along all of them: two sidecars, one
partition, four records, one retention loss, one failover of the store to a copy that lags, one
crash. A question to a server stops before it is asked, and a write once more before its answer is
brought, so that a crash can fall between the two. (A question whose answer nothing in this scope
can change is asked in one go with the one before it.) It is done twice:

- **by depth**: at each moment each thing that could happen next is taken, breadth first, so that
  "to depth D" means all of it. From a cold start nothing would be delivered before the time runs
  out, so there are several starts, each reached by a fair run.
- **by surprises**: a fair order is followed to its end, and at each moment anything else may happen
  instead; that is one surprise. Within K surprises, to the end, everything is walked. A bug that
  needs three things at three bad moments is within three, however far apart they are. (The idea is
  that of bounding preemptions, as CHESS does for threads.)

Engines cannot be copied (what waits for a server is a suspended coroutine), so a state is the way
that leads to it, walked again for each of its children. Ways that lead to the same state are walked
on once: a state is told as a value (engines, log, group, store, what is under way and what it has
heard, what the oracle knows), without the wall clock and with times told from now on, and two with
the same digest count as one. Rejected: renaming the names that engines give by counting, which
would merge more and be one more thing to trust.

    python -m tests.simulation.exhaustive --minutes 10 --summary build/exhaustive.json
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from operator import attrgetter
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, Final, TypeAlias

from sidecar.core.types import Outcome
from sidecar.core.views import AllApplied
from sidecar.engine import messages as m
from sidecar.errors import InvariantBroken
from tests.fakes.kafka import FakeFetcher
from tests.simulation.oracle import Violation
from tests.simulation.schedule import _accounts, _at_rest, _peace
from tests.simulation.world import TOPIC, Life, Setup, Stop, Task, World

RECORDS: Final = 4
TICK_SECONDS: Final = 0.6
"""More than any of the engine's own intervals but those of failures: a tick does all it can."""
JOINED: Final = frozenset({"committed", "topics", "log_ends"})
"""Asked in one go with the question before them, which is exact here: nothing in this scope changes
the topic's identity, the log's end, or the cluster's identity (asked before `committed`)."""
WRITES: Final = frozenset(
    {"install", "commit", "create_registry", "register", "mark_started", "update_gap"}
)
SETUP: Final = Setup(partitions=1, sidecars=2, records=RECORDS)

Action: TypeAlias = tuple[str, int]
"""What happens next: `task` N goes on; `pump`, `tick`, `work`, `crash` of life N; a fault; or
`pass`: time passes for everybody."""
Way: TypeAlias = tuple[Action, ...]

BUDGET: Final = {"tick": 2, "crash": 1, "retention": 1, "copy": 1, "failover": 1}
"""How often on one way. Ticks of one member too, beside those that everybody gets."""


@dataclass(slots=True)
class Heard(Task):
    """A task that can be told: what was asked, and every answer it has had so far."""

    question: object = None
    answers: list[object] = field(default_factory=list)


class Scope(World):
    """`spent` counts what `BUDGET` bounds."""

    def __init__(self) -> None:
        self.running: Heard | None = None
        self.spent = dict.fromkeys(BUDGET, 0)
        super().__init__(SETUP)

    # How questions stop

    def stepped(self, target: Any) -> Any:
        """One stop before a question; after a write a second one, where its answer may be lost."""
        scope = self

        class Stepped:
            def __getattr__(self, name: str) -> Any:
                method = getattr(target, name)

                async def call(*args: Any, **kwargs: Any) -> Any:
                    assert scope.running is not None
                    if name not in JOINED or not scope.running.answers:
                        await Stop()
                    answer = await method(*args, **kwargs)
                    scope.running.answers.append(answer)
                    if name in WRITES:
                        await Stop()
                    return answer

                return call

        return Stepped()

    def _ask(self, life: Life, question: m.Command) -> None:
        work = life.performer.answer(question)  # type: ignore[arg-type]  # the world sends no others
        task = self.running = Heard(work, life, question=question)
        task.until = work.send(None).until
        self.tasks.append(task)

    def advance(self, at: int) -> None:
        task = self.tasks[at]
        assert isinstance(task, Heard)
        self.running = task
        super().advance(at)

    # What can happen

    def possible(self) -> Iterator[Action]:
        for number, task in enumerate(self.tasks):
            if task.until <= self.now:
                yield "task", number
        for number, life in enumerate(self.lives):
            yield "pump", number
            if self._may("tick"):
                yield "tick", number
            if life.pages:
                yield "work", number
            if self._may("crash"):
                yield "crash", number
        if self._may("retention"):
            yield "retention", RECORDS // 2
            yield "retention", RECORDS
        if self._may("copy"):
            yield "copy", 0
        elif self._may("failover"):
            yield "failover", 0

    def fair(self) -> Action | None:
        """What happens next in a fair and quick world; None: everything has come to rest.

        A function of the state alone, or states could not be told from their digests."""
        for number, task in enumerate(self.tasks):
            if task.until <= self.now:
                return "task", number
        for number, life in enumerate(self.lives):
            if life.pages:
                return "work", number
        return None if _at_rest(self, began=-math.inf) else ("pass", 0)

    def _may(self, what: str) -> bool:
        return self.spent[what] < BUDGET[what]

    def happen(self, action: Action) -> None:
        what, number = action
        self.steps += 1
        if what in self.spent:
            self.spent[what] += 1
        match what:
            case "task":
                self.advance(number)
            case "pump":
                self.lives[number].fetcher.pump()
            case "tick":
                self.now += TICK_SECONDS
                self.give(self.lives[number], m.Tick())
            case "pass":
                self.now += TICK_SECONDS
                for life in list(self.lives):
                    life.fetcher.pump()
                    self.give(life, m.Tick())
            case "work":
                self.work(self.lives[number])
            case "crash":
                self.kill(self.lives[number])
                self.start()
            case "retention":
                self.kafka.delete_records(TOPIC, 0, number)
            case "copy":
                self.snapshot = self.store.snapshot()
            case "failover":
                assert self.snapshot is not None
                self.store.restore(self.snapshot)
                self.note_forgotten()
            case _:
                raise ValueError(what)
        for life in self.lives:
            if not life.wanted and not life.pages:
                self.want(life)

    def work(self, life: Life) -> None:
        """A fair application, one step at a time: it makes its effects durable, then reports. It
        asks for the next page at once."""
        held = life.pages[0]
        if held.applied < len(held.values):
            self.effect(held, len(held.values))
        else:
            self.report(life, held, AllApplied(Outcome.APPLIED))


# Starts


def cold(scope: Scope) -> None:
    """Nothing has happened: four records, two members that have not joined."""


def delivering(scope: Scope) -> None:
    """One member delivers and has a page out; the other has joined and has no partition."""
    fairly(scope, lambda: any(life.pages for life in scope.lives))


def handing_over(scope: Scope) -> None:
    """A page was applied by its application and not reported; its member is expelled, and nobody
    has told it. The other is about to get the partition."""
    delivering(scope)
    life = next(life for life in scope.lives if life.pages)
    scope.effect(life.pages[0], len(life.pages[0].values))
    scope.kafka.expel(life.fetcher)


def promoted(scope: Scope) -> None:
    """One page is promoted, and its commit is still to come."""
    delivering(scope)
    life = next(life for life in scope.lives if life.pages)
    scope.work(life)
    scope.work(life)
    fairly(
        scope,
        lambda: any(
            c.checkpoint is not None and c.checkpoint.token.next > 0
            for c in life.engine.cursors.values()
        ),
    )


STARTS: Final[Mapping[str, Callable[[Scope], None]]] = {
    "cold": cold,
    "delivering": delivering,
    "handing over": handing_over,
    "promoted": promoted,
}


def fairly(scope: Scope, until: Callable[[], bool]) -> None:
    """In fair order, until `until`."""
    for _ in range(2000):
        if until():
            return
        action = scope.fair()
        assert action is not None, "it came to rest"
        scope.happen(action)
    raise AssertionError("the fair run came nowhere")


# Telling a state


class Teller:
    """Makes one value of a state. Two states that are told alike behave alike from here on."""

    SKIPPED: Final = frozenset(
        {"since", "opened_at", "asked_at", "at", "began_at", "parts", "context"}
    )
    """Times that are shown to people and decide nothing, and the way back up."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.fetchers = {id(life.fetcher): life.name for life in scope.every}
        self.names = {id(life): life.name for life in scope.every}

    def digest(self) -> bytes:
        scope = self.scope
        oracle, kafka, store = scope.oracle, scope.kafka, scope.store
        told = (
            scope.spent,
            [self.life(life) for life in scope.lives],
            [
                (
                    None if task.life is None else task.life.name,
                    self.tell(task.question),
                    self.tell(task.answers),
                    round(max(0.0, task.until - scope.now), 3),
                )
                for task in scope.tasks
                if isinstance(task, Heard)
            ],
            self.tell(kafka.topics),
            self.tell(kafka.groups),
            self.tell(vars(store) | {"oracle": None}),
            self.tell(scope.snapshot),
            self.tell(
                (oracle.done, oracle.handed, oracle.acknowledged, oracle.covered, oracle.forgotten)
            ),
        )
        return hashlib.blake2b(repr(told).encode(), digest_size=16).digest()

    def life(self, life: Life) -> object:
        engine = life.engine
        context = {
            name: value
            for name, value in vars(engine.context).items()
            if name not in ("out", "now", "taken", "verdicts", "policy", "touched")
        }
        parts = [self.tell(vars(getattr(engine.parts, name))) for name in engine.parts.__slots__]
        fetcher = {
            k: v for k, v in vars(life.fetcher).items() if k not in ("_kafka", "world", "_sink")
        }
        pages = [(self.tell(held.offer), held.applied) for held in life.pages]
        return (
            life.name,
            self.tell(context),
            parts,
            self.tell(fetcher),
            pages,
            len(life.wanted),
            len(life.reports),
        )

    def tell(self, value: Any) -> Any:
        kind = type(value)
        shape = _shapes.get(kind) or _shape(kind)
        match shape:
            case Shape.ITSELF:
                return value
            case Shape.TIME:
                return self.time(value)
            case Shape.ENUM:
                return value.value
            case Shape.ORDERED:
                return [self.tell(v) for v in value]
            case Shape.MAPPING:
                return sorted(
                    [repr(self.tell(k)), self.tell(v)]
                    for k, v in value.items()
                    if k not in self.SKIPPED
                )
            case Shape.SET:
                return sorted([repr(self.tell(v)) for v in value])
            case Shape.FUNCTION:
                return value.__qualname__
            case Shape.FETCHER:
                return self.fetchers.get(id(value))
            case _:
                return [kind.__name__, *[self.tell(v) for v in shape(value)]]

    def time(self, value: float) -> float | str:
        """Monotonic times from now on; durations and "never" as they are; the wall clock not."""
        if value >= 1_000_000.0:
            return "wall"
        return value if value < 50.0 else round(value - self.scope.now, 3)


class Shape(enum.Enum):
    """How a value is told."""

    ITSELF = enum.auto()
    TIME = enum.auto()
    ENUM = enum.auto()
    ORDERED = enum.auto()
    MAPPING = enum.auto()
    SET = enum.auto()
    FUNCTION = enum.auto()
    FETCHER = enum.auto()


Fields: TypeAlias = Callable[[Any], tuple[Any, ...]]
_shapes: dict[type, Shape | Fields] = {
    **dict.fromkeys((type(None), str, bytes, bool, int), Shape.ITSELF),
    float: Shape.TIME,
    FunctionType: Shape.FUNCTION,
    MethodType: Shape.FUNCTION,
}


def _shape(kind: type) -> Shape | Fields:
    shape: Shape | Fields
    if issubclass(kind, enum.Enum):
        shape = Shape.ENUM
    elif issubclass(kind, FakeFetcher):
        shape = Shape.FETCHER
    elif issubclass(kind, Mapping):
        shape = Shape.MAPPING
    elif issubclass(kind, set | frozenset):
        shape = Shape.SET
    elif issubclass(kind, Collection):
        shape = Shape.ORDERED
    else:
        shape = _fields(kind)
    _shapes[kind] = shape
    return shape


def _fields(kind: type) -> Fields:
    names = getattr(kind, "__dataclass_fields__", None)
    if names is None:
        names = [s for k in kind.__mro__ for s in getattr(k, "__slots__", ())]
        if not names:
            raise TypeError(f"a state holds a {kind.__name__}, which cannot be told")
    told = [n for n in names if n not in Teller.SKIPPED]
    if not told:
        return lambda _: ()
    if len(told) == 1:
        only = attrgetter(told[0])
        return lambda value: (only(value),)
    return attrgetter(*told)


# Walking


def walk(start: str, way: Way) -> Scope:
    scope = Scope()
    STARTS[start](scope)
    for action in way:
        scope.happen(action)
    return scope


@dataclass(frozen=True, slots=True)
class Broken:
    start: str
    way: Way
    invariant: str
    detail: str


@dataclass(slots=True)
class Found:
    """What one worker found. `states` by digest, each with the way to it."""

    states: list[tuple[bytes, Way]] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    moves: int = 0
    rested: int = 0
    finished: int = 0


RESTED: Final = 4
"""Of 256 states so many are also given peace: from there everything has to come to rest. By their
digest, so that the same ones are taken each time."""
ACTIONS_MAX: Final = 1500
"""A fair run that has not come to rest by then is given peace, which says why."""

_seen: set[bytes] = set()
"""States of the layers before this one; workers are forked with it."""


class Walker:
    """Walks for one worker and keeps what it finds."""

    def __init__(self, start: str) -> None:
        self.start = start
        self.found = Found()
        self.fresh: set[bytes] = set()

    def step(self, scope: Scope, way: Way) -> bool:
        """The last action of `way`; False: it broke something, or leads where others have been."""
        found = self.found
        try:
            scope.happen(way[-1])
            found.moves += 1
            return self.keep(scope, way)
        except Violation as violation:
            found.broken.append(Broken(self.start, way, violation.invariant, str(violation)))
        except InvariantBroken as broken:
            found.broken.append(Broken(self.start, way, broken.invariant, broken.detail))
        return False

    def keep(self, scope: Scope, way: Way) -> bool:
        _accounts(scope, harmless=False)
        digest = Teller(scope).digest()
        if digest in _seen or digest in self.fresh:
            return False
        self.fresh.add(digest)
        self.found.states.append((digest, way))
        return True

    def peace(self, scope: Scope, way: Way) -> None:
        """From some of the states everything is made to come to rest."""
        if self.found.states[-1][0][0] < RESTED:
            self.settle(scope, way)

    def settle(self, scope: Scope, way: Way) -> None:
        self.found.rested += 1
        try:
            _peace(scope)
            _accounts(scope, harmless=False)
        except Violation as violation:
            self.found.broken.append(Broken(self.start, way, violation.invariant, str(violation)))
        except InvariantBroken as broken:
            self.found.broken.append(Broken(self.start, way, broken.invariant, broken.detail))

    def follow(self, scope: Scope, way: Way, action: Action | None) -> None:
        """`action`, then the fair order, until it rests or others have been there."""
        for _ in range(ACTIONS_MAX):
            if action is None:
                return
            way = (*way, action)
            if not self.step(scope, way):
                return
            action = scope.fair()
        self.settle(scope, way)


def deeper(start: str, ways: list[Way], until: float) -> Found:
    """Each way, and each thing that could happen next."""
    walker = Walker(start)
    for way in ways:
        if time.monotonic() >= until:
            break
        walker.found.finished += 1
        parent = walk(start, way)
        actions = list(parent.possible())
        parent.close()
        for action in actions:
            scope = walk(start, way)
            if walker.step(scope, (*way, action)):
                walker.peace(scope, (*way, action))
            scope.close()
    return walker.found


def onward(start: str, ways: list[Way], until: float) -> Found:
    """Each way, each surprise that could come next, and then in fair order to the end."""
    walker = Walker(start)
    for way in ways:
        if time.monotonic() >= until:
            break
        walker.found.finished += 1
        parent = walk(start, way)
        expected = parent.fair()
        surprises = [action for action in parent.possible() if action != expected]
        parent.close()
        for surprise in surprises:
            scope = walk(start, way)
            walker.follow(scope, way, surprise)
            scope.close()
    return walker.found


@dataclass(slots=True)
class Explored:
    """`layers`: so deep, or within so many surprises, everything was walked."""

    layers: int = 0
    states: int = 0
    moves: int = 0
    rested: int = 0
    exhausted: bool = False
    seconds: float = 0.0
    broken: list[Broken] = field(default_factory=list)


SHARE: Final = 16
"""Ways that a worker takes at a time."""


def explore(
    start: str,
    how: Callable[[str, list[Way], float], Found],
    seconds: float,
    *,
    jobs: int = 1,
    layers_max: int = 1000,
) -> Explored:
    """Layer by layer from `start`, until the time is up or nothing new is found."""
    began = time.monotonic()
    until = began + seconds
    explored = Explored()
    _seen.clear()
    walker = Walker(start)
    scope = walk(start, ())
    walker.keep(scope, ())
    if how is onward:
        walker.follow(scope, (), scope.fair())
    scope.close()
    layer = walker.found
    explored.broken += layer.broken
    frontier = layer.states
    while frontier and not explored.broken and explored.layers < layers_max:
        _seen.update(digest for digest, _ in frontier)
        ways = [way for _, way in frontier]
        shares = [ways[i : i + SHARE] for i in range(0, len(ways), SHARE)]
        frontier, finished = [], 0
        fresh: set[bytes] = set()
        with contextlib.ExitStack() as stack:
            walked: Iterable[Found]
            if jobs == 1:
                # Here: a process that has clients of real servers must not be forked.
                walked = (how(start, share, until) for share in shares)
            else:
                # Forked anew for each layer, so that each worker knows what was seen before.
                context = get_context("fork")
                pool = stack.enter_context(ProcessPoolExecutor(jobs, mp_context=context))
                walked = pool.map(how, [start] * len(shares), shares, [until] * len(shares))
            for found in walked:
                finished += found.finished
                explored.moves += found.moves
                explored.rested += found.rested
                explored.broken += found.broken
                for digest, way in found.states:
                    if digest not in fresh:
                        fresh.add(digest)
                        frontier.append((digest, way))
        explored.states = len(_seen) + len(fresh)
        if finished < len(ways):
            break
        explored.layers += 1
        print(
            f"{start}, {how.__name__} {explored.layers}: {explored.states} states, "
            f"{time.monotonic() - began:.0f} s",
            file=sys.stderr,
        )
    explored.exhausted = not frontier
    explored.seconds = round(time.monotonic() - began, 1)
    return explored


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.exhaustive")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--start", choices=STARTS, default=None, help="this start only")
    parser.add_argument("--summary", type=Path, default=None)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    starts = list(STARTS) if arguments.start is None else [arguments.start]
    seconds = arguments.minutes * 60 / len(starts) / 2
    rows: list[tuple[str, str, Explored]] = []
    for start in starts:
        for what, how in (("depth", deeper), ("surprises", onward)):
            rows.append((start, what, explore(start, how, seconds, jobs=arguments.jobs)))
    broken = [b for *_, explored in rows for b in explored.broken]
    summary = {
        "ok": not broken,
        "states": sum(e.states for *_, e in rows),
        "moves": sum(e.moves for *_, e in rows),
        "rested": sum(e.rested for *_, e in rows),
        "violations": len(broken),
        "explored": [
            {
                "start": start,
                "by": what,
                "complete_to": e.layers,
                "states": e.states,
                "moves": e.moves,
                "exhausted": e.exhausted,
                "seconds": e.seconds,
            }
            for start, what, e in rows
        ],
    }
    if arguments.summary is not None:
        arguments.summary.parent.mkdir(parents=True, exist_ok=True)
        arguments.summary.write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary, indent=1))
    for each in broken[:3]:
        print(f"{each.invariant}: {each.detail}\n  start: {each.start}", file=sys.stderr)
        print("\n".join(f"  {what} {number}" for what, number in each.way), file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
