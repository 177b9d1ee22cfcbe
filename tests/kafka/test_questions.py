"""Questions to real brokers that are away, that refuse, or that are only a mock."""

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, Uuid
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without __all__
    AclOperation,
    AdminClient,
    ResourceType,
)

from sidecar.core.evidence import TopicDescription
from sidecar.core.faults import ABSENT, FaultKind, Known, Unreadable
from sidecar.core.types import GroupId, Offset, Partition
from sidecar.kafka.client import ClientSettings
from sidecar.kafka.log import KafkaLog, take_topic_id, topic_id_of
from tests.benches.kafka import KafkaBroker, SecureKafka
from tests.benches.names import Names
from tests.benches.process import free_port, release_port
from tests.benches.topics import Outsider
from tests.kafka.worlds import eventually, known_commit


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody listens."""
    port = free_port()
    yield f"127.0.0.1:{port}"
    release_port(port)


async def _kinds(log: KafkaLog, topic: str) -> dict[str, FaultKind | None]:
    """What each question ends with: None, if it was answered."""
    partition = Partition(topic, 0)
    answers: dict[str, object] = {
        "cluster_id": await log.cluster_id(),
        "committed": (await log.committed([partition]))[partition],
        "committed_in_group": await log.committed_in_group(),
        "topics": (await log.topics([topic]))[topic],
        "log_ends": (await log.log_ends([partition]))[partition],
        "log_starts": (await log.log_starts([partition]))[partition],
    }
    return {
        name: answer.fault.kind if isinstance(answer, Unreadable) else None
        for name, answer in answers.items()
    }


async def test_every_question_is_bounded_when_nobody_answers(nobody: str) -> None:
    """`unavailable`, within the time-out and a moment; never an exception."""
    log = KafkaLog(ClientSettings(nobody, GroupId("g"), ("t",)), request_timeout_seconds=0.3)
    started = time.monotonic()
    assert set((await _kinds(log, "t")).values()) == {FaultKind.UNAVAILABLE}
    assert time.monotonic() - started < 8
    await log.close()


async def test_whoever_asks_for_commits_is_replaced_when_it_hears_nothing_for_long(
    nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the client that lost its brokers, and not the cluster that is away."""
    made: list[Consumer] = []

    def make(config: dict[str, Any]) -> Consumer:
        made.append(Consumer(config))
        return made[-1]

    monkeypatch.setattr("sidecar.kafka.group_offsets.Consumer", make)
    now = [0.0]
    settings = ClientSettings(nobody, GroupId("g"), ("t",))
    log = KafkaLog(settings, request_timeout_seconds=0.3, clock=lambda: now[0])
    # Suspected since the first time; given up for having been so for more than four seconds.
    for at, clients in ((0.0, 1), (3.9, 1), (4.1, 1), (4.2, 2), (8.0, 2)):
        now[0] = at
        reading = (await log.committed([Partition("t", 0)]))[Partition("t", 0)]
        assert isinstance(reading, Unreadable)
        assert len(made) == clients
    await log.close()


async def test_a_question_after_the_end_is_answered_too(nobody: str) -> None:
    log = KafkaLog(ClientSettings(nobody, GroupId("g"), ("t",)), request_timeout_seconds=0.3)
    await log.close()
    assert None not in (await _kinds(log, "t")).values()


async def test_a_client_that_cannot_be_made_is_a_fault() -> None:
    log = KafkaLog(ClientSettings("127.0.0.1:1", GroupId("g"), ("t",), extra={"no.such": "1"}))
    assert set((await _kinds(log, "t")).values()) == {FaultKind.REFUSED}
    await log.close()


async def test_a_cluster_without_a_controller_offers_no_topic_ids() -> None:
    """librdkafka's mock: names and partition counts, promptly; not a time-out each."""
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "unused", "log_level": 0})
    (broker,) = producer.list_topics(timeout=5).brokers.values()
    producer.produce("here", b"x", partition=0)
    assert producer.flush(5) == 0
    log = KafkaLog(ClientSettings(f"{broker.host}:{broker.port}", GroupId("g"), ("here",)))
    partition = Partition("here", 0)
    started = time.monotonic()
    assert (await log.topics(["here"]))["here"] == Known(TopicDescription(None, 4, None))
    assert isinstance(await log.cluster_id(), Known)
    ends = (await log.log_ends([partition]))[partition]
    assert isinstance(ends, Known)
    assert (ends.value.high_watermark, ends.value.last_stable) == (1, 1)
    assert (await log.log_starts([partition]))[partition] == Known(Offset(0))
    assert (await log.committed([partition]))[partition] == ABSENT
    assert await log.committed_in_group() == Known({})
    assert time.monotonic() - started < 2
    await log.close()


