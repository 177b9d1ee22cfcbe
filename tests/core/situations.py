"""Named situations, one factor each, that the verdict tests multiply."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from sidecar.core.checkpoint import Checkpoint, Identity, RegisteredTopic, Registry
from sidecar.core.evidence import Committed, Cue, Evidence, LogEnd, Stored, TopicDescription
from sidecar.core.faults import (
    ABSENT,
    Component,
    Fault,
    FaultKind,
    Known,
    Reading,
    Unreadable,
)
from sidecar.core.gap import Gap
from sidecar.core.policy import Policy
from sidecar.core.types import (
    ClusterId,
    Digest,
    Generation,
    GroupId,
    IsolationLevel,
    LeaderEpoch,
    Lineage,
    Offset,
    OwnerId,
    Partition,
    StoreId,
    Token,
    TopicId,
)
from sidecar.core.witness import Witness, encode

GROUP = GroupId("billing")
PARTITION = Partition("orders", 0)
CLUSTER = ClusterId("cluster-a")
TOPIC = TopicId("topic-1")
STORE = StoreId("store-1")
NEXT = Offset(100)
START = Offset(10)
END = Offset(200)
EPOCH = LeaderEpoch(3)
POLICY = Policy(group=GROUP)


def fault(kind: FaultKind, component: Component = Component.KAFKA) -> Unreadable:
    return Unreadable(Fault(component, kind, kind.value, f"it says {kind.value}"))


def identity(**changes: object) -> Identity:
    return replace(
        Identity(GROUP, PARTITION, CLUSTER, TOPIC, IsolationLevel.READ_COMMITTED),
        **changes,  # type: ignore[arg-type]  # checked by the dataclass
    )


def checkpoint(next_: int = NEXT, *, lineage: int = 0, **changes: object) -> Checkpoint:
    lineages = tuple(Lineage(n, Offset(10 * n)) for n in range(lineage + 1))
    return replace(
        Checkpoint(
            identity=identity(),
            lineages=lineages,
            baseline=Offset(0),
            token=Token(Offset(next_), EPOCH),
            generation=Generation(7),
            owner=OwnerId("owner-1"),
            horizon=Offset(next_ + 50),
            store=STORE,
        ),
        **changes,  # type: ignore[arg-type]  # checked by the dataclass
    )


def witness(next_: int = NEXT, *, lineage: int = 0, **changes: object) -> Witness:
    lineages = tuple(Lineage(n, Offset(10 * n)) for n in range(lineage + 1))
    return replace(
        Witness(
            store=STORE,
            cluster_id=CLUSTER,
            group=GROUP,
            partition=PARTITION,
            topic_id=TOPIC,
            lineages=lineages,
            baseline=Offset(0),
            generation=Generation(9),
            next=Offset(next_),
            epoch=EPOCH,
            horizon=Offset(next_ + 50),
            digest_scheme=1,
            tail=((Offset(next_ - 1), Digest(0xABC)),),
        ),
        **changes,  # type: ignore[arg-type]  # checked by the dataclass
    )


def ours(next_: int = NEXT, *, lineage: int = 0, **changes: object) -> Known[Committed]:
    text = encode(witness(next_, lineage=lineage, **changes))
    return Known(Committed(Offset(next_), EPOCH, text))


def foreign(next_: int = NEXT) -> Known[Committed]:
    return Known(Committed(Offset(next_), None, None))


def registry(
    *, started: bool = True, rebuilt: bool = False, baseline: int | None = 0, **changes: object
) -> Registry:
    return replace(
        Registry(
            group=GROUP,
            store=STORE,
            created_at=1.0,
            rebuilt=rebuilt,
            predecessors=(),
            topics={"orders": RegisteredTopic(TOPIC, 3, 3)} if baseline is not None else {},
            baselines={PARTITION: Offset(baseline)} if baseline is not None else {},
            started=frozenset({PARTITION}) if started else frozenset(),
        ),
        **changes,  # type: ignore[arg-type]  # checked by the dataclass
    )


def stored(checkpoint_: Checkpoint, gap: Gap | None = None) -> Known[Stored]:
    return Known(Stored(checkpoint_, gap))


def evidence(**changes: object) -> Evidence:
    """All is well: checkpoint and commit agree at 100, the log holds [10, 200)."""
    return replace(
        Evidence(
            group=GROUP,
            partition=PARTITION,
            isolation=IsolationLevel.READ_COMMITTED,
            cue=Cue.ASSIGNED,
            cluster_id=Known(CLUSTER),
            committed=ours(),
            stored=stored(checkpoint()),
            registry=Known(registry()),
            topic=Known(TopicDescription(TOPIC, 3, False)),
            log_end=Known(LogEnd(END, END, EPOCH)),
            log_start=Known(START),
            asked_at=1000.0,
        ),
        **changes,  # type: ignore[arg-type]  # checked by the dataclass
    )


class StoreSays(StrEnum):
    CHECKPOINT = "checkpoint"
    STARTED = "absent, registered and started"
    REBUILT = "absent, registry rebuilt"
    NOT_STARTED = "absent, not started"
    UNREGISTERED = "absent, no baseline registered"
    NOTHING = "no registry"


class CommitSays(StrEnum):
    OURS_EQUAL = "ours, equal"
    OURS_BEHIND = "ours, behind"
    OURS_AHEAD = "ours, ahead"
    OURS_OLDER = "ours, older lineage"
    OURS_NEWER = "ours, newer lineage"
    NONE = "none"
    FOREIGN_BEHIND = "foreign, behind"
    FOREIGN_SAME = "foreign, same offset"
    FOREIGN_AHEAD = "foreign, ahead"


def told(store: StoreSays, commit: CommitSays) -> Evidence:
    """One cell of stage 3's product."""
    commits: dict[CommitSays, Reading[Committed]] = {
        CommitSays.OURS_EQUAL: ours(lineage=1),
        CommitSays.OURS_BEHIND: ours(90, lineage=1),
        CommitSays.OURS_AHEAD: ours(110, lineage=1),
        CommitSays.OURS_OLDER: ours(120, lineage=0),
        CommitSays.OURS_NEWER: ours(50, lineage=2),
        CommitSays.NONE: ABSENT,
        CommitSays.FOREIGN_BEHIND: foreign(90),
        CommitSays.FOREIGN_SAME: foreign(100),
        CommitSays.FOREIGN_AHEAD: foreign(110),
    }
    registries: dict[StoreSays, Reading[Registry]] = {
        StoreSays.CHECKPOINT: Known(registry()),
        StoreSays.STARTED: Known(registry()),
        StoreSays.REBUILT: Known(registry(started=False, rebuilt=True)),
        StoreSays.NOT_STARTED: Known(registry(started=False, baseline=20)),
        StoreSays.UNREGISTERED: Known(registry(started=False, baseline=None)),
        StoreSays.NOTHING: ABSENT,
    }
    return evidence(
        committed=commits[commit],
        registry=registries[store],
        stored=stored(checkpoint(lineage=1)) if store is StoreSays.CHECKPOINT else ABSENT,
    )
