"""State that speaks of another place, another scope, or of nothing: held until somebody says."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benches.kafka import KafkaBroker
from tests.benches.names import Names
from tests.benches.redis import Valkey
from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.world import World

pytestmark = pytest.mark.kafka


@pytest.mark.timeout(120)
@pytest.mark.fault(
    row="elsewhere/another-cluster",
    bench="K1",
    expected="foreign_checkpoint",
    within_seconds=2,
)
def test_the_state_of_another_cluster_is_not_compared_with_this_one(
    kafka: KafkaBroker,
    kafka_broker: Callable[..., KafkaBroker],
    valkey: Valkey,
    names: Names,
    tmp_path: Path,
    row: Row,
) -> None:
    """The same topic, group and store, another cluster: held, nothing read and nothing committed
    there; pointed back, it goes on where it was."""
    other = kafka_broker()
    with World(kafka, valkey, names, tmp_path) as world:
        topic = world.topic()
        world.produce(topic, 40)
        sidecar = world.sidecar()
        assert world.apply(sidecar, topic, 20) == 20
        sidecar.terminate()
        moved = World(other, valkey, names, tmp_path)
        moved.outside.create(topic)
        moved.outside.coordinator(topic)  # a cluster without any group makes the first one wait
        moved.produce(topic, 40, tag="other", noted=False)
        sidecar.start(KAFKA__BOOTSTRAP_SERVERS=other.bootstrap)
        row.inflicted()
        state = sidecar.await_partition(topic, state="held")
        row.judged(state.reason or "none", state.state)
        assert sidecar.api().take(0.5) is None
        assert moved.outside.committed(world.group, topic) is None
        moved.close()
        sidecar.terminate()
        sidecar.start(KAFKA__BOOTSTRAP_SERVERS=kafka.bootstrap)
        row.cured()
        assert world.apply(sidecar, topic, 20) == 40
        row.delivering()
        assert row.account(world.account()).applied == 40


@pytest.mark.timeout(120)
@pytest.mark.fault(
    row="elsewhere/another-store", bench="R1", expected="foreign_checkpoint", within_seconds=2
)
def test_a_store_with_a_history_of_its_own_does_not_go_on_for_another(
    kafka: KafkaBroker,
    valkey: Valkey,
    valkey_server: Callable[..., Valkey],
    names: Names,
    tmp_path: Path,
    row: Row,
) -> None:
    """Two stores that both served the group: the commit's witness names the other one, which this
    one does not succeed. Held; pointed back, it goes on."""
    stale = valkey_server()
    with World(kafka, valkey, names, tmp_path) as world:
        topic = world.topic()
        world.produce(topic, 40)
        sidecar = world.sidecar(REDIS__URL=stale.url)
        page = sidecar.api().take(30.0, records_max=10)
        assert page is not None
        assert sidecar.api().applied(page, committed=True).next == 10
        sidecar.terminate()
        world.outside.delete_group(world.group)
        sidecar.start(REDIS__URL=valkey.url)
        assert world.apply(sidecar, topic, 20) == 20
        sidecar.terminate()
        sidecar.start(REDIS__URL=stale.url)
        row.inflicted()
        state = sidecar.await_partition(topic, state="held")
        row.judged(state.reason or "none", state.state)
        assert sidecar.api().take(0.5) is None
        assert world.committed(topic) == 20
        sidecar.terminate()
        sidecar.start(REDIS__URL=valkey.url)
        row.cured()
        assert world.apply(sidecar, topic, 20) == 40
        row.delivering()
        # Of the second history, that is: the first one's effects were never in this ledger.
        assert row.account(world.account()).applied == 40


@pytest.mark.fault(
    row="elsewhere/another-scope", bench="K1", expected="scope_changed", within_seconds=2
)
def test_another_isolation_level_is_asked_about(world: World, row: Row) -> None:
    """Other records are visible, and an overlap would prove nothing: held; answered, it goes on."""
    topic = world.topic()
    world.produce(topic, 40)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 20) == 20
    sidecar.terminate()
    sidecar.start(KAFKA__ISOLATION_LEVEL="read_uncommitted")
    row.inflicted()
    state = sidecar.await_partition(topic, state="held")
    row.judged(state.reason or "none", state.state)
    api = sidecar.api()
    assert api.take(0.5) is None
    (hold,) = api.holds()
    api.answer(hold.id, "accept")
    row.cured()
    assert world.apply(sidecar, topic, 20) == 40
    row.delivering()
    assert row.account(world.account()).applied == 40


@pytest.mark.fault(
    row="first-day/start-refused", bench="K1", expected="start_refused", within_seconds=2
)
def test_a_first_run_that_was_refused_is_held(world: World, row: Row) -> None:
    """`RECOVERY__START=refuse`, the remedy where a store and its commits may both be gone."""
    topic = world.topic()
    world.produce(topic, 10)
    sidecar = world.sidecar(RECOVERY__START="refuse")
    row.inflicted()
    state = sidecar.await_partition(topic, state="held")
    row.judged(state.reason or "none", state.state)
    api = sidecar.api()
    assert api.take(0.5) is None
    assert world.committed(topic) is None
    (hold,) = api.holds()
    assert hold.answers
    api.answer(hold.id, "earliest")
    row.cured()
    assert world.apply(sidecar, topic, 10) == 10
    row.delivering()
    assert row.account(world.account()).applied == 10


@pytest.mark.fault(row="store-rolled-back/old-backup", bench="R1", expected="store_rolled_back")
def test_a_store_restored_from_an_old_backup_is_caught(own_store: World, row: Row) -> None:
    """Its checkpoint is behind its own witness in Kafka: restored from there and verified."""
    world = own_store
    topic = world.topic()
    world.produce(topic, 60)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 20) == 20
    sidecar.terminate()
    world.valkey.stop()
    saved = world.valkey.save_data()
    world.valkey.start()
    sidecar.start()
    assert world.apply(sidecar, topic, 20) == 40
    sidecar.terminate()
    world.valkey.kill()
    world.valkey.restore_data(saved)
    world.valkey.start()
    assert world.checkpoint(topic)["next"] == "20"
    sidecar.start()
    row.inflicted()
    state = sidecar.await_partition(topic, state="delivering", next=40)
    row.judged(state.verdict or "none", state.state)
    ended = sidecar.last("recovery_ended", this_life=True)
    assert ended is not None
    assert ended["result"] == "verified"
    assert world.apply(sidecar, topic, 20) == 60
    assert row.account(world.account()).applied == 60


@pytest.mark.fault(
    row="crash/before-the-commit", bench="K1", expected="commit_behind", within_seconds=2
)
def test_a_kill_between_promotion_and_commit_goes_on_from_the_checkpoint(
    world: World, row: Row
) -> None:
    """The store holds more than Kafka heard of: nothing is repeated, and it is committed again."""
    topic = world.topic()
    world.produce(topic, 40)
    sidecar = world.sidecar(static=True, KAFKA__COMMIT_INTERVAL_SECONDS=6)
    page = sidecar.api().take(30.0, records_max=20)
    assert page is not None
    world.ledger.write(page, "test")
    assert sidecar.api().applied(page).next == 20
    os.kill(sidecar.pid, signal.SIGKILL)
    sidecar.kill()
    assert world.committed(topic) == 0
    sidecar.start(KAFKA__COMMIT_INTERVAL_SECONDS=0.25)
    row.inflicted()
    state = sidecar.await_partition(topic, state="delivering", next=20)
    row.judged(state.verdict or "none", state.state)
    wait_until(lambda: world.committed(topic) == 20, "it is committed again")
    assert world.apply(sidecar, topic, 20) == 40
    assert row.account(world.account()).repeated_flagged == 0
