"""What may go wrong, each by a name: one call does it once, to something the dice choose."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from sidecar.core.faults import Component, Fault, FaultKind
from sidecar.core.request import PENDING_MAX, RequestKind
from sidecar.core.types import Offset, Outcome, Partition
from sidecar.core.views import Each
from sidecar.engine import messages as m
from sidecar.ports import ClientFaulted
from tests.fakes.kafka import EPOCH_UNKNOWN, GROUP_DENIED, OUT_OF_RANGE, TRUNCATED
from tests.fakes.store import Mishap
from tests.simulation.world import (
    GROUP,
    LIVES_MAX,
    READ_UNCOMMITTED,
    SESSION_SECONDS,
    TOPIC,
    Life,
    World,
)

TIMED_OUT = Fault(Component.KAFKA, FaultKind.UNAVAILABLE, "_TIMED_OUT", "no answer in time")
AWAY = Fault(Component.REDIS, FaultKind.UNAVAILABLE, "CONNECTION", "connection refused")
FULL = Fault(Component.REDIS, FaultKind.REFUSED, "OOM", "command not allowed when used memory")
NEWER = Fault(Component.REDIS, FaultKind.FORMAT_UNKNOWN, "FORMAT", "written in format 2")
CORRUPT = Fault(Component.REDIS, FaultKind.FORMAT_UNKNOWN, "CORRUPT", "without a generation")
NO_RIGHT = Fault(Component.REDIS, FaultKind.AUTHORIZATION, "NOPERM", "the right is missing")
MISPLACED = Fault(Component.REDIS, FaultKind.REFUSED, "WRONGTYPE", "the key holds a list")
DISORDERED = Fault(Component.REDIS, FaultKind.REFUSED, "DISORDERED", "receipts do not follow")
QUESTIONS = (
    *("cluster_id", "committed", "committed_in_group", "topics", "log_ends", "log_starts"),
    "commit",
)
PARTITIONS_MAX = 3
STALE_SECONDS_MAX = 3.0
"""Below the time for which an answer has to stay the same before it counts."""


def _retention(world: World) -> None:
    index = world.some_partition()
    if index is not None:
        log = world.kafka.log(TOPIC, index)
        to = world.dice.between(log.start, log.end)
        to = min([to, *(t.first for t in log.open_transactions)])
        world.kafka.delete_records(TOPIC, index, to)
        world.oracle.retained(world.log_of(index), to)


def _compact(world: World) -> None:
    index = world.some_partition()
    if index is None:
        return
    log = world.kafka.log(TOPIC, index)
    if not world.kafka.topics[TOPIC].compacted:
        return
    open_ = {o for t in log.open_transactions for o in t.offsets}
    gone = [o for o in log.offsets[:-1] if o not in open_ and world.dice.chance(30)]
    world.kafka.compact(TOPIC, index, gone)
    owed = world.oracle.owed[world.log_of(index)]
    for offset in gone:
        owed.pop(offset, None)


def _transaction(world: World) -> None:
    index = world.some_partition()
    if index is None:
        return
    if world.open_transaction is None:
        world.made += 3
        values = [b"%d" % (world.made - i) for i in range(world.dice.between(1, 3))]
        world.open_transaction = (world.log_of(index), world.kafka.begin(TOPIC, index, values))
        return
    end_transaction(world, commit=world.dice.chance(60))


def end_transaction(world: World, *, commit: bool) -> None:
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
                world.oracle.owed[owner][offset] = log.records[log.offsets.index(offset)][2]
        transaction.commit()
    else:
        transaction.abort()


def _cut(world: World, how: Callable[[str, int, int], None]) -> None:
    index = world.some_partition()
    if index is None:
        return
    world.remember_end(index)
    log = world.kafka.log(TOPIC, index)
    deep = world.dice.choice((3, 6, 20))
    to = world.dice.between(max(log.start, log.end - deep), log.end)
    end = log.end
    how(TOPIC, index, to)
    world.oracle.cut(world.log_of(index), to, end, world.read_to(index))
    if world.dice.chance(70):
        for _ in range(world.dice.between(1, 8)):
            world.produce(index)


def _truncate(world: World) -> None:
    _cut(world, world.kafka.truncate)


def _rewind(world: World) -> None:
    _cut(world, world.kafka.rewind)


def _topic_ends(world: World) -> None:
    # The client reads on in silence: until the identity is asked again, records of the new topic
    # are promoted as if they were the old one's.
    for partition in world.partitions:
        key, end = world.log_of(partition.index), world.kafka.log(TOPIC, partition.index).end
        world.oracle.rewritten[key] = min(end, world.oracle.rewritten.get(key, end))
    world.remember_topic()
    world.open_transaction = None


def _recreate(world: World) -> None:
    if TOPIC not in world.kafka.topics:
        create_again(world)
        return
    _topic_ends(world)
    world.kafka.recreate_topic(TOPIC)
    for _ in range(world.dice.between(0, 10)):
        world.produce()


def _delete(world: World) -> None:
    if TOPIC not in world.kafka.topics:
        create_again(world)
        return
    _topic_ends(world)
    world.kafka.delete_topic(TOPIC)


def create_again(world: World) -> None:
    if TOPIC not in world.kafka.topics:
        world.kafka.create_topic(TOPIC, world.setup.partitions)
        for _ in range(world.dice.between(0, 10)):
            world.produce()


def _add_partition(world: World) -> None:
    topic = world.kafka.topics.get(TOPIC)
    if topic is not None and len(topic.logs) < PARTITIONS_MAX:
        world.remember_topic()
        world.kafka.add_partitions(TOPIC, len(topic.logs) + 1)


def _elect(world: World) -> None:
    index = world.some_partition()
    if index is not None:
        world.remember_end(index)
        world.kafka.elect(TOPIC, index)


def _reconnect(world: World) -> None:
    index = world.some_partition()
    if index is not None:
        world.kafka.reconnect(TOPIC, index)


def _stale_metadata(world: World) -> None:
    if not world.stale_until:  # once: twice in a row would be one that lasts
        world.stale_until = world.now + world.dice.seconds(0.1, STALE_SECONDS_MAX)


def _deposed_leader(world: World) -> None:
    world.stale_ends = world.dice.between(1, 3)


def _expire(world: World) -> None:
    world.kafka.expire_commits(GROUP)


def _reset(world: World) -> None:
    index = world.some_partition()
    if index is not None:
        to = world.dice.between(0, world.kafka.log(TOPIC, index).end + 3)
        world.kafka.reset_offset(GROUP, Partition(TOPIC, index), to)


def _later_release(world: World) -> None:
    index = world.some_partition()
    if index is not None:
        to = world.dice.between(0, world.kafka.log(TOPIC, index).end)
        world.kafka.reset_offset(GROUP, Partition(TOPIC, index), to, metadata=LATER_COMMIT)


_LATER = '{"later":true}'
LATER_COMMIT = f"csw2:{zlib.crc32(_LATER.encode()):08x}:{_LATER}"


def _kafka_down(world: World) -> None:
    world.kafka.down = not world.kafka.down


def _question_fails(world: World) -> None:
    dice = world.dice
    call, times = dice.choice(QUESTIONS), dice.between(1, 4)
    if call in ("committed", "log_ends", "log_starts", "commit") and dice.chance(40):
        index = world.some_partition()
        one = None if index is None else Partition(TOPIC, index)
        world.kafka.fail(call, TIMED_OUT, times=times, partition=one)
    else:
        world.kafka.fail(call, TIMED_OUT, times=times)


def _fetch_fails(world: World) -> None:
    index = world.some_partition()
    if index is not None:
        what = world.dice.choice((TIMED_OUT, OUT_OF_RANGE, EPOCH_UNKNOWN))
        partition = Partition(TOPIC, index)
        world.kafka.fail("fetch", what, times=world.dice.between(1, 6), partition=partition)


def _truncation_reported(world: World) -> None:
    index = world.some_partition()
    if index is not None:
        world.kafka.fail("fetch", TRUNCATED, partition=Partition(TOPIC, index))


def _poison(world: World) -> None:
    index = world.some_partition()
    if index is None:
        return
    log = world.kafka.log(TOPIC, index)
    if log.poisoned and world.dice.chance(50):
        log.poisoned.clear()
    elif log.offsets:
        # Somewhere near the end: what is read again, or is about to be.
        near = log.offsets[-8:]
        world.kafka.poison(TOPIC, index, world.dice.choice(near))


def _rights(world: World) -> None:
    name = world.dice.choice((TOPIC, GROUP))
    if name in world.kafka.denied:
        world.kafka.denied.remove(name)
    else:
        world.kafka.denied.add(name)


def _client_faulted(world: World) -> None:
    life = _some(world)
    if life is not None:
        world.give(life, ClientFaulted(GROUP_DENIED if world.dice.chance(10) else TIMED_OUT))
        world.give(life, ClientFaulted(None))


def _store_mishap(world: World) -> None:
    dice = world.dice
    plan: list[Mishap | Fault | None] = [
        dice.choice((Mishap.REPLY_LOST, Mishap.REQUEST_LOST, Mishap.DELAYED, AWAY, FULL, None))
        for _ in range(dice.between(1, 4))
    ]
    world.store.fail(*plan, method=dice.choice(MISHAPPEN))


MISHAPPEN = (
    *("install", "install", "install", "read", "memory", "registry", "create_registry"),
    *("register", "mark_started", "watch", "leave", "requests", "answer_request", "update_gap"),
)


def _writes_unanswered(world: World) -> None:
    """Each is sent again, ever later, and meets what happened meanwhile."""
    world.store.fail(*[Mishap.REQUEST_LOST] * world.dice.between(2, 5))


def _store_odd(world: World) -> None:
    """What only a person can mend: another release's format, damage, a right that is missing."""
    dice = world.dice
    odd = dice.choice((NEWER, CORRUPT, NO_RIGHT, MISPLACED, DISORDERED))
    method = dice.choice(("install", "read", "registry", "memory"))
    world.store.fail(*[odd] * dice.between(1, 3), method=method)


