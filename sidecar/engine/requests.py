"""What people ask of our partitions: heard from the store, executed in order, answered once.

A request comes from one place, the store, whoever left it: a command beside us, our own HTTP side,
or somebody who asked while nobody had the partition. It is heard when the counter in the owner's
mark moved, with every look, from time to time (in a store that went back it may stand again where
it stood), and, where there is no checkpoint to count in, each time. It is executed where the
partition stands still (delivering, at a gap, held), one at a time. An answer that comes with a
change is written with the change, in one install; so a request is never half done, and an owner
that dies in between leaves it to the next one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from sidecar.core import verdict
from sidecar.core.checkpoint import Checkpoint, Paused, ReceiptRun
from sidecar.core.evidence import Cue
from sidecar.core.facts import FaultMet, RequestSettled
from sidecar.core.faults import Answer, FaultKind, Known, Unreadable
from sidecar.core.gap import Decision, Gap, GapEvent, GapState, Resolution, resolve
from sidecar.core.policy import Start
from sidecar.core.recovery import Phase
from sidecar.core.request import Request, RequestId, RequestKind, position, resolving
from sidecar.core.types import (
    UNREAD,
    Condition,
    GapId,
    GapReason,
    Interval,
    IsolationLevel,
    Offset,
    Outcome,
    OwnerId,
    Partition,
    Token,
    Verdict,
)
from sidecar.core.views import Refusal, Refused
from sidecar.engine import messages as m
from sidecar.engine.cursor import SETTLED_KEPT, Cursor, Resolving
from sidecar.engine.parts import Part
from sidecar.errors import InvariantBroken

RESTING = (Phase.DELIVERING, Phase.REPLAYING, Phase.GAP, Phase.HELD)
"""Where a partition stands still: what it is asked there is judged by what was found."""
STANDING_STILL = (Phase.GAP, Phase.HELD)
FLAGS = (RequestKind.PAUSE, RequestKind.CONTINUE)


class Requests(Part):
    def heard(
        self,
        cursor: Cursor,
        answer: Answer[Sequence[Request]],
        counted: int | None,
        asked_at: float,
    ) -> None:
        """`counted`: the counter as it was read before the requests were; None: not read. What is
        pending although it was answered before `asked_at` is so in a store that went back."""
        if asked_at < cursor.began_at:
            return  # read for an attempt that is over: what it shows as pending may be answered
        if isinstance(answer, Unreadable):
            cursor.heard_at = self.context.now.monotonic
            if (
                answer.fault.kind is FaultKind.FORMAT_UNKNOWN
                and counted is not None
                and counted != cursor.heard
            ):
                # A later release's: its to execute. Said once, and again when more is left.
                cursor.heard = counted
                self.context.note(FaultMet(answer.fault, cursor.partition))
            return
        moved = counted is not None and counted != cursor.heard
        cursor.heard_at = self.context.now.monotonic
        if counted is not None:
            cursor.heard = counted
        cursor.pending = tuple(
            one
            for one in answer.value
            if one.pending and cursor.answered.get(one.id, -math.inf) < asked_at
        )
        if cursor.answering is not None and cursor.answering not in cursor.pending:
            cursor.answering = None  # the store went back behind it, or it is answered
        if moved and cursor.phase is Phase.GAP and not cursor.pending:
            # Somebody acknowledged or fenced it beside us.
            self.context.look(cursor, Cue.REQUESTED)
        self.advance(cursor)

    def left(self, partition: Partition) -> None:
        """Our own HTTP side left one: hear it now."""
        cursor = self.context.cursors.get(partition)
        if cursor is not None:
            self.parts.membership.watch_now()

    def advance(self, cursor: Cursor) -> None:
        """Executes the first that can be, if nothing else is under way. A replay that has begun was
        the first before."""
        if self._free(cursor):
            self.parts.replays.go_on(cursor)
        for request in cursor.pending:
            if not self._free(cursor):
                return
            self._take(cursor, request)

    def _free(self, cursor: Cursor) -> bool:
        return not (
            cursor.revoking
            or self.context.draining
            or cursor.install is not None
            or cursor.resolving is not None
            or cursor.answering is not None
            or self.context.now.monotonic < cursor.execute_at
        )

    def _take(self, cursor: Cursor, request: Request) -> None:
        match request.kind:
            case RequestKind.RESOLVE:
                self._resolve(cursor, request)
            case RequestKind.ANSWER:
                self._answer(cursor, request)
            case RequestKind.PAUSE | RequestKind.CONTINUE:
                self._flag(cursor, request)
            case RequestKind.SKIP:
                self._skip(cursor, request)
            case RequestKind.REPLAY:
                self.parts.replays.asked(cursor, request)
            case _:
                assert_never(request.kind)

    # Gaps

    def _resolve(self, cursor: Cursor, request: Request) -> None:
        if cursor.phase not in RESTING:
            return
        wanted = resolving(request)
        if wanted is None:
            self.refuse(
                cursor, request, Refused.RESOLUTION_IMPOSSIBLE, "the request cannot be read"
            )
        elif cursor.phase is Phase.HELD:
            self.refuse(
                cursor,
                request,
                Refused.GAP_CHANGED,
                f"the partition is held ({cursor.verdict}): that comes first; list the holds",
            )
        elif cursor.phase is not Phase.GAP or cursor.gap is None or cursor.gap.id != request.target:
            self.refuse(
                cursor,
                request,
                Refused.GAP_CHANGED,
                "no open gap of that id stands here any more; list the gaps again",
            )
        else:
            cursor.resolving = Resolving(wanted, request)
            self.context.look(cursor, Cue.REQUESTED)

    # Holds

    def _answer(self, cursor: Cursor, request: Request) -> None:
        checkpoint = cursor.checkpoint
        replaying = None if checkpoint is None else checkpoint.replaying
        if replaying is not None and replaying.request == request.id:
            return  # it is under way
        if cursor.phase not in (*RESTING, Phase.WAITING):
            return  # it is being looked at: the answer is held against what that finds
        view = next((v for v in cursor.hold_views() if v.id == request.target), None)
        answer = str(request.arguments.get("answer", ""))
        if view is None:
            if cursor.phase in RESTING:
                self.refuse(
                    cursor,
                    request,
                    Refused.HOLD_UNKNOWN,
                    "what was held is another situation by now, or was answered; list the holds "
                    "again",
                )
            return
        if answer not in view.answers:
            allowed = ", ".join(view.answers) or f"none: {view.mends}"
            self.refuse(cursor, request, Refused.ANSWER_IMPOSSIBLE, f"permitted answers: {allowed}")
            return
        if view.verdict is Condition.REPLAY_REQUESTED and cursor.phase in STANDING_STILL:
            self._decide_first(cursor, request)
            return
        match view.verdict:
            case Verdict.START_REFUSED | Verdict.ADOPTED | Verdict.SCOPE_CHANGED:
                # What it leads to is claimed, or opened, with this answer in the same write.
                cursor.answering = request
                self.context.look(cursor, Cue.REQUESTED)
            case Verdict.UNKNOWN:
                self.settle(cursor, request.done("looking again", at=self.context.now.wall))
                self.context.look(cursor, Cue.REQUESTED)
            case Verdict.BLOCKED_RECORD:
                self._pass_blocked(cursor, request)
            case Condition.REPLAY_REQUESTED if answer == "dismiss":
                self._dismiss(cursor, request)
            case Condition.REPLAY_REQUESTED:
                asked = None if cursor.checkpoint is None else cursor.checkpoint.replay
                self.parts.replays.asked(cursor, request, asked)
            case _:
                raise InvariantBroken("holds_answered", f"{view.verdict} permits {answer}")

    def _dismiss(self, cursor: Cursor, request: Request) -> None:
        checkpoint = cursor.checkpoint
        if cursor.phase is not Phase.DELIVERING or checkpoint is None:
            return
        done = request.done(f"{checkpoint.replay} is not delivered again", at=self.context.now.wall)
        self.write(cursor, checkpoint.succeed(replay=None), done)

    def starts(self, cursors: Iterable[Cursor]) -> dict[Partition, Start]:
        """Where somebody said that a partition begins, by answering what it was held for."""
        held = verdict.start_refused()
        return {
            cursor.partition: Start(str(cursor.answering.arguments["answer"]))
            for cursor in cursors
            if cursor.answering is not None
            and cursor.answering.target == held.id(self.context.policy.group, cursor.partition)
        }

    def accepted(self, cursor: Cursor, judged: verdict.Judgement) -> Verdict | None:
        """The hold that was judged, if it is the very one that somebody answered."""
        if cursor.answering is None or not isinstance(judged, verdict.Hold):
            return None
        found = judged.id(self.context.policy.group, cursor.partition)
        return judged.verdict if found == cursor.answering.target else None

    def overtaken(self, cursor: Cursor, judged: verdict.Judgement) -> None:
        """The answer was to something that is not found any more."""
        request = cursor.answering
        if request is None or not isinstance(judged, verdict.Hold | verdict.Stand):
            return
        cursor.answering = None
        self.refuse(
            cursor,
            request,
            Refused.HOLD_UNKNOWN,
            "what was held is another situation by now; list the holds again",
        )

    def rescoped(self, cursor: Cursor, isolation: IsolationLevel) -> None:
        """A changed scope was accepted, and a gap stands behind it: there is no claim to take the
        answer along, so it is written by itself."""
        request, checkpoint = cursor.answering, cursor.checkpoint
        if request is None or checkpoint is None:
            return
        if cursor.install is not None:
            cursor.answering = None  # heard again, and executed then
            return
        detail = f"{isolation} from here on; the gap still stands"
        identity = replace(checkpoint.identity, isolation=isolation)
        done = request.done(detail, at=self._wall)
        self.write(cursor, checkpoint.succeed(identity=identity), done, ends=True)

    # Pause and continue

    def _flag(self, cursor: Cursor, request: Request) -> None:
        checkpoint = cursor.checkpoint
        flagging = (Phase.DELIVERING, Phase.REPLAYING, Phase.GAP)
        if cursor.phase not in flagging or checkpoint is None:
            return
        flagged, done = self._flagged(checkpoint, request)
        self.write(cursor, flagged.succeed(), done)

    def _flagged(self, checkpoint: Checkpoint, request: Request) -> tuple[Checkpoint, Request]:
        now, pause = self.context.now.wall, request.kind is RequestKind.PAUSE
        before = checkpoint.paused
        paused = Paused(request.by, request.why, now) if pause else None
        if pause:
            detail = "paused already; now by and for this" if before else "paused"
        else:
            detail = "going on" if before else "it was not paused"
        return replace(checkpoint, paused=paused), request.done(detail, at=now)

    def carried(self, cursor: Cursor, base: Checkpoint) -> tuple[Checkpoint, tuple[Request, ...]]:
        """What a claim takes along: the answer that led to it, and whether it is paused, which has
        to stand before anything is delivered."""
        # A new claim may be of a store that went back: what it says pends then does, once more. And
        # what was left later waits for its turn, which is not known before the store is read again.
        in_turn = not cursor.answered
        cursor.answered.clear()
        cursor.heard = None
        done: list[Request] = []
        held = verdict.start_refused().id(self.context.policy.group, cursor.partition)
        for request in cursor.pending:
            if request.kind in FLAGS and in_turn:
                base, settled = self._flagged(base, request)
                done.append(settled)
            elif request == cursor.answering or (
                request.kind is RequestKind.ANSWER and request.target == held
            ):
                # Of the latter: it was written into the registry by an owner that then died.
                done.append(request.done(f"reading begins at {base.token.next}", at=self._wall))
        if not in_turn:
            cursor.pending = ()
        return base, tuple(done)

    def answered(self, cursor: Cursor, detail: str) -> tuple[Request, ...]:
        """The answer that led to a gap."""
        request = cursor.answering
        return () if request is None else (request.done(detail, at=self._wall),)

    # Skip

    def _skip(self, cursor: Cursor, request: Request) -> None:
        """One record, and only the one that stands at the head of the line."""
        at = position(request, "offset")
        if at is None:
            self.refuse(cursor, request, Refused.REQUEST_REFUSED, "the request cannot be read")
        elif cursor.phase is Phase.HELD and cursor.verdict is Verdict.BLOCKED_RECORD:
            if at == cursor.blocked_at:
                self._pass_blocked(cursor, request)
            else:
                self._not_the_head(cursor, request, cursor.blocked_at)
        elif cursor.phase is Phase.REPLAYING or self.parts.replays.stands(cursor):
            self.refuse(
                cursor,
                request,
                Refused.REQUEST_REFUSED,
                "a replay is under way: the head of the line is not read; ask when it is done",
            )
        elif cursor.phase in STANDING_STILL:
            self._decide_first(cursor, request)
        elif cursor.phase is Phase.DELIVERING and cursor.hand is not None:
            self._drop(cursor, request, at)

    def _drop(self, cursor: Cursor, request: Request, at: Offset) -> None:
        assert cursor.hand is not None
        head, next_, end = cursor.hand.head, cursor.next or 0, cursor.log_end
        if head == at and at in cursor.ahead:
            self.refuse(
                cursor,
                request,
                Refused.REQUEST_REFUSED,
                f"the record at {at} has an outcome already, which stands",
            )
        elif head == at:
            done = request.done(
                f"the record at {at} is dropped; reading goes on behind it", at=self._wall
            )
            self.parts.delivery.drop_head(cursor, done)
        elif head is not None or at < next_:
            self._not_the_head(cursor, request, head)
        elif end is None or at < end.high_watermark:
            return  # it is on its way
        elif cursor.end_asked_for != request.id:
            # The end that is known may be a second old, and the record younger.
            cursor.end_asked_for = request.id
            self.context.look(cursor, Cue.REQUESTED)
        else:
            self.refuse(
                cursor,
                request,
                Refused.REQUEST_REFUSED,
                f"there is no record at {at}: the log ends at {end.high_watermark}",
            )

    def _decide_first(self, cursor: Cursor, request: Request) -> None:
        self.refuse(
            cursor,
            request,
            Refused.REQUEST_REFUSED,
            f"the partition stands still ({cursor.verdict}): that has to be decided first",
        )

    def _not_the_head(self, cursor: Cursor, request: Request, head: Offset | None) -> None:
        stands = cursor.next if head is None else head
        self.refuse(
            cursor,
            request,
            Refused.REQUEST_REFUSED,
            f"only the first record without an outcome can be skipped: the one at {stands}",
        )

    def _pass_blocked(self, cursor: Cursor, request: Request) -> None:
        """The ground that cannot be read is covered by a person's decision, and kept as a gap. What
        is remembered around it is kept: it shows whether the log is still the one it was."""
        checkpoint, at = cursor.checkpoint, cursor.blocked_at
        assert checkpoint is not None
        assert at is not None
        next_ = checkpoint.token.next
        if at < next_:
            detail = f"the record at {at} was applied and is not compared any more"
            done = request.done(detail, at=self._wall)
            unread = (self._uncompared(cursor, at),)
            self.write(cursor, checkpoint.succeed(), done, receipts=unread, ends=True)
            return
        behind = Offset(at + 1)
        moved = checkpoint.succeed(
            token=Token(behind, None),
            horizon=Offset(max(checkpoint.horizon, behind + self.context.policy.horizon_records)),
        )
        gap = Gap(
            id=GapId(self.context.new_name("gap")),
            reason=GapReason.COVERAGE_UNKNOWN,
            group=checkpoint.identity.group,
            partition=cursor.partition,
            cluster_id=checkpoint.identity.cluster_id,
            topic_id=checkpoint.identity.topic_id,
            lineage=checkpoint.lineage.number,
            interval=Interval(next_, behind),
            state=GapState.OPEN,
            evidence={"blocked_at": at, "next": next_},
            generation=moved.generation,
            opened_at=self._wall,
            audit=(GapEvent(self._wall, "opened", "sidecar", cursor.detail),),
        )
        decision = Decision(Resolution.ACCEPTED, request.by, request.why, self._wall, behind)
        passed = resolve(gap, decision, end=behind, evidence=gap.evidence)
        assert passed is not None
        done = request.done(f"reading goes on at {behind}", at=self._wall)
        unread = (ReceiptRun((at,), (UNREAD,), Outcome.DROPPED),)
        self.write(cursor, moved, done, gaps=(passed,), receipts=unread)

    @staticmethod
    def _uncompared(cursor: Cursor, at: Offset) -> ReceiptRun:
        """The receipts of the overlap, in place of all: without the digest of the one at `at`. What
        only a witness remembers of had an outcome, and which one it does not say."""
        outcomes = {receipt.offset: receipt.outcome for receipt in cursor.receipts}
        offsets = [offset for offset, _ in cursor.tail]
        return ReceiptRun(
            offsets,
            [UNREAD if offset == at else digest for offset, digest in cursor.tail],
            [outcomes.get(offset, Outcome.APPLIED) for offset in offsets],
        )

    # Settling

    @property
    def _wall(self) -> float:
        return self.context.now.wall

    def write(
        self,
        cursor: Cursor,
        checkpoint: Checkpoint,
        *done: Request,
        gaps: tuple[Gap, ...] = (),
        receipts: tuple[ReceiptRun, ...] = (),
        ends: bool = False,
    ) -> None:
        """A change that a person asked for, with the answer. `ends`: what is remembered does, but
        for `receipts`."""
        assert cursor.checkpoint is not None
        cursor.owner = cursor.owner or OwnerId(self.context.new_name("owner"))
        self.parts.writes.install(
            cursor,
            m.Purpose.NOTE,
            cursor.checkpoint.expected,
            replace(checkpoint, owner=cursor.owner),
            receipts=receipts,
            gaps=gaps,
            history_ends=ends,
            requests=done,
        )

    def written(self, cursor: Cursor, requests: Sequence[Request]) -> None:
        """An install stands, and the answers that came with it."""
        for request in requests:
            self._settled(cursor, request)
        self.show(cursor)

    def answered_before(self, cursor: Cursor, request: RequestId) -> None:
        """Its answer was written beside us, or by ourselves in an attempt that is over."""
        self._forget(cursor, request, self.context.now.monotonic)

    def show(self, cursor: Cursor) -> None:
        """What stands in the checkpoint, as conditions."""
        checkpoint = cursor.checkpoint
        if checkpoint is None:
            return
        paused, replay, replaying = checkpoint.paused, checkpoint.replay, checkpoint.replaying
        self.context.condition(
            cursor, Condition.PAUSED, paused is not None, "" if paused is None else str(paused)
        )
        self.context.condition(
            cursor,
            Condition.REPLAYING,
            replaying is not None,
            "" if replaying is None else str(replaying),
        )
        self.context.condition(
            cursor,
            Condition.REPLAY_REQUESTED,
            replay is not None,
            "" if replay is None else f"of {replay}",
        )

    def refuse(self, cursor: Cursor, request: Request, refused: Refused, detail: str) -> None:
        self.settle(cursor, request.refused(Refusal(refused, detail), at=self._wall))

    def settle(self, cursor: Cursor, answered: Request) -> None:
        """An answer that changes nothing else."""
        self._forget(cursor, answered.id, math.inf)
        owner = None if cursor.checkpoint is None else cursor.checkpoint.owner
        self.context.do(m.AnswerRequest(self.context.ask(), answered, owner))

    def request_answered(self, event: m.RequestAnswered) -> None:
        cursor = self.context.cursors.get(event.request.partition)
        if isinstance(event.answer, Known):
            if cursor is not None and event.request.id in cursor.answered:
                cursor.answered[event.request.id] = self.context.now.monotonic
            self.context.note(RequestSettled(event.answer.value))
        elif cursor is not None:
            # Somebody else answers it, or it is to be answered again: the store knows. What was
            # read before does not, since the answer may stand all the same.
            if event.request.id in cursor.answered:
                cursor.answered[event.request.id] = self.context.now.monotonic
            cursor.heard = None
            if event.answer.fault.kind is not FaultKind.REFUSED:
                self.context.note(FaultMet(event.answer.fault, cursor.partition))

    def _settled(self, cursor: Cursor, request: Request) -> None:
        self._forget(cursor, request.id, self.context.now.monotonic)
        self.context.note(RequestSettled(request))

    def _forget(self, cursor: Cursor, request: RequestId, at: float) -> None:
        cursor.answered[request] = at
        if len(cursor.answered) > SETTLED_KEPT:
            del cursor.answered[next(iter(cursor.answered))]
        cursor.pending = tuple(one for one in cursor.pending if one.id != request)
        if cursor.answering is not None and cursor.answering.id == request:
            cursor.answering = None
