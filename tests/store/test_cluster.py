"""Redis Cluster: a slot a partition, moves followed, one dead node only its own partitions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from sidecar.core.checkpoint import Ambiguous, Installed, Lost, NotInstalled
from sidecar.core.faults import Absent, FaultKind, Known, Unreadable
from sidecar.core.gap import acknowledge
from sidecar.core.types import GroupId, Offset, Partition
from sidecar.store.connect import connect
from sidecar.store.keys import partition_keys
from sidecar.store.redis import RedisStore
from tests.benches.redis import Valkey, ValkeyCluster
from tests.store.values import (
    STORE,
    checkpoint,
    first,
    flat,
    gap_of,
    known,
    promotion,
    registry,
)

pytestmark = pytest.mark.slow
PARTITIONS = [Partition("orders", i) for i in range(24)]


@pytest.fixture(scope="module")
def shared() -> Iterator[ValkeyCluster]:
    """A cluster that no test breaks."""
    with ValkeyCluster() as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
async def store(shared: ValkeyCluster) -> AsyncIterator[RedisStore]:
    made = RedisStore(connect(shared.url), "cs")
    yield made
    await made.close()


async def test_partitions_of_a_group_with_any_name_are_spread_and_whole(
    shared: ValkeyCluster, store: RedisStore
) -> None:
    """Every method works, whatever the name, over all nodes; every script in one slot."""
    group = GroupId("weird {x}/:%ü }{")
    assert isinstance(await store.create_registry(registry(group)), Known)
    assert isinstance(
        await store.register(group, STORE, {}, {PARTITIONS[3]: Offset(1)}, seen={}), Known
    )
    assert await store.mark_started(group, STORE, PARTITIONS) is None
    nodes = set()
    for partition in PARTITIONS:
        at = checkpoint(group, partition=partition, gap="gap-1")
        install = first(at)
        gap = gap_of(at)
        object.__setattr__(install, "gaps", (gap,))
        assert await store.install(install) == Installed()
        assert await store.install(promotion(at, 3)) == Installed()
        acknowledged = acknowledge(gap, by="on-call", why="", at=1.0)
        assert acknowledged is not None
        assert await store.update_gap(acknowledged, was=gap) == Known(acknowledged)
        assert len(flat(known(await store.memory(group, partition, 9)).receipts)) == 3
        keys = partition_keys("cs", group, partition)
        nodes.add(shared.node_of(keys.checkpoint.decode()).name)
    assert len(nodes) == 3
    readings = await store.read(group, PARTITIONS)
    assert [known(readings[p]).checkpoint.token.next for p in PARTITIONS] == [3] * 24
    marks = await store.watch(group, [*PARTITIONS, Partition("orders", 99)])
    assert [known(marks[p]).requests for p in PARTITIONS] == [1] * 24
    assert isinstance(marks[Partition("orders", 99)], Absent)
    assert len(known(await store.gaps(group))) == 24


async def test_scripts_that_were_flushed_on_one_node_are_loaded_there(
    shared: ValkeyCluster, store: RedisStore
) -> None:
    group = GroupId("flushed")
    for partition in PARTITIONS:
        await store.install(first(checkpoint(group, partition=partition)))
    shared.nodes[1].command("SCRIPT", "FLUSH")
    readings = await store.read(group, PARTITIONS)
    assert all(isinstance(readings[p], Known) for p in PARTITIONS)
    for partition in PARTITIONS:
        at = known(readings[partition]).checkpoint
        assert await store.install(promotion(at, 1)) == Installed()


async def test_health_is_of_all_masters(shared: ValkeyCluster, store: RedisStore) -> None:
    health = known(await store.health())
    assert health.refused is None
    assert health.epoch == known(await store.life())
    assert len(health.epoch.split()) == 3
    shared.nodes[2].command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        refused = known(await store.health()).refused
        assert refused is not None
        assert refused.startswith(f"127.0.0.1:{shared.nodes[2].port}: ")
    finally:
        shared.nodes[2].command("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def test_a_plain_url_to_a_node_of_a_cluster_is_told(shared: ValkeyCluster) -> None:
    """And the other way round."""
    plain = RedisStore(connect(f"redis://127.0.0.1:{shared.nodes[0].port}"), "cs")
    try:
        results = [
            await plain.install(first(checkpoint(GroupId("plain"), partition=p)))
            for p in PARTITIONS[:9]
        ]
        told = [r.fault for r in results if isinstance(r, NotInstalled)]
        assert told
        assert {f.code for f in told} == {"MOVED"}
        assert all("redis+cluster://" in f.detail for f in told)
    finally:
        await plain.close()


async def test_a_cluster_url_to_a_plain_server_is_told(valkey: Valkey) -> None:
    store = RedisStore(connect(f"redis+cluster://127.0.0.1:{valkey.port}"), "cs")
    try:
        result = await store.install(first(checkpoint(GroupId("g"))))
        assert isinstance(result, NotInstalled)
        assert (result.fault.kind, result.fault.code) == (FaultKind.REFUSED, "NOT_A_CLUSTER")
    finally:
        await store.close()


async def test_a_slot_that_moves_is_followed(
    valkey_cluster: Callable[..., ValkeyCluster],
) -> None:
    """Half moved, the partition waits (its keys lie on both sides); moved, it goes on, once."""
    cluster = valkey_cluster()
    store = RedisStore(connect(cluster.url), "cs")
    group, partition = GroupId("moving"), PARTITIONS[0]
    keys = partition_keys("cs", group, partition)
    try:
        at = checkpoint(group, partition=partition)
        assert await store.install(first(at)) == Installed()
        install = promotion(at, 2)
        assert await store.install(install) == Installed()
        at = install.checkpoint
        source = cluster.node_of(keys.checkpoint.decode())
        target = next(node for node in cluster.nodes if node is not source)
        with cluster.moving_slot(keys.checkpoint.decode(), target) as move:
            move(keys.receipts.decode())
            result = await store.install(promotion(at, 1, attempt="half"))
            assert isinstance(result, NotInstalled)
            assert (result.fault.kind, result.fault.code) == (FaultKind.UNAVAILABLE, "TRYAGAIN")
            move(keys.checkpoint.decode())  # now single keys are asked for over there
            marks = await store.watch(group, [partition])
            assert known(marks[partition]).generation == at.generation
        moved = promotion(at, 1, attempt="moved")
        assert await store.install(moved) == Installed()
        assert cluster.node_of(keys.checkpoint.decode()) is target
        readings = await store.read(group, [partition])
        assert known(readings[partition]).checkpoint == moved.checkpoint
        assert len(flat(known(await store.memory(group, partition, 9)).receipts)) == 3
    finally:
        await store.close()


async def test_a_node_that_dies_takes_only_its_partitions_until_the_cluster_notices(
    valkey_cluster: Callable[..., ValkeyCluster],
) -> None:
    """Bounded; then CLUSTERDOWN, transient; and all is well when it is back."""
    cluster = valkey_cluster(settings={"cluster-require-full-coverage": "no"})
    store = RedisStore(connect(cluster.url, timeout_seconds=0.5), "cs")
    group = GroupId("dying")
    try:
        for partition in PARTITIONS:
            at = checkpoint(group, partition=partition)
            assert await store.install(first(at)) == Installed()
        dead = cluster.nodes[1]
        theirs = {
            p
            for p in PARTITIONS
            if cluster.node_of(partition_keys("cs", group, p).checkpoint.decode()) is dead
        }
        dead.kill()
        began = time.monotonic()
        readings = await store.read(group, PARTITIONS)
        assert time.monotonic() - began < 1.5
        for partition, reading in readings.items():
            if partition in theirs:
                assert isinstance(reading, Unreadable)
                assert reading.fault.kind is FaultKind.UNAVAILABLE
            else:
                assert isinstance(reading, Known)
        for partition in PARTITIONS:
            at = checkpoint(group, partition=partition)
            result = await store.install(promotion(at, 1))
            if partition in theirs:
                assert isinstance(result, NotInstalled | Ambiguous)
                assert result.fault.kind is FaultKind.UNAVAILABLE
            else:
                assert result == Installed()
        dead.start()
        ends = time.monotonic() + 20
        for partition in theirs:
            install = promotion(checkpoint(group, partition=partition), 1)
            while not isinstance(result := await store.install(install), Installed):
                assert not isinstance(result, Lost)
                assert time.monotonic() < ends, result
                await asyncio.sleep(0.05)  # a pause between tries, as the engine makes
    finally:
        await store.close()