def _store_late(world: World) -> None:
    world.store_late()


def _store_away(world: World) -> None:
    world.store.away(AWAY if world.store.hook is None else None)


def _store_flushed(world: World) -> None:
    world.store.flush()


def _store_copied(world: World) -> None:
    world.snapshot = world.store.snapshot()


def _store_fails_over(world: World) -> None:
    """To a replica that stands where it was copied last; to one that stands at the same place, if
    none was."""
    world.store.restore(world.snapshot or world.store.snapshot())
    world.snapshot = None


def _kill(world: World) -> None:
    if world.lives:
        world.kill(world.dice.choice(world.lives))
    if not world.lives or world.dice.chance(80):
        world.start()


def _join(world: World) -> None:
    if len(world.lives) < LIVES_MAX:
        world.start()


def _other_settings(world: World) -> None:
    if len(world.lives) < LIVES_MAX:
        world.start(replace(world.policy, isolation=READ_UNCOMMITTED))


def _drain(world: World) -> None:
    life = _some(world)
    if life is not None and life.drain is None:
        life.drain = world.request(life)
        world.give(life, m.DrainAsked(life.drain))


def _freeze(world: World) -> None:
    life = _some(world)
    if life is not None:
        life.frozen_since = world.now


def _thaw(world: World) -> None:
    for life in world.lives:
        if life.frozen_since is not None and world.dice.chance(50):
            world.thaw(life)


