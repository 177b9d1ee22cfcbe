"""The bodies of requests and answers: one Struct each, from which msgspec makes JSON, MessagePack
and the schemas of `/openapi.json`.

What is asked is strict: a field nobody knows is refused, since a misspelt `through` would turn
"up to here" into "all of it". What is answered may gain fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from sidecar.core.gap import Gap, GapEvent, GapState, Resolution
from sidecar.core.holds import ANSWERS, MENDS
from sidecar.core.types import Condition, GapReason, Outcome, PartitionState, Verdict
from sidecar.core.views import (
    HoldView,
    PartitionView,
    ReportAnswer,
    StatusView,
)

WAIT_SECONDS_MAX = 60
WAIT_SECONDS_DEFAULT = 20

Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Text = Annotated[str, Meta(min_length=1, max_length=2_000)]
Person = Annotated[str, Meta(min_length=1, max_length=200)]
Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
HeldName = Annotated[
    str, Meta(extra_json_schema={"enum": sorted(held.value for held in (*ANSWERS, *MENDS))})
]
Evidence: TypeAlias = dict[str, Any]


def rfc3339(seconds: float) -> str:
    return (
        datetime.fromtimestamp(seconds, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


# Asked


class PageBody(msgspec.Struct, forbid_unknown_fields=True):
    """`records_max` and `topic`, `partition` narrow what is wanted; null takes any."""

    wait_seconds: Annotated[float, Meta(ge=0, le=WAIT_SECONDS_MAX)] = WAIT_SECONDS_DEFAULT
    records_max: Annotated[int, Meta(ge=1)] | None = None
    topic: Annotated[str, Meta(min_length=1, max_length=249)] | None = None
    partition: Annotated[int, Meta(ge=0)] | None = None


class RecordOutcome(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`reason` is for people; it is bounded and not kept."""

    offset: Offset
    outcome: Outcome
    reason: Annotated[str, Meta(max_length=1_000)] | None = None


class ReportWhole(msgspec.Struct, forbid_unknown_fields=True):
    """One outcome for every record of the page, or for those up to and with `through`."""

    outcome: Outcome
    through: Offset | None = None


class ReportEach(msgspec.Struct, forbid_unknown_fields=True):
    """An outcome for each record named; the others stay unresolved."""

    outcomes: list[RecordOutcome]


class ReportBody(msgspec.Struct, forbid_unknown_fields=True):
    """Either of the two; documented as `ReportWhole` or `ReportEach`."""

    outcome: Outcome | None = None
    through: Offset | None = None
    outcomes: list[RecordOutcome] | None = None


class AcknowledgeBody(msgspec.Struct, forbid_unknown_fields=True):
    by: Person
    why: Text


class ResolveBody(msgspec.Struct, forbid_unknown_fields=True):
    """`fence` was taken by `/fence` after the gap opened; `resume_at` where a person says."""

    resolution: Resolution
    by: Person
    why: Text
    evidence: Annotated[str, Meta(max_length=10_000)] | None = None
    fence: Offset | None = None
    resume_at: Offset | None = None
    end_max: Offset | None = None


class AnswerBody(msgspec.Struct, forbid_unknown_fields=True):
    answer: Annotated[str, Meta(min_length=1, max_length=100)]
    by: Person
    why: Text


# Answered


class RecordItem(msgspec.Struct, gc=False):
    """`value` null is a tombstone, empty an empty value. `timestamp` in milliseconds; null: none.
    Headers keep order, duplicates and nulls."""

    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    idempotency_key: str
    redelivered: bool


class Page(msgspec.Struct, gc=False):
    """Records of one partition, in order. `successor` is the next offset after the page."""

    page: str
    topic: str
    partition: int
    generation: int
    first: int
    last: int
    successor: int
    remaining_records: int
    attempt: int
    deadline: Time
    records: list[RecordItem]


class Reported(msgspec.Struct):
    """Receipts, `applied` and `next` are in the store; `committed` is the group's, as far as it
    is known; `unresolved` are offsets of the page without a terminal outcome."""

    applied: int
    next: int
    generation: int
    committed: int | None
    unresolved: list[int]

    @classmethod
    def of(cls, answer: ReportAnswer) -> Reported:
        return cls(
            applied=answer.applied,
            next=answer.next,
            generation=answer.generation,
            committed=answer.committed,
            unresolved=list(answer.unresolved),
        )


class PartitionItem(msgspec.Struct):
    """One assigned partition; offsets are null while unknown. Lag is an upper bound."""

    topic: str
    partition: int
    state: PartitionState
    reason: Verdict | None
    verdict: Verdict | None
    applied: int | None
    next: int | None
    committed: int | None
    generation: int | None
    cluster_id: str | None
    topic_id: str | None
    leader_epoch: int | None
    log_start: int | None
    log_end: int | None
    lag_records: int | None
    caught_up: bool
    conditions: list[Condition]
    gap: str | None
    hold: str | None
    since: Time
    detail: str

    @classmethod
    def of(cls, view: PartitionView) -> PartitionItem:
        return cls(
            topic=view.topic,
            partition=view.partition,
            state=view.state,
            reason=view.reason,
            verdict=view.verdict,
            applied=view.applied,
            next=view.next,
            committed=view.committed,
            generation=view.generation,
            cluster_id=view.cluster_id,
            topic_id=view.topic_id,
            leader_epoch=view.leader_epoch,
            log_start=view.log_start,
            log_end=view.log_end,
            lag_records=view.lag_records,
            caught_up=view.caught_up,
            conditions=list(view.conditions),
            gap=view.gap,
            hold=view.hold,
            since=rfc3339(view.since),
            detail=view.detail,
        )


