"""The group member on a real broker: what only the real client can get wrong."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from sidecar.core.faults import Answer, Fault, FaultKind
from sidecar.core.types import ClusterId, GroupId, LeaderEpoch, Offset, Partition, SessionId
from sidecar.kafka.assignment import Assignment
from sidecar.kafka.client import ClientSettings
from sidecar.kafka.fetcher import KafkaFetcher
from sidecar.kafka.log import KafkaLog
from sidecar.ports import ClientFaulted, CommitRequest, Fetched, FetchEvent, MemberChanged, Revoked
from tests.benches.kafka import KafkaBroker
from tests.benches.names import Names
from tests.benches.process import free_port, release_port
from tests.benches.proxy import Proxy
from tests.benches.topics import Outsider, Record
from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.kafka.poison import produce_with_header_name
from tests.kafka.worlds import Member, RealWorld, known_commit

pytestmark = pytest.mark.kafka

Make = Callable[..., KafkaBroker]
PROTOCOLS: dict[str, dict[str, str]] = {
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "eager": {"partition.assignment.strategy": "range"},
    "next-generation": {"group.protocol": "consumer"},
}


@pytest.fixture
async def world(kafka: KafkaBroker, names: Names) -> AsyncIterator[RealWorld]:
    world = RealWorld(names, kafka)
    yield world
    await world.close()


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, str]:
    return PROTOCOLS[request.param]


def _client_fault(member: Member) -> Fault | None:
    shown = [e.fault for e in member.events if isinstance(e, ClientFaulted)]
    return shown[-1] if shown else None


async def _joined(
    world: RealWorld, partitions: int = 1, extra: dict[str, str] | None = None
) -> tuple[str, Member]:
    topic = await world.create(partitions)
    member = world.member(GroupId(world.names.group()), topic, extra=extra)
    await member.start()
    await member.until_assigned(*(Partition(topic, index) for index in range(partitions)))
    return topic, member


# --- three ways to share partitions ---------------------------------------------------------------


async def test_each_protocol_starts_and_moves_exactly(
    world: RealWorld, protocol: dict[str, str]
) -> None:
    """Judged outside the callback, assigned later, moved while another partition flows."""
    topic, member = await _joined(world, 2, protocol)
    moved, other = Partition(topic, 0), Partition(topic, 1)
    for index in (0, 1):
        await world.produce(topic, 30, index)
    flowing = member.assign(other, 10)
    assert await member.read_to(flowing, 30) == list(range(10, 30))
    for at, epoch in ((5, None), (29, 0), (30, 0), (0, None), (12, 0)):
        session = member.assign(moved, at, epoch)
        assert await member.read_to(session, 30) == list(range(at, 30))
    await world.produce(topic, 5, 1)
    assert await member.read_to(flowing, 35) == list(range(10, 35)), "nothing twice, nothing missed"


async def test_each_protocol_commits_last_wishes_before_it_lets_go(
    world: RealWorld, protocol: dict[str, str]
) -> None:
    """Joining and leaving under load: whoever gets a partition finds what its last owner wished,
    and every record is read between them."""
    topic, group = await world.create(4), GroupId(world.names.group())
    await world.quicken(group)
    partitions = [Partition(topic, index) for index in range(4)]
    read: dict[Partition, list[int]] = {p: [] for p in partitions}
    members = [_Working(world, group, topic, protocol, read) for _ in range(2)]
    await members[0].member.start()
    await members[0].member.until_assigned(*partitions)
    producing = asyncio.create_task(_produce_slowly(world, topic, partitions))
    await members[1].member.start()
    await members[1].member.until(lambda: len(members[1].member.owned) == 2, "two and two")
    await members[0].member.fetcher.close(10)
    await members[1].member.until_assigned(*partitions)
    ends = await producing
    await members[1].member.until(
        lambda: all(read[p] and read[p][-1] == ends[p] for p in partitions), "all was read"
    )
    for partition in partitions:
        assert sorted(set(read[partition])) == list(range(ends[partition] + 1))
        assert read[partition] == list(range(ends[partition] + 1)), "handed over exactly"


class _Working:
    """A member that starts each partition at its commit, and wishes where it has read to."""

    def __init__(
        self,
        world: RealWorld,
        group: GroupId,
        topic: str,
        extra: dict[str, str],
        read: dict[Partition, list[int]],
    ) -> None:
        self.member = world.member(group, topic, extra=extra)
        self.member.last_wishes = self._wishes
        self._log = world.log(group, topic)
        self._read = read
        self._next: dict[Partition, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        forward = self.member._sink

        def sink(events: list[FetchEvent]) -> None:
            forward(events)
            for event in events:
                if isinstance(event, Fetched):
                    read[event.partition] += event.batch.offsets
                    self._next[event.partition] = event.batch.offsets[-1] + 1
                elif not isinstance(event, Revoked) and hasattr(event, "partitions"):
                    task = asyncio.get_running_loop().create_task(self._begin(event.partitions))
                    self._tasks.add(task)

        self.member._sink = sink  # type: ignore[method-assign,assignment]  # listens in

    async def _begin(self, partitions: tuple[Partition, ...]) -> None:
        readings = await self._log.committed(partitions)
        for partition in partitions:
            reading = readings[partition]
            at = known_commit(reading).next if hasattr(reading, "value") else 0
            self._next[partition] = at
            self.member.assign(partition, at)

    def _wishes(self, partitions: object) -> dict[Partition, CommitRequest]:
        assert isinstance(partitions, tuple)
        return {
            p: CommitRequest(Offset(self._next.pop(p)), LeaderEpoch(0), "")
            for p in partitions
            if p in self._next
        }


async def _produce_slowly(
    world: RealWorld, topic: str, partitions: list[Partition]
) -> dict[Partition, int]:
    producer = Producer({"bootstrap.servers": world.broker.direct, "linger.ms": 0, "log_level": 0})
    for number in range(150):
        for partition in partitions:
            producer.produce(topic, b"%d" % number, partition=partition.index)
        producer.poll(0)
        await asyncio.sleep(0.02)
    await asyncio.to_thread(producer.flush, 10)
    return dict.fromkeys(partitions, 149)


async def test_an_engine_that_does_not_answer_delays_a_revocation_no_longer_than_it_may(
    world: RealWorld, protocol: dict[str, str]
) -> None:
    topic, group = await world.create(2), GroupId(world.names.group())
    await world.quicken(group)
    settings = world.settings(group, topic, extra=protocol)
    first = world.member_with(settings, revoke_seconds=0.5)
    first.last_wishes = None
    await first.start()
    await first.until_assigned(Partition(topic, 0), Partition(topic, 1))
    second = world.member(group, topic, extra=protocol)
    await second.start()
    await second.until(lambda: second.owned, "a partition moves all the same")
    revoked = await first.until(lambda: first.revocations(), "told of it")
    taken = revoked[0].partitions[0]
    revoked[0].answer({taken: CommitRequest(Offset(5), None, "too late")})
    await first.settled()
    reading = (await world.log(group, topic).committed([taken]))[taken]
    assert not hasattr(reading, "value"), "an answer that comes too late commits nothing"


async def test_throttled_it_still_serves_a_rebalance(world: RealWorld) -> None:
    """However many records were prefetched before."""
    topic, group = await world.create(2), GroupId(world.names.group())
    for index in (0, 1):
        await world.produce(topic, 20_000, index)
    first, second = world.member(group, topic), world.member(group, topic)
    await first.start()
    await first.until_assigned(Partition(topic, 0), Partition(topic, 1))
    sessions = [first.assign(Partition(topic, index), 0) for index in (0, 1)]
    await first.until(lambda: all(first.offsets(s) for s in sessions), "records flow")
    first.fetcher.throttle(True)
    await second.start()
    started = time.monotonic()
    await second.until(lambda: second.owned, "the other gets its share")
    assert time.monotonic() - started < 5
    kept = first.owned - second.owned
    first.fetcher.throttle(False)
    (session,) = (s for s in sessions if Partition(topic, s - 1) in kept)
    assert await first.read_to(session, 20_000) == list(range(20_000))


async def test_a_sink_that_is_slow_bounds_what_is_handed_to_it(world: RealWorld) -> None:
    """While the event loop does not come round, records wait in the client, not in a queue."""
    topic, member = await _joined(world)
    await world.produce(topic, 60_000)
    session = member.assign(Partition(topic, 0), 0)
    await member.until(lambda: member.offsets(session), "records flow")
    time.sleep(1.0)  # noqa: ASYNC251  # the loop that does not come round is what is tested
    seen = len(member.offsets(session))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(member.offsets(session)) - seen < 12_000
    assert await member.read_to(session, 60_000) == list(range(60_000))


# --- commits --------------------------------------------------------------------------------------


async def test_a_commit_larger_than_a_request_is_split(world: RealWorld) -> None:
    """300 partitions with 4,000 characters each: in one call, a broker refuses them whole."""
    topic, group = await world.create(300), GroupId(world.names.group())
    partitions = [Partition(topic, index) for index in range(300)]
    member = world.member(group, topic)
    await member.start()
    await member.until_assigned(*partitions)
    witness = "w" * 4000
    results = await member.fetcher.commit(
        {p: CommitRequest(Offset(p.index), None, witness) for p in partitions}
    )
    assert set(results.values()) == {None}
    readings = await world.log(group, topic).committed(partitions)
    assert all(known_commit(readings[p]).next == p.index for p in partitions)
    assert all(known_commit(readings[p]).metadata == witness for p in partitions)


async def test_a_commit_that_was_asked_for_before_the_end_is_made(world: RealWorld) -> None:
    """And one that comes after it is refused at once, not waited for."""
    topic, member = await _joined(world)
    partition = Partition(topic, 0)
    last = asyncio.create_task(
        member.fetcher.commit({partition: CommitRequest(Offset(4), None, "last")})
    )
    await asyncio.sleep(0)
    await member.fetcher.close(10)
    assert await last == {partition: None}
    started = time.monotonic()
    late = await member.fetcher.commit({partition: CommitRequest(Offset(5), None, "late")})
    assert late[partition] is not None
    assert time.monotonic() - started < 2


# --- records that cannot be read ------------------------------------------------------------------


async def test_a_header_name_that_is_not_utf_8_holds_its_record(world: RealWorld) -> None:
    """The binding breaks on it; it is named, never skipped, and what lies before it is read."""
    topic, member = await _joined(world)
    await world.produce(topic, 3)
    await asyncio.to_thread(
        produce_with_header_name, world.broker.direct, topic, b"\xff\xfe", b"poison"
    )
    await world.produce(topic, 3)
    partition = Partition(topic, 0)
    session = member.assign(partition, 0)
    failure = await member.until(lambda: member.failure(session), "held")
    assert member.offsets(session) == [0, 1, 2]
    assert (failure.blocked_at, failure.fault.code) == (3, "HEADER_NOT_UTF8")
    again = member.assign(partition, 3)
    failure = await member.until(lambda: member.failure(again), "held again")
    assert (member.offsets(again), failure.blocked_at) == ([], 3)
    behind = member.assign(partition, 4)
    assert await member.read_to(behind, 7) == [4, 5, 6]


@pytest.mark.slow
async def test_a_record_larger_than_the_client_takes_is_found_and_named(world: RealWorld) -> None:
    """The error names a broker only. The other partitions are read to their ends, this one stands
    at the record, and no outage is reported."""
    topic = await world.create(3)
    small = {
        "receive.message.max.bytes": "20000",
        "fetch.max.bytes": "10000",
        "message.max.bytes": "1000",
        "max.partition.fetch.bytes": "1000",
    }
    member = world.member(GroupId(world.names.group()), topic, extra=small)
    await member.start()
    partitions = [Partition(topic, index) for index in range(3)]
    await member.until_assigned(*partitions)
    for index in range(3):
        await world.produce(topic, 20, index)
    await world.produce(topic, [Record(b"x" * 500_000)], 1)
    for index in range(3):
        await world.produce(topic, 20, index)
    sessions = [member.assign(partition, 0) for partition in partitions]
    failure = await member.until(lambda: member.failure(sessions[1]), "the large one is named")
    assert (failure.blocked_at, failure.fault.code) == (20, "MSG_SIZE_TOO_LARGE")
    assert member.offsets(sessions[1]) == list(range(20))
    for index in (0, 2):
        assert await member.read_to(sessions[index], 40) == list(range(40))
    behind = member.assign(partitions[1], 21)
    assert await member.read_to(behind, 41) == list(range(21, 41))
    assert [e for e in member.events if isinstance(e, ClientFaulted)] == []


async def test_an_end_that_the_client_does_not_confirm_is_read_once_more_and_believed(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a trailing record that was compacted away, which no test can bring about quickly:
    here the client is kept from telling its position behind a control record."""
    monkeypatch.setattr(Assignment, "position", lambda assignment, partition: None)
    topic, member = await _joined(world)
    await world.transaction(topic, 3, commit=True)
    session = member.assign(Partition(topic, 0), 0)
    assert await member.read_to(session, 4) == [0, 1, 2]
    assert await member.read_to(member.assign(Partition(topic, 0), 3), 4) == []
    await world.produce(topic, 1)
    assert await member.read_to(member.assign(Partition(topic, 0), 3), 5) == [4]


