"""A group that moved to another cluster: where each of its partitions goes on there.

Offsets of the earlier cluster mean nothing in the new one, so nothing is computed from them. What
carries over is content: whoever copied the records may have copied the group's offset (never ahead
of what was applied), and the records that were applied last can be recognised by their digests. So
reading goes on behind the last remembered record that is found again, from the copied offset on;
where none is found, at that offset, which delivers some again. Everything up to the log's end is
flagged as possibly delivered.

A record counts as found only in the order in which it was applied, and only if no other remembered
one has the same digest: a stream of equal records must not be skipped for a chance likeness.

Rejected: searching the whole log where no offset was copied. A likeness far away proves little; a
person says where to begin (`--at`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sidecar.core.checkpoint import Audit, Checkpoint, Install
from sidecar.core.evidence import Evidence
from sidecar.core.faults import Known, Unreadable
from sidecar.core.gap import Decision, Gap, Resolution, resolve
from sidecar.core.types import (
    AttemptId,
    Digest,
    Lineage,
    Offset,
    OwnerId,
    Partition,
    Token,
)
from sidecar.core.verdict import describe
from sidecar.core.witness import Ours, decode

REBOUND = "rebind-"
"""What the owner mark of a checkpoint begins with that was moved, and not claimed since."""


@dataclass(slots=True)
class TailSearch:
    """Looks for the last remembered records; feed it what is read with `take`."""

    remembered: Sequence[Digest]
    found: int = 0
    last_found: Offset | None = None
    read_to: Offset | None = None
    _place: dict[Digest, int] = field(init=False)
    _reached: int = field(init=False, default=-1)

    def __post_init__(self) -> None:
        times = Counter(self.remembered)
        self._place = {d: i for i, d in enumerate(self.remembered) if times[d] == 1}

    @property
    def complete(self) -> bool:
        """The very last of them was found: nothing behind it was applied."""
        return self._reached == len(self.remembered) - 1

    def take(self, offsets: Sequence[int], digests: Sequence[int]) -> None:
        for offset, digest in zip(offsets, digests, strict=True):
            if self.complete:
                return
            self.read_to = Offset(offset)
            place = self._place.get(Digest(digest), -1)
            if place > self._reached:
                self._reached, self.last_found = place, Offset(offset)
                self.found += 1


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where the search begins: the group's offset in the new cluster, or what a person gives."""

    checkpoint: Checkpoint
    gap: Gap | None
    baseline: Offset
    log_end: Offset
    given: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """`commit_missing`: it is of this cluster already; only its commit was not made yet."""

    checkpoint: Checkpoint
    commit_missing: bool


@dataclass(frozen=True, slots=True)
class Unstarted:
    """Nothing is kept of it; should a history begin, it is at `baseline`."""

    baseline: Offset


@dataclass(frozen=True, slots=True)
class CannotMove:
    why: str


Plan: TypeAlias = Beginning | Settled | Unstarted | CannotMove


def begin(evidence: Evidence, given: Offset | None, *, accept_open_gaps: bool) -> Plan:
    """What is to be done about one partition."""
    partition = evidence.partition
    for reading in (
        *(evidence.cluster_id, evidence.committed, evidence.stored, evidence.topic),
        *(evidence.log_end, evidence.log_start),
    ):
        if isinstance(reading, Unreadable):
            return CannotMove(reading.fault.detail)
    assert isinstance(evidence.cluster_id, Known)
    assert isinstance(evidence.topic, Known)
    assert isinstance(evidence.log_end, Known)
    assert isinstance(evidence.log_start, Known)
    start, end = evidence.log_start.value, evidence.log_end.value.high_watermark
    if partition.index >= evidence.topic.value.partitions:
        return CannotMove(
            f"the topic has {evidence.topic.value.partitions} partitions in this cluster: give it "
            "as many as it had"
        )
    if given is not None and not start <= given <= end:
        return CannotMove(f"{given} cannot be read: the log holds [{start}, {end})")
    committed = evidence.committed.value if isinstance(evidence.committed, Known) else None
    copied = None
    if committed is not None and start <= committed.next <= end:
        copied = committed.next
    at = copied if given is None else given
    if not isinstance(evidence.stored, Known):
        return Unstarted(start if at is None else at)
    checkpoint, gap = evidence.stored.value.checkpoint, evidence.stored.value.gap
    if checkpoint.identity.cluster_id == evidence.cluster_id.value:
        moved = checkpoint.owner.startswith(REBOUND)
        return Settled(checkpoint, moved and not _ours_stands(evidence, checkpoint))
    if gap is not None and gap.state.holds and not accept_open_gaps:
        return CannotMove(
            f"its gap {gap.id} {gap.interval} is undecided, and can be decided only where it was "
            "opened: decide it there, or add --accept-open-gaps"
        )
    if at is None:
        there = "none is committed" if committed is None else f"{committed.next} is committed"
        return CannotMove(
            f"{there} and the log holds [{start}, {end}): say where to begin, --at {partition}=N"
        )
    return Beginning(checkpoint, gap, at, end, given is not None)


