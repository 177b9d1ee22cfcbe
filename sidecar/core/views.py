"""What the application and the operator are shown and may say: values of the outside contract.

Field names are the JSON names. Times are Unix seconds here and RFC 3339 on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from sidecar.core.gap import Resolution
from sidecar.core.holds import ANSWERS, MENDS, Held, answers_of
from sidecar.core.types import (
    Condition,
    Fields,
    GapId,
    HoldId,
    Offset,
    Outcome,
    PageId,
    Partition,
    PartitionState,
    Record,
    Verdict,
)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """`topic` and `partition` narrow what is wanted; None takes any."""

    records_max: int
    bytes_max: int
    topic: str | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class PageOffer:
    """A page as handed out, in order of offset.

    `key_prefixes` are runs `(first offset, "TOPICID/LINEAGE/PARTITION/")`, rising: a record's
    idempotency key is the prefix of its run followed by its offset. Records below
    `redelivered_below` may have been delivered before.
    """

    page: PageId
    partition: Partition
    generation: int
    first: Offset
    last: Offset
    successor: Offset
    remaining_records: int
    attempt: int
    deadline: float
    offsets: Sequence[int]
    records: Sequence[Record]
    key_prefixes: Sequence[tuple[Offset, str]]
    redelivered_below: Offset


@dataclass(frozen=True, slots=True)
class AllApplied:
    """`{"outcome": "applied"}`, or one outcome for every record up to and with `through`."""

    outcome: Outcome
    through: Offset | None = None


@dataclass(frozen=True, slots=True)
class Each:
    """`reason` is for logs and counters only."""

    outcomes: Sequence[tuple[Offset, Outcome]]


Report: TypeAlias = AllApplied | Each


@dataclass(frozen=True, slots=True)
class ReportAnswer:
    """`committed` is the group's committed offset as far as we know; None before the first."""

    applied: Offset
    next: Offset
    generation: int
    committed: Offset | None
    unresolved: tuple[Offset, ...]


class Refused(StrEnum):
    """A problem's `type` on the wire."""

    PAGE_LOST = "page-lost"
    PAGE_SUPERSEDED = "page-superseded"
    OFFSETS_UNKNOWN = "offsets-unknown"
    STORE_UNAVAILABLE = "store-unavailable"
    GAP_UNKNOWN = "gap-unknown"
    GAP_CHANGED = "gap-changed"
    RESOLUTION_IMPOSSIBLE = "resolution-impossible"
    HOLD_UNKNOWN = "hold-unknown"
    ANSWER_IMPOSSIBLE = "answer-impossible"
    PARTITION_UNKNOWN = "partition-unknown"
    EVIDENCE_UNAVAILABLE = "evidence-unavailable"
    UNVERIFIED = "verification-pending"
    DRAINING = "draining"
    BUSY = "busy"
    REQUEST_PENDING = "request-pending"
    REQUEST_REFUSED = "request-refused"

    @property
    def status(self) -> int:
        return _STATUS[self]


_STATUS: Mapping[Refused, int] = {
    Refused.PAGE_LOST: 409,
    Refused.PAGE_SUPERSEDED: 409,
    Refused.OFFSETS_UNKNOWN: 422,
    Refused.STORE_UNAVAILABLE: 503,
    Refused.GAP_UNKNOWN: 404,
    Refused.GAP_CHANGED: 409,
    Refused.RESOLUTION_IMPOSSIBLE: 422,
    Refused.HOLD_UNKNOWN: 404,
    Refused.ANSWER_IMPOSSIBLE: 422,
    Refused.PARTITION_UNKNOWN: 404,
    Refused.EVIDENCE_UNAVAILABLE: 503,
    Refused.UNVERIFIED: 503,
    Refused.DRAINING: 503,
    Refused.BUSY: 503,
    Refused.REQUEST_PENDING: 503,
    Refused.REQUEST_REFUSED: 422,
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """`detail` says what to do; `retry_after_seconds` when the same request may succeed later."""

    refused: Refused
    detail: str
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ResolveRequest:
    resolution: Resolution
    by: str
    why: str
    evidence: str | None = None
    fence: Offset | None = None
    resume_at: Offset | None = None
    end_max: Offset | None = None


@dataclass(frozen=True, slots=True)
class HoldView:
    """A hold that is no gap, or a pending request to deliver again: a person answers with one of
    `answers`. Without any, `mends` says what mends its cause."""

    id: HoldId
    partition: Partition
    verdict: Held
    evidence: Fields
    since: float
    detail: str

    @property
    def answers(self) -> tuple[str, ...]:
        return answers_of(self.verdict)

    @property
    def meanings(self) -> Mapping[str, str]:
        """What each answer does."""
        return ANSWERS.get(self.verdict, {})

    @property
    def mends(self) -> str:
        return MENDS.get(self.verdict, "")


@dataclass(frozen=True, slots=True)
class PartitionView:
    """Offsets are None while unknown."""

    topic: str
    partition: int
    state: PartitionState
    reason: Verdict | None
    verdict: Verdict | None
    applied: Offset | None
    next: Offset | None
    committed: Offset | None
    generation: int | None
    cluster_id: str | None
    topic_id: str | None
    leader_epoch: int | None
    log_start: Offset | None
    log_end: Offset | None
    lag_records: int | None
    caught_up: bool
    conditions: tuple[Condition, ...]
    gap: GapId | None
    hold: HoldId | None
    since: float
    detail: str
    seconds_to_loss: float | None = None
    """A lower bound; None while it cannot be said."""
    last_stable: Offset | None = None
    hanging_transaction_seconds: float | None = None
    """0 while none hangs; None where it cannot be known, or matters to nobody."""


@dataclass(frozen=True, slots=True)
class DependencyView:
    up: bool
    since: float
    reason: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class StatusView:
    ready: bool
    reasons: tuple[str, ...]
    group: str
    member: str | None
    cluster_id: str | None
    assigned: int
    dependencies: Mapping[str, DependencyView]


@dataclass(frozen=True, slots=True)
class Notice:
    """One server-sent event; `id` rises by one. `fields` is the JSON body."""

    id: int
    name: str
    at: float
    fields: Fields = field(default_factory=dict)
