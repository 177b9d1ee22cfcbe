"""What the store holds of one partition, and how it is replaced.

A checkpoint changes in one way only: an `Install` compares token, generation and owner with what
stands there and, if all three are as expected, puts its successor in place with everything that
belongs to it (receipts, the gap it opens or resolves, an audit entry) in one atomic write. A
writer that lost installs nothing, and is shown what won.

Why one shape for every write, rather than one per transition: the comparison is the invariant
(`cas_or_nothing`), and it is worth having in exactly one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sidecar.core.faults import Fault
from sidecar.core.gap import Gap
from sidecar.core.request import Request, RequestId, RequestState
from sidecar.core.types import (
    AttemptId,
    ClusterId,
    Digest,
    Fields,
    GapId,
    Generation,
    GroupId,
    Interval,
    IsolationLevel,
    Json,
    Lineage,
    Offset,
    Outcome,
    OwnerId,
    Partition,
    Receipt,
    StoreId,
    Token,
    TopicId,
)

CHECKPOINT_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Identity:
    """What pins a checkpoint: where its offsets mean something.

    `former_topic_ids` are earlier incarnations' IDs, newest last: an answer that names one of
    them is stale, not news.
    """

    group: GroupId
    partition: Partition
    cluster_id: ClusterId
    topic_id: TopicId | None
    isolation: IsolationLevel
    former_topic_ids: tuple[TopicId, ...] = ()
    keyed_by: str | None = None

    @property
    def incarnation(self) -> str:
        """What idempotency keys begin with: the topic's ID, or its name where none can be had.
        A topic that gains an ID later keeps the name its keys began with (`keyed_by`)."""
        return self.keyed_by or self.topic_id or self.partition.topic


@dataclass(frozen=True, slots=True)
class Paused:
    """Nothing is delivered while somebody wants it so. `at` in Unix seconds."""

    by: str
    why: str
    at: float

    def __str__(self) -> str:
        return f"paused by {self.by}: {self.why}"


@dataclass(frozen=True, slots=True)
class Replaying:
    """`[first, end)` is being delivered again for a request; `position` is what comes next, and
    `gone` how many of its offsets the log had lost by then."""

    request: RequestId
    by: str
    first: Offset
    position: Offset
    end: Offset
    gone: int = 0

    def __str__(self) -> str:
        return f"delivering [{self.first}, {self.end}) again for {self.by}: at {self.position}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`horizon`: the offset up to which records may have been handed out.

    `baseline`: where this partition's history with us begins. `gap` is the open gap, if any.
    `store_epoch`: the life of the store in which the horizon was claimed; in another one it may
    be older than what was handed out.
    `resolved`: the last gap that was decided, so that a witness which still names it is known to
    be the older testimony.
    `replay`: what a foreign hand asked to have delivered again, until somebody answers.
    """

    identity: Identity
    lineages: tuple[Lineage, ...]
    baseline: Offset
    token: Token
    generation: Generation
    owner: OwnerId
    horizon: Offset
    store: StoreId
    gap: GapId | None = None
    replay: Interval | None = None
    store_epoch: str = ""
    resolved: GapId | None = None
    paused: Paused | None = None
    replaying: Replaying | None = None

    @property
    def applied(self) -> Offset:
        """The last offset that is done: `next - 1`. It may be an invisible one."""
        return Offset(self.token.next - 1)

    @property
    def lineage(self) -> Lineage:
        return self.lineages[-1]

    def lineage_at(self, offset: Offset) -> Lineage:
        """The newest lineage whose first offset is at or below `offset`.

        Old bytes keep their idempotency key this way, and new bytes get a new one.
        """
        for lineage in reversed(self.lineages):
            if lineage.first <= offset:
                return lineage
        return self.lineages[0]

    def same_log(self, other: Checkpoint) -> bool:
        """Whether offsets of both speak of the same records."""
        return self.identity.topic_id == other.identity.topic_id and self.lineage == other.lineage

    @property
    def expected(self) -> Expected:
        return Expected(self.token, self.generation, self.owner)

    def succeed(self, **changes: object) -> Checkpoint:
        """The next generation of this checkpoint, with `changes`."""
        return replace(self, generation=Generation(self.generation + 1), **changes)  # type: ignore[arg-type]  # dataclasses.replace is checked by the dataclass at run time


@dataclass(frozen=True, slots=True)
class Expected:
    """What must stand in the store for an `Install` to happen."""

    token: Token
    generation: Generation
    owner: OwnerId


