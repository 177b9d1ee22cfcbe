"""The judgement: one pure, total function from evidence to what it means.

    evidence ──► 1 could identity be read? ──► 2 identity ──► 3 testimony ──► 4 range ──► Judgement
                    │ no                        │ another       │ nobody's      │ out
                    ▼                           ▼               ▼               ▼
                 Wait / Hold                 Open / Hold     Open / Hold     Open / Wait

The order is the argument. Identity comes before range, because an offset of another incarnation
means nothing here even when it happens to be in range; testimony comes before range, because only
a `next` that somebody testifies to can be in or out of it. Content, the fifth stage, needs a read
and is `overlap`'s: its finding arrives as a gap of its own.

A gap or a hold decides at once. Stage 3 settles `next`, and its name is the verdict if the range
finds nothing worse. What stands in no row is `unknown`: held, with its evidence shown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from sidecar.core.checkpoint import (
    Checkpoint,
    Expected,
    Identity,
    RegisteredTopic,
    Registry,
)
from sidecar.core.evidence import Committed, Cue, Evidence, LogEnd, TopicDescription
from sidecar.core.faults import Absent, Component, Fault, FaultKind, Known, Unreadable
from sidecar.core.gap import Gap, graver
from sidecar.core.holds import hold_id
from sidecar.core.policy import Adopt, Policy
from sidecar.core.types import (
    ClusterId,
    Digest,
    Fields,
    GapId,
    GapReason,
    Generation,
    GroupId,
    HoldId,
    Interval,
    Lineage,
    Offset,
    OwnerId,
    Partition,
    StoreId,
    Token,
    TopicId,
    Verdict,
)
from sidecar.core.witness import Foreign, NewerFormat, Ours, Testimony, Witness, decode

NOBODY = OwnerId("")


@dataclass(frozen=True, slots=True)
class Go:
    """Recovery may begin, from `base`.

    `expected` is what must stand in the store for the claim (None: nothing). `remembered` are
    digests a witness adds to the receipts. `commit_first`: Kafka holds no commit of ours, so one
    is made before the first page. `horizon_unknown`: what was handed out before cannot be known,
    so the horizon goes to the log end. `adopts_topic_id`: the checkpoint was pinned by name.
    `history_ends`: what is remembered was read in another scope and cannot be compared.
    """

    verdict: Verdict
    base: Checkpoint
    expected: Expected | None
    detail: str
    log_start: Offset
    log_end: Offset
    remembered: tuple[tuple[Offset, Digest], ...] = ()
    commit_first: bool = False
    commit_again: bool = False
    horizon_unknown: bool = False
    adopts_topic_id: TopicId | None = None
    history_ends: bool = False
    compacted: bool | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing changes. `latched`: it will not pass by itself, somebody has to grant something."""

    verdict: Verdict
    fault: Fault
    latched: bool = False

    @property
    def answer(self) -> tuple[str, str]:
        """What was answered: the same again and again may come to count as lasting."""
        return self.fault.code, self.fault.detail


@dataclass(frozen=True, slots=True)
class Open:
    """A gap. `base` is the checkpoint that carries it; `supersedes` a lesser one that stood.
    `gap_id`: one that was open before, and that only the witness still knows of."""

    reason: GapReason
    interval: Interval
    base: Checkpoint
    expected: Expected | None
    detail: str
    supersedes: Gap | None = None
    gap_id: GapId | None = None


@dataclass(frozen=True, slots=True)
class Stand:
    """The gap that was opened before still stands; `grown_to` when the floor passed its end."""

    gap: Gap
    base: Checkpoint
    grown_to: Offset | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Only a person can answer; `detail` says what was found, and `situation` the part of it that
    stays the same while it is the same situation (by default all of it)."""

    verdict: Verdict
    detail: str
    situation: str = ""

    def id(self, group: GroupId, partition: Partition) -> HoldId:
        return hold_id(group, partition, self.verdict, self.situation or self.detail)


def start_refused() -> Hold:
    return Hold(
        Verdict.START_REFUSED,
        "nothing testifies to where this group stood, and RECOVERY__START is refuse",
    )


@dataclass(frozen=True, slots=True)
class Instead:
    """A topic ID that was answered for so long that it takes the place of the registered one."""

    registered: TopicId
    described: TopicId


@dataclass(frozen=True, slots=True)
class Enrol:
    """The store's registry does not know this group, topic or partition yet."""

    detail: str
    instead: Instead | None = None


