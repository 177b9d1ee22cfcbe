"""What the engine relies on when it asks Kafka a question, of the fake and of the real adapter."""

import time
from collections.abc import AsyncIterator, Mapping

import pytest

from sidecar.core.evidence import Committed, LogEnd
from sidecar.core.faults import ABSENT, FaultKind, Known, Reading, Unreadable
from sidecar.core.forecast import Retention, sane
from sidecar.core.types import GroupId, LeaderEpoch, Offset, Partition
from sidecar.ports import CommitRequest
from tests.benches.names import Names
from tests.kafka.worlds import WORLDS, World, eventually, known_commit, make_world


@pytest.fixture(params=WORLDS)
async def world(request: pytest.FixtureRequest, names: Names) -> AsyncIterator[World]:
    world = make_world(request, names)
    yield world
    await world.close()


def _fault_kind(reading: object) -> FaultKind | None:
    return reading.fault.kind if isinstance(reading, Unreadable) else None


async def test_the_cluster_is_named_and_always_by_the_same_name(world: World) -> None:
    """A cluster ID is known, and two clients hear the same."""
    topic = await world.create()
    one, two = world.log(GroupId("one"), topic), world.log(GroupId("two"), topic)
    assert isinstance(first := await one.cluster_id(), Known)
    assert first == await two.cluster_id()


async def test_a_topic_has_an_identity_a_size_and_a_policy(world: World) -> None:
    """Each topic is told apart by its ID; partitions and compaction are read with it."""
    plain, compacted = await world.create(3), await world.create(compacted=True)
    log = world.log(GroupId(world.names.group()), plain)
    answers = await log.topics([plain, compacted])
    one, two = answers[plain], answers[compacted]
    assert isinstance(one, Known)
    assert isinstance(two, Known)
    assert (one.value.partitions, one.value.compacted) == (3, False)
    assert (two.value.partitions, two.value.compacted) == (1, True)
    assert None is not one.value.topic_id != two.value.topic_id is not None


async def test_a_topic_created_again_has_another_identity(world: World) -> None:
    """The same name, another ID: the only thing that shows a re-creation."""
    topic = await world.create()
    log = world.log(GroupId(world.names.group()), topic)
    before = (await log.topics([topic]))[topic]
    await world.recreate(topic)
    after = (await log.topics([topic]))[topic]
    assert isinstance(before, Known)
    assert isinstance(after, Known)
    assert before.value.topic_id != after.value.topic_id


async def test_an_unknown_topic_takes_nothing_from_the_others(world: World) -> None:
    """Element by element: one that is missing is `topic_unknown`, and never "absent"."""
    topic = await world.create()
    missing = world.names.topic()
    log = world.log(GroupId(world.names.group()), topic)
    answers = await log.topics([topic, missing])
    assert isinstance(answers[topic], Known)
    assert _fault_kind(answers[missing]) is FaultKind.TOPIC_UNKNOWN
    here, elsewhere = Partition(topic, 0), Partition(missing, 0)
    for ends in (await log.log_ends([here, elsewhere]), await log.log_starts([here, elsewhere])):
        assert isinstance(ends[here], Known)
        assert _fault_kind(ends[elsewhere]) is FaultKind.TOPIC_UNKNOWN


async def test_the_ends_of_a_log_are_told_also_when_it_is_empty(world: World) -> None:
    """Start and end of an empty, a filled and a shortened log, with the leader's epoch."""
    topic = await world.create(3)
    await world.produce(topic, 10, 1)
    await world.produce(topic, 10, 2)
    await world.delete_records(topic, 2, before=7)
    log = world.log(GroupId(world.names.group()), topic)
    partitions = [Partition(topic, index) for index in range(3)]
    ends, starts = await log.log_ends(partitions), await log.log_starts(partitions)
    assert [ends[p] for p in partitions] == [
        Known(LogEnd(Offset(end), Offset(end), LeaderEpoch(0))) for end in (0, 10, 10)
    ]
    assert [starts[p] for p in partitions] == [Known(Offset(start)) for start in (0, 0, 7)]


async def test_an_open_transaction_holds_the_last_stable_offset(world: World) -> None:
    """The high watermark goes on, the last stable offset stays."""
    topic = await world.create()
    await world.produce(topic, 4)
    await world.hang(topic, 3)
    partition = Partition(topic, 0)
    log = world.log(GroupId(world.names.group()), topic)
    answer = (await log.log_ends([partition]))[partition]
    assert isinstance(answer, Known)
    assert (answer.value.last_stable, answer.value.high_watermark) == (4, 7)


