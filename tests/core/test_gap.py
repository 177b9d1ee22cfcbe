"""A gap's life: each step, who took it and why, and what no step does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.core.gap import (
    AUDIT_ENTRIES_MAX,
    Decision,
    Gap,
    GapEvent,
    GapState,
    Resolution,
    accepted_further,
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


def accepted(reason: GapReason = GapReason.RETENTION_LOSS, **changes: object) -> Gap:
    decision = Decision(Resolution.ACCEPTED, "on-call", "known", 600.0, Offset(150), **changes)  # type: ignore[arg-type]  # checked by the dataclass
    return replace(OPEN, reason=reason, state=GapState.RESOLVED, resolution=decision)


def test_an_accepted_loss_grows_when_the_log_start_moves_on_before_it_is_read() -> None:
    """Whatever was accepted goes on: who decided it, and up to where, are kept."""
    grown = accepted_further(accepted(), Offset(160), at=700.0)
    assert grown is not None
    assert grown.interval == Interval(NEXT, Offset(160))
    assert grown.resolution is not None
    assert (grown.resolution.by, grown.resolution.resume_at) == ("on-call", 160)
    noted = grown.audit[-1]
    assert (noted.at, noted.what, noted.by) == (700.0, "grown after it was accepted", "sidecar")
    assert noted.why == "the log start moved on to 160 before a record was read"
    assert noted.evidence == {"from": 150, "to": 160}


def test_nothing_more_is_accepted_than_was() -> None:
    """Not of a gap that nobody decided, or not so; of none that does not grow; and not beyond a
    bound."""
    assert accepted_further(OPEN, Offset(160), at=700.0) is None
    for other in Resolution:
        if other is not Resolution.ACCEPTED:
            decided = accepted()
            assert decided.resolution is not None
            otherwise = replace(decided, resolution=replace(decided.resolution, resolution=other))
            assert accepted_further(otherwise, Offset(160), at=700.0) is None
    assert accepted_further(accepted(GapReason.EXTERNAL_RESET), Offset(160), at=700.0) is None
    bounded = accepted(end_max=Offset(160))
    assert accepted_further(bounded, Offset(160), at=700.0) is not None
    assert accepted_further(bounded, Offset(161), at=700.0) is None
