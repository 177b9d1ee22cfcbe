"""Where the log begins: nothing lost at the boundary, one record lost just below it."""

import pytest

from tests.faults.rows import Row
from tests.harness.world import World

pytestmark = pytest.mark.kafka

BOUNDARY = "retention-loss/none-at-the-boundary"


@pytest.mark.parametrize(
    "live",
    [
        pytest.param(
            False,
            marks=pytest.mark.fault(row=BOUNDARY, bench="K1", expected="resume_at_boundary"),
            id="down",
        ),
        pytest.param(
            True,
            marks=pytest.mark.fault(row=BOUNDARY, bench="K1", expected="delivering"),
            id="live",
        ),
    ],
)
def test_next_at_log_start_loses_nothing(world: World, live: bool, row: Row) -> None:
    """`next == log start`: the sidecar resumes at the boundary, without a gap, and the next
    record is the one at the log start."""
    topic = world.topic()
    world.produce(topic, 40)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 20) == 20
    if live:
        world.outside.delete_records(topic, 0, 20)
        row.inflicted()
        state = sidecar.await_partition(topic, log_start=20)
        row.judged(state.state)
    else:
        sidecar.terminate()
        world.outside.delete_records(topic, 0, 20)
        sidecar.start()
        row.inflicted()
        sidecar.await_partition(topic, state="delivering")
        (verdict,) = sidecar.verdicts(topic)
        row.judged(verdict)
        assert sidecar.last("recovery_ended", this_life=True)["result"] == "boundary"  # type: ignore[index]  # it has ended
    assert world.apply(sidecar, topic, 20) == 40
    assert sidecar.api().gaps() == []
    account = row.account(world.account())
    assert (account.applied, account.repeated_flagged) == (40, 0)


@pytest.mark.fault(
    row="retention-loss/one-record", bench="K1", expected="retention_loss", within_seconds=2
)
def test_next_one_below_log_start_has_lost_exactly_one(world: World, row: Row) -> None:
    """`next == log start − 1`: a gap over exactly that one offset, which holds the partition until
    it is accepted; then the record at the log start comes."""
    topic = world.topic()
    world.produce(topic, 40)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 20) == 20
    sidecar.terminate()
    world.outside.delete_records(topic, 0, 21)
    sidecar.start()
    row.inflicted()
    gap = sidecar.await_gap(topic)
    row.judged(gap.reason, "gap")
    assert (gap.reason, gap.first, gap.end, gap.state) == ("retention_loss", 20, 21, "open")
    api = sidecar.api()
    assert api.take(0.5) is None
    assert world.committed(topic) == 20
    resolved = api.resolve(gap.id, "accepted")
    row.cured()
    assert resolved.state == "resolved"
    assert resolved.resolution is not None
    assert resolved.resolution["resume_at"] == 21
    assert world.apply(sidecar, topic, 19) == 40
    row.delivering()
    account = row.account(world.account(api.gaps()))
    assert (account.applied, account.in_gaps) == (39, 1)
