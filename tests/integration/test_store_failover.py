"""A store that is several servers: failovers with live connections, lost writes, moving slots."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.benches.kafka import KafkaBroker
from tests.benches.names import Names
from tests.benches.redis import Sentinels, Valkey, ValkeyCluster
from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.world import Load, World

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def r2(sentinels: Callable[..., Sentinels]) -> Sentinels:
    return sentinels()


@pytest.fixture
def on_sentinels(
    kafka: KafkaBroker, r2: Sentinels, names: Names, tmp_path: Path
) -> Iterator[World]:
    with World(kafka, r2.servers[0], names, tmp_path, store=r2) as world:
        yield world


@pytest.fixture
def rc(valkey_cluster: Callable[..., ValkeyCluster]) -> ValkeyCluster:
    return valkey_cluster()


@pytest.fixture
def on_cluster(
    kafka: KafkaBroker, rc: ValkeyCluster, names: Names, tmp_path: Path
) -> Iterator[World]:
    with World(kafka, rc.nodes[0], names, tmp_path, store=rc) as world:
        yield world


def flows_again(world: World, row: Row, *, more: int = 40) -> None:
    row.cured()
    seen = world.ledger.count
    wait_until(lambda: world.ledger.count > seen + more, "records flow", timeout_seconds=40)
    row.delivering()


# --- Sentinel -------------------------------------------------------------------------------------


@pytest.mark.fault(row="failover/clean", bench="K1+R2", expected="delivering", cases=(15,))
def test_a_failover_under_load_is_followed(on_sentinels: World, r2: Sentinels, row: Row) -> None:
    """With live connections: whatever the old master says is transient, the new one is found, and
    what it did not hear of is restored from the witness. Nothing is lost."""
    world = on_sentinels
    topic = world.topic()
    load = Load(world, topic, 1)
    sidecar = world.sidecar()
    application = world.application(sidecar, records_max=20)
    wait_until(lambda: world.ledger.count > 200, "records flow")
    r2.fail_over()
    flows_again(world, row)
    load.stop()
    world.deliver_all(sidecar, (topic, 0))
    application.stop()
    state = sidecar.await_partition(topic, state="delivering")
    row.observe(state.state, state.state)
    assert r2.master is r2.servers[1]
    assert r2.master.client().hget(world.checkpoint_key(topic), "next") == str(state.next)
    assert sidecar.api().gaps() == []
    account = row.account(world.account())
    assert account.applied == account.produced


@pytest.mark.fault(
    row="failover/to-a-lagging-replica", bench="K1+R2", expected="store_rolled_back", cases=(12,)
)
def test_writes_that_a_failover_forgot_are_restored_from_the_witness(
    on_sentinels: World, r2: Sentinels, row: Row
) -> None:
    """Acknowledged, and gone with the master: the checkpoint that is left is behind its witness in
    Kafka, so nothing goes on from it; restored, verified by digest, nothing repeated unflagged."""
    world = on_sentinels
    topic = world.topic()
    world.produce(topic, 60)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 20) == 20
    r2.cut_replica()
    assert world.apply(sidecar, topic, 20) == 40
    mark = sidecar.mark()
    row.inflicted()
    r2.fail_over_by_kill()
    sidecar.await_event(
        "verdict_reached", after=mark, verdict="store_rolled_back", timeout_seconds=30
    )
    row.judged("store_rolled_back", "delivering")
    row.cured()
    state = sidecar.await_partition(topic, state="delivering", next=40)
    assert state.applied == 39
    ended = sidecar.since(mark, "recovery_ended", verdict="store_rolled_back")[-1]
    assert (ended["result"], ended["mismatched"]) == ("verified", 0)
    page = sidecar.api().take(30.0)
    row.delivering()
    assert page is not None
    assert page.first == 40
    assert all(record.redelivered for record in page.records)
    world.ledger.write(page, "test")
    assert sidecar.api().applied(page, committed=True).next == 60
    assert world.checkpoint(topic)["next"] == "60"
    assert row.account(world.account()).applied == 60


@pytest.mark.fault(
    row="failover/no-master", bench="K1+R2", expected="unavailable/NO_MASTER", cases=(15,)
)
def test_no_master_and_no_sentinel_is_waited_for(
    on_sentinels: World, r2: Sentinels, row: Row
) -> None:
    """Nobody knows a master: transient, in few lines; back again, it goes on where it was."""
    world = on_sentinels
    topic = world.topic()
    load = Load(world, topic, 1)
    sidecar = world.sidecar()
    application = world.application(sidecar, records_max=20)
    wait_until(lambda: world.ledger.count > 200, "records flow")
    mark, began = sidecar.mark(), time.monotonic()
    master = r2.servers[0]
    for server in (*r2.sentinels, r2.servers[1]):
        server.kill()
    row.inflicted()
    master.kill()
    row.judged(sidecar.await_store_error("NO_MASTER", after=mark))
    assert len(sidecar.since(mark)) <= 12 + 2 * (time.monotonic() - began)
    for server in (master, *r2.sentinels):
        server.start()
    flows_again(world, row)
    load.stop()
    world.deliver_all(sidecar, (topic, 0))
    application.stop()
    assert sidecar.api().gaps() == []
    account = row.account(world.account())
    assert account.applied == account.produced


@pytest.mark.fault(
    row="store-error/no-such-service", bench="R2", expected="refused/NO_SERVICE", within_seconds=2
)
def test_a_service_that_no_sentinel_knows_is_named(
    on_sentinels: World, r2: Sentinels, row: Row
) -> None:
    """A typing error is no outage: said by its name, alive, not joined."""
    world = on_sentinels
    topic = world.topic()
    world.produce(topic, 5)
    sidecar = world.sidecar(REDIS__URL=r2.url.replace(r2.service, "nope"))
    row.inflicted()
    row.judged(sidecar.await_store_error(), "waiting")
    assert "nope" in " ".join(sidecar.api().status().reasons)
    assert sidecar.admin().text("/livez")[0] == 200
    assert world.outside.members(world.group) == 0
    row.cured()
    right = world.sidecar()
    assert world.apply(right, topic, 5) == 5
    row.delivering()
    row.account(world.account())


# --- Cluster --------------------------------------------------------------------------------------


@pytest.mark.fault(row="cluster/node-killed", bench="K1+RC", expected="unavailable/CLUSTERDOWN")
def test_a_cluster_that_is_down_is_waited_for(
    on_cluster: World, rc: ValkeyCluster, row: Row
) -> None:
    """A node that serves none of the partition's keys is killed, and the cluster serves nothing
    without it: transient; back again, it goes on."""
    world = on_cluster
    topic = world.topic()
    load = Load(world, topic, 1)
    sidecar = world.sidecar()
    application = world.application(sidecar, records_max=20)
    wait_until(lambda: world.ledger.count > 200, "records flow")
    mark, began = sidecar.mark(), time.monotonic()
    own = rc.node_of(world.checkpoint_key(topic))
    other = next(node for node in rc.nodes[1:] if node is not own)
    other.kill()
    row.inflicted()
    row.judged(sidecar.await_store_error("CLUSTERDOWN", after=mark, timeout_seconds=30))
    assert len(sidecar.since(mark)) <= 12 + 2 * (time.monotonic() - began)
    other.start()
    wait_until(rc.whole, "the cluster is whole", timeout_seconds=30)
    flows_again(world, row)
    load.stop()
    world.deliver_all(sidecar, (topic, 0))
    application.stop()
    assert sidecar.api().gaps() == []
    account = row.account(world.account())
    assert account.applied == account.produced


@pytest.mark.fault(row="cluster/slot-half-moved", bench="K1+RC", expected="unavailable/TRYAGAIN")
def test_a_slot_that_is_half_moved_is_waited_for(
    on_cluster: World, rc: ValkeyCluster, row: Row
) -> None:
    """A partition's keys lie on both sides: nothing is half written; moved, it goes on there."""
    world = on_cluster
    topic = world.topic()
    world.produce(topic, 40)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 20) == 20
    mark = sidecar.mark()
    keys = f"{world.prefix}:{{{world.group}/{topic}/0}}"
    source = rc.node_of(f"{keys}:checkpoint")
    target = next(node for node in rc.nodes if node is not source)
    with rc.moving_slot(f"{keys}:checkpoint", target) as move:
        move(f"{keys}:receipts")
        row.inflicted()
        application = world.application(sidecar)
        row.judged(sidecar.await_store_error("TRYAGAIN", after=mark))
        assert source.client().hget(f"{keys}:checkpoint", "next") == "20"
    row.cured()
    sidecar.await_partition(topic, caught_up=True, committed=40)
    row.delivering()
    application.stop()
    assert target.client().hget(f"{keys}:checkpoint", "next") == "40"
    assert sidecar.api().gaps() == []
    assert row.account(world.account()).applied == 40


