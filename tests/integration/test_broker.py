"""The broker is away, at the start or later, or slow to answer."""

import time

import pytest

from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.patience import waits_in_peace
from tests.harness.world import World, values

pytestmark = pytest.mark.kafka


@pytest.mark.fault(
    row="broker/away-at-the-start",
    bench="K1",
    expected="unavailable",
    cases=(25,),
    within_seconds=2,
)
def test_a_broker_that_is_away_at_the_start_is_awaited(own_broker: World, row: Row) -> None:
    """Alive, not ready, a clear reason, few lines; the broker comes, and delivery begins."""
    world = own_broker
    topic = world.topic()
    world.produce(topic, 10)
    world.kafka.stop()
    sidecar = world.sidecar()
    row.inflicted()
    lost = sidecar.await_event("dependency_lost", component="kafka")
    row.judged(lost["reason"], "waiting")
    waits_in_peace(sidecar, "kafka", 5.0)
    assert sidecar.api().take(0.1) is None
    world.kafka.start()
    row.cured()
    sidecar.await_up()
    assert world.apply(sidecar, topic, 10) == 10
    row.delivering()
    row.account(world.account())


@pytest.mark.fault(
    row="broker/neither-it-nor-the-store",
    bench="K1+R1",
    expected="unavailable",
    cases=(25,),
    within_seconds=2,
)
def test_neither_broker_nor_store_at_the_start(own_servers: World, row: Row) -> None:
    """Whichever comes first: it recovers by itself once both are there."""
    world = own_servers
    topic = world.topic()
    world.produce(topic, 10)
    world.kafka.stop()
    world.valkey.stop()
    sidecar = world.sidecar()
    row.inflicted()
    lost = sidecar.await_event("dependency_lost")
    row.judged(lost["reason"], "waiting")
    waits_in_peace(sidecar, "redis", 2.0)
    world.valkey.start()
    waits_in_peace(sidecar, "kafka", 2.0)
    world.kafka.start()
    row.cured()
    sidecar.await_up()
    assert world.apply(sidecar, topic, 10) == 10
    row.delivering()
    row.account(world.account())


@pytest.mark.timeout(90)
@pytest.mark.fault(row="broker/killed-under-load", bench="K1", expected="unavailable", cases=(23,))
def test_a_broker_that_goes_away_under_load_changes_nothing(own_broker: World, row: Row) -> None:
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
    row.inflicted()
    lost = sidecar.await_event("dependency_lost", component="kafka")
    row.judged(lost["reason"])
    waits_in_peace(sidecar, "kafka", 6.0)
    world.kafka.start()
    row.cured()
    sidecar.await_up()
    for partition in range(2):
        world.produce(topic, values(100, f"q{partition}-"), partition)
        world.deliver_all(sidecar, (topic, partition))
        row.delivering()
        end = world.outside.bounds(topic, partition).end
        sidecar.await_partition(topic, partition, committed=end)
    application.stop()
    assert sidecar.api().gaps() == []
    account = row.account(world.account())
    assert account.applied == 2_200


@pytest.mark.parametrize("how", ["stopped", "frozen"])
@pytest.mark.fault(
    row="broker/sigterm-without-it", bench="K1", expected="ended (exit 0)", cases=(36,)
)
def test_sigterm_without_a_broker_ends_in_time_with_exit_code_0(
    own_broker: World, how: str, row: Row
) -> None:
    """The deadline bounds the end, whatever is out and uncommitted; it is recovered from the
    checkpoint by the next life."""
    world = own_broker
    topic = world.topic()
    world.produce(topic, 20)
    sidecar = world.sidecar(SHUTDOWN__DEADLINE_SECONDS=5, KAFKA__COMMIT_INTERVAL_SECONDS=5)
    api = sidecar.api()
    page = api.take(30.0, records_max=5)
    assert page is not None
    world.ledger.write(page, "test")
    if how == "stopped":
        world.kafka.stop()
    else:
        world.kafka.pause()
    assert api.applied(page).next == 5  # the store is there, so it is recorded
    row.inflicted()
    code, seconds = sidecar.terminate()
    row.judged(f"ended (exit {code})")
    assert seconds < 7
    if how == "stopped":
        world.kafka.start()
    else:
        world.kafka.resume()
    sidecar.start()
    sidecar.await_partition(topic, state="delivering", next=5, timeout_seconds=40)
    assert world.apply(sidecar, topic, 15) == 20
    assert row.account(world.account()).applied == 20


