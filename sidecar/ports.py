"""What the engine's surroundings must offer: each adapter implements one of these, and so does
each fake; both pass the same contract suite.

Two rules for every method. It never raises for what an operator meets in normal life: faults are
values. And it is bounded: it answers within the time its adapter was given, with `Unreadable` or
`Ambiguous` if nothing else can be said.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from sidecar.core.checkpoint import (
    Install,
    InstallResult,
    Memory,
    OwnerMark,
    RegisteredTopic,
    Registry,
)
from sidecar.core.evidence import Committed, LogEnd, Stored, TopicDescription
from sidecar.core.facts import Fact
from sidecar.core.faults import Answer, Fault, Reading
from sidecar.core.forecast import Retention, Stamp
from sidecar.core.gap import Gap
from sidecar.core.request import Request
from sidecar.core.types import (
    ClusterId,
    GapId,
    GroupId,
    HoldId,
    LeaderEpoch,
    Offset,
    OwnerId,
    PageId,
    Partition,
    Record,
    SessionId,
    StoreId,
    TopicId,
)
from sidecar.core.views import (
    HoldView,
    Notice,
    PageOffer,
    PageRequest,
    PartitionView,
    Refusal,
    Report,
    ReportAnswer,
    ResolveRequest,
    StatusView,
)


class Log(Protocol):
    """Questions to Kafka. Each asks the broker now, for all partitions at once; nothing cached."""

    async def cluster_id(self) -> Answer[ClusterId]: ...

    async def committed(
        self, partitions: Collection[Partition]
    ) -> Mapping[Partition, Reading[Committed]]: ...

    async def committed_in_group(self) -> Answer[Mapping[Partition, Committed]]:
        """Every committed offset of the group, whatever its topic."""
        ...

    async def topics(self, names: Collection[str]) -> Mapping[str, Reading[TopicDescription]]:
        """Identity and partition count; whether it is compacted. Absent is not used: an unknown
        topic is `Unreadable` with `topic_unknown`, since a broker that restarts says so too."""
        ...

    async def log_ends(
        self, partitions: Collection[Partition]
    ) -> Mapping[Partition, Answer[LogEnd]]: ...

    async def log_starts(
        self, partitions: Collection[Partition]
    ) -> Mapping[Partition, Answer[Offset]]: ...

    async def retentions(self, names: Collection[str]) -> Mapping[str, Answer[Retention]]:
        """What takes records away from each topic, by its settings."""
        ...

    async def stamps(
        self, offsets: Mapping[Partition, Offset]
    ) -> Mapping[Partition, Reading[Stamp]]:
        """The timestamp of the first record at or above each offset, committed or not; absent where
        there is none. Reads records, so it is asked seldom."""
        ...


@dataclass(slots=True)
class Batch:
    """Consecutive visible records of one partition as they were read, column by column.

    `sizes` are bytes of key, value and headers. `epochs` are runs `(first offset of the run,
    leader epoch)`, rising.
    """

    offsets: Sequence[int]
    digests: Sequence[int]
    sizes: Sequence[int]
    records: Sequence[Record]
    epochs: Sequence[tuple[Offset, LeaderEpoch | None]]


@dataclass(frozen=True, slots=True)
class Assigned:
    """The group gave us these. Nothing is fetched until `Fetcher.assign`."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Revoked:
    """The group takes these back. The consumer waits for `answer` (bounded) with the last offsets
    to commit, commits them, and gives the partitions up. `lost`: already taken; commit nothing."""

    partitions: tuple[Partition, ...]
    lost: bool
    answer: Callable[[Mapping[Partition, CommitRequest]], None]


@dataclass(frozen=True, slots=True)
class Fetched:
    """`after_hold`: since this session's last record the fetcher gave up what it had prefetched,
    and fetched it again."""

    partition: Partition
    session: SessionId
    batch: Batch
    after_hold: bool = False


@dataclass(frozen=True, slots=True)
class EndReached:
    """The fetcher stands at the end (last stable offset under read_committed) at `position`."""

    partition: Partition
    session: SessionId
    position: Offset