Judgement: TypeAlias = Go | Wait | Open | Stand | Hold | Enrol

_FAULT_VERDICTS = {
    FaultKind.UNAVAILABLE: Verdict.UNAVAILABLE,
    FaultKind.REFUSED: Verdict.UNAVAILABLE,
    FaultKind.EPOCH_SUSPECT: Verdict.UNAVAILABLE,
    FaultKind.AUTHORIZATION: Verdict.AUTHORIZATION,
    FaultKind.AUTHENTICATION: Verdict.AUTHENTICATION,
}


def judge(
    evidence: Evidence,
    policy: Policy,
    *,
    waited_seconds: float = 0.0,
    same_ids_seconds: float = 0.0,
    accepted: Verdict | None = None,
) -> Judgement:
    """What the evidence means.

    `accepted`: the hold that somebody answered by letting it pass.

    `waited_seconds`: for how long the same answer was given without a break. It decides only
    where a restarting or deposed broker answers like one that lost something for good.

    `same_ids_seconds`: for how long the topic was described by this ID, beside the registered one;
    the time in which nothing was answered is not counted.
    """
    patient = waited_seconds >= policy.topic_unknown_seconds
    lasting = same_ids_seconds >= policy.topic_unknown_seconds
    judgement = _unreadable_identity(evidence, patient=patient) or _judge_identity(
        evidence, policy, patient, lasting, accepted
    )
    return _beside_standing_gap(evidence, judgement)


def _beside_standing_gap(evidence: Evidence, judgement: Judgement) -> Judgement:
    """An open gap outlives whatever is found, except something graver."""
    if not isinstance(evidence.stored, Known):
        return judgement
    stored = evidence.stored.value
    gap = stored.gap
    if gap is None or not gap.state.holds:
        return judgement
    if isinstance(judgement, Hold):
        return judgement
    if isinstance(judgement, Open):
        if graver(judgement.reason, gap.reason):
            return replace(judgement, supersedes=gap)
        end = judgement.interval.end
        if (
            judgement.reason is gap.reason is GapReason.RETENTION_LOSS
            and end is not None
            and (gap.interval.end is None or end > gap.interval.end)
        ):
            return Stand(gap, stored.checkpoint, grown_to=end)
    return Stand(gap, stored.checkpoint)


# Stage 1: could identity be read?


def _unreadable_identity(evidence: Evidence, *, patient: bool) -> Wait | Hold | None:
    for reading in (
        evidence.cluster_id,
        evidence.committed,
        evidence.stored,
        evidence.registry,
        evidence.store_epoch,
        evidence.topic,
    ):
        if isinstance(reading, Unreadable):
            return waiting(reading.fault, patient=patient)
    return None


def waiting(fault: Fault, *, patient: bool) -> Wait | Hold:
    """What an unanswered question means."""
    match fault.kind:
        case FaultKind.FORMAT_UNKNOWN:
            return Hold(Verdict.FORMAT_UNKNOWN, fault.detail)
        case FaultKind.TOPIC_UNKNOWN:
            # A broker that restarts answers so as well: it counts only after a while.
            verdict = Verdict.TOPIC_UNKNOWN if patient else Verdict.UNAVAILABLE
            return Wait(verdict, fault, latched=patient)
        case FaultKind.AUTHORIZATION | FaultKind.AUTHENTICATION:
            return Wait(_FAULT_VERDICTS[fault.kind], fault, latched=True)
        case FaultKind.UNAVAILABLE | FaultKind.REFUSED | FaultKind.EPOCH_SUSPECT:
            return Wait(_FAULT_VERDICTS[fault.kind], fault)
        case _:
            assert_never(fault.kind)


# Stage 2: identity.


@dataclass(frozen=True, slots=True)
class _Facts:
    """Stage 1 passed: these were all read."""

    evidence: Evidence
    policy: Policy
    patient: bool
    lasting: bool
    accepted: Verdict | None
    cluster_id: ClusterId
    topic: TopicDescription
    checkpoint: Checkpoint | None
    registry: Registry | None
    committed: Committed | None
    testimony: Testimony | None

    @property
    def witness(self) -> Witness | None:
        return self.testimony.witness if isinstance(self.testimony, Ours) else None

    @property
    def expected(self) -> Expected | None:
        return None if self.checkpoint is None else self.checkpoint.expected


