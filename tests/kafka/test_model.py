"""The model of a cluster does what a test tells it, and quickly: what the contract cannot show on
a real broker, or not in a moment."""

import time

import pytest

from sidecar.core.faults import ABSENT, FaultKind, Known, Unreadable
from sidecar.core.types import GroupId, LeaderEpoch, Offset, Partition, SessionId
from sidecar.ports import Assigned, ClientFaulted, CommitRequest, FetchEvent, MemberChanged
from tests.fakes.kafka import TOPIC_DENIED, FakeFetcher, FakeKafka, FakeLog
from tests.kafka.worlds import Member

G, P, Q = GroupId("g"), Partition("t", 0), Partition("t", 1)


@pytest.fixture
def kafka() -> FakeKafka:
    kafka = FakeKafka()
    kafka.create_topic("t", 2)
    return kafka


def _fetcher(member: Member) -> FakeFetcher:
    assert isinstance(member.fetcher, FakeFetcher)
    return member.fetcher


async def _member(kafka: FakeKafka, instance_id: str | None = None) -> Member:
    member = Member(FakeFetcher(kafka, G, ("t",), instance_id=instance_id))
    await member.start()
    _fetcher(member).pump()
    return member


def _fill(kafka: FakeKafka, count: int, index: int = 0) -> None:
    for number in range(count):
        kafka.produce("t", index, b"v%d" % number)


async def test_truncation_is_seen_by_a_live_member_and_by_a_known_epoch(kafka: FakeKafka) -> None:
    _fill(kafka, 10)
    member = await _member(kafka)
    live = member.assign(P, 0)
    await member.read_to(live, 10)
    kafka.truncate("t", 0, to=6)
    failure = await member.until(lambda: member.failure(live))
    assert failure.truncation
    _fill(kafka, 10)
    knowing, unknowing = member.assign(P, 10, epoch=0), None
    failure = await member.until(lambda: member.failure(knowing))
    assert failure.truncation
    unknowing = member.assign(P, 10)
    assert await member.read_to(unknowing, 16) == list(range(10, 16)), "in silence"


async def test_a_rewound_log_is_read_on_in_silence(kafka: FakeKafka) -> None:
    """Same offset, same epoch, other bytes: only a digest tells."""
    _fill(kafka, 10)
    member = await _member(kafka)
    before = member.assign(P, 8)
    await member.read_to(before, 10)
    kafka.rewind("t", 0, to=8)
    kafka.produce("t", 0, b"other")
    kafka.produce("t", 0, b"other")
    after = member.assign(P, 8, epoch=0)
    assert await member.read_to(after, 10) == [8, 9]
    assert member.digests(before) != member.digests(after)


async def test_a_topic_created_again_longer_is_read_on_in_silence(kafka: FakeKafka) -> None:
    _fill(kafka, 3)
    member = await _member(kafka)
    session = member.assign(P, 0)
    await member.read_to(session, 3)
    before = kafka.topics["t"].id
    assert kafka.recreate_topic("t") != before
    _fill(kafka, 5)
    assert await member.read_to(session, 5) == [0, 1, 2, 3, 4]


async def test_a_change_of_leader_is_told(kafka: FakeKafka) -> None:
    _fill(kafka, 3)
    member = await _member(kafka)
    session = member.assign(P, 0)
    await member.read_to(session, 3)
    for change in (kafka.elect, kafka.reconnect):
        member.events.clear()
        change("t", 0)
        await member.until(lambda: member.changed_leaders() == {P})
    kafka.produce("t", 0, b"later")
    assert await member.read_to(session, 4) == [3]


async def test_a_record_that_cannot_be_read_is_named(kafka: FakeKafka) -> None:
    _fill(kafka, 5)
    kafka.poison("t", 0, 2)
    member = await _member(kafka)
    session = member.assign(P, 0)
    failure = await member.until(lambda: member.failure(session))
    assert (member.offsets(session), failure.blocked_at) == ([0, 1], 2)


async def test_compacted_records_leave_holes(kafka: FakeKafka) -> None:
    _fill(kafka, 6)
    kafka.compact("t", 0, [1, 5])
    member = await _member(kafka)
    assert await member.read_to(member.assign(P, 0), 6) == [0, 2, 3, 4]


async def test_a_member_that_was_expelled_writes_nothing(kafka: FakeKafka) -> None:
    """And learns of it late, as a process does that was stopped for a while."""
    first, second = await _member(kafka), await _member(kafka)
    kafka.expel(_fetcher(first))
    await second.until_assigned(P, Q)
    results = await first.fetcher.commit({P: CommitRequest(Offset(1), None, "zombie")})
    assert results[P] is not None
    assert first.owned == {P, Q}, "it does not know"
    _fetcher(first).pump()
    assert first.revocations()[-1].lost
    assert (await FakeLog(kafka, G).committed([P]))[P] == ABSENT
    await first.until(lambda: first.member_id is not None, "joins again")


