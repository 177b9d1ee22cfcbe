"""Deciding a gap: what each resolution needs, and where it lets reading go on.

A resolution is judged against evidence asked at that moment, never against what was true when
the gap was opened: the floor may have moved, the topic may be another by now.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from sidecar.core.checkpoint import Checkpoint
from sidecar.core.evidence import Evidence, Stored
from sidecar.core.faults import Known, Unreadable
from sidecar.core.gap import Decision, Gap, Resolution, resolve
from sidecar.core.policy import Policy
from sidecar.core.types import GapReason, Interval, Offset, Token
from sidecar.core.verdict import Go, describe, judge
from sidecar.core.views import Refusal, Refused, ResolveRequest


@dataclass(frozen=True, slots=True)
class Settled:
    """The gap as it is written, and the checkpoint reading goes on from."""

    gap: Gap
    checkpoint: Checkpoint


Plan: TypeAlias = Settled | Refusal


def plan(evidence: Evidence, request: ResolveRequest, policy: Policy, *, gap_id: str) -> Plan:
    """Whether `request` can hold now, and what it writes."""
    if isinstance(evidence.stored, Unreadable):
        return Refusal(
            Refused.EVIDENCE_UNAVAILABLE, evidence.stored.fault.detail, retry_after_seconds=1.0
        )
    stored = evidence.stored.value if isinstance(evidence.stored, Known) else None
    gap = None if stored is None else stored.gap
    if stored is None or gap is None or gap.id != gap_id or not gap.state.holds:
        return Refusal(Refused.GAP_CHANGED, "the gap is not open any more; list the gaps again")
    if not isinstance(evidence.log_start, Known) or not isinstance(evidence.log_end, Known):
        unread = next(
            r for r in (evidence.log_start, evidence.log_end) if isinstance(r, Unreadable)
        )
        return Refusal(Refused.EVIDENCE_UNAVAILABLE, unread.fault.detail, retry_after_seconds=1.0)
    floor, end = evidence.log_start.value, evidence.log_end.value.high_watermark
    match request.resolution:
        case Resolution.ACCEPTED:
            return _accept(evidence, request, stored.checkpoint, gap, floor, end)
        case Resolution.RETRACTED:
            return _retract(evidence, request, policy, stored.checkpoint, gap)
        case Resolution.SNAPSHOT | Resolution.BACKFILLED | Resolution.IGNORED:
            return Refusal(
                Refused.RESOLUTION_IMPOSSIBLE,
                f"{request.resolution} is not supported for {gap.reason}; "
                "use accepted or retracted",
            )


def _accept(
    evidence: Evidence,
    request: ResolveRequest,
    checkpoint: Checkpoint,
    gap: Gap,
    floor: Offset,
    end: Offset,
) -> Plan:
    if gap.reason is not GapReason.RETENTION_LOSS:
        return Refusal(
            Refused.RESOLUTION_IMPOSSIBLE,
            f"accepting a gap of reason {gap.reason} is not supported",
        )
    resume_at = Offset(max(floor, checkpoint.token.next))
    if request.resume_at is not None and request.resume_at != resume_at:
        return Refusal(
            Refused.RESOLUTION_IMPOSSIBLE,
            f"a retention loss goes on at the log start, which is {resume_at} now",
        )
    if request.end_max is not None and resume_at > request.end_max:
        return Refusal(
            Refused.RESOLUTION_IMPOSSIBLE,
            f"the log start moved on to {resume_at}, beyond end_max {request.end_max}",
        )
    if resume_at > end:
        return Refusal(Refused.RESOLUTION_IMPOSSIBLE, f"the log ends at {end}, below {resume_at}")
    return _settle(
        evidence, request, checkpoint, gap, resume_at, Interval(gap.interval.first, resume_at)
    )


def _retract(
    evidence: Evidence,
    request: ResolveRequest,
    policy: Policy,
    checkpoint: Checkpoint,
    gap: Gap,
) -> Plan:
    """Retracted: the evidence now shows that there was none."""
    without = Stored(replace(checkpoint, gap=None), None)
    judged = judge(replace(evidence, stored=Known(without)), policy)
    if not isinstance(judged, Go):
        return Refusal(
            Refused.RESOLUTION_IMPOSSIBLE,
            "the evidence still shows this gap; it cannot be retracted",
        )
    return _settle(evidence, request, checkpoint, gap, checkpoint.token.next, gap.interval)


def _settle(
    evidence: Evidence,
    request: ResolveRequest,
    checkpoint: Checkpoint,
    gap: Gap,
    resume_at: Offset,
    interval: Interval,
) -> Plan:
    decision = Decision(
        resolution=request.resolution,
        by=request.by,
        why=request.why,
        at=evidence.asked_at,
        resume_at=resume_at,
        fence=request.fence,
        end_max=request.end_max,
        evidence=request.evidence,
    )
    settled = resolve(gap, decision, end=interval.end, evidence=describe(evidence))
    if settled is None:
        return Refusal(Refused.GAP_CHANGED, "the gap is not open any more; list the gaps again")
    moved = resume_at != checkpoint.token.next
    return Settled(
        settled,
        replace(
            checkpoint,
            token=Token(resume_at, None) if moved else checkpoint.token,
            gap=None,
        ),
    )