def _time_passes(world: World) -> None:
    world.now += world.dice.seconds(1.0, 2 * SESSION_SECONDS)
    for life in world.lives:
        world.expel_frozen(life)


def _wall_jumps(world: World) -> None:
    if world.lives:
        life = world.dice.choice(world.lives)
        life.wall += world.dice.choice((-86_400.0, -5.0, 5.0, 86_400.0))


def _clock_stalls(world: World) -> None:
    """Its monotonic clock does not count what passes: a machine that was suspended."""
    if world.lives:
        life = world.dice.choice(world.lives)
        passed = world.dice.seconds(0.5, 2 * SESSION_SECONDS)
        world.now += passed
        life.clock -= passed
        life.stalled = True
        if passed >= SESSION_SECONDS and world.member(life):
            world.kafka.expel(life.fetcher)
        for other in world.lives:
            world.expel_frozen(other)


def _clock_jumps(world: World) -> None:
    if world.lives:
        world.dice.choice(world.lives).clock += world.dice.choice((0.5, 3.0, 700.0))
        world.stale_until = min(world.now, world.stale_until)  # whatever it takes that time for


def _reply_again(world: World) -> None:
    life = _some(world)
    if life is not None and life.echoes:
        world.give(life, world.dice.choice(life.echoes))


def _hung_up(world: World) -> None:
    life = _some(world)
    if life is not None and (life.wanted or life.reports):
        request = world.dice.choice([*life.wanted, *life.reports])
        life.wanted.pop(request, None)
        life.reports.pop(request, None)
        world.give(life, m.RequestDropped(request))


