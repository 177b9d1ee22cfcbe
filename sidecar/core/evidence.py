"""What was asked, of whom, and what each answered. Facts only; judging is `verdict`'s.

Evidence is no snapshot, so the order of asking matters and is fixed: committed offset,
registry, checkpoint, topic ID, log end, log start. A later question can then only make an earlier
answer look older than it is, never newer; and a checkpoint asked before the registry could look
absent where the registry already says that it was started.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from sidecar.core.checkpoint import Checkpoint, Registry
from sidecar.core.faults import Answer, Known, Reading
from sidecar.core.gap import Gap
from sidecar.core.types import (
    ClusterId,
    GroupId,
    IsolationLevel,
    LeaderEpoch,
    Offset,
    Partition,
    TopicId,
)


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset, with the metadata that stands beside it."""

    next: Offset
    epoch: LeaderEpoch | None
    metadata: str | None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """`topic_id` None: this cluster offers none. What else is None could not be read.

    `batch_bytes_max`: the largest batch of records that the brokers accept for it.
    """

    topic_id: TopicId | None
    partitions: int
    compacted: bool | None
    batch_bytes_max: int | None = None


@dataclass(frozen=True, slots=True)
class LogEnd:
    """`high_watermark` is the end offset; `last_stable` is at or below it."""

    high_watermark: Offset
    last_stable: Offset
    epoch: LeaderEpoch | None

    def readable(self, isolation: IsolationLevel) -> Offset:
        """Where reading under this isolation level ends: what lag and fences are told by."""
        match isolation:
            case IsolationLevel.READ_COMMITTED:
                return self.last_stable
            case IsolationLevel.READ_UNCOMMITTED:
                return self.high_watermark
            case _:
                assert_never(isolation)


UNSAID: Answer[str] = Known("")


class Cue(StrEnum):
    """Why somebody looked. A client error is a prompt to look, never a verdict."""

    ASSIGNED = "assigned"
    CURSOR_ERROR = "cursor_error"
    TRUNCATION_REPORTED = "truncation_reported"
    LEADER_CHANGED = "leader_changed"
    TOPIC_ID_DIFFERED = "topic_id_differed"
    COMMIT_DIFFERED = "commit_differed"
    COMPARISON_LOST = "comparison_lost"
    ACCESS_DENIED = "access_denied"
    RETRY = "retry"
    REQUESTED = "requested"


@dataclass(frozen=True, slots=True)
class Stored:
    """A checkpoint as it stands, with its open gap if it names one."""

    checkpoint: Checkpoint
    gap: Gap | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """One look at one partition. `fetched_to` is where a live attempt has read to."""

    group: GroupId
    partition: Partition
    isolation: IsolationLevel
    cue: Cue
    cluster_id: Answer[ClusterId]
    committed: Reading[Committed]
    stored: Reading[Stored]
    registry: Reading[Registry]
    topic: Reading[TopicDescription]
    log_end: Answer[LogEnd]
    log_start: Answer[Offset]
    asked_at: float
    fetched_to: Offset | None = None
    store_epoch: Answer[str] = UNSAID
