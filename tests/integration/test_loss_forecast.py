"""`seconds_to_loss` against a real log cleaner: never late, and early by no more than promised."""

import re
import time

import pytest

from tests.benches.topics import Record
from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.sidecar import SidecarProcess
from tests.harness.world import World

pytestmark = [pytest.mark.kafka, pytest.mark.faults_only, pytest.mark.timeout(180)]

RETENTION_SECONDS = 20.0
STEP_SECONDS = 0.5
RECORDS = 20
APPLIED = 4
CHECK_SECONDS = 1.0
"""The bench's `log.retention.check.interval.ms`."""
LATE_SECONDS = 3.0
"""How late a check and our look at it may come on a busy machine."""


@pytest.mark.parametrize(
    ("segment_ms", "span_seconds"),
    [("1000", 1.0 + STEP_SECONDS), ("3600000", RECORDS * STEP_SECONDS)],
    ids=["small-segments", "one-large-segment"],
)
@pytest.mark.fault(row="forecast/seconds-to-loss", bench="K1", expected="forecast", cases=(31,))
def test_a_forecast_of_loss_is_never_late_and_early_by_a_segment_and_a_check_at_most(
    world: World, segment_ms: str, span_seconds: float, row: Row
) -> None:
    """Records half a second apart, the fourth applied: the fifth is lost when its segment is."""
    topic = world.topic(retention_ms=str(round(RETENTION_SECONDS * 1000)), segment_ms=segment_ms)
    first = time.time() + 15  # ahead, so that nothing is lost while they are being written
    for number in range(RECORDS):  # a batch each, so that a segment may end behind any of them
        stamp = round((first + number * STEP_SECONDS) * 1000)
        world.produce(topic, [Record(b"v%d" % number, timestamp_ms=stamp)])
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, APPLIED) == APPLIED
    sidecar.await_partition(topic, next=APPLIED, log_end=RECORDS, log_start=0)

    told: list[tuple[float, float]] = []

    def lost() -> bool:
        before = time.time()
        value = _seconds_to_loss(sidecar, topic)
        if value:  # zero says "at any time", which no observer can show to be late
            told.append((before + value, time.time() + value))
        return world.outside.bounds(topic).start > APPLIED

    wait_until(lost, "the record is gone", timeout_seconds=90, every_seconds=0.05)
    gone = time.time()
    assert len(told) > 10
    assert max(low for low, _ in told) <= gone, "later than the loss"
    early = gone - min(high for _, high in told)
    assert early <= span_seconds + CHECK_SECONDS + LATE_SECONDS
    row.observe("forecast", "delivering")
    row.account(world.account(unfinished_from={(topic, 0): APPLIED}))


def _seconds_to_loss(sidecar: SidecarProcess, topic: str) -> float | None:
    _, text = sidecar.admin().text("/metrics")
    found = re.findall(
        rf'^cursor_sidecar_seconds_to_loss{{[^}}]*topic="{topic}".*}} (\S+)$', text, re.M
    )
    return float(found[0]) if found else None
