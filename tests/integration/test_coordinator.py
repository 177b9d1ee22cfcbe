"""The group's coordinator is slow, unreachable or undecided, and what it kept expires."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.benches.kafka import KafkaBroker
from tests.benches.names import Names
from tests.benches.proxy import KafkaApi, Proxy
from tests.benches.redis import Valkey
from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.world import World

pytestmark = pytest.mark.kafka


@pytest.fixture
def proxied(
    proxied_kafka: Callable[..., tuple[KafkaBroker, Proxy]],
    valkey: Valkey,
    names: Names,
    tmp_path: Path,
) -> Iterator[tuple[World, Proxy]]:
    broker, proxy = proxied_kafka()
    with World(broker, valkey, names, tmp_path) as world:
        yield world, proxy


@pytest.mark.timeout(90)
@pytest.mark.fault(
    row="coordinator/commits-cannot-be-read", bench="K1", expected="adopted", cases=(8,)
)
def test_commits_that_cannot_be_read_are_not_no_commits(
    proxied: tuple[World, Proxy], row: Row
) -> None:
    """The answer to the question for committed offsets is lost, on the first day of a group that
    had a commit: no start policy, no replay; asked again and answered, it is adopted there."""
    world, proxy = proxied
    topic = world.topic()
    world.produce(topic, 30)
    world.outside.commit(world.group, topic, 0, 12)
    lost = proxy.lose_reply(KafkaApi.OFFSET_FETCH.requested_by)
    sidecar = world.sidecar(RECOVERY__START="earliest")
    row.inflicted()
    lost.wait(30)
    row.cured()
    state = sidecar.await_partition(topic, state="delivering", next=12, timeout_seconds=60)
    row.judged(state.verdict or "none", state.state)
    assert world.apply(sidecar, topic, 18) == 30
    row.delivering()
    row.account(world.account(starts={(topic, 0): 12}))


@pytest.mark.timeout(90)
@pytest.mark.fault(
    row="coordinator/commits-are-unstable", bench="K1", expected="unavailable", cases=(8,)
)
def test_commits_that_are_not_stable_are_waited_for(world: World, row: Row) -> None:
    """Offsets that a transaction has sent and not yet committed are no answer: neither the old
    nor the new ones are believed, and no start policy applies, until it has ended."""
    topic = world.topic()
    world.produce(topic, 30)
    world.outside.commit(world.group, topic, 0, 5)
    producer, reader = _pending_commit(world, topic, 12)
    try:
        sidecar = world.sidecar()
        row.inflicted()
        met = sidecar.await_event("fault_met", component="kafka", timeout_seconds=30)
        row.judged(met["kind"], "waiting")
        assert sidecar.api().take(1.0) is None
        assert world.checkpoint(topic) == {}
        producer.commit_transaction(20)
        row.cured()
        state = sidecar.await_partition(topic, state="delivering", next=12, timeout_seconds=40)
        assert state.verdict == "adopted"
        assert world.apply(sidecar, topic, 18) == 30
        row.delivering()
        row.account(world.account(starts={(topic, 0): 12}))
    finally:
        reader.close()


def _pending_commit(world: World, topic: str, offset: int) -> tuple[Producer, Consumer]:
    """A transaction that holds a commit of the group, and has not ended."""
    servers = {"bootstrap.servers": world.kafka.bootstrap, "log_level": 0}
    reader = Consumer({**servers, "group.id": world.group, "enable.auto.commit": False})
    producer = Producer({**servers, "transactional.id": f"{topic}-pending"})
    producer.init_transactions(20)
    producer.begin_transaction()
    metadata: Any = reader.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata, 20)
    return producer, reader


@pytest.mark.faults_only
@pytest.mark.timeout(150)
@pytest.mark.fault(row="coordinator/slow", bench="K1", expected="delivering", cases=(20,))
def test_quick_reassignments_on_a_slow_coordinator_start_exactly_there(
    proxied: tuple[World, Proxy], row: Row
) -> None:
    """Everything takes 150 ms longer each way, while a second member comes and goes three times:
    each partition goes on exactly where it was, and nothing is repeated unflagged."""
    world, proxy = proxied
    topic = world.topic(4)
    for partition in range(4):
        world.produce(topic, 400, partition)
    proxy.delay(0.15)
    first = world.sidecar(KAFKA__SESSION_TIMEOUT_SECONDS=10)
    world.application(first, records_max=20)
    wait_until(lambda: world.ledger.count > 40, "records flow", timeout_seconds=30)
    second = world.sidecar(start=False, KAFKA__SESSION_TIMEOUT_SECONDS=10)
    for _ in range(3):
        second.start()
        row.inflicted()
        second.await_event("partitions_assigned", timeout_seconds=40)
        row.judged("delivering")
        second.terminate()
    proxy.delay(0.0)
    row.cured()
    wait_until(lambda: first.api().status().assigned == 4, "the first has all", timeout_seconds=40)
    world.deliver_all(first, *((topic, p) for p in range(4)), timeout=60)
    row.delivering()
    for application in world.applications:
        application.stop()
    assert first.api().gaps() == []
    assert row.account(world.account()).applied == 1_600


@pytest.fixture
def forgetful(
    kafka_broker: Callable[..., KafkaBroker], valkey: Valkey, names: Names, tmp_path: Path
) -> Iterator[World]:
    """Its offsets expire after the shortest time there is, a minute."""
    properties = {
        "offsets.retention.minutes": 1,
        "offsets.retention.check.interval.ms": 1000,
    }
    with World(kafka_broker(properties=properties), valkey, names, tmp_path) as world:
        yield world


@pytest.mark.faults_only
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "lost",
    [
        pytest.param(
            False,
            id="nothing-lost",
            marks=pytest.mark.fault(
                row="commit-expired/retention-of-offsets",
                bench="K1",
                expected="commit_expired",
                cases=(9,),
            ),
        ),
        pytest.param(
            True,
            id="records-lost-too",
            marks=pytest.mark.fault(
                row="commit-expired/retention-of-offsets",
                bench="K1",
                expected="retention_loss",
                cases=(9,),
            ),
        ),
    ],
)
def test_stopped_for_longer_than_offsets_are_kept(forgetful: World, lost: bool, row: Row) -> None:
    """Kafka really forgets: recovered from the checkpoint, not from a start policy; what was lost
    meanwhile is a gap from there."""
    world = forgetful
    topic = world.topic()
    world.produce(topic, 40)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 20) == 20
    sidecar.terminate()
    wait_until(
        lambda: world.committed(topic) is None,
        "the commit has expired",
        timeout_seconds=200,
        every_seconds=1,
    )
    if lost:
        world.outside.delete_records(topic, 0, 30)
    sidecar.start()
    row.inflicted()
    if lost:
        gap = sidecar.await_gap(topic)
        row.judged(gap.reason, "gap")
        assert (gap.first, gap.end) == (20, 30)
        sidecar.api().resolve(gap.id, "accepted")
        row.cured()
        assert world.apply(sidecar, topic, 10) == 40
        row.delivering()
    else:
        state = sidecar.await_partition(topic, state="delivering", next=20, committed=20)
        row.judged(state.verdict or "none", state.state)
        assert world.apply(sidecar, topic, 20) == 40
    row.account(world.account(sidecar.api().gaps()))


@pytest.mark.faults_only
@pytest.mark.timeout(300)
@pytest.mark.fault(
    row="commit-expired/idle-while-the-group-lives", bench="K1", expected="delivering", cases=(9,)
)
def test_a_partition_that_is_idle_for_longer_than_offsets_are_kept(
    forgetful: World, row: Row
) -> None:
    """The group lives and nothing comes for twice the retention: the commit is still there."""
    world = forgetful
    topic = world.topic()
    world.produce(topic, 20)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 20) == 20
    ends = time.monotonic() + 130
    while time.monotonic() < ends:
        assert world.committed(topic) == 20
        time.sleep(2)  # that time passes is the matter here
    world.produce(topic, 10)
    assert world.apply(sidecar, topic, 10) == 30
    state = sidecar.await_partition(topic, state="delivering", committed=30)
    row.observe(state.state, state.state)
    assert sidecar.api().gaps() == []
    assert row.account(world.account()).applied == 30