def _out_of_order(world: World) -> None:
    """An application finishes the last record of its page first, and dies for the others."""
    for life in world.lives:
        for held in life.pages:
            if len(held.values) > 1 and not held.applied and life.frozen_since is None:
                last = held.offer.offsets[-1]
                world.oracle.done[held.log][last].add(held.values[-1])
                world.report(life, held, Each([(Offset(last), Outcome.APPLIED)]))
                return


def _decide(world: World) -> None:
    life = _some(world)
    if life is not None:
        world.decide(life)


def _answer_hold(world: World) -> None:
    for life in world.lives:
        for hold in life.engine.holds():
            answer = world.dice.choice((*hold.answers, "nonsense"))
            arguments = {"answer": answer}
            world.ask(life, hold.partition, RequestKind.ANSWER, hold.id, arguments)
            return


def _pause(world: World) -> None:
    """Somebody pauses a partition, or lets it go on."""
    life = _some(world)
    if life is None:
        return
    for partition, cursor in [*life.engine.cursors.items()]:  # one asked may leave
        if world.dice.chance(50):
            checkpoint = cursor.checkpoint
            paused = checkpoint is not None and checkpoint.paused is not None
            kind = RequestKind.CONTINUE if paused else RequestKind.PAUSE
            world.ask(life, partition, kind)


def _skip(world: World) -> None:
    """Somebody wants one record dropped: the one at the head of the line, or another."""
    life = _some(world)
    if life is None:
        return
    for partition, cursor in [*life.engine.cursors.items()]:  # one asked may leave
        head = None if cursor.hand is None else cursor.hand.head
        near = [at for at in (head, head, cursor.blocked_at, cursor.next) if at is not None]
        if near and world.dice.chance(60):
            at = world.dice.choice(near) + world.dice.choice((0, 0, 0, 1))
            world.ask(life, partition, RequestKind.SKIP, arguments={"offset": at})


def _replay(world: World) -> None:
    """Somebody wants an interval delivered again, which may be none, or not applied yet."""
    life = _some(world)
    if life is None:
        return
    for partition, cursor in [*life.engine.cursors.items()]:  # one asked may leave
        if cursor.next and world.dice.chance(60):
            first = world.dice.between(max(0, cursor.next - 8), cursor.next - 1)
            end = world.dice.between(first, cursor.next + world.dice.choice((0, 0, 1)))
            world.ask(life, partition, RequestKind.REPLAY, arguments={"from": first, "to": end})


def _ask_too_often(world: World) -> None:
    """More than may pend at once, of what is no gap or waits until there is none."""
    life = _some(world)
    index = world.some_partition()
    if life is not None and index is not None:
        kind = world.dice.choice((RequestKind.RESOLVE, RequestKind.REPLAY, RequestKind.ANSWER))
        for _ in range(PENDING_MAX + 1):
            world.ask(life, Partition(TOPIC, index), kind, "none", {"from": 0, "to": 1})


