"""What the engine relies on in the group member, of the fake and of the real adapter."""

from collections.abc import AsyncIterator

import pytest

from sidecar.core.faults import FaultKind
from sidecar.core.types import GroupId, IsolationLevel, LeaderEpoch, Offset, Partition, SessionId
from sidecar.kafka.frames import digest
from sidecar.ports import Batch, CommitRequest, Fetched
from tests.benches.names import Names
from tests.benches.topics import Record
from tests.kafka.worlds import WORLDS, Member, World, known_commit, make_world


@pytest.fixture(params=WORLDS)
async def world(request: pytest.FixtureRequest, names: Names) -> AsyncIterator[World]:
    world = make_world(request, names)
    yield world
    await world.close()


async def _joined(
    world: World,
    partitions: int = 1,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> tuple[str, GroupId, Member]:
    topic, group = await world.create(partitions), GroupId(world.names.group())
    member = world.member(group, topic, isolation=isolation)
    await member.start()
    await member.until_assigned(*(Partition(topic, index) for index in range(partitions)))
    return topic, group, member


# --- joining, and where fetching starts -----------------------------------------------------------


async def test_joining_tells_the_member_and_fetches_nothing(world: World) -> None:
    """The group gives partitions; what is read of them, the engine says later."""
    topic, _, member = await _joined(world, 2)
    await world.produce(topic, 3)
    await member.settled()
    assert member.member_id
    assert not [e for e in member.events if isinstance(e, Fetched)]


@pytest.mark.parametrize("at", [0, 1, 4, 9])
async def test_fetching_starts_exactly_where_it_was_asked_to(world: World, at: int) -> None:
    topic, _, member = await _joined(world)
    await world.produce(topic, 10)
    session = member.assign(Partition(topic, 0), at)
    assert await member.read_to(session, 10) == list(range(at, 10))


async def test_a_record_comes_as_it_was_written(world: World) -> None:
    """Null, empty and given keys, values and header values; duplicates and order of headers."""
    written = [
        Record(b"value", b"key", [("a", b"1"), ("b", None), ("a", b"")], timestamp_ms=5),
        Record(None, b"key", timestamp_ms=1_764_495_600_123),
        Record(b"", None, timestamp_ms=1),
        Record(b"\x00\xff", b"", [("é", b"\xff")], timestamp_ms=7),
    ]
    topic, _, member = await _joined(world)
    await world.produce(topic, written)
    session = member.assign(Partition(topic, 0), 0)
    await member.read_to(session, 4)
    batches = [e.batch for e in member.fetched(session)]
    records = [record for batch in batches for record in batch.records]
    assert records == [(r.timestamp_ms, r.key, r.value, list(r.headers) or None) for r in written]
    assert member.digests(session) == [digest(record) for record in records]
    assert [size for batch in batches for size in batch.sizes] == [5 + 3 + 4, 3, 0, 2 + 3]
    assert {epoch for batch in batches for epoch in batch.epochs} == {
        (Offset(batch.offsets[0]), LeaderEpoch(0)) for batch in batches
    }


async def test_another_session_of_a_partition_replaces_the_first(world: World) -> None:
    """Re-assigned backward and forward, each begins exactly where it was asked to."""
    topic, _, member = await _joined(world)
    partition = Partition(topic, 0)
    await world.produce(topic, 20)
    for at in (15, 3, 20, 0, 19):
        session = member.assign(partition, at)
        assert await member.read_to(session, 20) == list(range(at, 20))


async def test_two_assignments_at_once_leave_the_second(world: World) -> None:
    topic, _, member = await _joined(world)
    partition = Partition(topic, 0)
    await world.produce(topic, 5)
    first, second = member.assign(partition, 0), member.assign(partition, 2)
    assert await member.read_to(second, 5) == [2, 3, 4]
    assert member.offsets(first) == []


async def test_a_released_partition_says_no_more_and_stays_ours(world: World) -> None:
    topic, _, member = await _joined(world)
    partition = Partition(topic, 0)
    await world.produce(topic, 3)
    await member.read_to(member.assign(partition, 0), 3)
    member.fetcher.release(partition)
    await member.settled()
    seen = len(member.events)
    await world.produce(topic, 3)
    await member.settled()
    assert member.events[seen:] == []
    assert member.owned == {partition}
    assert await member.read_to(member.assign(partition, 3), 6) == [3, 4, 5]


async def test_a_partition_that_is_not_ours_cannot_be_fetched(world: World) -> None:
    _, _, member = await _joined(world)
    elsewhere = await world.create()
    await world.produce(elsewhere, 3)
    session = member.assign(Partition(elsewhere, 0), 0)
    await member.settled()
    assert member.offsets(session) == []


# --- ends and holes -------------------------------------------------------------------------------


async def test_the_end_is_where_the_next_record_will_be(world: World) -> None:
    """Also of an empty partition, and again each time it is reached."""
    topic, _, member = await _joined(world)
    session = member.assign(Partition(topic, 0), 0)
    assert await member.read_to(session, 0) == []
    await world.produce(topic, 3)
    assert await member.read_to(session, 3) == [0, 1, 2]


@pytest.mark.parametrize("commit", [True, False], ids=["committed", "aborted"])
async def test_the_end_lies_behind_what_nobody_sees(world: World, commit: bool) -> None:
    """A control record, and an aborted transaction before it, are passed: the position says so."""
    topic, _, member = await _joined(world)
    await world.produce(topic, 2)
    await world.transaction(topic, 3, commit=commit)
    session = member.assign(Partition(topic, 0), 0)
    assert await member.read_to(session, 6) == ([0, 1, 2, 3, 4] if commit else [0, 1])
    behind = member.assign(Partition(topic, 0), 5)
    assert await member.read_to(behind, 6) == []
    await world.produce(topic, 1)
    assert await member.read_to(behind, 7) == [6]


async def test_an_end_is_never_that_of_an_earlier_session(world: World) -> None:
    """Assigned at the end, and at once again far before it: no end is told before the records."""
    topic, _, member = await _joined(world)
    partition = Partition(topic, 0)
    await world.produce(topic, 50)
    for _ in range(10):
        await member.read_to(member.assign(partition, 50), 50)
        again = member.assign(partition, 10)
        assert await member.read_to(again, 50) == list(range(10, 50))
        before_end: list[int] = []
        for event in member.events:
            if getattr(event, "session", None) != again:
                continue
            if isinstance(event, Fetched):
                before_end += event.batch.offsets
            else:
                assert before_end == list(range(10, 50))


@pytest.mark.parametrize("isolation", IsolationLevel)
async def test_an_open_transaction_ends_what_read_committed_sees(
    world: World, isolation: IsolationLevel
) -> None:
    topic, _, member = await _joined(world, isolation=isolation)
    await world.produce(topic, 4)
    await world.hang(topic, 2)
    await world.produce(topic, 2)
    session = member.assign(Partition(topic, 0), 0)
    committed = isolation is IsolationLevel.READ_COMMITTED
    end = 4 if committed else 8
    assert await member.read_to(session, end) == list(range(end))


# --- a cursor that cannot be had ------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 4, 11], ids=["lost", "lost-by-one", "ahead"])
async def test_out_of_range_is_reported_once_and_only_there(world: World, at: int) -> None:
    """The other partition flows on; the one that failed says nothing until it is assigned anew."""
    topic, _, member = await _joined(world, 2)
    wrong, right = Partition(topic, 0), Partition(topic, 1)
    for index in (0, 1):
        await world.produce(topic, 10, index)
    await world.delete_records(topic, 0, before=5)
    failing, flowing = member.assign(wrong, at), member.assign(right, 0)
    failure = await member.until(lambda: member.failure(failing), "the cursor fails")
    assert (failure.truncation, failure.blocked_at) == (False, None)
    assert (failure.fault.kind, failure.fault.code) == (FaultKind.REFUSED, "_AUTO_OFFSET_RESET")
    await world.produce(topic, 1, 0)
    await world.produce(topic, 1, 1)
    assert await member.read_to(flowing, 11) == list(range(11))
    await member.settled()
    assert member.offsets(failing) == []
    again = member.assign(wrong, 5)
    assert await member.read_to(again, 11) == list(range(5, 11))


async def test_the_log_start_itself_is_in_range(world: World) -> None:
    """`next == log start` has lost nothing."""
    topic, _, member = await _joined(world)
    await world.produce(topic, 10)
    await world.delete_records(topic, 0, before=6)
    assert await member.read_to(member.assign(Partition(topic, 0), 6), 10) == [6, 7, 8, 9]


async def test_an_epoch_the_log_never_had_is_suspect(world: World) -> None:
    """What a re-created topic looks like to a cursor that remembers its epoch."""
    topic, _, member = await _joined(world)
    await world.produce(topic, 10)
    session = member.assign(Partition(topic, 0), 5, epoch=9)
    failure = await member.until(lambda: member.failure(session), "the cursor fails")
    assert (failure.fault.kind, failure.truncation) == (FaultKind.EPOCH_SUSPECT, False)


async def test_a_right_epoch_is_no_obstacle(world: World) -> None:
    topic, _, member = await _joined(world)
    await world.produce(topic, 10)
    session = member.assign(Partition(topic, 0), 5, epoch=0)
    assert await member.read_to(session, 10) == [5, 6, 7, 8, 9]


# --- holding back ---------------------------------------------------------------------------------


async def test_a_paused_partition_waits_and_misses_nothing(world: World) -> None:
    topic, _, member = await _joined(world, 2)
    paused, other = Partition(topic, 0), Partition(topic, 1)
    session = member.assign(paused, 0)
    await member.read_to(session, 0)
    member.fetcher.pause(paused)
    # Calls take effect in order: once this one shows, so does the pause.
    flowing = member.assign(other, 0)
    await member.read_to(flowing, 0)
    await world.produce(topic, 5, 0)
    await world.produce(topic, 5, 1)
    assert await member.read_to(flowing, 5) == [0, 1, 2, 3, 4]
    await member.settled()
    assert member.offsets(session) == []
    member.fetcher.resume(paused)
    assert await member.read_to(session, 5) == [0, 1, 2, 3, 4]


async def test_a_new_session_is_not_paused(world: World) -> None:
    topic, _, member = await _joined(world)
    partition = Partition(topic, 0)
    await world.produce(topic, 5)
    member.assign(partition, 0)
    member.fetcher.pause(partition)
    await member.settled()
    assert await member.read_to(member.assign(partition, 1), 5) == [1, 2, 3, 4]


async def test_a_pause_right_after_an_assignment_holds(world: World) -> None:
    topic, _, member = await _joined(world)
    partition = Partition(topic, 0)
    await world.produce(topic, 5)
    session = member.assign(partition, 0)
    member.fetcher.pause(partition)
    await member.settled()
    assert member.offsets(session) == []
    member.fetcher.resume(partition)
    assert await member.read_to(session, 5) == [0, 1, 2, 3, 4]


async def test_throttled_for_however_long_it_loses_nothing(world: World) -> None:
    """Also beyond the moment in which records are merely held back."""
    topic, _, member = await _joined(world)
    await world.produce(topic, 200)
    session = member.assign(Partition(topic, 0), 0)
    await member.until(lambda: member.offsets(session), "records flow")
    member.fetcher.throttle(True)
    await member.settled()
    seen = len(member.events)
    await world.produce(topic, 200)
    await member.settled(seconds=1.0)
    assert [e for e in member.events[seen:] if isinstance(e, Fetched)] == []
    member.fetcher.throttle(False)
    assert await member.read_to(session, 400) == list(range(400))


# --- commits --------------------------------------------------------------------------------------


async def test_a_commit_may_go_back(world: World) -> None:
    """Backward is allowed when it is asked for, and is what stands there afterwards."""
    topic, group, member = await _joined(world)
    partition = Partition(topic, 0)
    for at in (10, 4):
        request = CommitRequest(Offset(at), LeaderEpoch(0), f"at {at}")
        assert await member.fetcher.commit({partition: request}) == {partition: None}
    stored = known_commit((await world.log(group, topic).committed([partition]))[partition])
    assert (stored.next, stored.metadata) == (4, "at 4")


async def test_one_commit_that_is_refused_does_not_blame_the_others(world: World) -> None:
    """Kafka stores the good ones and reports an error for all: what counts is what stands there."""
    topic, group, member = await _joined(world, 2)
    good, bad = Partition(topic, 0), Partition(topic, 1)
    results = await member.fetcher.commit(
        {
            good: CommitRequest(Offset(3), None, "ok"),
            bad: CommitRequest(Offset(3), None, "x" * 4096),
        }
    )
    assert results[good] is None
    assert (fault := results[bad]) is not None
    assert (fault.kind, fault.code) == (FaultKind.REFUSED, "OFFSET_METADATA_TOO_LARGE")
    readings = await world.log(group, topic).committed([good])
    assert known_commit(readings[good]).metadata == "ok"


async def test_a_commit_of_nothing_is_nothing(world: World) -> None:
    _, _, member = await _joined(world)
    assert await member.fetcher.commit({}) == {}


# --- the group ------------------------------------------------------------------------------------


async def test_a_revocation_waits_for_the_last_wishes(world: World) -> None:
    """What the engine answers is committed before the next owner can look."""
    topic, group, first = await _joined(world, 2)
    partitions = [Partition(topic, 0), Partition(topic, 1)]
    for index in (0, 1):
        await world.produce(topic, 10, index)
    sessions = {p: first.assign(p, 0) for p in partitions}
    for session in sessions.values():
        await first.read_to(session, 10)
    first.last_wishes = lambda parts: {
        p: CommitRequest(Offset(6), LeaderEpoch(0), "last") for p in parts
    }
    second = world.member(group, topic)
    await second.start()

    def moved() -> Partition | None:
        for member in (first, second):
            _pump(member)
        return next(iter(second.owned), None)

    partition = await second.until(moved, "a partition moved")
    assert partition not in first.owned
    assert not first.revocations()[-1].lost
    stored = known_commit((await world.log(group, topic).committed([partition]))[partition])
    assert (stored.next, stored.metadata) == (6, "last")
    kept = next(p for p in partitions if p != partition)
    seen = len(first.offsets(sessions[partition]))
    for index in (0, 1):
        await world.produce(topic, 5, index)
    session = second.assign(partition, 6)
    assert await second.read_to(session, 15) == list(range(6, 15))
    assert await first.read_to(sessions[kept], 15) == list(range(15))
    assert len(first.offsets(sessions[partition])) == seen, "of another's partition by now"


async def test_leaving_asks_for_the_last_wishes_too(world: World) -> None:
    topic, group, member = await _joined(world)
    partition = Partition(topic, 0)
    member.last_wishes = lambda parts: {
        p: CommitRequest(Offset(3), LeaderEpoch(0), "bye") for p in parts
    }
    await member.fetcher.close(10)
    assert [(r.partitions, r.lost) for r in member.revocations()] == [((partition,), False)]
    stored = known_commit((await world.log(group, topic).committed([partition]))[partition])
    assert (stored.next, stored.metadata) == (3, "bye")


async def test_an_event_names_the_session_it_belongs_to(world: World) -> None:
    """Every batch is of the newest session that was asked for, and never below its start."""
    topic, _, member = await _joined(world)
    partition = Partition(topic, 0)
    await world.produce(topic, 100)
    starts: dict[SessionId, int] = {}
    for at in (0, 50, 10, 90, 20):
        session = member.assign(partition, at)
        starts[session] = at
        await member.until(lambda session=session: member.offsets(session), "records")  # type: ignore[misc]
    newest = 0
    for event in member.events:
        if isinstance(event, Fetched):
            assert event.session >= newest
            newest = event.session
            assert event.batch.offsets[0] >= starts[event.session]
            assert _consistent(event.batch)


def _consistent(batch: Batch) -> bool:
    columns = (batch.offsets, batch.digests, batch.sizes, batch.records)
    return (
        len({len(column) for column in columns}) == 1
        and list(batch.offsets) == sorted(set(batch.offsets))
        and batch.epochs[0][0] == batch.offsets[0]
    )


def _pump(member: Member) -> None:
    pump = getattr(member.fetcher, "pump", None)
    if pump is not None:
        pump()