@pytest.mark.fault(row="client/a-callback-raises", bench="K1", expected="delivering", cases=(1,))
async def test_a_callback_that_raises_costs_no_record(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch, row: Row
) -> None:
    """The client throws the record away that it has just dequeued when a callback raises; ours
    only set flags, and do not raise whatever breaks inside of them."""
    raised = 0

    def broken(text: str) -> None:
        nonlocal raised
        raised += 1
        raise RuntimeError("a callback broke")

    monkeypatch.setattr("sidecar.kafka.consumer.decode", broken)
    topic, member = await _joined(world)
    session = member.assign(Partition(topic, 0), 0)
    produced, read = 0, [0]
    while raised < 4:
        await world.produce(topic, 500)
        produced += 500
        read = await member.read_to(session, produced)
    row.observe("delivering")
    row.receipts(lost=len(set(range(produced)) - set(read)), repeated=len(read) - len(set(read)))


# --- brokers that are away ------------------------------------------------------------------------


async def test_started_with_no_broker_it_says_so_and_recovers(
    kafka_broker: Make, names: Names
) -> None:
    broker = kafka_broker()
    world = RealWorld(names, broker)
    topic = await world.create()
    await asyncio.to_thread(broker.stop)
    member = world.member(GroupId(names.group()), topic)
    await member.start()
    fault = await member.until(lambda: _client_fault(member), "says why")
    assert (fault.kind, fault.code) == (FaultKind.UNAVAILABLE, "_ALL_BROKERS_DOWN")
    assert len([e for e in member.events if isinstance(e, ClientFaulted)]) == 1
    await asyncio.to_thread(broker.start)
    await member.until_assigned(Partition(topic, 0))
    await member.until(lambda: _client_fault(member) is None, "well again")
    assert len(member.events) < 10, "said once, not twenty times a second"
    assert len(world.lines) < 10, "its log is bounded too"
    await world.close()


