"""Past-tense facts the engine states about itself; telemetry turns each into a log line and a
metric, and neither the engine nor the core knows how.

Nothing here is per record: the finest grain is a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sidecar.core.faults import Fault
from sidecar.core.gap import Gap
from sidecar.core.request import Request
from sidecar.core.types import (
    Condition,
    Fields,
    Offset,
    Outcome,
    Partition,
    PartitionState,
    Verdict,
)


@dataclass(frozen=True, slots=True)
class PartitionsAssigned:
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class PartitionsRevoked:
    partitions: tuple[Partition, ...]
    lost: bool


@dataclass(frozen=True, slots=True)
class VerdictReached:
    """`evidence` holds the numbers that decided; it is logged whole."""

    partition: Partition
    verdict: Verdict
    detail: str
    evidence: Fields


@dataclass(frozen=True, slots=True)
class StateChanged:
    partition: Partition
    state: PartitionState
    reason: Verdict | None
    detail: str


@dataclass(frozen=True, slots=True)
class RecoveryEnded:
    """`result` is `verified`, `boundary`, `gap`, `held` or `abandoned`; counts are of receipts."""

    partition: Partition
    verdict: Verdict
    result: str
    seconds: float
    matched: int
    mismatched: int
    inconclusive: int
    anchor: Offset | None
    next: Offset


@dataclass(frozen=True, slots=True)
class PageOffered:
    partition: Partition
    first: Offset
    last: Offset
    attempt: int


@dataclass(frozen=True, slots=True)
class PromotionEnded:
    """`result` is `won`, `lost` or `error`; `seconds` from hand-out to the report."""

    partition: Partition
    result: str
    applied: Offset
    generation: int
    outcomes: Mapping[Outcome, int]
    delivery_seconds: float | None


@dataclass(frozen=True, slots=True)
class CommitEnded:
    committed: Mapping[Partition, Offset]
    refused: Mapping[Partition, Fault]


@dataclass(frozen=True, slots=True)
class HoleCovered:
    """Offsets with no visible record, shown to hide no loss. `kind`: `inner` or `trailing`."""

    partition: Partition
    first: Offset
    end: Offset
    kind: str


@dataclass(frozen=True, slots=True)
class GapOpened:
    gap: Gap


@dataclass(frozen=True, slots=True)
class GapChanged:
    """Acknowledged, resolved, superseded or grown; the last audit entry says which."""

    gap: Gap


@dataclass(frozen=True, slots=True)
class RequestSettled:
    """What somebody asked was done or refused; the request says which, and who asked."""

    request: Request


@dataclass(frozen=True, slots=True)
class CaughtUp:
    partition: Partition
    position: Offset


@dataclass(frozen=True, slots=True)
class ConditionChanged:
    partition: Partition
    condition: Condition
    present: bool
    detail: str


@dataclass(frozen=True, slots=True)
class FaultMet:
    """One lasting fault is stated once, and its end once."""

    fault: Fault
    partition: Partition | None


@dataclass(frozen=True, slots=True)
class DependencyChanged:
    """`code` is the vendor's name for the fault, for the log alone."""

    component: str
    up: bool
    reason: str | None
    detail: str | None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class StoreJudged:
    """What the store's own settings promise. `refused` says why it is not used at all."""

    refused: str | None
    warnings: tuple[str, ...]


Fact: TypeAlias = (
    PartitionsAssigned
    | PartitionsRevoked
    | VerdictReached
    | StateChanged
    | RecoveryEnded
    | PageOffered
    | PromotionEnded
    | CommitEnded
    | HoleCovered
    | GapOpened
    | GapChanged
    | RequestSettled
    | CaughtUp
    | ConditionChanged
    | FaultMet
    | DependencyChanged
    | StoreJudged
)