def _judge_identity(
    evidence: Evidence, policy: Policy, patient: bool, lasting: bool, accepted: Verdict | None
) -> Judgement:
    facts = _facts(evidence, policy, patient, lasting, accepted)
    if facts is None:
        return Hold(Verdict.UNKNOWN, "the evidence could not be read whole")
    if isinstance(facts.testimony, NewerFormat):
        return Hold(
            Verdict.FORMAT_UNKNOWN,
            f"the commit carries a witness of format {facts.testimony.format}, "
            "which a later release wrote",
        )
    return (
        _other_place(facts)
        or _other_incarnation(facts)
        or _other_scope(facts)
        or _judge_testimony(facts)
    )


def _facts(
    evidence: Evidence, policy: Policy, patient: bool, lasting: bool, accepted: Verdict | None
) -> _Facts | None:
    if not isinstance(evidence.cluster_id, Known) or not isinstance(evidence.topic, Known):
        return None
    committed = evidence.committed.value if isinstance(evidence.committed, Known) else None
    return _Facts(
        evidence=evidence,
        policy=policy,
        patient=patient,
        lasting=lasting,
        accepted=accepted,
        cluster_id=evidence.cluster_id.value,
        topic=evidence.topic.value,
        checkpoint=evidence.stored.value.checkpoint if isinstance(evidence.stored, Known) else None,
        registry=evidence.registry.value if isinstance(evidence.registry, Known) else None,
        committed=committed,
        testimony=None
        if committed is None
        else decode(
            committed.metadata,
            group=evidence.group,
            partition=evidence.partition,
            committed=committed.next,
        ),
    )


def _other_place(facts: _Facts) -> Hold | None:
    """Another cluster, group, topic or store than the one the state speaks of."""
    checkpoint, witness, registry = facts.checkpoint, facts.witness, facts.registry
    for who, cluster in (
        ("checkpoint", None if checkpoint is None else checkpoint.identity.cluster_id),
        ("commit's witness", None if witness is None else witness.cluster_id),
    ):
        if cluster is not None and cluster != facts.cluster_id:
            return Hold(
                Verdict.FOREIGN_CHECKPOINT,
                f"the {who} speaks of cluster {cluster}, this is {facts.cluster_id}",
            )
    if checkpoint is not None and (
        checkpoint.identity.group != facts.evidence.group
        or checkpoint.identity.partition != facts.evidence.partition
    ):
        return Hold(
            Verdict.FOREIGN_CHECKPOINT,
            f"the checkpoint is of {checkpoint.identity.group} {checkpoint.identity.partition}",
        )
    if witness is not None and registry is not None and not _succeeds(registry, witness.store):
        return Hold(
            Verdict.FOREIGN_CHECKPOINT,
            f"the commit's witness names store {witness.store}, this is {registry.store}, "
            "which does not succeed it",
        )
    return None


def _succeeds(registry: Registry, store: StoreId) -> bool:
    return store == registry.store or store in registry.predecessors


def _other_incarnation(facts: _Facts) -> Judgement | None:
    checkpoint, witness = facts.checkpoint, facts.witness
    if checkpoint is not None:
        pinned, former = checkpoint.identity.topic_id, checkpoint.identity.former_topic_ids
        known = pinned
    elif witness is not None:
        pinned, former = witness.topic_id, ()
        known = pinned
    elif facts.registry is not None and (
        registered := facts.registry.topics.get(facts.evidence.partition.topic)
    ):
        pinned, former = registered.topic_id, ()
        known = pinned
        if facts.evidence.partition not in facts.registry.started:
            # Nothing was delivered of it yet, so another ID is a new topic, not a lost one.
            pinned = None
    else:
        pinned, former, known = None, (), None
    described = facts.topic.topic_id
    if known is not None and described is None:
        return _stale("a topic ID was known and cannot be read now")
    if described is not None and described in former and not facts.patient:
        return _stale(f"the answer names topic ID {described}, an earlier incarnation's")
    shrunk = _fewer_partitions(facts)
    if pinned is None or described == pinned:
        if not shrunk:
            return None
        if pinned is not None or not facts.patient:
            return _stale("the answer names fewer partitions than there were")
        return _recreated(facts, "the topic has fewer partitions than it had")
    return _recreated(facts, f"the topic's ID is {described}, and was {pinned}")


