"""Records deleted past the cursor: an exact gap there, and nothing anywhere else."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.faults.rows import Row
from tests.harness.api import Refused
from tests.harness.patience import waits_in_peace
from tests.harness.world import World, values

pytestmark = pytest.mark.kafka


@pytest.mark.fault(
    row="retention-loss/while-down",
    bench="K1",
    expected="retention_loss",
    cases=(3, 4),
    within_seconds=2,
)
def test_records_deleted_past_one_of_three_cursors_while_down(world: World, row: Row) -> None:
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
    row.inflicted()
    application = world.application(sidecar)
    gap = sidecar.await_gap(topic, 1)
    row.judged(gap.reason, "gap")
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
    row.cured()
    assert [entry["what"] for entry in resolved.audit] == [
        "opened",
        "acknowledged",
        "resolved: accepted",
    ]
    world.deliver_all(sidecar, (topic, 1))
    row.delivering()
    application.stop()
    account = row.account(world.account(api.gaps()))
    assert (account.applied, account.in_gaps, account.repeated_flagged) == (155, 25, 0)


@pytest.mark.fault(
    row="retention-loss/live", bench="K1", expected="retention_loss", cases=(4,), within_seconds=2
)
def test_records_deleted_past_one_of_three_live_cursors(world: World, row: Row) -> None:
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
    row.inflicted()  # what lies in hand is delivered first
    gap = sidecar.await_gap(topic, 1)
    row.judged(gap.reason, "gap")
    assert (gap.reason, gap.end) == ("retention_loss", 8_050)
    assert gap.first >= 100
    world.deliver_all(sidecar, (topic, 0), (topic, 2))
    api = sidecar.api()
    assert api.status().ready
    api.resolve(gap.id, "accepted")
    row.cured()
    world.deliver_all(sidecar, (topic, 1))
    row.delivering()
    application.stop()
    account = row.account(world.account(api.gaps()))
    assert account.in_gaps == 8_050 - gap.first
    assert account.repeated_flagged == 0
    assert world.committed(topic, 1) == 8_100


def test_a_gap_that_is_one_is_not_retracted(world: World) -> None:
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


@pytest.mark.fault(row="retention-loss/killed-and-growing", bench="K1", expected="retention_loss")
def test_an_open_gap_outlives_restarts_and_grows_with_the_log_start(world: World, row: Row) -> None:
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
    row.inflicted()
    again = sidecar.await_gap(topic)
    row.judged(again.reason, "gap")
    assert again.id == gap.id
    world.outside.delete_records(topic, 0, 30)
    sidecar.await_event("gap_changed", gap=gap.id, end=30)
    resolved = sidecar.api().resolve(gap.id, "accepted")
    row.cured()
    assert (resolved.first, resolved.end) == (10, 30)
    assert world.apply(sidecar, topic, 20) == 50
    row.delivering()
    assert row.account(world.account(sidecar.api().gaps())).in_gaps == 20


@pytest.mark.fault(row="retention-loss/accepted-by-policy", bench="K1", expected="retention_loss")
def test_a_policy_accepts_by_itself_and_says_so(world: World, row: Row) -> None:
    """`RECOVERY__ON_GAP` accepts a retention loss: the gap is in the ledger, resolved by policy,
    and delivery goes on without a person."""
    topic = world.topic()
    world.produce(topic, 30)
    sidecar = world.sidecar(RECOVERY__ON_GAP='{"retention_loss": "accept"}')
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.terminate()
    world.outside.delete_records(topic, 0, 20)
    sidecar.start()
    row.inflicted()
    assert world.apply(sidecar, topic, 10) == 30
    (gap,) = sidecar.api().gaps()
    row.judged(gap.reason, "delivering")
    assert gap.state == "resolved"
    assert gap.resolution is not None
    assert gap.resolution["by"] == "policy"
    assert row.account(world.account([gap])).in_gaps == 10


@pytest.mark.fault(
    row="retention-loss/none-all-was-applied", bench="K1", expected="resume_at_boundary"
)
def test_a_quiet_topic_whose_receipts_lie_below_the_log_start_does_not_hold(
    world: World, row: Row
) -> None:
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
    row.inflicted()
    sidecar.await_partition(topic, state="delivering", caught_up=True)
    (verdict,) = sidecar.verdicts(topic)
    row.judged(verdict, "delivering")
    world.produce(topic, 10, tag="later")
    assert world.apply(sidecar, topic, 10) == 110
    assert sidecar.api().gaps() == []
    assert row.account(world.account()).applied == 110


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


@pytest.mark.fault(
    row="retention-loss/led-out-by-commands",
    bench="K1",
    expected="retention_loss",
    cases=(40,),
    within_seconds=2,
)
def test_an_invalid_cursor_keeps_the_process_up_and_commands_lead_out(
    world: World, row: Row
) -> None:
    """The cursor is invalid: no crash, no restart storm; `gaps list` shows it and `gaps resolve`,
    a dry run at first, ends it."""
    topic = world.topic()
    world.produce(topic, 40)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.terminate()
    world.outside.delete_records(topic, 0, 25)
    sidecar.start()
    row.inflicted()
    gap = sidecar.await_gap(topic)
    row.judged(gap.reason, "gap")
    url = f"http://{sidecar.address}"
    shown = _command("gaps", "list", "--url", url, "-o", "json")
    assert [found["id"] for found in json.loads(shown)["gaps"]] == [gap.id]
    decided = ("--resolution", "accepted", "--by", "on-call", "--why", "restored by hand")
    resolve = ("gaps", "resolve", gap.id, *decided, "--url", url)
    _command(*resolve)
    assert sidecar.await_gap(topic).id == gap.id  # so far it was only shown
    _command(*resolve, "--execute")
    row.cured()
    assert world.apply(sidecar, topic, 15) == 40
    row.delivering()
    assert len(sidecar.events("sidecar_started")) == 2
    assert row.account(world.account(sidecar.api().gaps())).in_gaps == 15


def _command(*words: str) -> str:
    code = "from sidecar.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=40
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(90)
@pytest.mark.fault(
    row="retention-loss/beside-an-outage", bench="K1", expected="retention_loss", cases=(35,)
)
def test_a_gap_a_lag_and_no_broker_are_no_reason_to_restart(own_broker: World, row: Row) -> None:
    """All at once: liveness says alive throughout, the gap stands, and the other partition goes on
    once the broker is back."""
    world = own_broker
    topic = world.topic(2)
    for partition in range(2):
        world.produce(topic, 60, partition)
    sidecar = world.sidecar()
    for partition in range(2):
        assert world.apply(sidecar, topic, 20, partition) == 20
    sidecar.terminate()
    world.outside.delete_records(topic, 1, 45)
    sidecar.start()
    row.inflicted()
    gap = sidecar.await_gap(topic, 1)
    row.judged(gap.reason, "gap")
    admin = sidecar.admin()
    assert admin.text("/readyz")[0] == 200  # an open gap is no reason to be restarted either
    world.kafka.kill()
    sidecar.await_event("dependency_lost", component="kafka")
    waits_in_peace(sidecar, "kafka", 4.0)
    world.kafka.start()
    row.cured()
    sidecar.await_up()
    assert world.apply(sidecar, topic, 40, 0) == 60
    row.delivering()
    assert sidecar.await_gap(topic, 1).id == gap.id
    assert len(sidecar.events("sidecar_started")) == 2
    row.account(world.account(sidecar.api().gaps(), unfinished_from={(topic, 1): 45}))
