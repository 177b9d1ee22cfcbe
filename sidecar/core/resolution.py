"""Deciding a gap: what each resolution needs, and where it lets reading go on.

A resolution is judged against evidence asked at that moment, never against what was true when
the gap was opened: the floor may have moved, the topic may be another by now. Where reading goes
on must lie in what can be read; a point that the evidence does not give has to come from a person.

    retention_loss, coverage_unknown   accepted: the log start, now
    external_reset                     accepted: the foreign offset; ignored: where we stood
    log_truncated, log_diverged,       accepted: behind the last record that still matches,
      cursor_ahead                       or where a person says; a new lineage
    topic_recreated                    accepted: the new topic's log start; a new incarnation
    store_lost                         accepted: only where a person says
    any                                snapshot: a fence that was taken while the gap was open
    any                                backfilled: the end of what was backfilled, as given
    any                                retracted: the evidence now shows that there was none
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from sidecar.core.checkpoint import Checkpoint, Identity
from sidecar.core.evidence import Evidence, Stored
from sidecar.core.faults import Known, Unreadable
from sidecar.core.gap import Decision, Gap, GapEvent, Resolution, resolve
from sidecar.core.policy import Policy
from sidecar.core.types import GapReason, Interval, Lineage, Offset, Token, TopicId
from sidecar.core.verdict import Go, describe, judge
from sidecar.core.views import Refusal, Refused, ResolveRequest


@dataclass(frozen=True, slots=True)
class Settled:
    """The gap as it is written, and the checkpoint reading goes on from.

    The gap still holds when only its first part was backfilled. `history_ends`: what was
    remembered is of a lineage or an incarnation that is over, or ends before a jump, and is
    dropped: an overlap counts on remembering every visible record from its anchor on.

    `unverified`: it is dropped although it could still be compared. Whoever writes this compares it
    first: nobody can afterwards.
    """

    gap: Gap
    checkpoint: Checkpoint
    history_ends: bool
    unverified: bool = False


Plan: TypeAlias = Settled | Refusal

_NOTHING_TO_COMPARE = frozenset(
    {
        GapReason.LOG_TRUNCATED,
        GapReason.CURSOR_AHEAD,
        GapReason.STORE_LOST,
        GapReason.TOPIC_RECREATED,
    }
)
"""Gaps of these reasons say themselves that the log below is not the one that was read."""


@dataclass(frozen=True, slots=True)
class _Case:
    """What a resolution is judged by, asked now."""

    evidence: Evidence
    request: ResolveRequest
    checkpoint: Checkpoint
    gap: Gap
    floor: Offset
    end: Offset
    topic_id: TopicId | None


REWRITTEN = (GapReason.LOG_TRUNCATED, GapReason.LOG_DIVERGED, GapReason.CURSOR_AHEAD)
"""The log holds other bytes, or none, where something was applied: going on begins a lineage."""


def plan(evidence: Evidence, request: ResolveRequest, policy: Policy, *, gap_id: str) -> Plan:
    """Whether `request` can hold now, and what it writes."""
    case = _case(evidence, request, gap_id)
    if isinstance(case, Refusal):
        return case
    match request.resolution:
        case Resolution.ACCEPTED:
            at = _accepted_at(case)
        case Resolution.SNAPSHOT:
            at = _fence(case)
        case Resolution.BACKFILLED:
            at = _given(case, "the end of what was backfilled")
            if isinstance(at, int) and _falls_short(case, at):
                return _backfilled_in_part(case, at)
        case Resolution.IGNORED:
            at = _ignored_at(case)
        case Resolution.RETRACTED:
            at = _retracted_at(case, policy)
        case _:
            assert_never(request.resolution)
    if isinstance(at, Refusal):
        return at
    return _in_range(case, at) or _settle(case, at)


def _case(evidence: Evidence, request: ResolveRequest, gap_id: str) -> _Case | Refusal:
    for reading in (
        evidence.stored,
        evidence.topic,
        evidence.log_start,
        evidence.log_end,
    ):
        if isinstance(reading, Unreadable):
            return Refusal(
                Refused.EVIDENCE_UNAVAILABLE, reading.fault.detail, retry_after_seconds=1.0
            )
    stored = evidence.stored.value if isinstance(evidence.stored, Known) else None
    gap = None if stored is None else stored.gap
    if stored is None or gap is None or gap.id != gap_id or not gap.state.holds:
        return Refusal(Refused.GAP_CHANGED, "the gap is not open any more; list the gaps again")
    assert isinstance(evidence.topic, Known)
    pinned, described = stored.checkpoint.identity.topic_id, evidence.topic.value.topic_id
    if gap.reason is not GapReason.TOPIC_RECREATED and pinned is not None and pinned != described:
        return Refusal(Refused.GAP_CHANGED, "the topic was created again; list the gaps again")
    assert isinstance(evidence.log_start, Known)
    assert isinstance(evidence.log_end, Known)
    return _Case(
        evidence,
        request,
        stored.checkpoint,
        gap,
        evidence.log_start.value,
        evidence.log_end.value.high_watermark,
        evidence.topic.value.topic_id,
    )


def _accepted_at(case: _Case) -> Offset | Refusal:
    gap, request = case.gap, case.request
    match gap.reason:
        case GapReason.RETENTION_LOSS | GapReason.COVERAGE_UNKNOWN:
            return _must_be(case, Offset(max(case.floor, case.checkpoint.token.next)))
        case GapReason.TOPIC_RECREATED:
            return _must_be(case, case.floor)
        case GapReason.EXTERNAL_RESET:
            if gap.interval.end is None:
                return _given(case, "where reading goes on")
            return _must_be(case, gap.interval.end)
        case GapReason.LOG_TRUNCATED | GapReason.LOG_DIVERGED | GapReason.CURSOR_AHEAD:
            matching = gap.evidence.get("last_matching")
            if isinstance(matching, int) and request.resume_at is None:
                # Never beyond what was applied: a match of a record in hand applied nothing.
                return Offset(min(matching + 1, case.checkpoint.token.next))
            return _given(case, "where the log is known to hold what was applied, up to there")
        case GapReason.STORE_LOST:
            return _given(case, "where reading goes on")
        case _:
            assert_never(gap.reason)


def _must_be(case: _Case, at: Offset) -> Offset | Refusal:
    """The evidence gives the point; a request may name it, but not another."""
    given, most = case.request.resume_at, case.request.end_max
    if given is not None and given != at:
        return _impossible(f"accepted goes on at {at} now, not at {given}")
    if most is not None and at > most:
        return _impossible(f"the log start moved on to {at}, beyond end_max {most}")
    return at


def _given(case: _Case, what: str) -> Offset | Refusal:
    if case.request.resume_at is None:
        return _impossible(f"resume_at is needed: {what}")
    return case.request.resume_at


def _fence(case: _Case) -> Offset | Refusal:
    fence, gap = case.request.fence, case.gap
    if fence is None:
        return _impossible("fence is needed: take one, load the snapshot, then resolve with it")
    if not any(fence == taken and at >= gap.opened_at for taken, at in gap.fences):
        return _impossible(f"the fence {fence} was not taken while this gap was open")
    end = gap.interval.end
    if gap.reason is not GapReason.TOPIC_RECREATED and end is not None and fence < end:
        return _impossible(f"the fence {fence} lies below the gap's end {end}")
    return fence


def _ignored_at(case: _Case) -> Offset | Refusal:
    if case.gap.reason is not GapReason.EXTERNAL_RESET:
        return _impossible("only a foreign reset can be ignored")
    return case.checkpoint.token.next


def _retracted_at(case: _Case, policy: Policy) -> Offset | Refusal:
    """The evidence is judged once more as if there were no gap, also where a commit names it."""
    without = Stored(replace(case.checkpoint, gap=None, resolved=case.gap.id), None)
    judged = judge(replace(case.evidence, stored=Known(without)), policy)
    if not isinstance(judged, Go) or case.gap.reason is GapReason.LOG_DIVERGED:
        # A divergence is found by reading; that the range looks well says nothing about it.
        return _impossible("the evidence still shows this gap; it cannot be retracted")
    return case.checkpoint.token.next


def _falls_short(case: _Case, at: Offset) -> bool:
    end = case.gap.interval.end
    lost_to = case.floor if end is None else max(end, case.floor)
    return case.gap.reason is GapReason.RETENTION_LOSS and at < lost_to


def _backfilled_in_part(case: _Case, at: Offset) -> Plan:
    """What the gap has beyond it stays open."""
    gap, request = case.gap, case.request
    if at <= gap.interval.first:
        return _impossible(f"the gap begins at {gap.interval.first}; nothing of it was backfilled")
    end = case.floor if gap.interval.end is None else Offset(max(gap.interval.end, case.floor))
    event = GapEvent(
        case.evidence.asked_at,
        "backfilled in part",
        request.by,
        request.why,
        {"from": gap.interval.first, "to": at},
    )
    rest = replace(gap, interval=Interval(at, end)).noted(event)
    moved = replace(case.checkpoint, token=Token(at, None))
    return Settled(rest, moved, history_ends=True)


def _in_range(case: _Case, at: Offset) -> Refusal | None:
    if case.request.resolution in (Resolution.IGNORED, Resolution.RETRACTED):
        return None
    next_ = case.checkpoint.token.next
    goes_back = case.gap.reason in (*REWRITTEN, GapReason.STORE_LOST, GapReason.TOPIC_RECREATED)
    if at < next_ and not goes_back:
        return _impossible(f"{at} lies below {next_}, where this partition stands already")
    if at > next_ and case.gap.interval.first > next_:
        return _impossible(
            f"what lies between {next_} and {case.gap.interval.first} was neither applied nor lost"
        )
    if not case.floor <= at <= case.end:
        return _impossible(f"{at} cannot be read: the log holds [{case.floor}, {case.end}) now")
    return None


def _settle(case: _Case, at: Offset) -> Plan:
    gap, request = case.gap, case.request
    decision = Decision(
        resolution=request.resolution,
        by=request.by,
        why=request.why,
        at=case.evidence.asked_at,
        resume_at=at,
        fence=request.fence,
        end_max=request.end_max,
        evidence=request.evidence,
    )
    settled = resolve(gap, decision, end=_end(case, at), evidence=describe(case.evidence))
    if settled is None:
        return Refusal(Refused.GAP_CHANGED, "the gap is not open any more; list the gaps again")
    kept = request.resolution in (Resolution.IGNORED, Resolution.RETRACTED)
    goes_back = not kept and gap.reason in (
        *REWRITTEN,
        GapReason.STORE_LOST,
        GapReason.TOPIC_RECREATED,
    )
    # Behind a jump, too: records were passed that nothing is remembered of.
    history_ends = goes_back or (not kept and at != case.checkpoint.token.next)
    if kept:
        checkpoint = case.checkpoint
    elif gap.reason is GapReason.TOPIC_RECREATED:
        checkpoint = _new_incarnation(case, at)
    elif goes_back:
        checkpoint = _new_lineage(case, at)
    else:
        moved = at != case.checkpoint.token.next
        token = Token(at, None) if moved else case.checkpoint.token
        checkpoint = replace(case.checkpoint, token=token)
    return Settled(
        settled,
        replace(checkpoint, gap=None, resolved=gap.id),
        history_ends,
        unverified=history_ends and _comparable(case),
    )


def _comparable(case: _Case) -> bool:
    """Whether what is remembered can be read again, to the end. Of a log that diverged, too: it may
    have been cut once more, further below, since that was found."""
    return (
        case.gap.reason not in _NOTHING_TO_COMPARE
        and case.floor <= case.checkpoint.token.next <= case.end
    )


def _end(case: _Case, at: Offset) -> Offset | None:
    """Where the gap turned out to end. One whose end lies in another incarnation has none."""
    if case.request.resolution in (Resolution.IGNORED, Resolution.RETRACTED):
        return case.gap.interval.end
    if case.gap.reason is GapReason.TOPIC_RECREATED:
        return None
    return Offset(max(at, case.gap.interval.first))


def _new_lineage(case: _Case, at: Offset) -> Checkpoint:
    """Old bytes keep their idempotency keys, and new bytes get new ones."""
    checkpoint = case.checkpoint
    line = Lineage(checkpoint.lineage.number + 1, at)
    return replace(
        checkpoint,
        lineages=(*checkpoint.lineages, line),
        baseline=Offset(min(checkpoint.baseline, at)),
        token=Token(at, None),
        horizon=Offset(max(at, case.end)),
        replaying=None,
    )


def _new_incarnation(case: _Case, at: Offset) -> Checkpoint:
    checkpoint = case.checkpoint
    before: Identity = checkpoint.identity
    ids = (*before.former_topic_ids, before.topic_id)
    # One that is believed again is no earlier one: a broker had lagged behind, and was believed.
    former = tuple(one for one in dict.fromkeys(ids) if one not in (None, case.topic_id))
    return replace(
        checkpoint,
        identity=replace(before, topic_id=case.topic_id, former_topic_ids=former, keyed_by=None),
        lineages=(Lineage(checkpoint.lineage.number + 1, at),),
        baseline=at,
        token=Token(at, None),
        horizon=Offset(max(at, case.end)),
        replaying=None,
    )


def _impossible(detail: str) -> Refusal:
    return Refusal(Refused.RESOLUTION_IMPOSSIBLE, detail)