class Partitions(msgspec.Struct):
    partitions: list[PartitionItem]


class AuditItem(msgspec.Struct):
    at: Time
    what: str
    by: str
    why: str
    evidence: Evidence

    @classmethod
    def of(cls, event: GapEvent) -> AuditItem:
        return cls(
            at=rfc3339(event.at),
            what=event.what,
            by=event.by,
            why=event.why,
            evidence=dict(event.evidence),
        )


class Acknowledged(msgspec.Struct):
    at: Time
    by: str
    why: str


class ResolutionItem(msgspec.Struct):
    """`resume_at` is where reading goes on."""

    resolution: Resolution
    by: str
    why: str
    at: Time
    resume_at: int
    fence: int | None
    end_max: int | None
    evidence: str | None


class FenceItem(msgspec.Struct):
    fence: int
    at: Time


class GapItem(msgspec.Struct):
    """`[first, end)` is not known to be covered; `end` is null while it cannot be known."""

    id: str
    topic: str
    partition: int
    first: int
    end: int | None
    reason: GapReason
    state: GapState
    evidence: Evidence
    generation: int
    opened_at: Time
    acknowledged: Acknowledged | None
    resolution: ResolutionItem | None
    audit: list[AuditItem]
    cluster_id: str
    topic_id: str | None
    lineage: int
    superseded_by: str | None
    fences: list[FenceItem]

    @classmethod
    def of(cls, gap: Gap) -> GapItem:
        seen, decided = gap.acknowledged, gap.resolution
        return cls(
            id=gap.id,
            topic=gap.partition.topic,
            partition=gap.partition.index,
            first=gap.interval.first,
            end=gap.interval.end,
            reason=gap.reason,
            state=gap.state,
            evidence=dict(gap.evidence),
            generation=gap.generation,
            opened_at=rfc3339(gap.opened_at),
            acknowledged=None
            if seen is None
            else Acknowledged(at=rfc3339(seen.at), by=seen.by, why=seen.why),
            resolution=None
            if decided is None
            else ResolutionItem(
                resolution=decided.resolution,
                by=decided.by,
                why=decided.why,
                at=rfc3339(decided.at),
                resume_at=decided.resume_at,
                fence=decided.fence,
                end_max=decided.end_max,
                evidence=decided.evidence,
            ),
            audit=[AuditItem.of(event) for event in gap.audit],
            cluster_id=gap.cluster_id,
            topic_id=gap.topic_id,
            lineage=gap.lineage,
            superseded_by=gap.superseded_by,
            fences=[FenceItem(fence=fence, at=rfc3339(at)) for fence, at in gap.fences],
        )


class Gaps(msgspec.Struct):
    gaps: list[GapItem]


class Fence(msgspec.Struct):
    """The end offset now; read a snapshot taken after this answer."""

    fence: int


class HoldItem(msgspec.Struct):
    """A hold that is no gap, or a replay that was asked for; `answers` are the permitted ones,
    `meanings` what each does. Without any, `mends` says what mends the cause."""

    id: str
    topic: str
    partition: int
    verdict: HeldName
    evidence: Evidence
    answers: list[str]
    since: Time
    detail: str
    meanings: dict[str, str]
    mends: str

    @classmethod
    def of(cls, view: HoldView) -> HoldItem:
        return cls(
            id=view.id,
            topic=view.partition.topic,
            partition=view.partition.index,
            verdict=view.verdict.value,
            evidence=dict(view.evidence),
            answers=list(view.answers),
            since=rfc3339(view.since),
            detail=view.detail,
            meanings=dict(view.meanings),
            mends=view.mends,
        )


class Holds(msgspec.Struct):
    holds: list[HoldItem]


class Dependency(msgspec.Struct):
    up: bool
    since: Time
    reason: str | None
    detail: str | None


class Status(msgspec.Struct):
    """`ready` is what `/readyz` says; a gap or a held partition does not change it."""

    ready: bool
    reasons: list[str]
    group: str
    member: str | None
    cluster_id: str | None
    assigned: int
    dependencies: dict[str, Dependency]

    @classmethod
    def of(cls, view: StatusView) -> Status:
        return cls(
            ready=view.ready,
            reasons=list(view.reasons),
            group=view.group,
            member=view.member,
            cluster_id=view.cluster_id,
            assigned=view.assigned,
            dependencies={
                name: Dependency(
                    up=one.up, since=rfc3339(one.since), reason=one.reason, detail=one.detail
                )
                for name, one in view.dependencies.items()
            },
        )


class Drained(msgspec.Struct):
    """Fetching has stopped, what was out is settled or past the deadline, commits are flushed."""

    drained: bool


class Health(msgspec.Struct):
    ok: bool
    reasons: list[str]