def _fewer_partitions(facts: _Facts) -> bool:
    if facts.evidence.partition.index >= facts.topic.partitions:
        return True
    if facts.registry is None:
        return False
    described = facts.topic
    registered = facts.registry.topics.get(facts.evidence.partition.topic)
    if registered is None:
        return False
    ids = {registered.topic_id, described.topic_id} - {None}
    if len(ids) > 1:
        return False  # the number is of another topic that had this name
    return described.partitions < registered.partitions


def _stale(detail: str) -> Wait:
    return Wait(
        Verdict.UNAVAILABLE, Fault(Component.KAFKA, FaultKind.UNAVAILABLE, "STALE_ANSWER", detail)
    )


def _recreated(facts: _Facts, detail: str) -> Judgement:
    base = facts.checkpoint or (
        None if facts.witness is None else _from_witness(facts, facts.witness)
    )
    if base is None:
        base = _placeholder(facts)
    return Open(
        GapReason.TOPIC_RECREATED,
        Interval(base.token.next, None),
        base,
        facts.expected,
        f"{detail}: what the earlier topic held beyond {base.applied} cannot be read any more",
    )


def _other_scope(facts: _Facts) -> Hold | None:
    checkpoint = facts.checkpoint
    if checkpoint is None or checkpoint.identity.isolation is facts.evidence.isolation:
        return None
    if facts.accepted is Verdict.SCOPE_CHANGED:
        return None
    return Hold(
        Verdict.SCOPE_CHANGED,
        f"the checkpoint was made under {checkpoint.identity.isolation}, the setting now says "
        f"{facts.evidence.isolation}: other records are visible, and the overlap would prove "
        "nothing",
    )


# Stage 3: which testimony gives `next`?


def _judge_testimony(facts: _Facts) -> Judgement:
    if facts.registry is None:
        return Enrol("the store knows nothing of this group")
    if facts.checkpoint is not None:
        return _with_checkpoint(facts, facts.checkpoint)
    return _without_checkpoint(facts)


def _with_checkpoint(facts: _Facts, checkpoint: Checkpoint) -> Judgement:
    match facts.testimony:
        case None:
            return _range(
                facts,
                checkpoint,
                Verdict.COMMIT_EXPIRED,
                "Kafka holds no commit; going on from the checkpoint",
                commit_first=True,
            )
        case Ours(witness):
            return _both(facts, checkpoint, witness)
        case Foreign(why):
            return _foreign_commit(facts, checkpoint, why)
        case NewerFormat():
            return Hold(Verdict.FORMAT_UNKNOWN, "the commit was written by a later release")
        case _:
            assert_never(facts.testimony)


def _both(facts: _Facts, checkpoint: Checkpoint, witness: Witness) -> Judgement:
    """Lineage and position tell a rollback; generations do not, since others raise them too."""
    ours, theirs = _position(checkpoint), _position_of(witness)
    forgotten = _forgotten_gap(facts, checkpoint, witness)
    if forgotten is not None:
        return forgotten
    if ours == theirs:
        return _range(facts, checkpoint, Verdict.RESUME, "checkpoint and commit agree")
    if theirs < ours:
        return _range(
            facts,
            checkpoint,
            Verdict.COMMIT_BEHIND,
            f"the commit stands at {witness.next}, the checkpoint at {checkpoint.token.next}",
            commit_again=True,
        )
    restored = replace(
        _from_witness(facts, witness),
        identity=checkpoint.identity,
        generation=Generation(max(checkpoint.generation, witness.generation)),
        replay=checkpoint.replay,
        paused=checkpoint.paused,
        replaying=checkpoint.replaying,
    )
    return _range(
        facts,
        restored,
        Verdict.STORE_ROLLED_BACK,
        f"the store went back to {checkpoint.token.next}; Kafka's witness testifies to "
        f"{witness.next}",
        remembered=witness.tail,
        horizon_unknown=True,
    )


def _position(checkpoint: Checkpoint) -> tuple[int, Offset]:
    return checkpoint.lineage.number, checkpoint.token.next


def _position_of(witness: Witness) -> tuple[int, Offset]:
    return witness.lineages[-1].number, witness.next