async def test_retention_is_read_of_each_topic(world: World) -> None:
    """By time, or not; a compacted topic loses no last value; one that is not there takes nothing
    from the others."""
    kept, plain = await world.create(), await world.create(retention_ms=3_600_000)
    compacted = await world.create(compacted=True, retention_ms=3_600_000)
    missing = world.names.topic()
    log = world.log(GroupId(world.names.group()), plain)
    answers = await log.retentions([kept, plain, compacted, missing])
    assert answers[kept] == Known(Retention(None, by_size=False))
    assert answers[plain] == Known(Retention(3_600.0, by_size=False))
    assert answers[compacted] == Known(Retention(None, by_size=False))
    assert isinstance(answers[missing], Unreadable)


async def test_records_are_stamped_where_there_are_any(world: World) -> None:
    """The first one at or above the offset, committed or not; absent at the end; unreadable below
    the log start, and nothing of it is taken for a time."""
    topic = await world.create(5)
    for index in range(4):
        await world.produce(topic, 6, index)
    await world.delete_records(topic, 1, before=4)
    await world.hang(topic, 2)
    here = [Partition(topic, index) for index in range(5)]
    wanted = {here[0]: 6, here[1]: 2, here[2]: 3, here[3]: 6, here[4]: 0}
    log = world.log(GroupId(world.names.group()), topic)
    answers = await log.stamps({p: Offset(o) for p, o in wanted.items()})
    for partition in (here[0], here[2]):
        reading = answers[partition]
        assert isinstance(reading, Known)
        assert reading.value.offset == wanted[partition]
        assert sane(reading.value.timestamp, now=time.time())
    assert isinstance(answers[here[1]], Unreadable)
    assert answers[here[3]] is answers[here[4]] is ABSENT


async def test_no_commit_is_absent_and_not_unreadable(world: World) -> None:
    """A group nobody heard of has committed nothing, and that is an answer."""
    topic = await world.create(2)
    log = world.log(GroupId(world.names.group()), topic)
    partitions = [Partition(topic, 0), Partition(topic, 1)]
    nothing = dict.fromkeys(partitions, ABSENT)

    async def ask() -> Mapping[Partition, Reading[Committed]]:
        return await log.committed(partitions)

    # A coordinator that is still loading is `unavailable` first, and never "absent" by mistake.
    await eventually(ask, lambda readings: readings == nothing)
    assert await log.committed_in_group() == Known({})


async def test_a_commit_comes_back_whole(world: World) -> None:
    """Offset, leader epoch and all of 4,095 characters of metadata."""
    topic = await world.create(2)
    group = GroupId(world.names.group())
    one, two = Partition(topic, 0), Partition(topic, 1)
    log, member = world.log(group, topic), world.member(group, topic)
    await member.start()
    await member.until_assigned(one, two)
    witness = "wé" * 2047 + "x"
    requests = {
        one: CommitRequest(Offset(7), LeaderEpoch(3), witness),
        two: CommitRequest(Offset(0), None, ""),
    }
    assert await member.fetcher.commit(requests) == {one: None, two: None}
    readings = await log.committed([one, two])
    stored = known_commit(readings[one])
    assert (stored.next, stored.epoch, stored.metadata) == (7, 3, witness)
    assert (known_commit(readings[two]).next, known_commit(readings[two]).metadata) == (0, None)
    assert await log.committed_in_group() == Known(
        {one: known_commit(readings[one]), two: known_commit(readings[two])}
    )


async def test_a_stranger_s_commit_has_no_metadata(world: World) -> None:
    """Somebody's `--reset-offsets` is recognised by the witness it wiped out."""
    topic = await world.create()
    group, partition = GroupId(world.names.group()), Partition(topic, 0)
    await world.commit_as_stranger(group, partition, 999_999)
    log = world.log(group, topic)
    stored = known_commit((await log.committed([partition]))[partition])
    assert (stored.next, stored.epoch, stored.metadata) == (999_999, None, None)


async def test_a_topic_that_goes_takes_its_commits_along(world: World) -> None:
    """After a re-creation there is no commit: nothing of the old topic may be taken for new."""
    topic = await world.create()
    group, partition = GroupId(world.names.group()), Partition(topic, 0)
    await world.commit_as_stranger(group, partition, 5)
    log = world.log(group, topic)
    known_commit((await log.committed([partition]))[partition])
    await world.recreate(topic)

    async def ask() -> Reading[Committed]:
        return (await log.committed([partition]))[partition]

    await eventually(ask, lambda reading: reading == ABSENT)


async def test_a_question_about_nothing_is_answered(world: World) -> None:
    log = world.log(GroupId(world.names.group()), await world.create())
    assert await log.committed([]) == {}
    assert await log.topics([]) == {}
    assert await log.log_ends([]) == {}
    assert await log.log_starts([]) == {}
    assert await log.retentions([]) == {}
    assert await log.stamps({}) == {}
