"""Records deleted past the cursor: an exact gap there, and nothing anywhere else."""

from typing import Any

import pytest

from tests.harness.api import Refused
from tests.harness.world import World, values

pytestmark = pytest.mark.kafka


def test_records_deleted_past_one_of_three_cursors_while_down(world: World) -> None:
    """One partition has a gap with the exact range; the two others deliver everything, none of it
    repeated; the gap is acknowledged, accepted, and delivery goes on at the log start."""
    topic = world.topic(3)
    for partition in range(3):
        world.produce(topic, 60, partition)
    sidecar = world.sidecar()
    for partition in range(3):
        assert world.apply(sidecar, topic, 20, partition) == 20
    sidecar.terminate()
    world.outside.delete_records(topic, 1, 45)
    sidecar.start()
    application = world.application(sidecar)
    gap = sidecar.await_gap(topic, 1)
    world.deliver_all(sidecar, (topic, 0), (topic, 2))
    assert (gap.reason, gap.partition, gap.first, gap.end) == ("retention_loss", 1, 20, 45)
    assert gap.evidence["log_start"] == 45
    assert world.committed(topic, 1) == 20
    api = sidecar.api()
    seen = api.acknowledge(gap.id, by="grace")
    assert seen.state == "acknowledged"
    assert seen.acknowledged is not None
    assert seen.acknowledged["by"] == "grace"
    sidecar.await_partition(topic, 1, state="gap", next=20)  # reading it is not deciding it
    resolved = api.resolve(gap.id, "accepted", why="restored from the warehouse")
    assert [entry["what"] for entry in resolved.audit] == [
        "opened",
        "acknowledged",
        "resolved: accepted",
    ]
    world.deliver_all(sidecar, (topic, 1))
    application.stop()
    account = world.account(api.gaps()).check()
    assert (account.applied, account.in_gaps, account.repeated_flagged) == (155, 25, 0)


def test_records_deleted_past_one_of_three_live_cursors(world: World) -> None:
    """Live: what is in hand is still delivered, the gap covers exactly what was lost, the other
    partitions neither stall nor reread, and the process stays ready."""
    topic = world.topic(3)
    for partition in range(3):
        world.produce(topic, 100, partition)
    sidecar = world.sidecar(
        DELIVERY__PAGE_BYTES_MAX=10_000,
        KAFKA__CLIENT='{"queued.min.messages": 100, "max.partition.fetch.bytes": 20000}',
    )
    application = world.application(sidecar)
    world.deliver_all(sidecar, *((topic, partition) for partition in range(3)))
    application.stop()
    # Nobody takes pages: the fetcher reads ahead a little, and stops.
    for partition in range(3):
        world.produce(topic, values(8_000, f"x{partition}-", size=100), partition)
    sidecar.await_partition(topic, 1, log_end=8_100)
    world.outside.delete_records(topic, 1, 8_050)
    sidecar.await_partition(topic, 1, log_start=8_050)
    application = world.application(sidecar)
    gap = sidecar.await_gap(topic, 1)
    assert (gap.reason, gap.end) == ("retention_loss", 8_050)
    assert gap.first >= 100
    world.deliver_all(sidecar, (topic, 0), (topic, 2))
    api = sidecar.api()
    assert api.status().ready
    api.resolve(gap.id, "accepted")
    world.deliver_all(sidecar, (topic, 1))
    application.stop()
    account = world.account(api.gaps()).check()
    assert account.in_gaps == 8_050 - gap.first
    assert account.repeated_flagged == 0
    assert world.committed(topic, 1) == 8_100