def _forgotten_gap(facts: _Facts, checkpoint: Checkpoint | None, witness: Witness) -> Open | None:
    """A gap that the witness names and the store neither holds nor knows to be decided: the store
    went back to before it was opened. It stays until somebody decides it."""
    gap = witness.gap
    if gap is None:
        return None
    if checkpoint is not None and (checkpoint.gap is not None or checkpoint.resolved == gap.id):
        return None
    if checkpoint is not None and _position(checkpoint) > _position_of(witness):
        # An open gap lets nothing pass: this store stands beyond it, so there it was decided.
        return None
    base = _from_witness(facts, witness)
    if checkpoint is not None:
        greater = max(checkpoint.generation, witness.generation)
        base = replace(
            base,
            identity=checkpoint.identity,
            generation=Generation(greater),
            replay=checkpoint.replay,
            paused=checkpoint.paused,
            replaying=checkpoint.replaying,
        )
    return Open(
        gap.reason,
        gap.interval,
        base,
        facts.expected,
        f"the store forgot the gap {gap.id} {gap.interval}, which Kafka's witness names",
        gap_id=gap.id,
    )


def _foreign_commit(facts: _Facts, checkpoint: Checkpoint, why: str) -> Judgement:
    assert facts.committed is not None
    foreign, ours = facts.committed.next, checkpoint.token.next
    if foreign == ours:
        return _range(facts, checkpoint, Verdict.RESUME, why, commit_again=True)
    if foreign < ours:
        noted = checkpoint.replay
        # Written down already: an answer to it finds it under the same name, however far the
        # position has moved since; a lower offset asks for more.
        known = noted is not None and noted.first <= foreign
        asked = checkpoint if known else replace(checkpoint, replay=Interval(foreign, ours))
        return _range(
            facts,
            asked,
            Verdict.COMMIT_BEHIND,
            f"somebody committed {foreign}, below the position {ours} ({why}): "
            "taken as a request to deliver again, and shown until it is answered",
            commit_again=True,
        )
    return Open(
        GapReason.EXTERNAL_RESET,
        Interval(ours, foreign),
        checkpoint,
        facts.expected,
        f"somebody committed {foreign}, beyond the position {ours} ({why})",
    )


def _without_checkpoint(facts: _Facts) -> Judgement:
    partition = facts.evidence.partition
    registry = facts.registry
    assert registry is not None
    witness = facts.witness
    if witness is not None:
        forgotten = _forgotten_gap(facts, None, witness)
        if forgotten is not None:
            return forgotten
        return _range(
            facts,
            _from_witness(facts, witness),
            Verdict.STORE_LOST,
            f"the store holds no checkpoint; Kafka's witness testifies to {witness.next}",
            remembered=witness.tail,
            horizon_unknown=True,
        )
    topic = registry.topics.get(partition.topic)
    started = partition in registry.started
    if started or (registry.rebuilt and not _came_later(facts, topic)):
        base = _placeholder(facts)
        return Open(
            GapReason.STORE_LOST,
            Interval(base.token.next, None),
            base,
            None,
            "the store holds no checkpoint and Kafka no witness, though this "
            + ("partition was delivered from before" if started else "group had a history"),
        )
    if topic is not None and topic.topic_id != facts.topic.topic_id:
        if topic.topic_id is None:
            return Enrol("the topic gained an ID before its first page")
        return _created_before_its_first_page(facts, registry, topic.topic_id)
    if topic is None or partition not in registry.baselines:
        return Enrol("the store's registry does not know this partition yet")
    return _first_day(facts, registry, registry.baselines[partition])


def _created_before_its_first_page(
    facts: _Facts, registry: Registry, registered: TopicId
) -> Enrol | Wait:
    """Nothing was delivered of this partition, so another topic of that name takes the place of the
    registered one. A broker that lags behind names the one before, which may never have been
    registered; but it does not go on doing so, and IDs have no order that would tell which is the
    later one."""
    described = facts.topic.topic_id
    if not facts.lasting:
        return _stale(f"the answer names topic ID {described}, and {registered} is registered")
    assert described is not None  # else it would be stale: see `_other_incarnation`
    begun = registry.baselines.get(facts.evidence.partition, 0)
    return Enrol(
        f"the topic's ID is {described}, and {registered} was registered: created again before the "
        f"partition's first page, so nothing of the earlier one from {begun} on was delivered",
        Instead(registered, described),
    )


