"""The broker is away, at the start or later, or slow to answer."""

import pytest

from tests.benches.waiting import wait_until
from tests.harness.patience import waits_in_peace
from tests.harness.world import World, values

pytestmark = pytest.mark.kafka


def test_a_broker_that_is_away_at_the_start_is_awaited(own_broker: World) -> None:
    """Alive, not ready, a clear reason, few lines; the broker comes, and delivery begins."""
    world = own_broker
    topic = world.topic()
    world.produce(topic, 10)
    world.kafka.stop()
    sidecar = world.sidecar()
    sidecar.await_event("dependency_lost", component="kafka")
    waits_in_peace(sidecar, "kafka", 5.0)
    assert sidecar.api().take(0.1) is None
    world.kafka.start()
    sidecar.await_up()
    assert world.apply(sidecar, topic, 10) == 10


def test_neither_broker_nor_store_at_the_start(own_servers: World) -> None:
    """Whichever comes first: it recovers by itself once both are there."""
    world = own_servers
    topic = world.topic()
    world.produce(topic, 10)
    world.kafka.stop()
    world.valkey.stop()
    sidecar = world.sidecar()
    waits_in_peace(sidecar, "redis", 2.0)
    world.valkey.start()
    waits_in_peace(sidecar, "kafka", 2.0)
    world.kafka.start()
    sidecar.await_up()
    assert world.apply(sidecar, topic, 10) == 10


@pytest.mark.timeout(90)
def test_a_broker_that_goes_away_under_load_changes_nothing(own_broker: World) -> None:
    """Killed and started again under load: no cursor and no gap changes, nothing is lost, what is
    in hand meanwhile may be applied; it recovers by itself."""
    world = own_broker
    topic = world.topic(2)
    for partition in range(2):
        world.produce(topic, values(1_000, f"p{partition}-"), partition)
    sidecar = world.sidecar()
    application = world.application(sidecar, records_max=10)
    wait_until(lambda: world.ledger.count > 100, "records flow", every_seconds=0.005)
    world.kafka.kill()
    sidecar.await_event("dependency_lost", component="kafka")
    waits_in_peace(sidecar, "kafka", 6.0)
    world.kafka.start()
    sidecar.await_up()
    for partition in range(2):
        world.produce(topic, values(100, f"q{partition}-"), partition)
        world.deliver_all(sidecar, (topic, partition))
        end = world.outside.bounds(topic, partition).end
        sidecar.await_partition(topic, partition, committed=end)
    application.stop()
    assert sidecar.api().gaps() == []
    account = world.account().check()
    assert account.applied == 2_200


@pytest.mark.parametrize("how", ["stopped", "frozen"])
def test_sigterm_without_a_broker_ends_in_time_with_exit_code_0(
    own_broker: World, how: str
) -> None:
    """The deadline bounds the end, whatever is out and uncommitted; it is recovered from the
    checkpoint by the next life."""
    world = own_broker
    topic = world.topic()
    world.produce(topic, 20)
    sidecar = world.sidecar(SHUTDOWN__DEADLINE_SECONDS=5, KAFKA__COMMIT_INTERVAL_SECONDS=5)
    api = sidecar.api()
    page = api.take(15.0, records_max=5)
    assert page is not None
    world.ledger.write(page, "test")
    if how == "stopped":
        world.kafka.stop()
    else:
        world.kafka.pause()
    assert api.applied(page).next == 5  # the store is there, so it is recorded
    code, seconds = sidecar.terminate()
    assert code == 0
    assert seconds < 7
    if how == "stopped":
        world.kafka.start()
    else:
        world.kafka.resume()
    sidecar.start()
    sidecar.await_partition(topic, state="delivering", next=5, timeout_seconds=40)
    assert world.apply(sidecar, topic, 15) == 20
    assert world.account().check().applied == 20


def test_a_topic_that_does_not_exist_yet_is_named_and_awaited(world: World) -> None:
    """Not there: alive, not joined, the topic named as the reason; and it is not read as "nothing
    was lost". Created later, it is read from its start."""
    missing = world.names.topic()
    sidecar = world.sidecar([missing], KAFKA__CLIENT='{"topic.metadata.refresh.interval.ms": 1000}')
    api = sidecar.api()
    wait_until(lambda: missing in " ".join(api.status().reasons), "the topic is named")
    assert api.status().dependencies["kafka"].up
    assert sidecar.admin().text("/livez")[0] == 200
    world.outside.create(missing)
    world.produce(missing, 5)
    sidecar.await_up()
    assert world.apply(sidecar, missing, 5) == 5
