"""Values for tests of the store, as small as they can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sidecar.core.checkpoint import (
    Checkpoint,
    Expected,
    Identity,
    Install,
    ReceiptRun,
    RegisteredTopic,
    Registry,
)
from sidecar.core.faults import Answer, Known, Reading, T
from sidecar.core.gap import Gap, GapState
from sidecar.core.request import Request, RequestId, RequestKind
from sidecar.core.types import (
    AttemptId,
    ClusterId,
    Digest,
    GapId,
    GapReason,
    Generation,
    GroupId,
    Interval,
    IsolationLevel,
    LeaderEpoch,
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

T0 = Partition("orders", 0)
STORE = StoreId("store-1")


def checkpoint(
    group: GroupId,
    *,
    next: int = 0,
    generation: int = 1,
    owner: str = "owner-1",
    partition: Partition = T0,
    epoch: int | None = 0,
    horizon: int = 0,
    gap: str | None = None,
) -> Checkpoint:
    return Checkpoint(
        identity=Identity(
            group, partition, ClusterId("c"), TopicId("topic-id"), IsolationLevel.READ_COMMITTED
        ),
        lineages=(Lineage(0, Offset(0)),),
        baseline=Offset(0),
        token=Token(Offset(next), None if epoch is None else LeaderEpoch(epoch)),
        generation=Generation(generation),
        owner=OwnerId(owner),
        horizon=Offset(horizon),
        store=STORE,
        gap=None if gap is None else GapId(gap),
    )


def first(new: Checkpoint, attempt: str = "attempt-0") -> Install:
    return Install(None, new, AttemptId(attempt))


def promotion(
    old: Checkpoint, count: int, *, attempt: str | None = None, owner: str | None = None
) -> Install:
    """The install that promotes `count` consecutive records beyond `old`."""
    next = old.token.next + count
    new = old.succeed(token=replace(old.token, next=Offset(next)), horizon=Offset(next + 1000))
    if owner is not None:
        new = replace(new, owner=OwnerId(owner))
    return Install(
        old.expected,
        new,
        AttemptId(attempt or f"attempt-{new.generation}"),
        receipts=(run(old.token.next, count),) if count else (),
        body=False,
    )


def run(start: int, count: int, outcome: Outcome = Outcome.APPLIED) -> ReceiptRun:
    return ReceiptRun(
        list(range(start, start + count)), list(map(digest, range(start, start + count))), outcome
    )


def digest(offset: int) -> Digest:
    return Digest((offset * 0x9E3779B97F4A7C15 + 1) & 0xFFFFFFFFFFFFFFFF)


def flat(runs: Sequence[ReceiptRun]) -> list[Receipt]:
    return [receipt for one in runs for receipt in one]


def gap_of(at: Checkpoint, gap_id: str = "gap-1", end: int | None = 100, **changes: object) -> Gap:
    gap = Gap(
        id=GapId(gap_id),
        reason=GapReason.RETENTION_LOSS,
        group=at.identity.group,
        partition=at.identity.partition,
        cluster_id=at.identity.cluster_id,
        topic_id=at.identity.topic_id,
        lineage=at.lineage.number,
        interval=Interval(at.token.next, None if end is None else Offset(end)),
        state=GapState.OPEN,
        evidence={"log_start": 100, "asked": [1, None, "x"]},
        generation=at.generation,
        opened_at=1000.5,
    )
    return replace(gap, **changes)  # type: ignore[arg-type]  # a test's own fields


def registry(group: GroupId, **changes: object) -> Registry:
    made = Registry(
        group=group,
        store=STORE,
        created_at=1000.25,
        rebuilt=False,
        predecessors=(StoreId("older"),),
        topics={"orders": RegisteredTopic(TopicId("topic-id"), 4, 3)},
        baselines={T0: Offset(7), Partition("orders", 1): Offset(0)},
        started=frozenset({T0}),
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # a test's own fields


def known(reading: Reading[T] | Answer[T]) -> T:
    assert isinstance(reading, Known), reading
    return reading.value


def expected(token_next: int, generation: int, owner: str = "owner-1") -> Expected:
    return Expected(
        Token(Offset(token_next), LeaderEpoch(0)), Generation(generation), OwnerId(owner)
    )


def request_of(
    group: GroupId, name: str = "request-1", *, at: float = 1000.5, partition: Partition = T0
) -> Request:
    return Request(
        RequestId(name),
        group,
        partition,
        RequestKind.RESOLVE,
        "gap-1",
        "on-call",
        "restored",
        at,
        {"resolution": "accepted", "resume_at": 7},
    )
