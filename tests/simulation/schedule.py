"""One schedule: a setup and a list of moves, then peace, then accounts.

`moves` draws them from a seed, a few hundred with faults among them; `run` takes them from anybody.
After the last one the faults stop, and every partition has to come to rest within a bounded number
of rounds: caught up, or stopped by a gap or a hold that says why. Then every record that was ever
owed is either done or inside a declared gap.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sidecar.core.gap import Gap
from sidecar.core.policy import Adopt, Start
from sidecar.core.recovery import Phase
from sidecar.core.request import RequestKind
from sidecar.core.types import GapReason, Outcome, Partition, PartitionState, Verdict
from sidecar.core.views import AllApplied
from sidecar.engine.cursor import Cursor
from sidecar.engine.delivery import PARKED_MAX
from sidecar.errors import InvariantBroken
from tests.simulation.faults import (
    BRINGS,
    FAULTS,
    LOSING,
    SCENES,
    TESTIMONY,
    create_again,
    end_transaction,
)
from tests.simulation.oracle import Violation
from tests.simulation.world import POLICY, RECEIPTS_MAX, TOPIC, Life, Move, Setup, World

STEPS = 200
"""A step is one event given to an engine, or one fault."""
MOVES_MAX = 20 * STEPS
ROUNDS_MAX = 400
QUIET_ROUNDS = 3
"""How often everybody acts in one round at most before time goes on."""
TASKS_MAX = 64


@dataclass(slots=True)
class Result:
    steps: int
    moves: int
    """How many were made; the last one is the one that broke something, if something broke."""
    violation: Violation | None
    faults: list[str]
    """In order."""
    world: World


# What happens without any fault.


def _answer(world: World) -> None:
    if not world.advance_some():
        _poll(world)


def _poll(world: World) -> None:
    life = _awake(world)
    if life is not None:
        life.fetcher.pump()


def _tick(world: World) -> None:
    life = _awake(world)
    if life is not None:
        world.now += world.dice.choice((0.02, 0.1, 0.1, 0.3))
        world.tick(life)


def _work(world: World) -> None:
    life = _awake(world)
    if life is not None:
        world.work(life)


def _produce(world: World) -> None:
    for _ in range(world.dice.between(1, 3)):
        world.produce()


def _awake(world: World) -> Life | None:
    lives = world.lives
    if lives:
        life = lives[world.dice.below(len(lives))]
        if life.frozen_since is None:
            return life
        awake = [life for life in lives if life.frozen_since is None]
        if awake:
            return awake[world.dice.below(len(awake))]
    world.now += 0.5
    if not lives:
        world.start()
    elif world.dice.chance(20):
        world.thaw(world.dice.choice(lives))
    return None


ORDINARY: Mapping[str, Callable[[World], None]] = MappingProxyType(
    {"answer": _answer, "poll": _poll, "tick": _tick, "work": _work, "produce": _produce}
)
_TABLE = (
    *["answer"] * 48,
    *["poll"] * 16,
    *["tick"] * 10,
    *["work"] * 19,
    *["produce"] * 7,
)


def apply(world: World, move: Move) -> bool:
    """Lets one thing happen. True: it was a fault."""
    name, number = move
    world.dice.cast(number)
    ordinary = ORDINARY.get(name)
    if ordinary is not None:
        ordinary(world)
        return False
    world.steps += 1
    if world.telling:
        world.tell(f"** {name}")
    FAULTS[name](world)
    if name in TESTIMONY:
        world.note_forgotten()
    return True


# From a seed.


def setup(seed: int) -> Setup:
    rng = random.Random(seed)
    return Setup(
        partitions=rng.choice((1, 2, 2, 3)),
        sidecars=rng.choice((1, 2, 2, 3)),
        records=rng.choice((0, 0, 6, 12)),
        compacted=rng.random() < 0.4,
        adopted=rng.choice((0, 0, 0, 0, 3)),
        start=rng.choice((*[Start.EARLIEST] * 8, Start.LATEST, Start.REFUSE)),
        adopt=rng.choice((*[Adopt.COMMIT] * 4, Adopt.HOLD)),
        accepting=(GapReason.RETENTION_LOSS, GapReason.LOG_TRUNCATED)
        if rng.random() < 0.15
        else (),
    )


_KINDS = tuple(FAULTS)
_HARMLESS = tuple(kind for kind in FAULTS if kind not in LOSING)


def moves(seed: int) -> Iterator[Move]:
    """Without end; each schedule has a few kinds of faults of its own, rare or frequent, or a scene
    that comes now and then among few others."""
    rng = random.Random(~seed)
    among = _HARMLESS if rng.random() < 0.3 else _KINDS
    scene = rng.choice(SCENES) if among is _KINDS and rng.random() < 0.2 else ()
    kinds = [*scene, *rng.sample(among, rng.randint(0 if scene else 1, 3 if scene else 6))]
    kinds += [other for kind in kinds if (other := BRINGS.get(kind)) in among]
    often = 300 if scene else rng.choice((1311, 3277, 6554))  # of 65,536
    ordinary, count = len(_TABLE), len(kinds)
    made, told, due = 0, 0, rng.randint(80, 300) if scene else MOVES_MAX + 1
    draw = rng.getrandbits
    while True:
        number = draw(64)
        low = number & 0xFFFF
        made += 1
        if made >= due:
            yield scene[told % len(scene)], number >> 32
            told += 1
            due = made + (low & 15) + (2 if told % len(scene) else 150)
        elif low < often:
            yield kinds[(number >> 16) % count], number >> 32
        else:
            yield _TABLE[(number >> 16 & 0xFFFF) % ordinary], number >> 32


def run_seed(seed: int, *, telling: bool = False) -> Result:
    return run(setup(seed), moves(seed), telling=telling)


def recorded(seed: int, count: int) -> list[Move]:
    """The first moves of a seed."""
    drawn = moves(seed)
    return [next(drawn) for _ in range(count)]


def run(begin: Setup, given: Iterable[Move], *, telling: bool = False) -> Result:
    world = World(begin, telling=telling)
    met: list[str] = []
    violation: Violation | None = None
    made = 0
    try:
        for move in given:
            made += 1
            if apply(world, move):
                met.append(move[0])
            if world.steps >= STEPS or made >= MOVES_MAX:
                break
        _peace(world)
        _accounts(world, harmless=LOSING.isdisjoint(met))
    except Violation as found:
        violation = found
    except InvariantBroken as broken:
        violation = Violation(broken.invariant, broken.detail)
    finally:
        world.close()
    return Result(world.steps, made, violation, met, world)


def _peace(world: World) -> None:
    """Faults stop; everybody is fair and quick."""
    world.tell("** peace")
    world.dice.cast(0)
    world.kafka.heal()
    world.kafka.down = False
    world.kafka.denied.clear()
    create_again(world)
    end_transaction(world, commit=True)
    for partition in world.partitions:
        world.kafka.log(TOPIC, partition.index).poisoned.clear()
    world.stale_until = min(world.now, world.stale_until)
    world.stale_ends = 0
    world.store.away(None)
    world.store.delayed.clear()
    for life in world.lives:
        world.thaw(life)
    if not world.lives:
        world.start()
    paused = set(world.partitions)
    began = world.now
    for rounds in range(ROUNDS_MAX):
        world.now += 0.3 if rounds < 4 else 1.0
        for partition in sorted(paused):  # again while too many pend
            if not world.lives:  # a member that is asked may be the one that leaves, drained
                world.start()
            if world.ask(world.lives[0], partition, RequestKind.CONTINUE):
                paused.remove(partition)
        if not world.lives:
            world.start()
        for life in list(world.lives):
            world.tick(life)
        for _ in range(QUIET_ROUNDS):
            before = world.steps
            for life in list(world.lives):
                _act(world, life)
            world.settle()
            if world.steps == before:
                break
        if all(_held(world, p) for p in paused) and _at_rest(world, began):
            return
    raise Violation("liveness", _why_not(world))


def _held(world: World, partition: Partition) -> bool:
    """Where nothing can be executed, as many requests pend as may, and one more is refused."""
    cursors = (life.engine.cursors.get(partition) for life in world.lives)
    return any(cursor is not None and cursor.phase is Phase.HELD for cursor in cursors)


def _act(world: World, life: Life) -> None:
    life.fetcher.pump()
    for held in list(life.pages):
        if held in life.pages:
            world.effect(held, len(held.values))
            world.report(life, held, AllApplied(Outcome.APPLIED))
    if not life.wanted and life in world.lives:
        world.want(life)


_LATER = frozenset((RequestKind.REPLAY, RequestKind.ANSWER))
_WAITS = {
    phase: _LATER if phase is Phase.GAP else _LATER | {RequestKind.PAUSE, RequestKind.CONTINUE}
    for phase in Phase
}
"""What may pend where a partition stands still."""


def _decides(cursor: Cursor) -> RequestKind | None:
    """What lets a partition go on that stands still, if people can. However much is asked for,
    there has to be room for that."""
    if cursor.phase is Phase.GAP:
        return RequestKind.RESOLVE
    answers = (hold.answers for hold in cursor.hold_views() if hold.verdict is cursor.verdict)
    return RequestKind.ANSWER if cursor.phase is Phase.HELD and any(answers) else None


def _at_rest(world: World, began: float) -> bool:
    """Whatever is held has to have been looked at since the faults ended, at `began`: a look that
    began before may be answered after, and tell of them."""
    owned: set[Partition] = set()
    for life in world.lives:
        if life.drain is not None:
            return False
        for partition, cursor in life.engine.cursors.items():
            owned.add(partition)
            decides = _decides(cursor)
            if decides is not None and not world.store.room(partition, decides):
                return False
            if cursor.state in (PartitionState.GAP, PartitionState.HELD):
                blocked = cursor.verdict is Verdict.BLOCKED_RECORD
                looked_again = (
                    cursor.phase is not Phase.LOOKING and cursor.looked_at > began + life.clock
                )
                pending = world.store.pending(partition) - _WAITS[cursor.phase]
                if pending or not (cursor.phase is Phase.GAP or looked_again) or blocked:
                    return False
                gap, shown = cursor.gap, world.store.standing_gap(partition)
                stands = cursor.phase is Phase.GAP and gap is not None
                if stands and (shown is None or gap is None or shown.id != gap.id):
                    return False
                continue
            if cursor.phase is not Phase.DELIVERING or world.store.pending(partition):
                return False
            if not (cursor.caught_up and cursor.committed == cursor.next):
                return False
    return owned == set(world.partitions)


def _why_not(world: World) -> str:
    return "; ".join(
        f"{life.name} {p}: {c.phase} {c.verdict} next={c.next} committed={c.committed} "
        f"caught_up={c.caught_up} pending={sorted(world.store.pending(p))} {c.detail}"
        for life in world.lives
        for p, c in life.engine.cursors.items()
        if not c.caught_up or c.committed != c.next or world.store.pending(p)
    )


def _accounts(world: World, *, harmless: bool) -> None:
    oracle = world.oracle
    for life in world.lives:
        if len(life.wanted) > PARKED_MAX:
            raise Violation("bounded", f"{life.name}: {len(life.wanted)} requests wait")
        for partition, cursor in life.engine.cursors.items():
            checkpoint = cursor.checkpoint
            if checkpoint is None or checkpoint.identity.topic_id is None:
                continue
            key = (checkpoint.identity.topic_id, partition.index)
            gaps: list[Gap] = [] if cursor.gap is None else [cursor.gap]
            held = cursor.phase is Phase.HELD
            oracle.accounted(key, checkpoint.baseline, checkpoint.token.next, gaps, held=held)
            if not held:
                oracle.outlived(partition, world.named_gaps(partition))
    for partition in world.partitions:
        receipts, gaps_kept, audit = world.store.sizes(partition)
        if receipts > RECEIPTS_MAX + POLICY.page_records_max or gaps_kept > 256 or audit > 1000:
            raise Violation("bounded", f"{partition}: {receipts} receipts, {gaps_kept} gaps")
    if len(world.tasks) > TASKS_MAX:
        raise Violation("bounded", f"{len(world.tasks)} questions are under way")
    if harmless and oracle.opened:
        gap = oracle.opened[0]
        raise Violation("transient_changes_nothing", f"{gap.reason} {gap.interval}: {gap.evidence}")