@pytest.mark.fault(row="cluster/scripts-flushed", bench="RC", expected="delivering", cases=(16,))
def test_scripts_that_are_flushed_on_every_node_are_loaded_again(
    on_cluster: World, rc: ValkeyCluster, row: Row
) -> None:
    """One node after the other, under load: nobody notices."""
    world = on_cluster
    topic = world.topic(4)
    load = Load(world, topic, 4)
    sidecar = world.sidecar()
    application = world.application(sidecar, records_max=20)
    for node in rc.nodes * 2:
        seen = world.ledger.count
        node.command("SCRIPT", "FLUSH")
        wait_until(lambda: world.ledger.count > seen + 100, "records flow")  # noqa: B023  # called before the next round
    load.stop()
    world.deliver_all(sidecar, *((topic, p) for p in range(4)))
    application.stop()
    row.observe("delivering", "delivering")
    assert not sidecar.events("dependency_lost", component="redis")
    account = row.account(world.account())
    assert (account.applied, account.repeated_flagged) == (account.produced, 0)


@pytest.mark.fault(row="store-error/url-of-one-node", bench="RC", expected="refused/MOVED")
def test_a_plain_url_to_a_node_of_a_cluster_is_told(
    on_cluster: World, rc: ValkeyCluster, row: Row
) -> None:
    """Said by its name, with the URL that is right; given, it goes on."""
    world = on_cluster
    topic = world.topic(8)
    world.produce(topic, 5)
    sidecar = world.sidecar(REDIS__URL=f"redis://127.0.0.1:{rc.nodes[0].port}")
    row.inflicted()
    row.judged(sidecar.await_store_error("MOVED"))
    told = " ".join(str(e.get("detail")) for e in sidecar.events(code="MOVED"))
    assert "redis+cluster://" in told
    sidecar.terminate()
    row.cured()
    right = world.sidecar()
    assert world.apply(right, topic, 5) == 5
    row.delivering()
    row.account(world.account())


@pytest.mark.fault(
    row="store-error/cluster-url-of-a-server", bench="R1", expected="refused/NOT_A_CLUSTER"
)
def test_a_cluster_url_to_a_plain_server_is_told(world: World, valkey: Valkey, row: Row) -> None:
    """And the other way round."""
    topic = world.topic()
    world.produce(topic, 5)
    sidecar = world.sidecar(REDIS__URL=f"redis+cluster://127.0.0.1:{valkey.port}")
    row.inflicted()
    row.judged(sidecar.await_store_error(), "waiting")
    sidecar.terminate()
    row.cured()
    right = world.sidecar()
    assert world.apply(right, topic, 5) == 5
    row.delivering()
    row.account(world.account())