@pytest.mark.kafka
async def test_a_restarted_broker_is_asked_again_with_success(
    kafka_broker: Callable[..., KafkaBroker], names: Names
) -> None:
    """Questions asked all the while: unreadable while it is away, and right soon after; a
    coordinator that has not loaded yet crashes nothing (librdkafka #5040)."""
    broker = kafka_broker()
    outsider = Outsider(broker)
    topic, group = names.topic(), GroupId(names.group())
    await asyncio.to_thread(outsider.create, topic)
    await asyncio.to_thread(outsider.commit, group, topic, 0, 7)
    partition = Partition(topic, 0)
    log = KafkaLog(ClientSettings(broker.bootstrap, group, (topic,)), request_timeout_seconds=1.0)
    assert None in (await _kinds(log, topic)).values()
    for restart in (broker.restart, broker.restart):
        asking = asyncio.create_task(asyncio.to_thread(restart))
        while not asking.done():
            for reading in (await log.committed([partition])).values():
                assert reading != ABSENT, "never absent for want of an answer"
            await log.log_ends([partition])

        async def all_kinds() -> set[FaultKind | None]:
            return set((await _kinds(log, topic)).values())

        started = time.monotonic()
        await eventually(all_kinds, lambda kinds: kinds == {None})
        assert time.monotonic() - started < 15
        assert known_commit((await log.committed([partition]))[partition]).next == 7
    await log.close()


@pytest.mark.kafka
async def test_every_committed_offset_of_a_group_is_found(kafka: KafkaBroker, names: Names) -> None:
    """Whatever its topic, and nothing of other groups."""
    outsider = Outsider(kafka)
    group, topics = GroupId(names.group()), [names.topic() for _ in range(3)]
    for topic in topics:
        await asyncio.to_thread(outsider.create, topic, 2)
        await asyncio.to_thread(outsider.commit, names.group(), topic, 0, 99)
    for topic in topics[:2]:
        await asyncio.to_thread(outsider.commit, group, topic, 1, 5, "w")
    log = KafkaLog(ClientSettings(kafka.bootstrap, group, (topics[2],)))
    answer = await log.committed_in_group()
    assert isinstance(answer, Known)
    assert set(answer.value) == {Partition(topic, 1) for topic in topics[:2]}
    assert {c.metadata for c in answer.value.values()} == {"w"}
    await log.close()


class Noted(AdminClient):
    """Writes down what it is asked for, and when metadata came."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.said: list[str] = []

    def list_topics(self, *args: Any, **named: Any) -> Any:
        answer = super().list_topics(*args, **named)
        self.said.append("metadata")
        return answer

    def list_offsets(self, *args: Any, **named: Any) -> Any:
        self.said.append("offsets")
        return super().list_offsets(*args, **named)


@pytest.mark.kafka
async def test_a_client_is_asked_for_offsets_when_it_knows_the_leaders(
    kafka: KafkaBroker, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it does not, two questions at once may end the process. One question about them serves
    all who ask, of however many topics, and is asked again before the client forgets."""
    made: list[Noted] = []

    def make(*args: Any, **named: Any) -> Noted:
        made.append(Noted(*args, **named))
        return made[-1]

    monkeypatch.setattr("sidecar.kafka.log.AdminClient", make)
    topics = [names.topic() for _ in range(3)]
    for topic in topics:
        await asyncio.to_thread(Outsider(kafka).create, topic, 2)
    partitions = [Partition(topic, index) for topic in topics for index in range(2)]
    now = [0.0]
    settings = ClientSettings(kafka.bootstrap, GroupId(names.group()), tuple(topics))
    log = KafkaLog(settings, clock=lambda: now[0])

    async def ask() -> list[str]:
        """Everything at once; what the client heard."""
        before = len(made[0].said) if made else 0
        ends, starts = await asyncio.gather(log.log_ends(partitions), log.log_starts(partitions))
        assert all(isinstance(answer, Known) for answer in (*ends.values(), *starts.values()))
        (client,) = made
        return client.said[before:]

    assert await ask() == ["metadata", *["offsets"] * 3]
    assert await ask() == ["offsets"] * 3
    now[0] = 301.0
    assert await ask() == ["metadata", *["offsets"] * 3]
    await log.close()


@pytest.fixture
async def secured(
    secure_kafka: Callable[..., SecureKafka], names: Names
) -> tuple[SecureKafka, ClientSettings]:
    kafka = secure_kafka()
    topic = names.topic()
    await asyncio.to_thread(Outsider(kafka).create, topic)
    security = {
        name: value for name, value in kafka.client().items() if name != "bootstrap.servers"
    }
    settings = ClientSettings(kafka.bootstrap, GroupId(names.group()), (topic,), security=security)
    return kafka, settings