@dataclass(frozen=True, slots=True)
class ReceiptRun:
    """Receipts of consecutive visible records, column by column: a page carries one run.

    `offsets` rise strictly. `outcomes` is one outcome for all, or one for each.
    """

    offsets: Sequence[int]
    digests: Sequence[int]
    outcomes: Outcome | Sequence[Outcome]

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[Receipt]:
        outcomes = (
            [self.outcomes] * len(self.offsets)
            if isinstance(self.outcomes, Outcome)
            else self.outcomes
        )
        return (
            Receipt(Offset(o), Digest(d), outcome)
            for o, d, outcome in zip(self.offsets, self.digests, outcomes, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Audit:
    """Who did what, when, why: `at` in Unix seconds, `what` a past-tense fact."""

    at: float
    what: str
    by: str
    why: str
    fields: Fields = field(default_factory=dict)


def audit_of(request: Request) -> Audit:
    """What is written down of a request: when it is left, and when it is answered."""
    named: dict[str, Json] = {"request": request.id}
    if request.target:
        named["target"] = request.target
    if request.pending:
        asked = {**named, **request.arguments}
        return Audit(request.at, f"asked: {request.kind}", request.by, request.why, asked)
    if request.code:
        named["code"] = request.code
    done = "done" if request.state is RequestState.DONE else "refused"
    at = request.at if request.settled_at is None else request.settled_at
    return Audit(at, f"{done}: {request.kind}", request.by, request.detail, named)


@dataclass(frozen=True, slots=True)
class Install:
    """One compare-and-swap: `checkpoint` replaces what matches `expected` (None: nothing stands).

    `generation` of `checkpoint` must exceed the expected one. `receipts` are appended, or, with
    `receipts_replaced`, stand in place of all that were kept (a lineage that went back).
    `ahead` are receipts beyond the applied position, added; `ahead_done` are offsets taken out of
    there. `gaps` are written whole, by id, and so are `requests` that this answers. `body` says
    that more than token, generation, owner and horizon changed. `attempt` is remembered, so that a
    lost answer can be looked up.
    """

    expected: Expected | None
    checkpoint: Checkpoint
    attempt: AttemptId
    receipts: Sequence[ReceiptRun] = ()
    receipts_replaced: bool = False
    ahead: Sequence[Receipt] = ()
    ahead_done: Sequence[Offset] = ()
    gaps: Sequence[Gap] = ()
    audit: Sequence[Audit] = ()
    requests: Sequence[Request] = ()
    body: bool = True


@dataclass(frozen=True, slots=True)
class Installed:
    """The store acknowledged it. `earlier`: it had been installed before, and its answer lost."""

    earlier: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Lost:
    """Another write won; nothing of ours was installed. `winner` is what stands there now."""

    winner: Checkpoint | None


@dataclass(frozen=True, slots=True)
class AnsweredBefore:
    """A request that it executes was answered meanwhile, so nothing was installed: whoever asked
    was told what became of it."""

    request: RequestId


@dataclass(frozen=True, slots=True)
class NotInstalled:
    """Refused or failed, and nothing was written."""

    fault: Fault


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """No answer: it may have been written. Settled by asking for the attempt."""

    fault: Fault


InstallResult: TypeAlias = Installed | Lost | AnsweredBefore | NotInstalled | Ambiguous


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered beside a checkpoint, read after a claim.

    `receipts` are the newest retained ones, in order of offset, at least as many as asked where
    so many are kept; `whole` says that nothing older is kept. `ahead` lie beyond `applied`.
    `owner` stands in the checkpoint at that moment: what is read beside another's, or beside none,
    says nothing about ours.
    """

    receipts: Sequence[ReceiptRun]
    ahead: Sequence[Receipt]
    whole: bool
    owner: OwnerId | None


@dataclass(frozen=True, slots=True)
class OwnerMark:
    """The few fields an owner watches: is it still the owner, did anybody leave a request?"""

    generation: Generation
    owner: OwnerId
    requests: int


@dataclass(frozen=True, slots=True)
class Registry:
    """What the store knows of a group as a whole, written before any checkpoint.

    `rebuilt`: when it was created, commits of ours were found, so a history was lost here, and
    `predecessors` are the stores those commits name. `topics` maps a name to its ID and partition
    count, `baselines` a partition to its first offset, `started` are those whose first page was
    about to be offered.
    """

    group: GroupId
    store: StoreId
    created_at: float
    rebuilt: bool
    predecessors: tuple[StoreId, ...]
    topics: Mapping[str, RegisteredTopic]
    baselines: Mapping[Partition, Offset]
    started: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class RegisteredTopic:
    """`partitions_first`: how many it had when it was first seen; a greater index came later."""

    topic_id: TopicId | None
    partitions: int
    partitions_first: int