def _some(world: World) -> Life | None:
    awake = [life for life in world.lives if life.frozen_since is None]
    return world.dice.choice(awake) if awake else None


FAULTS: Mapping[str, Callable[[World], None]] = MappingProxyType(
    {
        "retention": _retention,
        "compaction": _compact,
        "transaction": _transaction,
        "truncation": _truncate,
        "rewind": _rewind,
        "topic created again": _recreate,
        "topic deleted or created": _delete,
        "partition added": _add_partition,
        "leader elected": _elect,
        "leader reconnected": _reconnect,
        "stale metadata": _stale_metadata,
        "deposed leader": _deposed_leader,
        "commits expired": _expire,
        "foreign reset": _reset,
        "later release": _later_release,
        "kafka down or up": _kafka_down,
        "question unanswered": _question_fails,
        "fetch fails": _fetch_fails,
        "truncation reported": _truncation_reported,
        "record unreadable": _poison,
        "right taken or given": _rights,
        "client faulted": _client_faulted,
        "store mishap": _store_mishap,
        "writes unanswered": _writes_unanswered,
        "store odd": _store_odd,
        "late write arrives": _store_late,
        "store away or back": _store_away,
        "store flushed": _store_flushed,
        "store copied": _store_copied,
        "store failed over": _store_fails_over,
        "killed": _kill,
        "joined": _join,
        "joined with other settings": _other_settings,
        "drained": _drain,
        "frozen": _freeze,
        "thawed": _thaw,
        "time passes": _time_passes,
        "wall clock jumps": _wall_jumps,
        "clock stalls": _clock_stalls,
        "clock jumps": _clock_jumps,
        "reply repeated": _reply_again,
        "request dropped": _hung_up,
        "gap decided": _decide,
        "hold answered": _answer_hold,
        "paused or continued": _pause,
        "record skipped": _skip,
        "replay asked": _replay,
        "asked too often": _ask_too_often,
        "answered out of order": _out_of_order,
    }
)

LOSING = frozenset(
    {
        *("retention", "truncation", "rewind", "topic created again", "topic deleted or created"),
        *("foreign reset", "fetch fails", "truncation reported", "store flushed"),
        *("store copied", "store failed over"),
    }
)
"""Faults that lose something, or report so. A schedule without one of these may open no gap."""

TESTIMONY = frozenset(
    {
        *("commits expired", "foreign reset", "later release", "store flushed"),
        *("store failed over", "topic created again", "topic deleted or created"),
    }
)
"""Faults that take away what the store or a commit testified to."""

SCENES = (
    ("later release", "writes unanswered", "leader reconnected", "store flushed"),
    ("writes unanswered", "leader reconnected", "store flushed"),
    ("retention", "writes unanswered", "gap decided", "store flushed"),
    ("store copied", "retention", "writes unanswered", "gap decided", "store failed over"),
    ("foreign reset", "gap decided", "writes unanswered", "joined", "frozen", "thawed"),
    ("truncation", "gap decided", "store away or back", "killed"),
    ("record unreadable", "leader elected", "fetch fails"),
    ("retention", "fetch fails", "leader elected"),
    ("replay asked", "frozen", "leader elected", "thawed"),
    ("store copied", "replay asked", "store failed over"),
    ("foreign reset", "hold answered", "leader elected"),
    ("record unreadable", "leader elected", "record skipped"),
    ("answered out of order", "rewind", "killed", "joined"),
    ("answered out of order", "answered out of order", "killed", "rewind", "joined"),
)
"""Faults that follow one another in this order more often than chance would have it: what they come
to together is seldom reached otherwise."""

BRINGS: Mapping[str, str] = MappingProxyType(
    {
        "frozen": "thawed",
        "store failed over": "store copied",
        "store mishap": "late write arrives",
        "deposed leader": "leader elected",
        "stale metadata": "partition added",
        "foreign reset": "hold answered",
        "record unreadable": "record skipped",
    }
)
"""A fault that comes to little without another, which then belongs to the same schedule."""