async def test_a_broker_that_restarts_is_noticed_and_no_record_missed(
    kafka_broker: Make, names: Names
) -> None:
    """The epoch rises and the connection is another: a prompt to look again."""
    broker = kafka_broker()
    world = RealWorld(names, broker)
    topic = await world.create()
    settings = replace(world.settings(GroupId(names.group()), topic), session_timeout_seconds=30)
    member = world.member_with(settings)
    await member.start()
    partition = Partition(topic, 0)
    await member.until_assigned(partition)
    await world.produce(topic, 5)
    session = member.assign(partition, 0, 0)
    await member.read_to(session, 5)
    await member.settled(seconds=1.2)  # seen by the statistics
    assert member.changed_leaders() == set()
    await asyncio.to_thread(broker.restart)
    await member.until(lambda: partition in member.changed_leaders(), "the change is told")
    await world.produce(topic, 5)
    assert await member.read_to(session, 10) == list(range(10))
    await world.close()


@pytest.mark.fault(
    row="client/alone-without-a-broker", bench="K1", expected="unavailable", cases=(41,)
)
async def test_a_client_that_alone_reaches_no_broker_is_replaced(
    proxied_kafka: Callable[..., tuple[KafkaBroker, Proxy]],
    names: Names,
    row: Row,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """librdkafka may forget every broker it knew; then it asks nobody any more, while others do.
    Where the first attempt to make another client fails, there is a second."""
    failures = [KafkaException(KafkaError(KafkaError._CRIT_SYS_RESOURCE))]

    def make(config: dict[str, Any], **options: Any) -> Consumer:
        if failures:
            raise failures.pop()
        return Consumer(config, **options)

    broker, proxy = proxied_kafka()
    world = RealWorld(names, broker)
    topic = await world.create()
    partition = Partition(topic, 0)
    await world.produce(topic, 5)
    settings = world.settings(GroupId(names.group()), topic)
    log = KafkaLog(replace(settings, bootstrap_servers=broker.direct))
    lines: list[str] = []
    member = Member(KafkaFetcher(settings, log, log_line=lambda level, text: lines.append(text)))
    await member.start()
    await member.until_assigned(partition)
    assert await member.read_to(member.assign(partition, 0), 5) == list(range(5))
    monkeypatch.setattr("sidecar.kafka.consumer.Consumer", make)
    await asyncio.to_thread(proxy.refuse)
    row.inflicted()
    fault = await member.until(lambda: _client_fault(member), "says why")
    row.judged(fault.kind, "waiting")
    await member.until(lambda: any("takes its place" in line for line in lines), "replaced")
    assert [line for line in lines if "cannot be replaced" in line]
    await member.until(lambda: not member.owned, "what it had is lost")
    assert member.revocations()[-1].lost
    await asyncio.to_thread(proxy.heal)
    row.cured()
    await member.until_assigned(partition)
    session = member.assign(partition, 5)
    await world.produce(topic, 5)
    assert await member.read_to(session, 10) == list(range(5, 10))
    row.delivering()
    row.receipts(lost=0, repeated=0)
    assert await member.fetcher.commit({partition: CommitRequest(Offset(10), None, "w")}) == {
        partition: None
    }
    await member.fetcher.close(10)
    await log.close()
    await world.close()


async def test_an_outage_is_no_reason_to_replace_the_client(
    kafka_broker: Make, names: Names
) -> None:
    broker = kafka_broker()
    world = RealWorld(names, broker)
    topic = await world.create()
    settings = world.settings(GroupId(names.group()), topic)
    log = Looked(settings)
    member = Member(KafkaFetcher(settings, log, log_line=lambda level, text: log.line(text)))
    await member.start()
    await member.until_assigned(Partition(topic, 0))
    await asyncio.to_thread(broker.stop)
    await member.until(lambda: log.looks >= 2, "looked twice whether it is the cluster")
    await asyncio.to_thread(broker.start)
    await member.until(lambda: _client_fault(member) is None, "well again")
    await member.until_assigned(Partition(topic, 0))
    assert log.lines == []
    await member.fetcher.close(10)
    await log.close()
    await world.close()


class Looked(KafkaLog):
    """Counts the looks whether the cluster is there, and keeps what is said of a replacement."""

    def __init__(self, settings: ClientSettings) -> None:
        super().__init__(settings, request_timeout_seconds=1.0)
        self.looks = 0
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        if "takes its place" in text:
            self.lines.append(text)

    async def cluster_id(self) -> Answer[ClusterId]:
        self.looks += 1
        return await super().cluster_id()


async def test_a_rewound_log_is_noticed_by_its_epoch(kafka_broker: Make, names: Names) -> None:
    """A restored directory ends below the cursor: truncation if an epoch is known, by seek too;
    without an epoch only "out of range"."""
    broker = kafka_broker()
    world = RealWorld(names, broker)
    topic, group = await world.create(), GroupId(names.group())
    partition = Partition(topic, 0)
    await world.produce(topic, 10)
    await asyncio.to_thread(broker.stop)
    saved = await asyncio.to_thread(broker.save_data)
    await asyncio.to_thread(broker.start)
    await world.produce(topic, 10)
    epoch = (await asyncio.to_thread(world.outsider.read, topic, 0, 19))[0].leader_epoch()
    assert epoch is not None
    await asyncio.to_thread(broker.kill)
    broker.restore_data(saved)
    await asyncio.to_thread(broker.start)
    member = world.member(group, topic)
    await member.start()
    await member.until_assigned(partition)
    cases = ((20, epoch, FaultKind.EPOCH_SUSPECT, True), (20, None, FaultKind.REFUSED, False))
    for at, known, kind, truncation in cases:
        session = member.assign(partition, at, known)
        failure = await member.until(lambda session=session: member.failure(session), "fails")  # type: ignore[misc]
        assert (failure.fault.kind, failure.truncation) == (kind, truncation)
    assert await member.read_to(member.assign(partition, 8, 0), 10) == [8, 9]
    await world.close()


@pytest.mark.parametrize("how", ["stopped", "frozen"])
async def test_closing_is_bounded_when_no_broker_answers(
    kafka_broker: Make, names: Names, how: str
) -> None:
    broker = kafka_broker()
    world = RealWorld(names, broker)
    topic = await world.create()
    member = world.member(GroupId(names.group()), topic)
    member.last_wishes = lambda parts: {p: CommitRequest(Offset(1), None, "") for p in parts}
    await member.start()
    await member.until_assigned(Partition(topic, 0))
    await asyncio.to_thread(broker.stop if how == "stopped" else broker.pause)
    started = time.monotonic()
    await member.fetcher.close(1.5)
    assert time.monotonic() - started < 2.5
    if how == "frozen":
        broker.resume()
    await world.close()


async def test_a_commit_is_bounded_when_no_broker_answers(kafka_broker: Make, names: Names) -> None:
    """Not known to be stored is a fault, not an exception and not a wait for ever."""
    broker = kafka_broker()
    world = RealWorld(names, broker)
    topic = await world.create()
    partition = Partition(topic, 0)
    settings = world.settings(GroupId(names.group()), topic)
    log = KafkaLog(settings, request_timeout_seconds=1.0)
    member = Member(KafkaFetcher(settings, log, commit_seconds=1.0))
    await member.start()
    await member.until_assigned(partition)
    broker.pause()
    started = time.monotonic()
    results = await member.fetcher.commit({partition: CommitRequest(Offset(1), None, "w")})
    assert time.monotonic() - started < 6
    fault = results[partition]
    assert fault is not None
    assert fault.kind is FaultKind.UNAVAILABLE
    broker.resume()
    again = await member.fetcher.commit({partition: CommitRequest(Offset(2), None, "w")})
    assert again == {partition: None}
    assert known_commit((await log.committed([partition]))[partition]).next == 2
    await member.fetcher.close(10)
    await log.close()
    await world.close()


# --- identities and settings ----------------------------------------------------------------------


@pytest.mark.parametrize("extra", [{}, {"group.protocol": "consumer"}], ids=["classic", "next"])
async def test_two_members_with_one_identity_are_told_apart(
    world: RealWorld, extra: dict[str, str]
) -> None:
    """The one that is fenced loses its partitions, says why, and commits nothing any more."""
    topic, group = await world.create(), GroupId(world.names.group())
    settings = replace(world.settings(group, topic, extra=extra), instance_id="one")
    first, second = world.member_with(settings), world.member_with(settings)
    await first.start()
    await first.until_assigned(Partition(topic, 0))
    await second.start()

    def fenced() -> Member | None:
        for member in (first, second):
            for event in member.events:
                if isinstance(event, MemberChanged) and event.fenced:
                    return member
        return None

    loser = await first.until(fenced, "one of them is fenced")
    winner = second if loser is first else first
    await winner.until_assigned(Partition(topic, 0))
    assert loser.owned == set()
    assert loser.member_id is None
    results = await loser.fetcher.commit(
        {Partition(topic, 0): CommitRequest(Offset(9), None, "mine")}
    )
    assert all(results.values())
    assert _client_fault(loser) is None


async def test_a_session_time_out_that_no_broker_allows_is_said_aloud(world: RealWorld) -> None:
    """It would never join, in silence."""
    topic = await world.create()
    settings = replace(
        world.settings(GroupId(world.names.group()), topic), session_timeout_seconds=0.5
    )
    member = world.member_with(settings)
    await member.start()
    fault = await member.until(lambda: _client_fault(member), "says why")
    assert (fault.kind, fault.code) == (FaultKind.REFUSED, "INVALID_SESSION_TIMEOUT")
    assert "group.min.session.timeout.ms" in fault.detail
    assert member.owned == set()


async def test_a_configuration_that_the_client_refuses_is_a_fault(world: RealWorld) -> None:
    settings = world.settings(GroupId("g"), "t", extra={"no.such.property": "1"})
    member = world.member_with(settings)
    await member.start()
    fault = await member.until(lambda: _client_fault(member), "says why")
    assert fault.kind is FaultKind.REFUSED
    assert "no.such.property" in fault.detail
    await member.fetcher.close(1)


# --- its thread -----------------------------------------------------------------------------------


def test_an_event_loop_that_ended_ends_the_thread(kafka: KafkaBroker, names: Names) -> None:
    """Nobody closed it: it leaves the group by itself rather than hold partitions for nobody."""
    settings = ClientSettings(kafka.bootstrap, GroupId(names.group()), (names.topic(),))
    before = set(threading.enumerate())

    async def run() -> None:
        log = KafkaLog(settings)
        await KafkaFetcher(settings, log).start(lambda events: None)
        await log.close()

    asyncio.run(run())
    Outsider(kafka).create(settings.topics[0])  # so that there is something to tell
    left = {t for t in threading.enumerate() if t not in before and t.name == "kafka-consumer"}
    wait_until(lambda: not any(t.is_alive() for t in left), "the thread ended", timeout_seconds=30)


def test_a_port_that_nobody_listens_on_closes_at_once(names: Names) -> None:
    port = free_port()
    settings = ClientSettings(f"127.0.0.1:{port}", GroupId("g"), ("t",))

    async def run() -> float:
        log = KafkaLog(settings, request_timeout_seconds=0.5)
        fetcher = KafkaFetcher(settings, log)
        await fetcher.start(lambda events: None)
        fetcher.assign(Partition("t", 0), SessionId(1), Offset(0), None)
        started = time.monotonic()
        await fetcher.close(2.0)
        await log.close()
        return time.monotonic() - started

    assert asyncio.run(run()) < 2.5
    release_port(port)
