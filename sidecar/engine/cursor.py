"""One partition's attempt: everything the engine knows of it between two steps.

A cursor has no behaviour of its own beyond reading itself: what it is shown as, what it would
commit, what its witness says. Moving it is the engine's, along `core.recovery`'s table.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from sidecar.core import forecast
from sidecar.core.answerable import replay_asked
from sidecar.core.checkpoint import Checkpoint, Install
from sidecar.core.evidence import Cue, LogEnd
from sidecar.core.faults import Fault, FaultKind
from sidecar.core.forecast import Movement, Retention, Stamp
from sidecar.core.gap import Gap
from sidecar.core.overlap import Overlap
from sidecar.core.policy import Policy
from sidecar.core.recovery import STATES, Phase
from sidecar.core.request import Request, RequestId
from sidecar.core.types import (
    DIGEST_SCHEME,
    Condition,
    Digest,
    Fields,
    GapReason,
    HoldId,
    Instant,
    Interval,
    IsolationLevel,
    Offset,
    OwnerId,
    PageId,
    Partition,
    PartitionState,
    Receipt,
    SessionId,
    TopicId,
    Verdict,
)
from sidecar.core.verdict import Go, Instead
from sidecar.core.views import (
    HoldView,
    PageOffer,
    PartitionView,
    ReportAnswer,
    ResolveRequest,
)
from sidecar.core.witness import Witness, encode, witness_of
from sidecar.engine.hand import Hand, Page
from sidecar.engine.messages import Ask, Purpose
from sidecar.engine.messages import RequestId as Asker
from sidecar.ports import CommitRequest

ZERO = Offset(0)
NO_SESSION = SessionId(0)
SETTLED_KEPT = 64
ANSWERS_KEPT = 16
"""Finished pages of a partition whose answer is given again when the same report comes again."""


@dataclass(slots=True)
class Waiter:
    """Somebody whose report is taken and not yet answered."""

    request: Asker
    page: PageId
    until: Offset | None = None
    """With `?wait=committed`: answered once the commit reached this."""
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Resolving:
    """A gap's resolution under way. `request` is None where a setting decides. `verified`: what
    lies below the gap is what was applied there."""

    wanted: ResolveRequest
    request: Request | None = None
    verified: bool = False


@dataclass(slots=True)
class Cursor:
    partition: Partition
    since: float
    """Unix seconds at which the present phase began."""
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    phase: Phase = Phase.LOOKING
    resting: Phase | None = None
    """Where the present look began, if that was a place to rest."""
    ask: Ask | None = None
    """The one question that moves this phase; an answer to any other is late."""
    cue: Cue = Cue.ASSIGNED
    verdict: Verdict | None = None
    detail: str = ""
    stated: tuple[Verdict, str] | None = None
    """The verdict that was stated last: the same one again is no news."""
    conditions: set[Condition] = field(default_factory=set)

    # What is waited for
    look_at: float | None = None
    """Monotonic seconds of the next look, while waiting."""
    wait_seconds: float = 0.0
    looked_at: float = 0.0
    """Monotonic seconds at which the present look began: an answer that was long on its way says
    nothing about the time since."""
    same_answer_since: float | None = None
    same_answer: tuple[str, str] | None = None

    # What is known
    checkpoint: Checkpoint | None = None
    go: Go | None = None
    claimed_as: Verdict | None = None
    """The verdict that this attempt was claimed with: it stands while the attempt is live."""
    proof: str = ""
    """How the ground was verified last, in a sentence."""
    started: bool = False
    enrolled: bool = False
    """The registry was written for this look."""
    instead: Instead | None = None
    """The topic ID that is to take the place of the registered one."""
    ids: tuple[TopicId | None, TopicId | None] | None = None
    """The topic's registered ID and the described one, as they were answered last."""
    ids_at: float = 0.0
    """Monotonic seconds of that answer."""
    same_ids_seconds: float = 0.0
    """For how long they were answered so, and no others."""
    committed: Offset | None = None
    committed_at: float | None = None
    confirmed: Checkpoint | None = None
    """The last one whose promotions were confirmed to be of the topic it pins; None: none by this
    life."""
    gap: Gap | None = None
    decided: Gap | None = None
    """The gap that was resolved last, until a record or the end was read behind it."""
    hold_id: HoldId | None = None
    answering: Request | None = None
    """Somebody's answer to what it was held for, until what it leads to is written."""
    heard: int | None = None
    """The counter of requests when they were read last; None: they have to be read."""
    heard_at: float = 0.0
    """Monotonic seconds at which they were read last."""
    pending: tuple[Request, ...] = ()
    """What people ask of it, the oldest first."""
    end_asked_for: RequestId | None = None
    """The request for whose sake the log's end was asked again."""
    execute_at: float = 0.0
    """Monotonic seconds before which no request is tried again."""
    answered: dict[RequestId, float] = field(default_factory=dict)
    """Requests that we answered, and the monotonic seconds at which the answer was known to stand,
    or its reply to be lost: what was asked before that may still show them as pending."""
    policy_at: float = -1e9
    """Monotonic seconds before which an automatic decision is not tried again."""
    log_start: Offset | None = None
    log_end: LogEnd | None = None
    stable_since: tuple[Offset, float] | None = None
    """The last stable offset while it lies below the end, and since when it was seen there."""
    still_at: Offset | None = None
    still_since: float = 0.0
    """Where reading stands, and since when although there is something to read."""
    retention: Retention | None = None
    movement: Movement | None = None
    stamp: Stamp | None = None
    """Of the first unread record, or of one before it."""
    end_reached: Offset | None = None
    caught_up: bool = False
    short_end: Offset | None = None
    """The log's end as it was last found below the position."""

    # The attempt
    owner: OwnerId | None = None
    distrusted: bool = False
    """The client said that the log was cut: until something is promoted, fetching goes without the
    epoch, which would only be refused again, and digests have to show what is left."""
    failures: int = 0
    """Cursor errors since anything was read last."""
    owner_seen_at: float = 0.0
    installed_at: float = 0.0
    """When the store last said that a write of ours stands."""
    began_at: float = 0.0
    live: bool = False
    """Verified once in this attempt: a look that confirms it needs no new claim."""
    shaken: bool = False
    """The leader changed since the overlap was read: what is in hand is not verified any more."""
    redelivered_below: Offset = ZERO
    handed_to: Offset = ZERO
    session: SessionId = NO_SESSION
    fetching: bool = False
    paused: bool = False
    full_since: float | None = None
    """Since when this one is all but full while another one starves behind it."""
    overlap: Overlap | None = None
    widened: bool = False
    tail: deque[tuple[Offset, Digest]] = field(default_factory=deque)
    receipts: tuple[Receipt, ...] = ()
    """As the store held them when this attempt read them."""
    ahead: dict[Offset, Receipt] = field(default_factory=dict)
    """Receipts beyond the applied position, as the store holds them."""
    overtaken: list[Offset] = field(default_factory=list)
    """Such receipts that the position has passed since: the next write takes them out."""
    hand: Hand | None = None
    look_when_drained: Cue | None = None
    blocked: tuple[Offset, str] | None = None
    """A record that cannot be read, and why: held there once all before it is promoted."""
    blocked_at: Offset | None = None
    """Where it is held for such a record."""
    blocked_seconds: float = 0.0
    """How long the last hold at such a record lasted before it was tried again."""
    drained: bool = False
    """Held at the end of verified ground, so that what was promoted may be committed."""
    needs_commit: bool = False
    asked_replay: Interval | None = None
    """What a foreign commit asks to have delivered again, until the store holds it: no commit of
    ours may replace that one before."""
    floor_ask: Ask | None = None
    floor_reads: int = 0

    # Writing
    install: Install | None = None
    purpose: Purpose | None = None
    denied: Fault | None = None
    """Why the store refuses the write that is under way, where a right is missing."""
    install_retry_seconds: float = 0.0
    resolving: Resolving | None = None
    waiters: list[Waiter] = field(default_factory=list)
    answers: OrderedDict[PageId, ReportAnswer] = field(default_factory=OrderedDict)
    superseded: deque[PageId] = field(default_factory=lambda: deque(maxlen=ANSWERS_KEPT))
    revoking: bool = False

    @property
    def state(self) -> PartitionState:
        """What it is shown as. A look from where it rests changes nothing that is shown: only
        what the look finds does."""
        if self.denied is not None:
            return PartitionState.HELD
        phase = self.shown
        if phase is Phase.WAITING and self.verdict not in (None, Verdict.UNAVAILABLE):
            return PartitionState.HELD
        return STATES[phase]

    @property
    def shown(self) -> Phase:
        """The phase, and during a look the one it began from, if that was a place to rest."""
        return self.resting if self.phase is Phase.LOOKING and self.resting else self.phase

    @property
    def held(self) -> bool:
        """Whether only a person can let it go on, or mend what stops it."""
        latched = self.shown is Phase.WAITING and self.verdict not in (None, Verdict.UNAVAILABLE)
        return (self.shown is Phase.HELD or latched) and self.hold_id is not None

    @property
    def reached(self) -> Verdict | None:
        """The verdict it is shown under."""
        if self.denied is None:
            return self.verdict
        if self.denied.kind is FaultKind.AUTHENTICATION:
            return Verdict.AUTHENTICATION
        return Verdict.AUTHORIZATION

    @property
    def next(self) -> Offset | None:
        return None if self.checkpoint is None else self.checkpoint.token.next

    @property
    def readable_end(self) -> Offset | None:
        """Where the log ends for this reader."""
        return None if self.log_end is None else self.log_end.readable(self.isolation)

    @property
    def unread(self) -> Offset | None:
        """The first offset that is neither applied nor gone; None: there is none, or offsets of the
        checkpoint say nothing about the log as it is now."""
        next_, end = self.next, self.log_end
        if next_ is None or end is None or self.verdict is Verdict.FOREIGN_CHECKPOINT:
            return None
        if self.gap is not None and self.gap.state.holds and self.gap.reason in _NOT_THIS_LOG:
            return None
        at = max(next_, next_ if self.log_start is None else self.log_start)
        return at if at < end.high_watermark else None

    @property
    def stamp_in_hand(self) -> Stamp | None:
        if self.phase is Phase.REPLAYING:
            return None  # what is in hand lies below the position
        record = None if self.hand is None else self.hand.first_record
        return None if record is None or self.next is None else Stamp(self.next, record[0])

    @property
    def page(self) -> Page | None:
        return None if self.hand is None else self.hand.page

    def may_commit(self) -> bool:
        """Only ground that is verified, or a gap whose incarnation the commit belongs to."""
        if self.checkpoint is None or self.revoking or self.asked_replay is not None:
            return False
        if self.phase is Phase.GAP:
            return self.gap is not None and _committable(self.gap)
        if self.phase is Phase.HELD:
            return self.drained
        return self.phase in (Phase.DELIVERING, Phase.REPLAYING, Phase.COMMITTING)

    def commit_request(self, policy: Policy) -> CommitRequest:
        assert self.checkpoint is not None
        token = self.checkpoint.token
        return CommitRequest(token.next, token.epoch, encode(self.witness(policy)))

    def witness(self, policy: Policy) -> Witness:
        checkpoint = self.checkpoint
        assert checkpoint is not None
        gap = self.gap if self.gap is not None and self.gap.state.holds else None
        tail = tuple(self.tail)[-policy.witness_digests :] if self.tail else ()
        return witness_of(checkpoint, digest_scheme=DIGEST_SCHEME, tail=tail, gap=gap)

    def offer(self, page: Page, *, attempt: int, wall_deadline: float) -> PageOffer:
        """The page as it is handed out: what of it is unresolved."""
        checkpoint, hand = self.checkpoint, self.hand
        assert checkpoint is not None
        assert hand is not None
        whole = page.done == 0 and page.outcomes.count(None) == len(page.outcomes)
        if whole:
            offsets, records = page.offsets, page.records
        else:
            left = [i for i, o in enumerate(page.outcomes) if o is None]
            offsets = [page.offsets[i] for i in left]
            records = [page.records[i] for i in left]
        last = Offset(offsets[-1])
        successor = hand.frontier if last == page.offsets[-1] else Offset(last + 1)
        end = self.readable_end if self.readable_end is not None else successor
        again = attempt > 1
        prefix = checkpoint.identity.incarnation
        first_line = checkpoint.lineage_at(Offset(offsets[0]))
        lines = [first_line] + [
            line for line in checkpoint.lineages if offsets[0] < line.first <= last
        ]
        return PageOffer(
            page=page.id,
            partition=self.partition,
            generation=checkpoint.generation,
            first=Offset(offsets[0]),
            last=last,
            successor=successor,
            remaining_records=max(0, end - successor),
            attempt=attempt,
            deadline=wall_deadline,
            offsets=offsets,
            records=records,
            key_prefixes=[
                (line.first, f"{prefix}/{line.number}/{self.partition.index}/") for line in lines
            ],
            redelivered_below=Offset(last + 1)
            if again or self.phase is Phase.REPLAYING
            else self.redelivered_below,
        )

    def answer(self, page: Page | None) -> ReportAnswer:
        checkpoint = self.checkpoint
        assert checkpoint is not None
        return ReportAnswer(
            applied=checkpoint.applied,
            next=checkpoint.token.next,
            generation=checkpoint.generation,
            committed=self.committed,
            unresolved=() if page is None else page.unresolved,
        )

    def keep_answer(self, page: PageId, answer: ReportAnswer) -> None:
        self.answers[page] = answer
        while len(self.answers) > ANSWERS_KEPT:
            self.answers.popitem(last=False)

    def hold_views(self) -> list[HoldView]:
        """What a person can answer or has to mend: what it is held for, and a replay that a
        foreign hand asked for."""
        found = []
        if self.held and self.hold_id is not None and self.verdict is not None:
            found.append(
                HoldView(
                    self.hold_id,
                    self.partition,
                    self.verdict,
                    self._evidence(),
                    self.since,
                    self.detail,
                )
            )
        asked = replay_asked(self.checkpoint, self._evidence(), since=self.since)
        return found if asked is None else [*found, asked]

    def _evidence(self) -> Fields:
        return {"next": self.next, "log_start": self.log_start}

    def view(self, now: Instant) -> PartitionView:
        checkpoint = self.checkpoint
        end = self.log_end
        next_ = self.next
        shown = self.readable_end
        gap = self.gap if self.gap is not None and self.gap.state.holds else None
        return PartitionView(
            topic=self.partition.topic,
            partition=self.partition.index,
            state=self.state,
            reason=self.reached
            if self.state in (PartitionState.HELD, PartitionState.GAP, PartitionState.WAITING)
            else None,
            verdict=self.reached,
            applied=None if checkpoint is None else checkpoint.applied,
            next=next_,
            committed=self.committed,
            generation=None if checkpoint is None else checkpoint.generation,
            cluster_id=None if checkpoint is None else checkpoint.identity.cluster_id,
            topic_id=None if checkpoint is None else checkpoint.identity.topic_id,
            leader_epoch=None if end is None else end.epoch,
            log_start=self.log_start,
            log_end=None if end is None else end.high_watermark,
            lag_records=None if shown is None or next_ is None else max(0, shown - next_),
            caught_up=self.caught_up and gap is None,
            conditions=tuple(sorted(self.conditions)),
            gap=None if gap is None else gap.id,
            hold=self.hold_id if self.held else None,
            since=self.since,
            detail=self._told,
            seconds_to_loss=self._seconds_to_loss(now),
            last_stable=None if end is None else end.last_stable,
            hanging_transaction_seconds=self._hanging_seconds(now),
        )

    @property
    def _told(self) -> str:
        """What keeps it from going on, or what people asked of it, is the news; else how it came
        to where it is."""
        if self.denied is not None:
            return f"the store refuses the write: {self.denied.detail}"
        checkpoint = self.checkpoint
        if checkpoint is None or self.state is not PartitionState.DELIVERING:
            return self.detail
        return str(checkpoint.paused or checkpoint.replaying or self.detail)

    def _seconds_to_loss(self, now: Instant) -> float | None:
        unread = self.unread
        if unread is None:
            return None
        return forecast.seconds_to_loss(
            self.retention,
            unread=unread,
            stamp=self.stamp_in_hand or self.stamp,
            movement=self.movement,
            now=now.wall,
            monotonic=now.monotonic,
        )

    def _hanging_seconds(self, now: Instant) -> float | None:
        if self.log_end is None or self.isolation is not IsolationLevel.READ_COMMITTED:
            return None
        if self.stable_since is None or Condition.HANGING_TRANSACTION not in self.conditions:
            return 0.0
        return now.monotonic - self.stable_since[1]


_NOT_THIS_LOG = (
    GapReason.TOPIC_RECREATED,
    GapReason.STORE_LOST,
    GapReason.LOG_TRUNCATED,
    GapReason.LOG_DIVERGED,
    GapReason.CURSOR_AHEAD,
)
"""Gaps behind which reading goes on at an offset that nobody knows yet."""
_UNCOMMITTABLE = (GapReason.TOPIC_RECREATED, GapReason.STORE_LOST)


def _committable(gap: Gap) -> bool:
    """With a topic created again nothing is committed in the new incarnation; with a store that
    lost everything there is nothing of ours to commit."""
    return gap.reason not in _UNCOMMITTABLE