async def test_one_identity_for_two_fences_the_first(kafka: FakeKafka) -> None:
    first, second = await _member(kafka, "one"), await _member(kafka, "one")
    _fetcher(first).pump()
    assert isinstance(changed := first.events[-1], MemberChanged)
    assert changed.fenced
    await second.until_assigned(P, Q)
    assert _fetcher(first).pump() == 0


async def test_a_revocation_that_nobody_answers_is_given_up(kafka: FakeKafka) -> None:
    first = await _member(kafka)
    first.last_wishes = None
    second = await _member(kafka)
    for _ in range(3):
        _fetcher(first).pump()
        _fetcher(second).pump()
    assert second.owned == set()
    _fetcher(first).give_up_waiting()
    _fetcher(first).pump()
    await second.until(lambda: second.owned)


async def test_more_partitions_are_shared_among_the_members(kafka: FakeKafka) -> None:
    first, second = await _member(kafka), await _member(kafka)
    kafka.add_partitions("t", 6)
    for _ in range(3):
        _fetcher(first).pump()
        _fetcher(second).pump()
    assert (len(first.owned), len(second.owned)) == (3, 3)
    assert not first.owned & second.owned


async def test_a_fault_is_answered_as_often_as_it_was_asked_for(kafka: FakeKafka) -> None:
    log = FakeLog(kafka, G)
    kafka.fail("log_ends", times=2)
    kafka.fail("log_starts", TOPIC_DENIED, times=1, partition=P)
    for expected in (Unreadable, Unreadable, Known):
        assert {type(a) for a in (await log.log_ends([P, Q])).values()} == {expected}
    starts = await log.log_starts([P, Q])
    assert (type(starts[P]), type(starts[Q])) == (Unreadable, Known)
    assert isinstance((await log.log_starts([P]))[P], Known)
    kafka.fail("cluster_id", times=None)
    for _ in range(5):
        assert isinstance(await log.cluster_id(), Unreadable)
    kafka.heal()
    assert isinstance(await log.cluster_id(), Known)
    assert kafka.calls["cluster_id"] == 6


async def test_a_cluster_that_is_down_says_so_once(kafka: FakeKafka) -> None:
    member = await _member(kafka)
    kafka.down = True
    for _ in range(3):
        _fetcher(member).pump()
    kafka.down = False
    for _ in range(3):
        _fetcher(member).pump()
    shown = [e.fault for e in member.events if isinstance(e, ClientFaulted)]
    assert [fault and fault.kind for fault in shown] == [FaultKind.UNAVAILABLE, None]


async def test_rights_can_be_taken_away(kafka: FakeKafka) -> None:
    _fill(kafka, 1)
    member, log = await _member(kafka), FakeLog(kafka, G)
    kafka.denied.add("t")
    session = member.assign(P, 0)
    failure = await member.until(lambda: member.failure(session))
    assert failure.fault.kind is FaultKind.AUTHORIZATION
    assert isinstance((await log.topics(["t"]))["t"], Unreadable)
    kafka.denied.clear()
    assert await member.read_to(member.assign(P, 0), 1) == [0]


async def test_the_same_story_twice_is_the_same_story(kafka: FakeKafka) -> None:
    """No clock, no chance, no identity of objects: a simulator can replay a seed."""

    async def story() -> str:
        kafka = FakeKafka()
        kafka.create_topic("t", 3)
        members = [await _member(kafka) for _ in range(3)]
        for member in members:
            for partition in sorted(member.owned):
                member.assign(partition, 0)
        _fill(kafka, 3)
        kafka.expel(_fetcher(members[1]))
        for _ in range(4):
            for member in members:
                _fetcher(member).pump()
        return "\n".join(member.story().partition(" at 0x")[0] for member in members)

    assert await story() == await story()


async def test_it_is_quick_enough_for_a_simulator(kafka: FakeKafka) -> None:
    """More than 20,000 steps a second: here a record, a poll of two partitions and a commit."""
    member = FakeFetcher(kafka, G, ("t",))
    seen: list[FetchEvent] = []
    await member.start(seen.extend)
    member.pump()
    assert any(isinstance(e, Assigned) for e in seen)
    for index in (0, 1):
        member.assign(Partition("t", index), SessionId(index), Offset(0), LeaderEpoch(0))
    steps = 5_000
    started = time.process_time()
    for step in range(steps):
        kafka.produce("t", step % 2, b"v")
        member.pump()
        await member.commit({P: CommitRequest(Offset(step), None, "w")})
    assert steps / (time.process_time() - started) > 10_000, "generous, for a slow machine"
