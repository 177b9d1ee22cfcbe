"""A replay: the visible records of an interval delivered again, because a person asked for it.

    [first ······ position ······ end)          next
     delivered     still to be                   applied, where the partition goes on afterwards

It moves nothing but its own progress, which stands in the checkpoint beside the position: no
applied offset, no receipt, no commit. So it can be broken off anywhere (a restart, a rebalance, a
look) and goes on there; each record is flagged and has the key it had. Nothing new is delivered
meanwhile: whoever asks for old records expects them in order. The request pends until the interval
is done; what the log no longer holds of it is counted and said.

It is read by the partition's one fetching session, so a replay is a phase of its own, entered where
no page is out and left by a look, which verifies the overlap as after any other interruption.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sidecar.core.checkpoint import Checkpoint, Replaying
from sidecar.core.evidence import Cue
from sidecar.core.recovery import Phase, Step
from sidecar.core.request import Request, RequestKind, position
from sidecar.core.types import Interval, Offset
from sidecar.core.views import Refusal, Refused
from sidecar.engine.cursor import Cursor
from sidecar.engine.hand import Hand
from sidecar.engine.parts import Part


class Replays(Part):
    def asked(self, cursor: Cursor, request: Request, wanted: Interval | None = None) -> None:
        """Writes down what a request asks for, and so begins it; waits while that cannot be."""
        checkpoint, hand = cursor.checkpoint, cursor.hand
        if cursor.phase is not Phase.DELIVERING or checkpoint is None or hand is None:
            return
        if checkpoint.replaying is not None:
            return  # one at a time
        if wanted is None:
            first, end = position(request, "from"), position(request, "to")
        else:
            first, end = max(wanted.first, checkpoint.baseline), wanted.end
        refusal = self._refusal(cursor, first, end)
        if refusal is not None:
            self.parts.requests.refuse(cursor, request, Refused.REQUEST_REFUSED, refusal)
            return
        assert first is not None
        assert end is not None
        if hand.page is not None:
            return  # no other page follows it: see `Delivery.offerable`
        self.parts.requests.write(
            cursor,
            checkpoint.succeed(
                replaying=Replaying(request.id, request.by, first, first, end),
                replay=None if wanted is not None else checkpoint.replay,
            ),
        )

    @staticmethod
    def stands(cursor: Cursor) -> bool:
        """Whether a replay was begun and is not done."""
        return cursor.checkpoint is not None and cursor.checkpoint.replaying is not None

    def go_on(self, cursor: Cursor) -> None:
        """Goes on with what the checkpoint says is being delivered again. A store that went back
        may hold it without its request, and until it is done nothing else is delivered; but while
        it is not known whether the request pends, its answer could not be written."""
        checkpoint, hand = cursor.checkpoint, cursor.hand
        if cursor.phase is not Phase.DELIVERING or checkpoint is None or hand is None:
            return
        replaying = checkpoint.replaying
        if replaying is None or hand.page is not None:
            return
        if cursor.heard is not None or any(one.id == replaying.request for one in cursor.pending):
            self._begin(cursor, checkpoint, replaying)

    def _refusal(self, cursor: Cursor, first: Offset | None, end: Offset | None) -> str | None:
        next_, floor = cursor.next, cursor.log_start
        assert next_ is not None
        if first is None or end is None or first >= end:
            return "the interval is none: `from` has to be below `to`"
        if self._baseline(cursor) > first:
            return f"the history of the partition begins at {self._baseline(cursor)}"
        if end > next_:
            return f"only what was applied can be delivered again, and the position is {next_}"
        if floor is not None and end <= floor:
            return f"nothing of it is left: the log begins at {floor}"
        return None

    @staticmethod
    def _baseline(cursor: Cursor) -> Offset:
        assert cursor.checkpoint is not None
        return cursor.checkpoint.baseline

    def _begin(self, cursor: Cursor, checkpoint: Checkpoint, replaying: Replaying) -> None:
        if replaying.end > checkpoint.token.next:
            # The position went back since, or is another log's: these records are not applied.
            detail = f"the position is {checkpoint.token.next} by now"
            refusal = Refusal(Refused.REQUEST_REFUSED, detail)
            self._end(
                cursor,
                checkpoint,
                replaying,
                lambda request: request.refused(refusal, at=self.context.now.wall),
            )
            return
        if replaying.position >= replaying.end:
            # All of it is delivered or gone.
            self._finish(cursor, checkpoint, replaying)
            return
        floor = cursor.log_start
        if floor is not None and floor > replaying.position:
            self._gone(cursor, checkpoint, replaying, floor)
            return
        self.context.stop_fetching(cursor)
        at = replaying.position
        cursor.hand = Hand(at, at)
        self.context.move(cursor, Step.REPLAY)
        self.parts.recovery.fetch(cursor, at)

    def _gone(
        self, cursor: Cursor, checkpoint: Checkpoint, replaying: Replaying, floor: Offset
    ) -> None:
        """The log start moved into what is left of it."""
        at = Offset(min(floor, replaying.end))
        gone = replaying.gone + at - replaying.position
        moved = replace(replaying, position=at, gone=gone)
        self.parts.requests.write(cursor, checkpoint.succeed(replaying=moved))

    def advance(self, cursor: Cursor) -> None:
        """Notes how far it is, or that it is done, if either is news."""
        hand, checkpoint = cursor.hand, cursor.checkpoint
        if cursor.install is not None or cursor.revoking or hand is None or checkpoint is None:
            return
        replaying = checkpoint.replaying
        if replaying is None:
            return
        page = hand.page
        if page is None:
            if (hand.proven_to if hand.head is None else hand.head) >= replaying.end:
                self._finish(cursor, checkpoint, replaying)
            return
        head = page.head()
        if head == page.done:
            self.parts.delivery.answer_waiters(cursor, page)
            return
        reached = hand.frontier if head == len(page.offsets) else Offset(page.offsets[head])
        at = Offset(min(reached, replaying.end))
        self.parts.requests.write(
            cursor, checkpoint.succeed(replaying=replace(replaying, position=at))
        )

    def _finish(self, cursor: Cursor, checkpoint: Checkpoint, replaying: Replaying) -> None:
        gone = f"; {replaying.gone} offsets of it were gone" if replaying.gone else ""
        detail = f"[{replaying.first}, {replaying.end}) was delivered again{gone}"
        self._end(
            cursor,
            checkpoint,
            replaying,
            lambda request: request.done(detail, at=self.context.now.wall),
        )

    def blocked(self, cursor: Cursor, at: Offset, why: str) -> None:
        """What cannot be read cannot be delivered again; the partition itself goes on."""
        checkpoint = cursor.checkpoint
        self.context.stop_fetching(cursor)
        if checkpoint is None or checkpoint.replaying is None or cursor.install is not None:
            self.context.look(cursor, Cue.CURSOR_ERROR)
            return
        replaying = checkpoint.replaying
        detail = (
            f"the record at {at} cannot be read: {why}; delivered again up to {replaying.position}"
        )
        refusal = Refusal(Refused.REQUEST_REFUSED, detail)
        self._end(
            cursor,
            checkpoint,
            replaying,
            lambda request: request.refused(refusal, at=self.context.now.wall),
        )

    def _end(
        self,
        cursor: Cursor,
        checkpoint: Checkpoint,
        replaying: Replaying,
        answer: Callable[[Request], Request],
    ) -> None:
        answered = (answer(one) for one in cursor.pending if one.id == replaying.request)
        self.parts.requests.write(cursor, checkpoint.succeed(replaying=None), *answered)

    def noted(self, cursor: Cursor) -> None:
        """Its progress stands in the store."""
        checkpoint, hand = cursor.checkpoint, cursor.hand
        if cursor.phase is not Phase.REPLAYING or checkpoint is None or cursor.revoking:
            return
        replaying = checkpoint.replaying
        if replaying is None:
            self.context.look(cursor, Cue.REQUESTED)
            return
        page = None if hand is None else hand.page
        if hand is None or page is None:
            return
        page.done = sum(offset < replaying.position for offset in page.offsets)
        if page.done == len(page.offsets):
            hand.page = None
            cursor.keep_answer(page.id, cursor.answer(None))
            waiters, cursor.waiters = cursor.waiters, []
            for waiter in waiters:
                self.parts.delivery.answer_report(
                    cursor, waiter.request, page.id, waiter.until is not None
                )
        self.advance(cursor)


def replay_pends(cursor: Cursor) -> bool:
    """Whether something is to be delivered again before anything new is. Also while that is being
    written: in a store that went back meanwhile, no request may pend any more."""
    checkpoint, install = cursor.checkpoint, cursor.install
    stands = checkpoint is not None and checkpoint.replaying is not None
    begins = install is not None and install.checkpoint.replaying is not None
    return (stands or begins) or any(
        one.kind is RequestKind.REPLAY or one.arguments.get("answer") == "replay"
        for one in cursor.pending
    )