@dataclass(frozen=True, slots=True)
class CursorFailed:
    """The client reports that a partition cannot go on; nothing of this session follows.
    `truncation`: its text says so.
    `blocked_at`: a record that cannot be read (corrupt, too large), where it names one."""

    partition: Partition
    session: SessionId
    fault: Fault
    truncation: bool
    blocked_at: Offset | None


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The leader, its epoch or the connection to it changed."""

    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class MemberChanged:
    """`member` is None while not joined. `fenced`: another member took this identity."""

    member: str | None
    fenced: str | None = None


@dataclass(frozen=True, slots=True)
class ClientFaulted:
    """A fault of the client as a whole (no broker, credentials refused); None: it is well."""

    fault: Fault | None


FetchEvent: TypeAlias = (
    Assigned
    | Revoked
    | Fetched
    | EndReached
    | CursorFailed
    | LeaderChanged
    | MemberChanged
    | ClientFaulted
)


@dataclass(frozen=True, slots=True)
class CommitRequest:
    next: Offset
    epoch: LeaderEpoch | None
    metadata: str


class Fetcher(Protocol):
    """The group member. Calls return at once and take effect in order on the consumer's own
    thread; events reach `sink` on the event loop, a list at a time, in order."""

    async def start(self, sink: Callable[[Sequence[FetchEvent]], None]) -> None:
        """Join the group. Returns at once; never waits for a broker."""
        ...

    def assign(
        self, partition: Partition, session: SessionId, at: Offset, epoch: LeaderEpoch | None
    ) -> None:
        """Fetch from exactly `at`; replaces an earlier session of the partition."""
        ...

    def release(self, partition: Partition) -> None:
        """Stop fetching; the partition stays ours in the group."""
        ...

    def pause(self, partition: Partition) -> None: ...

    def resume(self, partition: Partition) -> None: ...

    def throttle(self, full: bool) -> None:
        """While full, nothing more is handed to `sink` for a moment (bounded; polling goes on)."""
        ...

    def topics_well(self, topics: Collection[str]) -> None:
        """They were missing or forbidden, and are not any more: to be looked for at once."""
        ...

    async def commit(
        self, offsets: Mapping[Partition, CommitRequest]
    ) -> Mapping[Partition, Fault | None]:
        """One group commit, read back where the answer does not tell element by element."""
        ...

    async def close(self, deadline_seconds: float) -> None:
        """Leave the group and stop, within the deadline, also when no broker answers."""
        ...


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """`refused` says why this store must not be used (it evicts); `warnings` what it may forget.
    `epoch` changes when another server, or another life of it, answers (run and replication ID)."""

    version: str
    epoch: str
    refused: str | None
    warnings: tuple[str, ...]
    memory_used_bytes: int | None
    memory_max_bytes: int | None


class CheckpointStore(Protocol):
    """Redis. Every write is one atomic script; see `sidecar.core.checkpoint.Install`."""

    async def health(self) -> Answer[StoreHealth]: ...

    async def life(self) -> Answer[str]:
        """`StoreHealth.epoch` alone: which life of which server answers."""
        ...

    async def registry(self, group: GroupId) -> Reading[Registry]: ...

    async def create_registry(self, registry: Registry) -> Answer[Registry]:
        """Created only if there is none; answers what stands there now."""
        ...

    async def register(
        self,
        group: GroupId,
        store: StoreId,
        topics: Mapping[str, RegisteredTopic],
        baselines: Mapping[Partition, Offset],
        *,
        seen: Mapping[str, TopicId],
    ) -> Answer[Registry]:
        """Adds topics and baselines not yet there (an earlier one stands), or raises a topic's
        partition count. A topic that was created again takes the earlier one's place, with the
        baselines of its partitions that have not started, if that one is still what was `seen`
        there: of two members that describe it, the one that asked first may write last. Refused
        with `REFUSED` when the registry is gone or another's."""
        ...

    async def mark_started(
        self, group: GroupId, store: StoreId, partitions: Collection[Partition]
    ) -> Fault | None: ...

    async def read(
        self, group: GroupId, partitions: Collection[Partition]
    ) -> Mapping[Partition, Reading[Stored]]: ...

    async def memory(
        self, group: GroupId, partition: Partition, receipts_min: int
    ) -> Answer[Memory]: ...

    async def install(self, install: Install) -> InstallResult:
        """Safe to send twice: the attempt is remembered in a bounded history, and one that is
        already there answers `Installed` and writes nothing again. So an `Ambiguous` answer is
        settled by sending the same install once more."""
        ...

    async def watch(
        self, group: GroupId, partitions: Collection[Partition]
    ) -> Mapping[Partition, Reading[OwnerMark]]: ...

    async def gaps(self, group: GroupId) -> Answer[Sequence[Gap]]:
        """Every gap of the group that the store keeps, open ones first."""
        ...

    async def update_gap(self, gap: Gap, *, was: Gap) -> Answer[Gap | None]:
        """Acknowledge or fence: compares id, reason, incarnation and state (never `end`), raises
        no generation, keeps the owner. None: the gap is another by now."""
        ...

    async def requests(
        self, group: GroupId, partitions: Collection[Partition]
    ) -> Mapping[Partition, Answer[Sequence[Request]]]:
        """Those that are kept, the oldest first; pending ones are never dropped."""
        ...

    async def leave(self, request: Request) -> Answer[Request]:
        """Beside the partition, for whoever is or becomes its owner; answers what stands under its
        id, so that it may be sent twice. Needs no checkpoint, raises no generation and keeps the
        owner, whose mark counts it. `REFUSED` when too many pend."""
        ...

    async def answer_request(self, request: Request, *, owner: OwnerId | None) -> Answer[Request]:
        """An answer that changes no checkpoint, from the one whose mark `owner` is (None: there is
        no checkpoint). Answered once: what stands is given back. `REFUSED` when somebody else is
        the owner. An answer that comes with a change is part of its `install`."""
        ...

    async def close(self) -> None: ...


class Desk(Protocol):
    """What the HTTP side may ask of the running sidecar."""

    async def take_page(
        self, request: PageRequest, wait_seconds: float
    ) -> PageOffer | Refusal | None:
        """None: there was none within the time."""
        ...

    async def report(
        self, page: PageId, report: Report, *, wait_committed: bool
    ) -> ReportAnswer | Refusal: ...

    def status(self) -> StatusView: ...

    def partitions(self) -> Sequence[PartitionView]: ...

    async def gaps(self) -> Sequence[Gap] | Refusal: ...

    async def fence(self, gap: GapId) -> Offset | Refusal: ...

    async def acknowledge(self, gap: GapId, *, by: str, why: str) -> Gap | Refusal: ...

    async def resolve(self, gap: GapId, request: ResolveRequest) -> Gap | Refusal: ...

    def holds(self) -> Sequence[HoldView]: ...

    async def answer(
        self, hold: HoldId, answer: str, *, by: str, why: str
    ) -> HoldView | Refusal: ...

    def notices(self, after: int | None) -> AsyncIterator[Notice]:
        """Live notices, beginning with the kept ones after `after` (None: from now on)."""
        ...

    async def drain(self) -> None:
        """Stop fetching, keep the membership, finish what is out, flush. Returns when done."""
        ...


class Recorder(Protocol):
    """Telemetry. Never raises, never blocks."""

    def record(self, fact: Fact) -> None: ...
