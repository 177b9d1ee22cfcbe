"""A gap's life: each step, who took it and why, and what no step does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.core.gap import (
    AUDIT_ENTRIES_MAX,
    Gap,
    GapEvent,
    GapState,
    acknowledge,
    fenced,
    graver,
    grow,
    supersede,
)
from sidecar.core.types import GapId, GapReason, Generation, Interval, Offset
from tests.core.situations import CLUSTER, GROUP, NEXT, PARTITION, TOPIC

OPEN = Gap(
    id=GapId("gap-1"),
    reason=GapReason.RETENTION_LOSS,
    group=GROUP,
    partition=PARTITION,
    cluster_id=CLUSTER,
    topic_id=TOPIC,
    lineage=0,
    interval=Interval(NEXT, Offset(150)),
    state=GapState.OPEN,
    evidence={},
    generation=Generation(8),
    opened_at=500.0,
    audit=(GapEvent(500.0, "opened", "sidecar", "a test"),),
)
DECIDED = [replace(OPEN, state=s) for s in (GapState.RESOLVED, GapState.SUPERSEDED)]


def test_an_acknowledged_gap_holds_as_an_open_one_does() -> None:
    """`gap_holds`: somebody read it, and nobody decided it."""
    known = acknowledge(OPEN, by="on-call", why="seen", at=600.0)
    assert known is not None
    assert known.state is GapState.ACKNOWLEDGED
    assert known.state.holds
    assert known.acknowledged == GapEvent(600.0, "acknowledged", "on-call", "seen")
    assert known.audit == (*OPEN.audit, known.acknowledged)
    assert known.interval == OPEN.interval


@pytest.mark.parametrize("gap", DECIDED, ids=lambda g: g.state)
def test_a_gap_that_is_decided_takes_no_more(gap: Gap) -> None:
    assert not gap.state.holds
    assert acknowledge(gap, by="on-call", why="late", at=600.0) is None
    assert fenced(gap, fence=Offset(160), at=600.0) is None


def test_the_newest_fences_are_kept_with_their_times() -> None:
    gap = OPEN
    for i in range(10):
        taken = fenced(gap, fence=Offset(160 + i), at=600.0 + i)
        assert taken is not None
        gap = taken
    assert gap.fences == tuple((Offset(160 + i), 600.0 + i) for i in range(2, 10))
    assert gap.audit[-1] == GapEvent(609.0, "fence taken", "application", "", {"fence": 169})


def test_a_gap_grows_at_its_end_and_says_so() -> None:
    grown = grow(OPEN, Offset(170), at=600.0)
    assert grown.interval == Interval(NEXT, Offset(170))
    assert grown.state is GapState.OPEN
    assert grown.audit[-1] == GapEvent(
        600.0, "grew", "sidecar", "the log start moved", {"end": 170}
    )


def test_a_superseded_gap_names_the_graver_one() -> None:
    gone = supersede(OPEN, GapId("gap-2"), at=600.0)
    assert (gone.state, gone.superseded_by) == (GapState.SUPERSEDED, "gap-2")
    assert gone.audit[-1] == GapEvent(600.0, "superseded", "sidecar", "by gap-2")


def test_a_history_is_bounded_and_keeps_how_it_began() -> None:
    gap = OPEN
    for i in range(2 * AUDIT_ENTRIES_MAX):
        gap = gap.noted(GapEvent(float(i), "noted", "on-call", str(i)))
    assert len(gap.audit) == AUDIT_ENTRIES_MAX
    assert gap.audit[0] == OPEN.audit[0]
    assert [e.why for e in gap.audit[-2:]] == ["126", "127"]


@pytest.mark.parametrize("reason", list(GapReason))
def test_nothing_supersedes_its_like(reason: GapReason) -> None:
    assert not graver(reason, reason)
    assert not (graver(reason, GapReason.TOPIC_RECREATED))
    assert not (graver(GapReason.COVERAGE_UNKNOWN, reason))
