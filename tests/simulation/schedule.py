"""One schedule: a seed, a few hundred steps with faults among them, then peace, then accounts.

After the faults stop, every partition has to come to rest within a bounded number of rounds:
caught up, or stopped by a gap or a hold that says why. Then every record that was ever owed is
either done or inside a declared gap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from sidecar.core.faults import Component, Fault, FaultKind, Known
from sidecar.core.gap import Gap
from sidecar.core.recovery import Phase
from sidecar.core.types import Outcome, Partition, PartitionState
from sidecar.core.views import AllApplied
from sidecar.errors import InvariantBroken
from tests.fakes.store import Mishap
from tests.simulation.oracle import Violation
from tests.simulation.world import GROUP, SESSION_SECONDS, TOPIC, World

ROUNDS_MAX = 600
TIMED_OUT = Fault(Component.KAFKA, FaultKind.UNAVAILABLE, "_TIMED_OUT", "no answer in time")
AWAY = Fault(Component.REDIS, FaultKind.UNAVAILABLE, "CONNECTION", "connection refused")
QUESTIONS = (
    "cluster_id",
    "committed",
    "committed_in_group",
    "topics",
    "log_ends",
    "log_starts",
    "retentions",
    "stamps",
    "commit",
)


@dataclass(slots=True)
class Result:
    seed: int
    steps: int
    violation: Violation | None
    story: list[str]
    transitions: set[tuple[str, str]]
    verdicts: Counter[str]
    faults: Counter[str]
    codes: Counter[str] = field(default_factory=Counter)


def _some_partition(world: World) -> int | None:
    topic = world.kafka.topics.get(TOPIC)
    return None if topic is None else world.random.randrange(len(topic.logs))


def _retention(world: World) -> None:
    index = _some_partition(world)
    if index is not None:
        log = world.kafka.log(TOPIC, index)
        to = world.random.randint(log.start, log.end)
        to = min([to, *(t.first for t in log.open_transactions)])
        world.kafka.delete_records(TOPIC, index, to)


def _compact(world: World) -> None:
    index = _some_partition(world)
    if index is None:
        return
    log = world.kafka.log(TOPIC, index)
    world.kafka.topics[TOPIC].compacted = True
    open_ = {o for t in log.open_transactions for o in t.offsets}
    gone = [o for o in log.offsets[:-1] if o not in open_ and world.random.random() < 0.3]
    world.kafka.compact(TOPIC, index, gone)
    owed = world.oracle.owed[world.log_of(index)]
    for offset in gone:
        owed.pop(offset, None)


def _transaction(world: World) -> None:
    index = _some_partition(world)
    if index is None:
        return
    if world.open_transaction is None:
        world.made += 3
        values = [b"%d" % (world.made - i) for i in range(world.random.randint(1, 3))]
        world.open_transaction = (world.log_of(index), world.kafka.begin(TOPIC, index, values))
        return
    _end_transaction(world, commit=world.random.random() < 0.6)


def _end_transaction(world: World, *, commit: bool) -> None:
    if world.open_transaction is None:
        return
    owner, transaction = world.open_transaction
    world.open_transaction = None
    topic = world.kafka.topics.get(TOPIC)
    if (
        topic is None
        or topic.id != owner[0]
        or transaction not in topic.logs[owner[1]].open_transactions
    ):
        return
    log = topic.logs[owner[1]]
    if commit:
        for offset in transaction.offsets:
            if offset in log.offsets:
                world.oracle.owed[owner][offset] = log.digests[log.offsets.index(offset)]
        transaction.commit()
    else:
        transaction.abort()


def _cut(world: World, how: Callable[[str, int, int], None]) -> None:
    index = _some_partition(world)
    if index is None:
        return
    log = world.kafka.log(TOPIC, index)
    deep = world.random.choice((3, 6, 20))
    to = world.random.randint(max(log.start, log.end - deep), log.end)
    how(TOPIC, index, to)
    key = world.log_of(index)
    world.oracle.rewritten.add(key)
    for offset in [o for o in world.oracle.owed[key] if o >= to]:
        del world.oracle.owed[key][offset]
    if world.random.random() < 0.7:
        for _ in range(world.random.randint(1, 8)):
            world.made += 1
            offset = world.kafka.produce(TOPIC, index, b"%d" % world.made)
            world._owe(index, offset)


def _truncate(world: World) -> None:
    _cut(world, world.kafka.truncate)


def _rewind(world: World) -> None:
    _cut(world, world.kafka.rewind)


def _recreate(world: World) -> None:
    if TOPIC in world.kafka.topics:
        # The client reads on in silence: until the identity is asked again, records of the new
        # topic are promoted as if they were the old one's.
        for index in range(len(world.kafka.topics[TOPIC].logs)):
            world.oracle.rewritten.add(world.log_of(index))
        world.kafka.recreate_topic(TOPIC)
        world.open_transaction = None
        for _ in range(world.random.randint(0, 10)):
            world.produce()


def _elect(world: World) -> None:
    index = _some_partition(world)
    if index is not None:
        world.kafka.elect(TOPIC, index)


def _reconnect(world: World) -> None:
    index = _some_partition(world)
    if index is not None:
        world.kafka.reconnect(TOPIC, index)


def _expire(world: World) -> None:
    world.kafka.expire_commits(GROUP)


def _reset(world: World) -> None:
    index = _some_partition(world)
    if index is not None:
        to = world.random.randint(0, world.kafka.log(TOPIC, index).end + 3)
        world.kafka.reset_offset(GROUP, Partition(TOPIC, index), to)


def _kafka_down(world: World) -> None:
    world.kafka.down = not world.kafka.down


def _question_fails(world: World) -> None:
    world.kafka.fail(world.random.choice(QUESTIONS), TIMED_OUT, times=world.random.randint(1, 4))


def _store_mishap(world: World) -> None:
    rng = world.random
    plan: list[Mishap | Fault | None] = [
        rng.choice((Mishap.REPLY_LOST, Mishap.REQUEST_LOST, Mishap.DELAYED, AWAY, None))
        for _ in range(rng.randint(1, 4))
    ]
    world.store.fail(*plan, method=rng.choice(("install", "install", "read", "memory", "registry")))


def _store_late(world: World) -> None:
    world.store_late()


def _store_away(world: World) -> None:
    world.store.away(AWAY if world.store.hook is None else None)


def _store_flushed(world: World) -> None:
    world.store.flush()


def _store_copied(world: World) -> None:
    world.snapshot = world.store.snapshot()


def _store_fails_over(world: World) -> None:
    if world.snapshot is not None:
        world.store.restore(world.snapshot)
        world.snapshot = None


def _kill(world: World) -> None:
    if world.lives:
        world.kill(world.random.choice(world.lives), app_dies=True)
    if not world.lives or world.random.random() < 0.8:
        world.start()


def _join(world: World) -> None:
    if len(world.lives) < 4:
        world.start()


def _freeze(world: World) -> None:
    awake = [life for life in world.lives if life.frozen_since is None]
    if awake:
        world.random.choice(awake).frozen_since = world.now


def _thaw(world: World) -> None:
    for life in world.lives:
        if life.frozen_since is not None and world.random.random() < 0.5:
            thaw(world, life)


def thaw(world: World, life: object) -> None:
    from tests.simulation.world import Life

    assert isinstance(life, Life)
    since = life.frozen_since
    if since is None:
        return
    if world.now - since >= SESSION_SECONDS and life.fetcher in world.kafka.group(GROUP).members:
        world.kafka.expel(life.fetcher)
    life.frozen_since = None


def _time_passes(world: World) -> None:
    world.now += world.random.uniform(1.0, 2 * SESSION_SECONDS)
    for life in world.lives:
        since = life.frozen_since
        frozen = since is not None and world.now - since >= SESSION_SECONDS
        if frozen and life.fetcher in world.kafka.group(GROUP).members:
            world.kafka.expel(life.fetcher)


def _decide(world: World) -> None:
    if world.lives:
        world.decide(world.random.choice(world.lives))


FAULTS: dict[str, Callable[[World], None]] = {
    "retention": _retention,
    "compaction": _compact,
    "transaction": _transaction,
    "truncation": _truncate,
    "rewind": _rewind,
    "topic created again": _recreate,
    "leader elected": _elect,
    "leader reconnected": _reconnect,
    "commits expired": _expire,
    "foreign reset": _reset,
    "kafka down or up": _kafka_down,
    "question unanswered": _question_fails,
    "store mishap": _store_mishap,
    "late write arrives": _store_late,
    "store away or back": _store_away,
    "store flushed": _store_flushed,
    "store copied": _store_copied,
    "store failed over": _store_fails_over,
    "killed": _kill,
    "joined": _join,
    "frozen": _freeze,
    "thawed": _thaw,
    "time passes": _time_passes,
    "gap decided": _decide,
}

TRANSIENT = frozenset(
    {
        *("leader elected", "leader reconnected", "kafka down or up", "question unanswered"),
        *("store mishap", "late write arrives", "store away or back", "killed", "joined", "frozen"),
        *("thawed", "time passes", "transaction", "compaction", "commits expired", "gap decided"),
    }
)
"""Faults that lose nothing: a schedule of these alone may open no gap."""


def run(seed: int, *, steps: int = 250, telling: bool = False) -> Result:
    world = World(seed)
    world.telling = telling
    rng = world.random
    kinds = rng.sample(sorted(FAULTS), rng.randint(1, 6))
    if rng.random() < 0.3:
        kinds = [k for k in kinds if k in TRANSIENT] or ["killed"]
    quiet = rng.choice((0.02, 0.05, 0.1))
    met: Counter[str] = Counter()
    violation: Violation | None = None
    transitions: set[tuple[str, str]] = set()
    verdicts: Counter[str] = Counter()
    try:
        while world.steps < steps:
            _one(world, kinds, quiet, met)
        _peace(world)
        _accounts(world, transient=all(k in TRANSIENT for k in met))
    except Violation as found:
        violation = found
    except InvariantBroken as broken:
        violation = Violation(broken.invariant, broken.detail)
    for life in world.every:
        transitions |= {(str(a), str(b)) for a, b in life.engine.context.taken}
        verdicts.update(life.engine.context.verdicts)
    return Result(seed, world.steps, violation, world.story, transitions, verdicts, met)


def _one(world: World, kinds: list[str], quiet: float, met: Counter[str]) -> None:
    rng = world.random
    if rng.random() < quiet:
        kind = rng.choice(kinds)
        world.steps += 1
        met[kind] += 1
        world.tell(f"** {kind}")
        FAULTS[kind](world)
        world.note_forgotten()
        return
    what = rng.random()
    awake = [life for life in world.lives if life.frozen_since is None]
    if what < 0.5:
        ready = world.ready()
        if ready:
            world.advance(rng.choice(ready))
            return
    if not awake:
        world.now += 0.5
        if not world.lives:
            world.start()
        elif rng.random() < 0.2:
            thaw(world, rng.choice(world.lives))
        return
    life = rng.choice(awake)
    if what < 0.65:
        life.fetcher.pump()
    elif what < 0.75:
        world.tick(life)
    elif what < 0.93:
        world.work(life)
    else:
        world.produce(rng.randint(1, 3))


def _peace(world: World) -> None:
    """Faults stop; everybody is fair and quick."""
    world.tell("** peace")
    _end_transaction(world, commit=True)
    world.kafka.heal()
    world.kafka.down = False
    world.store.away(None)
    world.store.delayed.clear()
    for life in world.lives:
        thaw(world, life)
    if not world.lives:
        world.start()
    for _ in range(ROUNDS_MAX):
        world.now += 0.3
        for life in list(world.lives):
            _tick(world, life)
            life.fetcher.pump()
            for held in list(life.pages):
                if held in life.pages:
                    world.effect(held, len(held.digests))
                    world.report(life, held, AllApplied(Outcome.APPLIED))
            if not life.wanted:
                world.want(life)
        for _ in range(200):
            ready = world.ready()
            if not ready:
                break
            for task in ready:
                if task in world.tasks:
                    world.advance(task)
        if _at_rest(world):
            return
    raise Violation("liveness", _why_not(world))


def _tick(world: World, life: object) -> None:
    from sidecar.engine import messages as m

    world.give(life, m.Tick())  # type: ignore[arg-type]  # a life of this world


def _at_rest(world: World) -> bool:
    owned: set[Partition] = set()
    for life in world.lives:
        for partition, cursor in life.engine.cursors.items():
            owned.add(partition)
            if cursor.state in (PartitionState.GAP, PartitionState.HELD):
                if cursor.phase in (Phase.GAP, Phase.HELD):
                    continue
                return False
            if not (cursor.caught_up and cursor.committed == cursor.next):
                return False
    topic = world.kafka.topics.get(TOPIC)
    wanted = set() if topic is None else {Partition(TOPIC, i) for i in range(len(topic.logs))}
    return owned == wanted


def _why_not(world: World) -> str:
    return "; ".join(
        f"{life.name} {p}: {c.phase} {c.verdict} next={c.next} committed={c.committed} "
        f"caught_up={c.caught_up} {c.detail}"
        for life in world.lives
        for p, c in life.engine.cursors.items()
        if not c.caught_up or c.committed != c.next
    )


def _accounts(world: World, *, transient: bool) -> None:
    for life in world.lives:
        for partition, cursor in life.engine.cursors.items():
            checkpoint = cursor.checkpoint
            if checkpoint is None or checkpoint.identity.topic_id is None:
                continue
            key = (checkpoint.identity.topic_id, partition.index)
            gaps: list[Gap] = [] if cursor.gap is None else [cursor.gap]
            world.oracle.accounted(key, checkpoint.baseline, checkpoint.token.next, gaps)
    if transient and world.oracle.opened:
        gap = world.oracle.opened[0]
        raise Violation("transient_changes_nothing", f"{gap.reason} {gap.interval}: {gap.evidence}")


_ = Known
