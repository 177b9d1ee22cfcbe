"""What the engine is told, and what it asks to have done. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType, TypeAlias

from sidecar.core import evidence
from sidecar.core.checkpoint import Install, InstallResult, Memory, OwnerMark, Registry
from sidecar.core.enrolment import Create, GroupEvidence, Register
from sidecar.core.evidence import Cue, Evidence, LogEnd, TopicDescription
from sidecar.core.facts import Fact
from sidecar.core.faults import Answer, Fault, Reading
from sidecar.core.forecast import Retention, Stamp
from sidecar.core.request import Request
from sidecar.core.types import (
    LeaderEpoch,
    Offset,
    OwnerId,
    PageId,
    Partition,
    SessionId,
    StoreId,
)
from sidecar.core.views import (
    PageOffer,
    PageRequest,
    Refusal,
    Report,
    ReportAnswer,
)
from sidecar.ports import CommitRequest, FetchEvent

RequestId = NewType("RequestId", int)
"""Somebody outside waits for an answer under this number."""
Ask = NewType("Ask", int)
"""The number of one question of the engine's."""


class Purpose(StrEnum):
    """What an install is for."""

    CLAIM = "claim"
    PROMOTE = "promote"
    HORIZON = "horizon"
    OPEN = "open"
    GROW = "grow"
    RESOLVE = "resolve"
    NOTE = "note"
    """What stands beside the position: paused, a replay that was asked for."""
    REPLAY = "replay"


# Commands


@dataclass(frozen=True, slots=True)
class Look:
    """Gather evidence, in the order of `core.evidence`, for all of these at once."""

    ask: Ask
    cues: Mapping[Partition, Cue]
    fetched_to: Mapping[Partition, Offset]


@dataclass(frozen=True, slots=True)
class GatherGroup:
    """Ask for what the registry is made of."""

    ask: Ask
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteRegistry:
    ask: Ask
    enrolment: Create | Register


@dataclass(frozen=True, slots=True)
class PerformInstall:
    install: Install
    after_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ReadMemory:
    ask: Ask
    partition: Partition
    receipts_min: int


@dataclass(frozen=True, slots=True)
class MarkStarted:
    """`store` is the registry that is meant."""

    ask: Ask
    store: StoreId
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Fetch:
    partition: Partition
    session: SessionId
    at: Offset
    epoch: LeaderEpoch | None


@dataclass(frozen=True, slots=True)
class Release:
    partition: Partition


@dataclass(frozen=True, slots=True)
class Pause:
    partition: Partition


@dataclass(frozen=True, slots=True)
class Resume:
    partition: Partition


@dataclass(frozen=True, slots=True)
class Throttle:
    full: bool


@dataclass(frozen=True, slots=True)
class AskFloors:
    ask: Ask
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class AskBounds:
    ask: Ask
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class AskRetention:
    """What takes records away, and how old the first ones at these offsets are."""

    ask: Ask
    topics: tuple[str, ...]
    offsets: Mapping[Partition, Offset]


@dataclass(frozen=True, slots=True)
class AskTopics:
    ask: Ask
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AskOwners:
    """`heard`: the counters of requests as they were read last. Where another one stands, or none
    can, the requests are read, too."""

    ask: Ask
    partitions: tuple[Partition, ...]
    heard: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """`owner` must stand in the checkpoint; None: there is none."""

    ask: Ask
    request: Request
    owner: OwnerId | None


@dataclass(frozen=True, slots=True)
class AskCommitted:
    ask: Ask
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    ask: Ask
    offsets: Mapping[Partition, CommitRequest]


