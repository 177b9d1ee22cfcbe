"""The settings the engine decides by: frozen, complete, validated where they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sidecar.core.types import GapReason, GroupId, IsolationLevel


class Start(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    REFUSE = "refuse"


class Adopt(StrEnum):
    COMMIT = "commit"
    HOLD = "hold"


class OnGap(StrEnum):
    HOLD = "hold"
    ACCEPT = "accept"


class Ordering(StrEnum):
    PARTITION = "partition"
    KEY = "key"
    UNORDERED = "unordered"


@dataclass(frozen=True, slots=True)
class Policy:
    """Durations in seconds, sizes in bytes, the rest in records unless named."""

    group: GroupId
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    start: Start = Start.EARLIEST
    adopt: Adopt = Adopt.COMMIT
    on_gap: Mapping[GapReason, OnGap] = field(default_factory=dict)
    ordering: Ordering = Ordering.PARTITION
    overlap_records: int = 64
    receipts_retained_max: int = 10_000
    page_records_max: int = 500
    page_bytes_max: int = 1_048_576
    page_deadline_seconds: float = 30.0
    session_timeout_seconds: float = 10.0
    commit_interval_seconds: float = 0.25
    topic_unknown_seconds: float = 30.0
    """How long a topic must stay unknown, or an epoch fallen, before it counts."""
    hanging_transaction_seconds: float = 90.0
    """How long the last stable offset must stand below the end before a transaction hangs."""
    no_progress_seconds: float = 30.0
    """How long nothing may be read, although there is something, before that is said."""
    horizon_records: int = 5_000
    """How far beyond the position records may be handed out without another write."""
    buffer_pages: int = 4
    """Pages read ahead of the application, per partition at least, before fetching waits; records
    may be as many, and in bytes it is the bound."""
    buffer_pages_max: int = 16
    buffer_records: int = 32_000
    """Records read ahead of all partitions together, where that allows for more pages of each: the
    more there are, the less one partition's run of records keeps the others waiting."""
    retry_seconds_min: float = 0.1
    retry_seconds_max: float = 5.0
    witness_digests: int = 8
