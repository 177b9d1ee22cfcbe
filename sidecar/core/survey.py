"""What a partition is shown as by somebody who looks at it and has no attempt of their own.

The evidence and its verdict are the sidecar's own; what only a member knows (how far it has read,
what it handed out) is not guessed at. So a partition that may go on is `delivering` when a member
has it and `waiting` when nobody does, and it is caught up only where a member could have said so.
"""

from __future__ import annotations

from typing import assert_never

from sidecar.core.answerable import conditions_of, found
from sidecar.core.checkpoint import Checkpoint
from sidecar.core.evidence import Evidence
from sidecar.core.faults import Known
from sidecar.core.types import PartitionState, Verdict
from sidecar.core.verdict import Enrol, Go, Hold, Judgement, Open, Stand, Wait
from sidecar.core.views import PartitionView


def verdict_of(judgement: Judgement) -> Verdict | None:
    """None: the registry does not know the partition yet, so there is nothing to judge."""
    match judgement:
        case Go(verdict=verdict) | Wait(verdict=verdict) | Hold(verdict=verdict):
            return verdict
        case Open(reason=reason):
            return Verdict(reason.value)
        case Stand(gap=gap):
            return Verdict(gap.reason.value)
        case Enrol():
            return None
        case _:
            assert_never(judgement)


def detail_of(judgement: Judgement) -> str:
    match judgement:
        case Go(detail=detail) | Open(detail=detail) | Hold(detail=detail) | Enrol(detail=detail):
            return detail
        case Wait(fault=fault):
            return fault.detail
        case Stand(gap=gap, grown_to=grown_to):
            grown = "" if grown_to is None else f", and the log start has moved on to {grown_to}"
            return f"the gap {gap.interval} stands{grown}"
        case _:
            assert_never(judgement)


def state_of(judgement: Judgement, *, owned: bool) -> PartitionState:
    match judgement:
        case Go():
            return PartitionState.DELIVERING if owned else PartitionState.WAITING
        case Open() | Stand():
            return PartitionState.GAP
        case Hold():
            return PartitionState.HELD
        case Wait(verdict=verdict):
            transient = verdict is Verdict.UNAVAILABLE
            return PartitionState.WAITING if transient else PartitionState.HELD
        case Enrol():
            return PartitionState.WAITING
        case _:
            assert_never(judgement)


def checkpoint_of(evidence: Evidence, judgement: Judgement) -> Checkpoint | None:
    """The one that reading would go on from; else the one that is stored."""
    match judgement:
        case Go(base=base) | Open(base=base) | Stand(base=base):
            return base
        case Wait() | Hold() | Enrol():
            stored = evidence.stored
            return stored.value.checkpoint if isinstance(stored, Known) else None
        case _:
            assert_never(judgement)


def survey(evidence: Evidence, judgement: Judgement, *, owned: bool) -> PartitionView:
    """`owned`: a member of the group has the partition now."""
    state, verdict = state_of(judgement, owned=owned), verdict_of(judgement)
    checkpoint = checkpoint_of(evidence, judgement)
    gap = evidence.stored.value.gap if isinstance(evidence.stored, Known) else None
    end = evidence.log_end.value if isinstance(evidence.log_end, Known) else None
    next_ = None if checkpoint is None else checkpoint.token.next
    readable = None if end is None else end.readable(evidence.isolation)
    lag = None if readable is None or next_ is None else max(0, readable - next_)
    holds = [view.id for view in found(evidence, judgement) if view.verdict is verdict]
    asked = None if checkpoint is None else checkpoint.paused or checkpoint.replaying
    return PartitionView(
        topic=evidence.partition.topic,
        partition=evidence.partition.index,
        state=state,
        reason=None if isinstance(judgement, Go) else verdict,
        verdict=verdict,
        applied=None if checkpoint is None else checkpoint.applied,
        next=next_,
        committed=evidence.committed.value.next if isinstance(evidence.committed, Known) else None,
        generation=None if checkpoint is None else checkpoint.generation,
        cluster_id=None if checkpoint is None else checkpoint.identity.cluster_id,
        topic_id=None if checkpoint is None else checkpoint.identity.topic_id,
        leader_epoch=None if end is None else end.epoch,
        log_start=evidence.log_start.value if isinstance(evidence.log_start, Known) else None,
        log_end=None if end is None else end.high_watermark,
        lag_records=lag,
        caught_up=owned
        and isinstance(judgement, Go)
        and lag == 0
        and (checkpoint is None or checkpoint.replaying is None),
        conditions=conditions_of(checkpoint),
        gap=gap.id if gap is not None and gap.state.holds else None,
        hold=holds[0] if holds else None,
        since=evidence.asked_at if gap is None else gap.opened_at,
        detail=str(asked) if asked and isinstance(judgement, Go) else detail_of(judgement),
    )
