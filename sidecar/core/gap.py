"""A gap: an interval of the log that nobody can show was covered, and what became of it.

It is opened by evidence, stops its partition, and stays until a person or the application
resolves it: open, acknowledged, resolved; or superseded by graver evidence (identity before
content before range). Each step is a pure function from a gap to a gap; whether it may happen is
decided here, and that nobody else did it in between is decided by the store's comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from sidecar.core.types import (
    ClusterId,
    Fields,
    GapId,
    GapReason,
    Generation,
    GroupId,
    Interval,
    Offset,
    Partition,
    TopicId,
)

AUDIT_ENTRIES_MAX = 64


class GapState(StrEnum):
    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"
    SUPERSEDED = "superseded"

    @property
    def holds(self) -> bool:
        """An acknowledged gap still stops its partition: reading it is not deciding it."""
        return self in (GapState.OPEN, GapState.ACKNOWLEDGED)


class Resolution(StrEnum):
    SNAPSHOT = "snapshot"
    BACKFILLED = "backfilled"
    ACCEPTED = "accepted"
    IGNORED = "ignored"
    RETRACTED = "retracted"


@dataclass(frozen=True, slots=True)
class GapEvent:
    """One line of a gap's history. `at` in Unix seconds."""

    at: float
    what: str
    by: str
    why: str
    evidence: Fields = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided: the resolution, where reading goes on, and what it rests on."""

    resolution: Resolution
    by: str
    why: str
    at: float
    resume_at: Offset
    fence: Offset | None = None
    end_max: Offset | None = None
    evidence: str | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """`interval.first` is the first offset not known to be covered.

    `fences` are end offsets asked while it was open (offset, Unix seconds).
    """

    id: GapId
    reason: GapReason
    group: GroupId
    partition: Partition
    cluster_id: ClusterId
    topic_id: TopicId | None
    lineage: int
    interval: Interval
    state: GapState
    evidence: Fields
    generation: Generation
    opened_at: float
    acknowledged: GapEvent | None = None
    resolution: Decision | None = None
    superseded_by: GapId | None = None
    fences: tuple[tuple[Offset, float], ...] = ()
    audit: tuple[GapEvent, ...] = ()

    def noted(self, event: GapEvent) -> Gap:
        """With one more line of history; the first line and the newest ones are kept."""
        audit = (*self.audit, event)
        if len(audit) > AUDIT_ENTRIES_MAX:
            audit = (audit[0], *audit[-(AUDIT_ENTRIES_MAX - 1) :])
        return replace(self, audit=audit)


_GRAVITY: Mapping[GapReason, int] = MappingProxyType(
    {
        GapReason.COVERAGE_UNKNOWN: 0,
        GapReason.RETENTION_LOSS: 1,
        GapReason.CURSOR_AHEAD: 2,
        GapReason.EXTERNAL_RESET: 2,
        GapReason.LOG_TRUNCATED: 3,
        GapReason.LOG_DIVERGED: 4,
        GapReason.STORE_LOST: 5,
        GapReason.TOPIC_RECREATED: 6,
    }
)
"""Range below content below identity: only something graver supersedes an open gap."""


def graver(candidate: GapReason, standing: GapReason) -> bool:
    return _GRAVITY[candidate] > _GRAVITY[standing]


def acknowledge(gap: Gap, *, by: str, why: str, at: float) -> Gap | None:
    """The gap, acknowledged; None when it no longer holds anything."""
    if not gap.state.holds:
        return None
    event = GapEvent(at, "acknowledged", by, why)
    return replace(gap, state=GapState.ACKNOWLEDGED, acknowledged=event).noted(event)


def fenced(gap: Gap, *, fence: Offset, at: float) -> Gap | None:
    if not gap.state.holds:
        return None
    event = GapEvent(at, "fence taken", "application", "", {"fence": fence})
    return replace(gap, fences=(*gap.fences[-7:], (fence, at))).noted(event)


def resolve(gap: Gap, decision: Decision, *, end: Offset | None, evidence: Fields) -> Gap | None:
    """Settled: `end` is written now, from evidence asked now."""
    if not gap.state.holds:
        return None
    event = GapEvent(
        decision.at,
        f"resolved: {decision.resolution}",
        decision.by,
        decision.why,
        {**evidence, "resume_at": decision.resume_at},
    )
    settled = gap.interval if end is None else Interval(gap.interval.first, end)
    return replace(gap, state=GapState.RESOLVED, resolution=decision, interval=settled).noted(event)


def accepted_further(gap: Gap, end: Offset, *, at: float) -> Gap | None:
    """An accepted loss whose end moved on before the first record was read: what is lost up to
    there joins it. None when that was not accepted: another resolution, or beyond `end_max`."""
    decision = gap.resolution
    if (
        decision is None
        or decision.resolution is not Resolution.ACCEPTED
        or gap.reason not in (GapReason.RETENTION_LOSS, GapReason.COVERAGE_UNKNOWN)
        or (decision.end_max is not None and end > decision.end_max)
    ):
        return None
    event = GapEvent(
        at,
        "grown after it was accepted",
        "sidecar",
        f"the log start moved on to {end} before a record was read",
        {"from": decision.resume_at, "to": end},
    )
    grown = replace(
        gap,
        interval=Interval(gap.interval.first, end),
        resolution=replace(decision, resume_at=end),
    )
    return grown.noted(event)


def supersede(gap: Gap, by_gap: GapId, *, at: float) -> Gap:
    event = GapEvent(at, "superseded", "sidecar", f"by {by_gap}")
    return replace(gap, state=GapState.SUPERSEDED, superseded_by=by_gap).noted(event)


def grow(gap: Gap, end: Offset, *, at: float) -> Gap:
    """The floor moved on while the gap was open."""
    event = GapEvent(at, "grew", "sidecar", "the log start moved", {"end": end})
    return replace(gap, interval=Interval(gap.interval.first, end)).noted(event)