def _came_later(facts: _Facts, registered: RegisteredTopic | None) -> bool:
    """Whether the topic gained the partition after the registry came to know it. A history of ours
    in it would stand in this registry, also in one that was rebuilt: who reads a partition is
    registered before its first page."""
    return (
        registered is not None
        and registered.topic_id == facts.topic.topic_id
        and facts.evidence.partition.index >= registered.partitions_first
    )


def _first_day(facts: _Facts, registry: Registry, baseline: Offset) -> Judgement:
    if facts.committed is not None:
        adopted = facts.committed.next
        if facts.policy.adopt is Adopt.HOLD and facts.accepted is not Verdict.ADOPTED:
            return Hold(
                Verdict.ADOPTED,
                f"the group committed {adopted} before its first day here, and the setting "
                "RECOVERY__ADOPT says to ask",
            )
        return _range(
            facts,
            _fresh(facts, registry, adopted),
            Verdict.ADOPTED,
            f"the group's own offset {adopted} is taken on trust",
            commit_first=True,
            horizon_unknown=True,
        )
    late = _came_later(facts, registry.topics[facts.evidence.partition.topic])
    return _range(
        facts,
        _fresh(facts, registry, baseline),
        Verdict.NEW_PARTITION if late else Verdict.NEW_GROUP,
        f"a history begins here, at {baseline}",
        commit_first=True,
        # The count a rebuilt registry begins with may be a little old: better flagged than not.
        horizon_unknown=registry.rebuilt,
    )


def _identity(facts: _Facts) -> Identity:
    return Identity(
        group=facts.evidence.group,
        partition=facts.evidence.partition,
        cluster_id=facts.cluster_id,
        topic_id=facts.topic.topic_id,
        isolation=facts.evidence.isolation,
    )


def _fresh(facts: _Facts, registry: Registry, at: Offset) -> Checkpoint:
    return Checkpoint(
        identity=_identity(facts),
        lineages=(Lineage(0, at),),
        baseline=at,
        token=Token(at, None),
        generation=Generation(0),
        owner=NOBODY,
        horizon=at,
        store=registry.store,
    )


def _from_witness(facts: _Facts, witness: Witness) -> Checkpoint:
    registry = facts.registry
    return Checkpoint(
        identity=replace(_identity(facts), topic_id=witness.topic_id, keyed_by=witness.keyed_by),
        lineages=witness.lineages,
        baseline=witness.baseline,
        token=Token(witness.next, witness.epoch),
        generation=witness.generation,
        owner=NOBODY,
        horizon=witness.horizon,
        store=witness.store if registry is None else registry.store,
    )


def _placeholder(facts: _Facts) -> Checkpoint:
    """A checkpoint to hang a gap on where nothing can be proven: it covers nothing."""
    registry, evidence = facts.registry, facts.evidence
    at = Offset(0)
    if registry is not None and evidence.partition in registry.baselines:
        at = registry.baselines[evidence.partition]
    elif isinstance(evidence.log_start, Known):
        at = evidence.log_start.value
    return Checkpoint(
        identity=_identity(facts),
        lineages=(Lineage(0, at),),
        baseline=at,
        token=Token(at, None),
        generation=Generation(0),
        owner=NOBODY,
        horizon=at,
        store=StoreId("") if registry is None else registry.store,
    )


# Stage 4: range.