def _ours_stands(evidence: Evidence, checkpoint: Checkpoint) -> bool:
    if not isinstance(evidence.committed, Known):
        return False
    commit = evidence.committed.value
    testimony = decode(
        commit.metadata, group=evidence.group, partition=evidence.partition, committed=commit.next
    )
    return (
        isinstance(testimony, Ours)
        and testimony.witness.cluster_id == checkpoint.identity.cluster_id
        and testimony.witness.lineages == checkpoint.lineages
        and testimony.witness.next == checkpoint.token.next
    )


def position(beginning: Beginning, search: TailSearch) -> Offset:
    found = search.last_found
    return beginning.baseline if found is None else Offset(found + 1)


def move(
    evidence: Evidence, beginning: Beginning, search: TailSearch, *, by: str, why: str, name: str
) -> Install:
    """The one write that moves it. `name`: unique, for the attempt and the owner mark."""
    assert isinstance(evidence.cluster_id, Known)
    assert isinstance(evidence.topic, Known)
    before, at = beginning.checkpoint, position(beginning, search)
    identity = before.identity
    topic_id = evidence.topic.value.topic_id
    former = dict.fromkeys((*identity.former_topic_ids, identity.topic_id))
    after = before.succeed(
        identity=replace(
            identity,
            cluster_id=evidence.cluster_id.value,
            topic_id=topic_id,
            former_topic_ids=tuple(one for one in former if one is not None and one != topic_id),
            keyed_by=None,
        ),
        lineages=(Lineage(before.lineage.number + 1, beginning.baseline),),
        baseline=beginning.baseline,
        token=Token(at, None),
        horizon=Offset(max(at, beginning.log_end)),
        owner=OwnerId(REBOUND + name),
        gap=None,
        replay=None,
        replaying=None,
    )
    gaps: tuple[Gap, ...] = ()
    if beginning.gap is not None and beginning.gap.state.holds:
        gap = beginning.gap
        decision = Decision(Resolution.ACCEPTED, by, why, evidence.asked_at, at)
        decided = resolve(gap, decision, end=gap.interval.end, evidence=describe(evidence))
        assert decided is not None
        gaps = (decided,)
        after = replace(after, resolved=gap.id)
    entry = Audit(
        evidence.asked_at,
        "rebound to another cluster",
        by,
        why,
        {
            "from_cluster": identity.cluster_id,
            "from_next": before.token.next,
            "to_cluster": evidence.cluster_id.value,
            "to_next": at,
            "baseline": beginning.baseline,
            "remembered": len(search.remembered),
            "found": search.found,
            "last_found": search.last_found,
            "replay_dropped": None if before.replay is None else str(before.replay),
        },
    )
    return Install(
        before.expected,
        after,
        AttemptId(REBOUND + name),
        receipts_replaced=True,
        gaps=gaps,
        audit=(entry,),
    )


def parse_place(text: str) -> tuple[Partition, Offset]:
    """`TOPIC/INDEX=OFFSET`; `ValueError` for anything else."""
    place, _, offset = text.rpartition("=")
    topic, _, index = place.rpartition("/")
    if not topic or not index.isdigit() or not offset.isdigit():
        raise ValueError(f"{text!r} is not TOPIC/INDEX=OFFSET")
    return Partition(topic, int(index)), Offset(int(offset))
