"""The store forgets, evicts, blocks or is away."""

import pytest

from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.patience import waits_in_peace
from tests.harness.world import Load, World

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("live", [False, True], ids=["down", "live"])
@pytest.mark.fault(
    row="store-lost/flushed", bench="R1", expected="store_lost", cases=(13,), within_seconds=2
)
def test_a_flushed_store_is_rebuilt_from_the_witness_and_verified(
    own_store: World, live: bool, row: Row
) -> None:
    """FLUSHALL, of which no client is told: `store_lost`, not a first run. The checkpoint is
    rebuilt from the commit's metadata, its digests are found in the log, and delivery goes on
    where it was; what may have been handed out before is flagged."""
    world = own_store
    topic = world.topic()
    world.produce(topic, 60)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 40) == 40
    mark = sidecar.mark()
    if live:
        world.valkey.flush()
        row.inflicted()
        sidecar.await_event("verdict_reached", after=mark, verdict="store_lost")
    else:
        sidecar.terminate()
        world.valkey.flush()
        sidecar.start()
        row.inflicted()
    state = sidecar.await_partition(topic, state="delivering", verdict="store_lost", next=40)
    row.judged(state.verdict or "none", state.state)
    (ended,) = sidecar.since(mark, "recovery_ended")[-1:]
    assert (ended["result"], ended["matched"]) == ("verified", 8)
    page = sidecar.api().take(30.0)
    assert page is not None
    assert page.first == 40
    assert all(record.redelivered for record in page.records)
    world.ledger.write(page, "test")
    assert sidecar.api().applied(page, committed=True).next == 60
    assert sidecar.api().gaps() == []
    assert row.account(world.account()).applied == 60
    assert world.checkpoint(topic)["next"] == "60"


@pytest.mark.fault(
    row="store-lost/flushed-under-load",
    bench="R1",
    expected="store_lost",
    cases=(13,),
    within_seconds=2,
)
def test_a_store_flushed_under_load_loses_nothing(own_store: World, row: Row) -> None:
    """Twice, while records flow: everything is applied; what is repeated is flagged."""
    world = own_store
    topic = world.topic(2)
    load = Load(world, topic, 2)
    sidecar = world.sidecar()
    application = world.application(sidecar, records_max=20)
    committed = 0
    for _ in range(2):
        # Another commit each time, so that its witness is what the store is rebuilt from.
        committed = wait_until(lambda: _beyond(world, topic, committed), "records are committed")  # noqa: B023  # called before the next round
        mark = sidecar.mark()
        world.valkey.flush()
        row.inflicted()
        row.cured()
        sidecar.await_event("verdict_reached", after=mark, verdict="store_lost")
        row.judged("store_lost", "delivering")
        count = world.ledger.count
        wait_until(lambda: world.ledger.count > count, "records flow")  # noqa: B023  # likewise
        row.delivering()
    load.stop()
    world.deliver_all(sidecar, (topic, 0), (topic, 1))
    application.stop()
    assert sidecar.api().gaps() == []
    account = row.account(world.account())
    assert account.applied == account.produced


def _beyond(world: World, topic: str, committed: int) -> int | None:
    found = world.committed(topic)
    return found if found is not None and found > committed + 100 else None


@pytest.mark.fault(
    row="store-lost/commit-too", bench="R1", expected="store_lost", cases=(13,), within_seconds=2
)
def test_store_and_commits_both_lost_of_a_partition_that_had_begun_is_held(
    own_store: World, row: Row
) -> None:
    """The checkpoint of one partition is gone and Kafka holds no commit of it, while the registry
    knows that it was delivered from: nothing can be proven, so it is a gap, not a first run."""
    world = own_store
    topic = world.topic()
    world.produce(topic, 20)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.terminate()
    world.outside.delete_group(world.group)
    client = world.valkey.client()
    client.delete(*client.keys(f"{world.prefix}:{{{world.group}/*"))
    sidecar.start()
    row.inflicted()
    gap = sidecar.await_gap(topic)
    row.judged(gap.reason, "gap")
    assert sidecar.api().take(0.5) is None
    assert world.committed(topic) is None
    sidecar.api().resolve(gap.id, "accepted", resume_at=10)
    row.cured()
    assert world.apply(sidecar, topic, 10) == 20
    row.delivering()
    assert row.account(world.account()).applied == 20


@pytest.mark.fault(
    row="store/evicts", bench="R1", expected="store_refused", cases=(14,), within_seconds=2
)
def test_a_store_that_evicts_is_refused_and_taken_once_it_does_not(
    own_store: World, row: Row
) -> None:
    """An evicting policy: alive, not ready, not joined, the reason shown; corrected, it goes on by
    itself."""
    world = own_store
    topic = world.topic()
    world.produce(topic, 10)
    world.valkey.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    sidecar = world.sidecar()
    row.inflicted()
    sidecar.await_event("store_refused")
    row.judged("store_refused")
    status = sidecar.api().status()
    assert not status.ready
    assert "allkeys-lru" in " ".join(status.reasons)
    admin = sidecar.admin()
    assert admin.text("/readyz")[0] == 503
    assert admin.text("/livez")[0] == 200
    assert world.outside.members(world.group) == 0
    world.valkey.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    row.cured()
    sidecar.await_up()
    assert world.apply(sidecar, topic, 10) == 10
    row.delivering()
    row.account(world.account())


@pytest.mark.fault(row="store/begins-to-evict", bench="R1", expected="store_refused", cases=(14,))
def test_a_store_that_begins_to_evict_is_handed_nothing_more(own_store: World, row: Row) -> None:
    """Noticed by a later look, and cleared by one: nothing is handed out in between."""
    world = own_store
    topic = world.topic()
    world.produce(topic, 10)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 10) == 10
    world.valkey.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    row.inflicted()
    sidecar.await_event("store_refused")
    row.judged("store_refused")
    world.produce(topic, 10)
    assert sidecar.api().take(1.5) is None
    world.valkey.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    row.cured()
    assert world.apply(sidecar, topic, 10) == 20
    row.delivering()
    row.account(world.account())