@pytest.mark.fault(
    row="topic-unknown/not-there-yet", bench="K1", expected="topic_unknown", cases=(23,)
)
def test_a_topic_that_does_not_exist_yet_is_named_and_awaited(world: World, row: Row) -> None:
    """Not there: alive, not joined, the topic named as the reason; and it is not read as "nothing
    was lost". Created later, it is read from its start."""
    missing = world.names.topic()
    sidecar = world.sidecar([missing], KAFKA__CLIENT='{"topic.metadata.refresh.interval.ms": 1000}')
    api = sidecar.api()
    row.inflicted()
    wait_until(lambda: missing in " ".join(api.status().reasons), "the topic is named")
    met = sidecar.await_event("fault_met", kind="topic_unknown")
    row.judged(met["kind"])
    assert api.status().dependencies["kafka"].up
    assert sidecar.admin().text("/livez")[0] == 200
    world.outside.create(missing)
    world.produce(missing, 5)
    row.cured()
    sidecar.await_up()
    assert world.apply(sidecar, missing, 5) == 5
    row.delivering()
    row.account(world.account())


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "patience_seconds",
    [
        pytest.param(
            2,
            id="two-seconds",
            marks=pytest.mark.fault(
                row="topic-unknown/deleted", bench="K1", expected="topic_unknown", cases=(23,)
            ),
        ),
        pytest.param(
            30,
            id="thirty-seconds",
            marks=[
                pytest.mark.fault(
                    row="topic-unknown/deleted",
                    bench="K1",
                    expected="topic_unknown",
                    cases=(23,),
                    within_seconds=40,
                ),
                pytest.mark.faults_only,
            ],
        ),
    ],
)
def test_a_topic_that_is_deleted_counts_only_after_a_while(
    world: World, patience_seconds: int, row: Row
) -> None:
    """A restarting broker says so, too: transient at first, then `topic_unknown`, in few lines;
    created again, it is another topic, and a gap of its own."""
    topic = world.topic()
    world.produce(topic, 20)
    sidecar = world.sidecar(
        RECOVERY__TOPIC_UNKNOWN_SECONDS=patience_seconds,
        KAFKA__CLIENT='{"topic.metadata.refresh.interval.ms": 10000}',
    )
    assert world.apply(sidecar, topic, 20) == 20
    mark, began = sidecar.mark(), time.monotonic()
    world.outside.delete(topic)
    row.inflicted()
    api = sidecar.api()

    def told() -> str | None:
        """By the partition, or, once the client gave it back, by the status."""
        state = api.partition(topic)
        if state is None:
            return "topic_unknown" if topic in " ".join(api.status().reasons) else None
        if state.reason != "topic_unknown":
            return None
        assert time.monotonic() - began >= patience_seconds
        return state.reason

    row.judged(
        wait_until(told, "the topic is unknown", timeout_seconds=patience_seconds + 30), "waiting"
    )
    assert sidecar.admin().text("/livez")[0] == 200
    assert len(sidecar.since(mark)) <= time.monotonic() - began + 8
    world.outside.create(topic)
    world.produce(topic, 30, tag="new", noted=False)
    row.cured()
    gap = sidecar.await_gap(topic, timeout_seconds=90)
    assert (gap.reason, gap.first) == ("topic_recreated", 20)
    sidecar.api().resolve(gap.id, "accepted")
    page = sidecar.api().take(30.0)
    row.delivering()
    assert page is not None
    assert page.first == 0
    row.account(world.account())
