"""The words everything else is written in.

Three coordinates are kept apart, because one number cannot mean all of them:

- a *token* `(next, epoch)` says where to fetch; the broker may refuse it, and that undoes nothing;
- the *applied position* `next - 1` says what was done, and never moves backward in a lineage;
- the *generation* says who may move it: every successful checkpoint write raises it.

Offsets are Kafka's: a position is the next offset to read. Where a value is the *last* one read
or applied, its name says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, NewType, TypeAlias

Offset = NewType("Offset", int)
"""A position in one partition's log, in one incarnation."""
Generation = NewType("Generation", int)
"""Raised by one with every successful write of a checkpoint."""
LeaderEpoch = NewType("LeaderEpoch", int)
Digest = NewType("Digest", int)
"""64 bits over a record's canonical frame (`sidecar.kafka.frames`)."""
DIGEST_SCHEME = 1
"""Which frame and which hash digests are of. Receipts and witnesses name it: digests of different
schemes say nothing about one another."""

GroupId = NewType("GroupId", str)
ClusterId = NewType("ClusterId", str)
TopicId = NewType("TopicId", str)
"""Kafka's topic UUID as text; `None` wherever a cluster offers none."""
StoreId = NewType("StoreId", str)
"""The name a store gave itself when a group's registry was created in it."""
OwnerId = NewType("OwnerId", str)
"""One attempt's owner mark: unique per process and claim."""
AttemptId = NewType("AttemptId", str)
"""Unique per write, so that an answer that was lost can be looked up."""
GapId = NewType("GapId", str)
HoldId = NewType("HoldId", str)
PageId = NewType("PageId", str)
SessionId = NewType("SessionId", int)
"""One assignment of one partition to the fetcher; events of an older one are discarded."""

Json: TypeAlias = (
    "str | int | float | bool | Mapping[str, Json] | list[Json] | tuple[Json, ...] | None"
)
Fields: TypeAlias = Mapping[str, Json]
"""Evidence as it is shown to people and stored with a gap. Never a payload, never a secret."""

Headers: TypeAlias = list[tuple[str, bytes | None]]
Record: TypeAlias = tuple[int | None, bytes | None, bytes | None, Headers | None]
"""One record as it was read: timestamp in milliseconds (None: none), key, value, headers.

A plain tuple, because there may be a million a second. Only the application's side looks inside.
"""


class Partition(NamedTuple):
    """A tuple, because every step looks something up by it: it is hashed and compared by C."""

    topic: str
    index: int  # type: ignore[assignment]  # nobody looks a value up in it

    def __str__(self) -> str:
        return f"{self.topic}/{self.index}"


@dataclass(frozen=True, slots=True)
class Token:
    """Where to fetch: the next offset, and the leader epoch of the last record below it."""

    next: Offset
    epoch: LeaderEpoch | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """One run of a partition's history; a resolution that has to go back begins another."""

    number: int
    first: Offset


@dataclass(frozen=True, slots=True)
class Interval:
    """`[first, end)`; `end` is None while it cannot be known."""

    first: Offset
    end: Offset | None

    def __str__(self) -> str:
        return f"[{self.first}, {'?' if self.end is None else self.end})"


@dataclass(frozen=True, slots=True)
class Instant:
    """`monotonic` in seconds for durations, `wall` in Unix seconds for records."""

    monotonic: float
    wall: float


class Outcome(StrEnum):
    """What became of a record. All but `retry` are terminal."""

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    DEAD_LETTERED = "dead_lettered"
    DROPPED = "dropped"
    RETRY = "retry"

    @property
    def terminal(self) -> bool:
        return self is not Outcome.RETRY


UNREAD = Digest(0)
"""In place of the digest of a record that could not be read: there is nothing to compare, and what
is remembered around it still can be. A record whose own digest is this one is not compared."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is remembered of a record with a terminal outcome. The payload is not."""

    offset: Offset
    digest: Digest
    outcome: Outcome


class PartitionState(StrEnum):
    WAITING = "waiting"
    RECOVERING = "recovering"
    DELIVERING = "delivering"
    HELD = "held"
    GAP = "gap"


class Verdict(StrEnum):
    """What the evidence means. `sidecar.core.verdict` gives one, and only one."""

    RESUME = "resume"
    RESUME_AT_BOUNDARY = "resume_at_boundary"
    COMMIT_EXPIRED = "commit_expired"
    COMMIT_BEHIND = "commit_behind"
    STORE_ROLLED_BACK = "store_rolled_back"
    STORE_LOST = "store_lost"
    ADOPTED = "adopted"
    NEW_GROUP = "new_group"
    NEW_PARTITION = "new_partition"
    RETENTION_LOSS = "retention_loss"
    LOG_TRUNCATED = "log_truncated"
    CURSOR_AHEAD = "cursor_ahead"
    TOPIC_RECREATED = "topic_recreated"
    LOG_DIVERGED = "log_diverged"
    EXTERNAL_RESET = "external_reset"
    COVERAGE_UNKNOWN = "coverage_unknown"
    FOREIGN_CHECKPOINT = "foreign_checkpoint"
    SCOPE_CHANGED = "scope_changed"
    FORMAT_UNKNOWN = "format_unknown"
    START_REFUSED = "start_refused"
    BLOCKED_RECORD = "blocked_record"
    AUTHORIZATION = "authorization"
    AUTHENTICATION = "authentication"
    TOPIC_UNKNOWN = "topic_unknown"
    UNAVAILABLE = "unavailable"
    UNKNOWN = "unknown"


class Condition(StrEnum):
    """Stands beside a verdict. `PAUSED` and `REPLAYING`, which somebody asked for, keep new records
    back; the others hold nothing that can be delivered."""

    HANGING_TRANSACTION = "hanging_transaction"
    COMMIT_REFUSED = "commit_refused"
    REPLAY_REQUESTED = "replay_requested"
    NO_PROGRESS = "no_progress"
    REPLAYING = "replaying"
    """Records that were applied are delivered again, because somebody asked for it."""
    PAUSED = "paused"
    """Somebody wants nothing delivered of it."""


class GapReason(StrEnum):
    RETENTION_LOSS = "retention_loss"
    LOG_TRUNCATED = "log_truncated"
    CURSOR_AHEAD = "cursor_ahead"
    TOPIC_RECREATED = "topic_recreated"
    LOG_DIVERGED = "log_diverged"
    EXTERNAL_RESET = "external_reset"
    STORE_LOST = "store_lost"
    COVERAGE_UNKNOWN = "coverage_unknown"


class IsolationLevel(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"