@pytest.mark.kafka
async def test_a_right_that_is_missing_is_named_and_its_return_noticed(
    secured: tuple[SecureKafka, ClientSettings],
) -> None:
    """Group and topic each alone; what is allowed is answered all the while."""
    kafka, settings = secured
    (topic,), group = settings.topics, settings.group_id
    log = KafkaLog(settings, request_timeout_seconds=2.0)
    denied = FaultKind.AUTHORIZATION
    kinds = await _kinds(log, topic)
    assert (kinds["committed"], kinds["topics"]) == (denied, denied)
    assert kinds["cluster_id"] is None
    kafka.grant(ResourceType.TOPIC, topic, AclOperation.READ, AclOperation.DESCRIBE)

    async def now() -> dict[str, FaultKind | None]:
        return await _kinds(log, topic)

    kinds = await eventually(now, lambda kinds: kinds["log_ends"] is None)
    assert (kinds["topics"], kinds["log_starts"], kinds["committed"]) == (None, None, denied)
    kafka.grant(ResourceType.GROUP, group, AclOperation.READ)
    await eventually(now, lambda kinds: set(kinds.values()) == {None})
    # The topic's right alone: the answer comes, and its element carries the error.
    kafka.revoke(ResourceType.TOPIC, topic, AclOperation.READ, AclOperation.DESCRIBE)
    await eventually(now, lambda kinds: kinds["committed"] is denied)
    await log.close()


@pytest.mark.kafka
async def test_credentials_that_are_refused_are_no_outage(
    secured: tuple[SecureKafka, ClientSettings],
) -> None:
    """The questions time out; the reason is told, and the password is not."""
    _, settings = secured
    wrong = replace(settings, security={**settings.security, "sasl.password": "hunter2"})
    log = KafkaLog(wrong, request_timeout_seconds=1.0)

    async def now() -> set[FaultKind | None]:
        return set((await _kinds(log, wrong.topics[0])).values())

    await eventually(now, lambda kinds: kinds == {FaultKind.AUTHENTICATION})
    answer = await log.cluster_id()
    assert isinstance(answer, Unreadable)
    assert "hunter2" not in str(answer)
    await log.close()


@pytest.mark.parametrize(
    ("client_writes", "kafka_writes"),
    [
        ("a1/EJX61Sv2CHN6dY0p+ZQ", "a1_EJX61Sv2CHN6dY0p-ZQ"),
        ("88NbbQaaSfeeWo1UtyndBg", "88NbbQaaSfeeWo1UtyndBg"),
        ("AAAAAAAAAAAAAAAAAAAAAA", None),
    ],
)
def test_a_topic_id_is_written_as_kafka_writes_it(
    client_writes: str, kafka_writes: str | None
) -> None:
    """No `/` among them: an idempotency key is TOPICID/LINEAGE/PARTITION/OFFSET."""
    assert topic_id_of(client_writes) == kafka_writes


@pytest.mark.kafka
async def test_an_answer_about_a_topic_leaves_nothing_behind(
    kafka: KafkaBroker, names: Names
) -> None:
    """One is asked before each commit; the binding alone would keep a UUID of each for ever."""
    topic = names.topic()
    await asyncio.to_thread(Outsider(kafka).create, topic)
    log = KafkaLog(ClientSettings(kafka.bootstrap, GroupId(names.group()), (topic,)))
    kept = []
    for _ in range(2):
        for _ in range(20):
            assert isinstance((await log.topics([topic]))[topic], Known)
        gc.collect()
        kept.append(sum(type(one) is Uuid for one in gc.get_objects()))
    assert kept[1] == kept[0]
    await log.close()


def test_a_topic_id_that_nothing_is_wrong_with_is_only_read() -> None:
    """With a binding that counts right, nothing is given back: it would be freed under somebody."""
    for _ in range(3):
        description = SimpleNamespace(topic_id=Uuid(7, 7))
        assert take_topic_id(description) == "AAAAAAAAAAcAAAAAAAAABw"
        assert not hasattr(description, "topic_id")


def test_a_topic_id_that_somebody_holds_is_left_to_him_by_any_other_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A count that is one higher is the binding's mistake only in the release that makes it."""
    monkeypatch.setattr("sidecar.kafka.log.KEEPS_UUIDS", False)
    held = Uuid(7, 7)
    before = sys.getrefcount(held)
    take_topic_id(SimpleNamespace(topic_id=held))
    assert sys.getrefcount(held) == before