def test_a_gap_that_never_was_is_retracted_and_one_that_is_is_not(world: World) -> None:
    """`retracted` needs evidence that there is no gap: refused while records are missing. And what
    a gap does not offer is refused by name, with nothing changed."""
    topic = world.topic()
    world.produce(topic, 30)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.terminate()
    world.outside.delete_records(topic, 0, 20)
    sidecar.start()
    gap = sidecar.await_gap(topic)
    api = sidecar.api()
    wrong: list[tuple[str, dict[str, Any]]] = [("retracted", {}), ("accepted", {"resume_at": 15})]
    for resolution, more in wrong:
        with pytest.raises(Refused) as refused:
            api.resolve(gap.id, resolution, **more)
        assert (refused.value.status, refused.value.kind) == (422, "resolution-impossible")
    with pytest.raises(Refused) as refused:
        api.resolve("no-such-gap", "accepted")
    assert refused.value.kind == "gap-unknown"
    sidecar.await_partition(topic, state="gap", next=10)
    (still,) = api.gaps("open")
    assert still.id == gap.id


def test_an_open_gap_outlives_restarts_and_grows_with_the_log_start(world: World) -> None:
    """`gap_outlives`: killed and started again, the same gap stands; when the log start moves on,
    it grows; accepted, it ends where reading goes on."""
    topic = world.topic()
    world.produce(topic, 50)
    sidecar = world.sidecar(static=True)
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.terminate()
    world.outside.delete_records(topic, 0, 20)
    sidecar.start()
    gap = sidecar.await_gap(topic)
    sidecar.kill()
    sidecar.start()
    again = sidecar.await_gap(topic)
    assert again.id == gap.id
    world.outside.delete_records(topic, 0, 30)
    sidecar.await_event("gap_changed", gap=gap.id, end=30)
    resolved = sidecar.api().resolve(gap.id, "accepted")
    assert (resolved.first, resolved.end) == (10, 30)
    assert world.apply(sidecar, topic, 20) == 50
    assert world.account(sidecar.api().gaps()).check().in_gaps == 20


def test_a_policy_accepts_by_itself_and_says_so(world: World) -> None:
    """`RECOVERY__ON_GAP` accepts a retention loss: the gap is in the ledger, resolved by policy,
    and delivery goes on without a person."""
    topic = world.topic()
    world.produce(topic, 30)
    sidecar = world.sidecar(RECOVERY__ON_GAP='{"retention_loss": "accept"}')
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.terminate()
    world.outside.delete_records(topic, 0, 20)
    sidecar.start()
    assert world.apply(sidecar, topic, 10) == 30
    (gap,) = sidecar.api().gaps()
    assert gap.state == "resolved"
    assert gap.resolution is not None
    assert gap.resolution["by"] == "policy"
    assert world.account([gap]).check().in_gaps == 10


def test_a_quiet_topic_whose_receipts_lie_below_the_log_start_does_not_hold(world: World) -> None:
    """Everything was applied, then retention took it all: nothing is lost and nothing is left to
    overlap. Down or live, the partition delivers."""
    topic = world.topic()
    world.produce(topic, 100)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 100) == 100
    world.outside.delete_records(topic, 0, 100)
    sidecar.await_partition(topic, log_start=100, caught_up=True)
    sidecar.terminate()
    sidecar.start()
    sidecar.await_partition(topic, state="delivering", caught_up=True)
    assert sidecar.verdicts(topic) == ["resume_at_boundary"]
    world.produce(topic, 10, tag="later")
    assert world.apply(sidecar, topic, 10) == 110
    assert sidecar.api().gaps() == []
    assert world.account().check().applied == 110


def test_an_idle_topic_is_caught_up_and_does_not_hold(world: World) -> None:
    """Never written to: caught up from the start, and after a restart."""
    topic = world.topic()
    sidecar = world.sidecar()
    sidecar.await_partition(topic, state="delivering", caught_up=True, next=0)
    sidecar.terminate()
    sidecar.start()
    sidecar.await_partition(topic, state="delivering", caught_up=True, next=0)
    assert sidecar.api().gaps() == []
    world.produce(topic, 5)
    assert world.apply(sidecar, topic, 5) == 5