@pytest.mark.fault(
    row="store/away-at-the-start",
    bench="R1",
    expected="unavailable/CONNECTION",
    cases=(25,),
    within_seconds=2,
)
def test_a_store_that_is_away_at_the_start_is_awaited(own_store: World, row: Row) -> None:
    """Alive, not ready, a clear reason, at most about one log line a second, and no busy loop;
    the store comes, and delivery begins."""
    world = own_store
    topic = world.topic()
    world.produce(topic, 10)
    world.valkey.stop()
    sidecar = world.sidecar()
    row.inflicted()
    sidecar.await_event("dependency_lost", component="redis")
    row.judged(sidecar.await_store_error(), "waiting")
    waits_in_peace(sidecar, "redis", 4.0)
    assert world.outside.members(world.group) == 0
    world.valkey.start()
    row.cured()
    sidecar.await_up()
    assert world.apply(sidecar, topic, 10) == 10
    row.delivering()
    row.account(world.account())


@pytest.mark.fault(
    row="store/stopped-under-load", bench="R1", expected="unavailable/CONNECTION", within_seconds=2
)
def test_a_store_that_goes_away_later_changes_nothing(own_store: World, row: Row) -> None:
    """Stopped under load: not ready, a reason, reports are refused with 503 and Retry-After and
    then taken; back again, everything is applied, with no gap."""
    world = own_store
    topic = world.topic()
    load = Load(world, topic, 1)
    sidecar = world.sidecar()
    application = world.application(sidecar, records_max=20)
    wait_until(lambda: world.ledger.count > 200, "records flow")
    mark = sidecar.mark()
    world.valkey.stop()
    row.inflicted()
    row.judged(sidecar.await_store_error("CONNECTION", after=mark))
    sidecar.await_event("dependency_lost", component="redis")
    waits_in_peace(sidecar, "redis", 4.0)
    count = world.ledger.count
    world.valkey.start()
    row.cured()
    wait_until(lambda: world.ledger.count > count + 20, "records flow")
    row.delivering()
    sidecar.await_up()
    load.stop()
    world.deliver_all(sidecar, (topic, 0))
    application.stop()
    assert application.problems["store-unavailable"]
    assert sidecar.api().gaps() == []
    account = row.account(world.account())
    assert account.applied == account.produced


@pytest.mark.timeout(90)
@pytest.mark.fault(
    row="store/frozen-under-load", bench="R1", expected="unavailable/TIMEOUT", cases=(28,)
)
def test_a_store_that_freezes_under_load_keeps_the_membership(own_store: World, row: Row) -> None:
    """SIGSTOP for longer than the session: polling goes on, so the group keeps us; continued,
    everything is applied and no promotion was made twice."""
    world = own_store
    topic = world.topic()
    load = Load(world, topic, 1)
    sidecar = world.sidecar(KAFKA__SESSION_TIMEOUT_SECONDS=3)
    watch = world.watch_commits((topic, 0))
    application = world.application(sidecar, records_max=20)
    wait_until(lambda: world.ledger.count > 200, "records flow")
    mark = sidecar.mark()
    world.valkey.pause()
    row.inflicted()
    watch.stop()  # it would wait for the store as well
    sidecar.await_event("dependency_lost", component="redis", timeout_seconds=20)
    row.judged(sidecar.await_store_error(after=mark))
    wait_until(lambda: not sidecar.api().status().ready, "not ready")
    waits_in_peace(sidecar, "redis", 4.0)
    count = world.ledger.count
    world.valkey.resume()
    row.cured()
    wait_until(lambda: world.ledger.count > count, "records flow")
    row.delivering()
    sidecar.await_up()
    load.stop()
    world.deliver_all(sidecar, (topic, 0))
    application.stop()
    assert not sidecar.since(mark, "partitions_lost")
    assert not sidecar.since(mark, "partitions_revoked")
    assert sidecar.api().gaps() == []
    account = row.account(world.account())
    assert account.applied == account.produced


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.fault(
    row="store/frozen-beyond-max-poll", bench="K1+R1", expected="unavailable/TIMEOUT", cases=(28,)
)
def test_a_store_that_blocks_for_longer_than_a_poll_may_take(own_store: World, row: Row) -> None:
    """`max.poll.interval.ms` passes while the store is frozen: polling goes on all the while, so
    the member is not expelled, and nothing is delivered twice unflagged."""
    world = own_store
    topic = world.topic()
    load = Load(world, topic, 1)
    sidecar = world.sidecar(KAFKA__CLIENT='{"max.poll.interval.ms": 6000}')
    application = world.application(sidecar, records_max=20)
    wait_until(lambda: world.ledger.count > 100, "records flow")
    mark = sidecar.mark()
    world.valkey.pause()
    row.inflicted()
    row.judged(sidecar.await_store_error("TIMEOUT", after=mark, timeout_seconds=20))
    wait_until(lambda: not sidecar.api().status().ready, "not ready")
    waits_in_peace(sidecar, "redis", 9.0)
    count = world.ledger.count
    world.valkey.resume()
    row.cured()
    wait_until(lambda: world.ledger.count > count + 20, "records flow")
    row.delivering()
    load.stop()
    world.deliver_all(sidecar, (topic, 0))
    application.stop()
    assert not sidecar.since(mark, "partitions_lost")
    assert not sidecar.since(mark, "partitions_revoked")
    account = row.account(world.account())
    assert account.applied == account.produced