@dataclass(frozen=True, slots=True)
class FinishRevoke:
    answer: Callable[[Mapping[Partition, CommitRequest]], None]
    offsets: Mapping[Partition, CommitRequest]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer somebody outside waits for."""

    request: RequestId
    answer: PageOffer | ReportAnswer | Refusal | None


@dataclass(frozen=True, slots=True)
class Note:
    fact: Fact


Command: TypeAlias = (
    Look
    | GatherGroup
    | WriteRegistry
    | PerformInstall
    | ReadMemory
    | MarkStarted
    | Fetch
    | Release
    | Pause
    | Resume
    | Throttle
    | AskFloors
    | AskBounds
    | AskRetention
    | AskTopics
    | AskOwners
    | AnswerRequest
    | AskCommitted
    | Commit
    | FinishRevoke
    | Reply
    | Note
)


# Events, beside the fetcher's own


@dataclass(frozen=True, slots=True)
class Looked:
    ask: Ask
    evidence: Mapping[Partition, Evidence]
    requests: Mapping[Partition, Answer[Sequence[Request]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupGathered:
    ask: Ask
    evidence: GroupEvidence


@dataclass(frozen=True, slots=True)
class RegistryWritten:
    ask: Ask
    answer: Answer[Registry]


@dataclass(frozen=True, slots=True)
class InstallAnswered:
    """`asked_at`: monotonic seconds when the question left."""

    install: Install
    result: InstallResult
    asked_at: float


@dataclass(frozen=True, slots=True)
class MemoryRead:
    ask: Ask
    partition: Partition
    answer: Answer[Memory]


@dataclass(frozen=True, slots=True)
class StartedMarked:
    ask: Ask
    partitions: tuple[Partition, ...]
    fault: Fault | None


@dataclass(frozen=True, slots=True)
class FloorsAnswered:
    ask: Ask
    floors: Mapping[Partition, Answer[Offset]]


@dataclass(frozen=True, slots=True)
class BoundsAnswered:
    ask: Ask
    ends: Mapping[Partition, Answer[LogEnd]]
    starts: Mapping[Partition, Answer[Offset]]


@dataclass(frozen=True, slots=True)
class RetentionAnswered:
    ask: Ask
    retentions: Mapping[str, Answer[Retention]]
    stamps: Mapping[Partition, Reading[Stamp]]


@dataclass(frozen=True, slots=True)
class TopicsAnswered:
    ask: Ask
    topics: Mapping[str, Reading[TopicDescription]]


@dataclass(frozen=True, slots=True)
class OwnersAnswered:
    ask: Ask
    marks: Mapping[Partition, Reading[OwnerMark]]
    asked_at: float
    requests: Mapping[Partition, Answer[Sequence[Request]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestAnswered:
    ask: Ask
    request: Request
    answer: Answer[Request]


@dataclass(frozen=True, slots=True)
class RequestLeft:
    """Our own HTTP side left a request of this partition: it need not wait for the next look."""

    partition: Partition


@dataclass(frozen=True, slots=True)
class CommittedAnswered:
    ask: Ask
    committed: Mapping[Partition, Reading[evidence.Committed]]


@dataclass(frozen=True, slots=True)
class Committed:
    ask: Ask
    results: Mapping[Partition, Fault | None]


@dataclass(frozen=True, slots=True)
class PageWanted:
    request: RequestId
    page: PageRequest


@dataclass(frozen=True, slots=True)
class RequestDropped:
    """Whoever asked is gone or waited long enough: no reply is wanted."""

    request: RequestId


@dataclass(frozen=True, slots=True)
class Reported:
    request: RequestId
    page: PageId
    report: Report
    wait_committed: bool


@dataclass(frozen=True, slots=True)
class DrainAsked:
    """Stop fetching and offering, finish what is out, flush; then reply. The membership stays."""

    request: RequestId


@dataclass(frozen=True, slots=True)
class StoreRefused:
    """The store must not be used (it evicts): nothing is handed out while `why` is not None."""

    why: str | None


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed; sent a few times a second."""


Event: TypeAlias = (
    FetchEvent
    | Looked
    | GroupGathered
    | RegistryWritten
    | InstallAnswered
    | MemoryRead
    | StartedMarked
    | FloorsAnswered
    | BoundsAnswered
    | RetentionAnswered
    | TopicsAnswered
    | OwnersAnswered
    | CommittedAnswered
    | Committed
    | PageWanted
    | RequestDropped
    | Reported
    | RequestAnswered
    | RequestLeft
    | DrainAsked
    | StoreRefused
    | Tick
)
