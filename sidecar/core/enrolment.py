"""The first day: what a group's registry says before any checkpoint is written.

Where a partition's history begins must be a number, durable before the first fetch, and the same
for every member of the group: otherwise a later member cannot tell a partition that nobody read
yet from one whose checkpoint was lost. So whoever comes first asks for everything in one batch
and writes it down; later ones read what stands there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from sidecar.core.checkpoint import RegisteredTopic, Registry
from sidecar.core.evidence import Committed, LogEnd, TopicDescription
from sidecar.core.faults import Answer, Fault, Known, Reading, Unreadable
from sidecar.core.policy import Policy, Start
from sidecar.core.types import GroupId, Offset, Partition, StoreId, TopicId, Verdict
from sidecar.core.verdict import Instead
from sidecar.core.witness import Ours, Witness, decode


@dataclass(frozen=True, slots=True)
class GroupEvidence:
    """One batch of answers about the group and every partition of the topics to enrol.

    `registry` is what the store holds now. `store` is the name the store would take if it has
    none. `topics` and the log's bounds cover all partitions of the topics in question.
    """

    group: GroupId
    registry: Reading[Registry]
    store: StoreId
    committed: Answer[Mapping[Partition, Committed]]
    topics: Mapping[str, Reading[TopicDescription]]
    log_ends: Mapping[Partition, Answer[LogEnd]]
    log_starts: Mapping[Partition, Answer[Offset]]
    asked_at: float


@dataclass(frozen=True, slots=True)
class Create:
    """No registry stands: write this one, if still none does."""

    registry: Registry
    left_out: Mapping[str, Fault]
    """Topics of which a question was not answered. They keep no other topic waiting."""


@dataclass(frozen=True, slots=True)
class Register:
    """A registry stands: add these topics and baselines to it. `seen` are the topic IDs it named:
    one that was created again takes the place of that one, and of no other."""

    store: StoreId
    topics: Mapping[str, RegisteredTopic]
    baselines: Mapping[Partition, Offset]
    seen: Mapping[str, TopicId]
    left_out: Mapping[str, Fault]
    """Topics of which a question was not answered: nothing of them is added."""


@dataclass(frozen=True, slots=True)
class CannotEnrol:
    """A question was not answered: nothing was written, ask again."""

    fault: Fault
    left_out: Mapping[str, Fault] = field(default_factory=dict)
    """What was not answered of a topic, in place of that."""


@dataclass(frozen=True, slots=True)
class StartRefused:
    """`RECOVERY__START=refuse`, and nothing testifies to where to begin."""

    verdict: Verdict
    partitions: tuple[Partition, ...]


Enrolment: TypeAlias = Create | Register | CannotEnrol | StartRefused


NO_ANSWERS: Mapping[Partition, Start] = MappingProxyType({})
NOTHING: Mapping[str, Instead] = MappingProxyType({})


def enrol(
    evidence: GroupEvidence,
    policy: Policy,
    *,
    answered: Mapping[Partition, Start] = NO_ANSWERS,
    instead: Mapping[str, Instead] = NOTHING,
) -> Enrolment:
    """What to write down. `answered`: where somebody said that a partition begins, which counts
    for that partition alone; the others that the policy refuses are left out until they are.
    `instead`: topics whose registered ID another takes the place of. Nobody has read of such a one
    yet, and it came after the group did, so it is read from its beginning."""
    if isinstance(evidence.registry, Unreadable):
        return CannotEnrol(evidence.registry.fault)
    if isinstance(evidence.committed, Unreadable):
        return CannotEnrol(evidence.committed.fault)
    committed = evidence.committed.value
    witnesses = _witnesses(evidence.group, committed)
    standing = evidence.registry.value if isinstance(evidence.registry, Known) else None
    topics: dict[str, RegisteredTopic] = {}
    baselines: dict[Partition, Offset] = {}
    refused: list[Partition] = []
    left_out: dict[str, Fault] = {}
    for name, reading in evidence.topics.items():
        if not isinstance(reading, Known):
            if isinstance(reading, Unreadable):
                left_out[name] = reading.fault
            continue
        described = reading.value
        known = None if standing is None else standing.topics.get(name)
        again = False
        if known is not None and known.topic_id not in (None, described.topic_id):
            to = described.topic_id
            if to is None or instead.get(name) != Instead(known.topic_id, to):
                continue  # a broker that lags behind may have said so, or one that offers no IDs
            again, known = True, None
        begins: dict[Partition, Answer[Offset] | None] = {}
        for index in range(described.partitions):
            partition = Partition(name, index)
            if standing is not None and not again and partition in standing.baselines:
                continue
            late = again or (known is not None and index >= known.partitions_first)
            rule = Start.EARLIEST if late else answered.get(partition, policy.start)
            begins[partition] = _baseline(evidence, policy, partition, committed, witnesses, rule)
        unread = next((one for one in begins.values() if isinstance(one, Unreadable)), None)
        if unread is not None:
            left_out[name] = unread.fault
            continue
        refused += [partition for partition, begin in begins.items() if begin is None]
        baselines |= {p: begin.value for p, begin in begins.items() if isinstance(begin, Known)}
        topics[name] = RegisteredTopic(
            described.topic_id,
            described.partitions,
            max(described.partitions, _committed_partitions(committed, name))
            if known is None
            else known.partitions_first,
        )
    if left_out and (not topics or (standing is None and witnesses)):
        # A registry that is made of a history has all of it: what is not in there is held for lost.
        return CannotEnrol(next(iter(left_out.values())), left_out)
    if refused and baselines.keys().isdisjoint(answered):
        return StartRefused(Verdict.START_REFUSED, tuple(refused))
    if standing is not None:
        seen = {n: t.topic_id for n, t in standing.topics.items() if t.topic_id is not None}
        return Register(standing.store, topics, baselines, seen, left_out)
    return Create(
        Registry(
            group=evidence.group,
            store=evidence.store,
            created_at=evidence.asked_at,
            rebuilt=bool(witnesses),
            predecessors=tuple(sorted({w.store for w in witnesses.values()} - {evidence.store})),
            topics=topics,
            baselines=baselines,
            started=frozenset(),
        ),
        left_out,
    )


def _committed_partitions(committed: Mapping[Partition, Committed], topic: str) -> int:
    """How many partitions a topic has at least: those up to the greatest that has a commit.
    Metadata may be a little old, and this number decides which partitions came later."""
    return max((p.index + 1 for p in committed if p.topic == topic), default=0)


def _witnesses(
    group: GroupId, committed: Mapping[Partition, Committed]
) -> Mapping[Partition, Witness]:
    found = {}
    for partition, commit in committed.items():
        testimony = decode(commit.metadata, group=group, partition=partition, committed=commit.next)
        if isinstance(testimony, Ours):
            found[partition] = testimony.witness
    return found


def _baseline(
    evidence: GroupEvidence,
    policy: Policy,
    partition: Partition,
    committed: Mapping[Partition, Committed],
    witnesses: Mapping[Partition, Witness],
    rule: Start,
) -> Answer[Offset] | None:
    """A number, also for an empty partition. None: the rule refuses to begin by itself."""
    if partition in witnesses:
        return Known(witnesses[partition].baseline)
    if partition in committed:
        return Known(committed[partition].next)
    match rule:
        case Start.EARLIEST:
            return evidence.log_starts[partition]
        case Start.LATEST:
            end = evidence.log_ends[partition]
            if isinstance(end, Unreadable):
                return end
            return Known(end.value.readable(policy.isolation))
        case Start.REFUSE:
            return None


def topics_of(partitions: Collection[Partition]) -> tuple[str, ...]:
    return tuple(sorted({partition.topic for partition in partitions}))
