"""A master that Sentinel names: found, followed through failovers, not confused with another."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable

import pytest

from sidecar.core.checkpoint import (
    Ambiguous,
    AnsweredBefore,
    Checkpoint,
    Installed,
    Lost,
    NotInstalled,
)
from sidecar.core.faults import FaultKind, Known, Unreadable
from sidecar.core.types import GroupId
from sidecar.store.connect import connect
from sidecar.store.redis import RedisStore
from tests.benches.redis import Sentinels
from tests.store.values import T0, checkpoint, first, known, promotion

G = GroupId("group")


@pytest.fixture
def bench(sentinels: Callable[..., Sentinels]) -> Sentinels:
    return sentinels()


@pytest.fixture
async def store(bench: Sentinels) -> AsyncIterator[RedisStore]:
    made = RedisStore(connect(bench.url, timeout_seconds=1.0), "cs")
    yield made
    await made.close()


async def settled(store: RedisStore, at: Checkpoint, *, within_seconds: float = 20.0) -> Checkpoint:
    """Promote until it stands, as the engine would; every answer on the way is transient.

    What was written to an old master while another was promoted is forgotten, also by a failover
    that nobody forced: then the older state wins, and is gone on from.
    """
    install = promotion(at, 1, attempt=uuid.uuid4().hex)
    ends = time.monotonic() + within_seconds
    while time.monotonic() < ends:
        match await store.install(install):
            case Installed():
                return install.checkpoint
            case NotInstalled(fault) | Ambiguous(fault):
                assert fault.kind is FaultKind.UNAVAILABLE, fault
                await asyncio.sleep(0.02)  # a pause between tries, as the engine makes
            case Lost(winner):
                assert winner is not None
                assert winner.generation < at.generation
                install = promotion(winner, 1, attempt=uuid.uuid4().hex)
            case AnsweredBefore():
                raise AssertionError("nobody asked for anything")
    raise AssertionError(f"nothing stood within {within_seconds} s")


@pytest.mark.slow
async def test_a_clean_failover_is_followed(bench: Sentinels, store: RedisStore) -> None:
    """With live connections; the attempt tells what was done on the old master."""
    at = checkpoint(G)
    assert await store.install(first(at)) == Installed()
    before = known(await store.life())
    assert any("failover may forget" in w for w in known(await store.health()).warnings)
    failing_over = asyncio.create_task(asyncio.to_thread(bench.fail_over))
    while not failing_over.done():
        at = await settled(store, at)
    await failing_over
    for _ in range(3):
        at = await settled(store, at)
    new_master = bench.master.client(decode_responses=True)
    assert new_master.hget("cs:{group/orders/0}:checkpoint", "generation") == str(at.generation)
    assert known(await store.life()) != before


@pytest.mark.slow
async def test_a_lagging_replica_that_is_promoted_is_another_life_with_an_older_state(
    bench: Sentinels, store: RedisStore
) -> None:
    """What the witness in Kafka is for: an acknowledged write is gone, and the epoch tells."""
    at = checkpoint(G)
    assert await store.install(first(at)) == Installed()
    await asyncio.to_thread(bench.cut_replica)
    life = known(await store.life())
    newer = await settled(store, at)
    failing_over = asyncio.create_task(asyncio.to_thread(bench.fail_over_by_kill))
    seen: set[str] = set()
    while not failing_over.done():
        reading = (await store.read(G, [T0]))[T0]
        if isinstance(reading, Unreadable):
            assert reading.fault.kind is FaultKind.UNAVAILABLE
            seen.add(reading.fault.code)
        await asyncio.sleep(0.02)  # a pause between tries, as the engine makes
    await failing_over
    assert "CONNECTION" in seen or "NO_MASTER" in seen
    older = None
    ends = time.monotonic() + 10
    while older is None and time.monotonic() < ends:
        reading = (await store.read(G, [T0]))[T0]
        older = reading.value.checkpoint if isinstance(reading, Known) else None
    assert older == at
    assert known(await store.life()) != life
    # Whoever believes in the newer state is told what stands, and writes nothing.
    assert await store.install(promotion(newer, 1)) == Lost(at)


@pytest.mark.slow
async def test_sentinels_away_or_unaware_are_told_apart(bench: Sentinels) -> None:
    """One away: nothing happens. A service nobody knows: refused by name. All away: transient."""
    at = checkpoint(G)
    bench.sentinels[0].pause()
    store = RedisStore(connect(bench.url, timeout_seconds=1.0), "cs")
    wrong = RedisStore(connect(bench.url.replace("service=main", "service=nope")), "cs")
    try:
        began = time.monotonic()
        assert await store.install(first(at)) == Installed()
        assert time.monotonic() - began < 0.9
        refused = await wrong.install(first(at))
        assert isinstance(refused, NotInstalled)
        assert (refused.fault.kind, refused.fault.code) == (FaultKind.REFUSED, "NO_SERVICE")
        for sentinel in bench.sentinels[1:]:
            sentinel.kill()
        # A connection that works goes on working.
        at = await settled(store, at)
        nobody = await wrong.health()
        assert isinstance(nobody, Unreadable)
        assert (nobody.fault.kind, nobody.fault.code) == (FaultKind.UNAVAILABLE, "NO_MASTER")
    finally:
        await store.close()
        await wrong.close()


@pytest.mark.slow
async def test_an_old_master_that_wakes_up_is_left(bench: Sentinels) -> None:
    """It takes writes until it is told that it is none; Sentinel knows better, and is asked."""
    store = RedisStore(connect(bench.url, timeout_seconds=0.5), "cs")
    try:
        at = checkpoint(G)
        assert await store.install(first(at)) == Installed()
        old, new = bench.master, bench.replica
        old.pause()
        at = await settled(store, at)
        assert new.info("replication")["role"] == "master"
        old.resume()
        for _ in range(20):
            at = await settled(store, at)
        assert new.client().hget("cs:{group/orders/0}:checkpoint", "generation") == str(
            at.generation
        )
    finally:
        await store.close()