def _range(
    facts: _Facts,
    base: Checkpoint,
    verdict: Verdict,
    detail: str,
    *,
    remembered: tuple[tuple[Offset, Digest], ...] = (),
    commit_first: bool = False,
    commit_again: bool = False,
    horizon_unknown: bool = False,
) -> Judgement:
    evidence = facts.evidence
    for reading in (evidence.log_end, evidence.log_start):
        if isinstance(reading, Unreadable):
            return waiting(reading.fault, patient=facts.patient)
    assert isinstance(evidence.log_end, Known)
    assert isinstance(evidence.log_start, Known)
    end, start = evidence.log_end.value, evidence.log_start.value
    position = base.token.next
    fetched_to = max(position, evidence.fetched_to or position)
    out = _out_of_range(facts, base, fetched_to, start, end)
    if out is not None:
        return out
    life = evidence.store_epoch.value if isinstance(evidence.store_epoch, Known) else ""
    if facts.checkpoint is not None and facts.checkpoint.store_epoch != life:
        # Another life of the store: the horizon it remembers may be older than what was handed out.
        horizon_unknown = True
    witness = facts.witness
    reached = base.horizon if witness is None else Offset(max(base.horizon, witness.horizon))
    store = base.store if facts.registry is None else facts.registry.store
    base = replace(base, store=store, store_epoch=life, horizon=reached)
    rescoped = base.identity.isolation is not evidence.isolation
    if rescoped:
        base = replace(base, identity=replace(base.identity, isolation=evidence.isolation))
    described = facts.topic.topic_id
    if verdict is Verdict.RESUME and start == position:
        verdict = Verdict.RESUME_AT_BOUNDARY
    return Go(
        verdict=verdict,
        base=base,
        expected=facts.expected,
        detail=detail,
        log_start=start,
        log_end=end.high_watermark,
        remembered=remembered,
        commit_first=commit_first,
        commit_again=commit_again,
        horizon_unknown=horizon_unknown,
        adopts_topic_id=described if base.identity.topic_id is None else None,
        history_ends=rescoped,
        compacted=facts.topic.compacted,
    )


def _out_of_range(
    facts: _Facts, base: Checkpoint, fetched_to: Offset, start: Offset, end: LogEnd
) -> Open | Wait | None:
    position, epoch = base.token.next, base.token.epoch
    if epoch is not None and end.epoch is not None and end.epoch < epoch:
        if not facts.patient:
            return _stale(f"leader epoch {end.epoch} answers, and {epoch} was known")
        return Open(
            GapReason.LOG_TRUNCATED,
            Interval(Offset(min(position, end.high_watermark)), None),
            base,
            facts.expected,
            f"the leader's epoch fell from {epoch} to {end.epoch} and stayed there",
        )
    if fetched_to < start:
        return Open(
            GapReason.RETENTION_LOSS,
            Interval(position, start),
            base,
            facts.expected,
            f"the log begins at {start}: {start - position} offsets from {position} on are gone",
        )
    if position > end.high_watermark:
        truncated = facts.evidence.cue is Cue.TRUNCATION_REPORTED or (
            epoch is not None and end.epoch is not None and end.epoch > epoch
        )
        reason = GapReason.LOG_TRUNCATED if truncated else GapReason.CURSOR_AHEAD
        return Open(
            reason,
            Interval(end.high_watermark, position) if truncated else Interval(position, None),
            base,
            facts.expected,
            f"the position {position} lies beyond the log's end {end.high_watermark}"
            + (f", and its leader epoch rose from {epoch} to {end.epoch}" if truncated else ""),
        )
    return None


def describe(evidence: Evidence) -> Fields:
    """The numbers that decide, for a log line, a gap's evidence or a person."""
    fields: dict[str, str | int | float | None] = {"cue": evidence.cue.value}

    def put(name: str, reading: object, value: str | int | None) -> None:
        match reading:
            case Unreadable(fault):
                fields[name] = f"unreadable: {fault.code}"
            case Absent():
                fields[name] = None
            case _:
                fields[name] = value

    committed = evidence.committed
    put("committed", committed, committed.value.next if isinstance(committed, Known) else None)
    stored = evidence.stored
    put(
        "checkpoint",
        stored,
        stored.value.checkpoint.token.next if isinstance(stored, Known) else None,
    )
    if isinstance(stored, Known):
        checkpoint = stored.value.checkpoint
        fields["checkpoint_epoch"] = checkpoint.token.epoch
        fields["generation"] = checkpoint.generation
        fields["pinned_topic_id"] = checkpoint.identity.topic_id
    topic = evidence.topic
    put("topic_id", topic, topic.value.topic_id if isinstance(topic, Known) else None)
    end = evidence.log_end
    put("log_end", end, end.value.high_watermark if isinstance(end, Known) else None)
    if isinstance(end, Known):
        fields["last_stable"] = end.value.last_stable
        fields["leader_epoch"] = end.value.epoch
    start = evidence.log_start
    put("log_start", start, start.value if isinstance(start, Known) else None)
    put(
        "cluster_id",
        evidence.cluster_id,
        evidence.cluster_id.value if isinstance(evidence.cluster_id, Known) else None,
    )
    if evidence.fetched_to is not None:
        fields["fetched_to"] = evidence.fetched_to
    return fields
