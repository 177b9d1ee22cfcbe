"""Pages out, outcomes in, and the promotion of what is resolved."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from sidecar.core.checkpoint import (
    Checkpoint,
    Install,
)
from sidecar.core.facts import (
    PageOffered,
    PromotionEnded,
)
from sidecar.core.recovery import Phase
from sidecar.core.request import Request
from sidecar.core.types import (
    LeaderEpoch,
    Offset,
    Outcome,
    PageId,
    Partition,
    Token,
)
from sidecar.core.views import (
    Refused,
)
from sidecar.engine import messages as m
from sidecar.engine.context import Context
from sidecar.engine.cursor import Cursor, Waiter
from sidecar.engine.hand import Page
from sidecar.engine.parts import Part
from sidecar.engine.replays import replay_pends
from sidecar.errors import InvariantBroken

PARKED_MAX = 1024


class Delivery(Part):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._parked: OrderedDict[m.RequestId, m.PageWanted] = OrderedDict()
        self._candidates: dict[Partition, None] = {}
        """Partitions with something to offer, the one that waited longest first."""
        self._marks: dict[Partition, str] = {}
        self._marked: dict[str, Partition] = {}
        """A page's name ends with its partition's mark, so that no page has to be remembered for
        longer than its cursor remembers it."""

    def refuse_parked(self) -> None:
        """Nobody is offered a page any more."""
        for request in self._parked:
            self.context.refuse(request, Refused.DRAINING, "the sidecar is draining")
        self._parked.clear()

    def page_wanted(self, event: m.PageWanted) -> None:
        if self.context.draining:
            self.context.refuse(event.request, Refused.DRAINING, "the sidecar is draining")
            return
        if len(self._parked) >= PARKED_MAX:
            self.context.refuse(
                event.request, Refused.BUSY, "too many requests wait for a page", 1.0
            )
            return
        self._parked[event.request] = event

    def request_dropped(self, request: m.RequestId) -> None:
        self._parked.pop(request, None)
        for cursor in self.context.cursors.values():
            cursor.waiters = [w for w in cursor.waiters if w.request != request]

    def offer_pages(self) -> None:
        for partition in self.context.touched:
            cursor = self.context.cursors.get(partition)
            if cursor is not None and self.offerable(cursor):
                self._candidates.setdefault(partition)
            else:
                self._candidates.pop(partition, None)
        if not self._parked or not self._candidates or self.context.draining:
            return
        if self.context.store_refused is not None:
            return
        for request, wanted in list(self._parked.items()):
            for partition in list(self._candidates):
                if not _matches(partition, wanted):
                    continue
                cursor = self.context.cursors.get(partition)
                # Either way it has had its turn; it comes back when it changes, or by time.
                del self._candidates[partition]
                if cursor is not None and self.offerable(cursor) and self.offer(cursor, wanted):
                    del self._parked[request]
                    break
            if not self._candidates:
                return

    def offerable(self, cursor: Cursor) -> bool:
        hand, now = cursor.hand, self.context.now.monotonic
        replaying = cursor.phase is Phase.REPLAYING
        if not (replaying or cursor.phase is Phase.DELIVERING) or cursor.revoking or hand is None:
            return False
        if cursor.checkpoint is None or cursor.checkpoint.paused is not None:
            return False
        if now < self.context.offers_from:
            return False
        if now - cursor.owner_seen_at >= self.context.policy.session_timeout_seconds / 2:
            return False
        page = hand.page
        if page is None:
            if not replaying:
                return bool(hand.ready) and not replay_pends(cursor)
            asked = cursor.checkpoint.replaying
            return asked is not None and hand.head is not None and hand.head < asked.end
        if page.resolved:
            return False
        return (page.closed and now >= page.offer_after) or now >= page.deadline

    def offer(self, cursor: Cursor, wanted: m.PageWanted) -> bool:
        hand, checkpoint = cursor.hand, cursor.checkpoint
        assert hand is not None
        assert checkpoint is not None
        now = self.context.now
        deadline = now.monotonic + self.context.policy.page_deadline_seconds
        page = hand.page
        if page is None:
            columns = hand.cut_page(
                records_max=min(wanted.page.records_max, self.context.policy.page_records_max),
                bytes_max=min(wanted.page.bytes_max, self.context.policy.page_bytes_max),
                below=checkpoint.horizon
                if checkpoint.replaying is None
                else checkpoint.replaying.end,
            )
            if columns is None:
                self.extend_horizon(cursor)
                return False
            offsets, digests, records, epochs = columns
            outcomes: list[Outcome | None] = [None] * len(offsets)
            durable: set[int] = set()
            if cursor.ahead and checkpoint.replaying is None:
                other = self.skip_known(cursor, offsets, digests, outcomes, durable)
                if other is not None:
                    self.parts.recovery.diverged_ahead(cursor, other)
                    return False
            page = Page(
                self.name_page(cursor.partition),
                1,
                now.monotonic,
                deadline,
                offsets,
                digests,
                records,
                epochs,
                outcomes,
                durable,
            )
            hand.page = page
            if page.resolved:
                self.promote(cursor)
                return False
        else:
            cursor.superseded.append(page.id)
            page.id = self.name_page(cursor.partition)
            page.attempt += 1
            page.handed_at = now.monotonic
            page.deadline = deadline
            page.closed = False
            page.retried.clear()
        cursor.handed_to = Offset(max(cursor.handed_to, page.offsets[-1] + 1))
        wall_deadline = now.wall + self.context.policy.page_deadline_seconds
        offer = cursor.offer(page, attempt=page.attempt, wall_deadline=wall_deadline)
        self.context.do(m.Reply(wanted.request, offer))
        self.context.note(PageOffered(cursor.partition, offer.first, offer.last, page.attempt))
        return True

    def skip_known(
        self,
        cursor: Cursor,
        offsets: list[int],
        digests: list[int],
        outcomes: list[Outcome | None],
        durable: set[int],
    ) -> Offset | None:
        """A receipt beyond the applied position lets a record be skipped, if its digest matches.
        Returns the first offset at which it does not: other bytes stand there now."""
        for i, offset in enumerate(offsets):
            known = cursor.ahead.pop(Offset(offset), None)
            if known is None:
                continue
            if known.digest != digests[i]:
                return Offset(offset)
            outcomes[i] = known.outcome
            durable.add(offset)
        return None

    def drop_head(self, cursor: Cursor, request: Request) -> None:
        """The first record without an outcome is dropped, as a person decided: a receipt like any
        other's. Nothing is done while that cannot be written."""
        hand, checkpoint, now = cursor.hand, cursor.checkpoint, self.context.now
        assert hand is not None
        assert checkpoint is not None
        if hand.page is None:
            columns = hand.cut_page(records_max=1, bytes_max=1, below=checkpoint.horizon)
            if columns is None:
                self.extend_horizon(cursor)
                return
            offsets, digests, records, epochs = columns
            name = self.name_page(cursor.partition)
            hand.page = Page(
                name, 0, now.monotonic, now.monotonic, offsets, digests, records, epochs, [None]
            )
        page = hand.page
        page.outcomes[page.head()] = Outcome.DROPPED
        self.promote(cursor, requests=(request,))

    def extend_horizon(self, cursor: Cursor) -> None:
        checkpoint, hand = cursor.checkpoint, cursor.hand
        assert checkpoint is not None
        assert hand is not None
        if not hand.ready or cursor.install is not None:
            return
        further = checkpoint.succeed(
            horizon=Offset(hand.ready[0].first + self.context.policy.horizon_records)
        )
        self.parts.writes.install(
            cursor, m.Purpose.HORIZON, checkpoint.expected, further, body=False
        )

    def name_page(self, partition: Partition) -> PageId:
        mark = self._marks.get(partition)
        if mark is None:
            mark = self._marks[partition] = str(len(self._marks))
            self._marked[mark] = partition
        return PageId(f"{self.context.new_name('page')}-{mark}")

    def find_page(self, page: PageId) -> Cursor | None:
        """Only a page that its cursor knows: a name that somebody made up finds none."""
        partition = self._marked.get(page.rpartition("-")[2])
        cursor = None if partition is None else self.context.cursors.get(partition)
        if cursor is None:
            return None
        held = cursor.page
        known = (held is not None and held.id == page) or page in cursor.answers
        return cursor if known or page in cursor.superseded else None

    def reported(self, event: m.Reported) -> None:
        cursor = self.find_page(event.page)
        if cursor is None or cursor.revoking:
            self.context.refuse(
                event.request,
                Refused.PAGE_LOST,
                "no such page here: its partition moved, or the sidecar began anew; "
                "its records will be offered again",
            )
            return
        kept = cursor.answers.get(event.page)
        if kept is not None:
            self.answer_report(cursor, event.request, event.page, event.wait_committed)
            return
        page = cursor.page
        if page is None or page.id != event.page:
            self.context.refuse(
                event.request,
                Refused.PAGE_SUPERSEDED,
                "a later page for these records was handed out; report that one",
            )
            return
        if not page.covers(event.report):
            self.context.refuse(
                event.request,
                Refused.OFFSETS_UNKNOWN,
                f"the page holds offsets {page.offsets[0]} to {page.offsets[-1]} only; "
                "nothing was recorded",
            )
            return
        self.context.touched.setdefault(cursor.partition)
        if page.take(event.report):
            page.closed = True
            page.offer_after = self.context.now.monotonic + min(
                self.context.policy.retry_seconds_max,
                self.context.policy.retry_seconds_min * 2 ** (page.attempt - 1),
            )
        waiter = Waiter(event.request, event.page, since=self.context.now.monotonic)
        if event.wait_committed:
            waiter.until = Offset(-1)
        cursor.waiters.append(waiter)
        self.promote(cursor)

    def promote(self, cursor: Cursor, *, requests: tuple[Request, ...] = ()) -> None:
        """Promotes the resolved head, if there is one and nothing forbids it now. `requests` are
        what resolved it, where a person did."""
        hand, checkpoint = cursor.hand, cursor.checkpoint
        if cursor.phase is Phase.REPLAYING:
            self.parts.replays.advance(cursor)
            return
        if (
            cursor.phase is not Phase.DELIVERING
            or cursor.install is not None
            or hand is None
            or checkpoint is None
            or checkpoint.replaying is not None
        ):
            return
        page = hand.page
        if page is None:
            if not hand.ready and hand.proven_to > checkpoint.token.next:
                # Only holes lie between: the position moved over proven ground.
                self.parts.writes.install(
                    cursor,
                    m.Purpose.PROMOTE,
                    checkpoint.expected,
                    self.advance(cursor, checkpoint, hand.proven_to, checkpoint.token.epoch),
                    body=False,
                )
            return
        head = page.head()
        if head == page.done and not page.beyond(head):
            self.answer_waiters(cursor, page)
            return
        next_ = hand.frontier if head == len(page.offsets) else Offset(page.offsets[head])
        receipts = (page.run(head),) if head > page.done else ()
        if head == page.done:
            next_ = checkpoint.token.next
        epoch = page.epoch_below(next_)  # 0 is one, too
        self.parts.writes.install(
            cursor,
            m.Purpose.PROMOTE,
            checkpoint.expected,
            self.advance(
                cursor, checkpoint, next_, checkpoint.token.epoch if epoch is None else epoch
            ),
            receipts=receipts,
            page=page,
            head=head,
            requests=requests,
            body=cursor.go is not None and cursor.go.adopts_topic_id is not None,
        )

    def advance(
        self, cursor: Cursor, checkpoint: Checkpoint, next_: Offset, epoch: LeaderEpoch | None
    ) -> Checkpoint:
        if next_ < checkpoint.token.next:
            raise InvariantBroken(
                "applied_monotone", f"{cursor.partition}: {checkpoint.token.next} to {next_}"
            )
        horizon = max(checkpoint.horizon, next_ + self.context.policy.horizon_records)
        return checkpoint.succeed(token=Token(next_, epoch), horizon=Offset(horizon))

    def promoted(self, cursor: Cursor, install: Install) -> None:
        self.parts.commits.dirty.add(cursor.partition)
        outcomes: dict[Outcome, int] = {}
        for run in install.receipts:
            if isinstance(run.outcomes, Outcome):
                outcomes[run.outcomes] = outcomes.get(run.outcomes, 0) + len(run)
            else:
                for outcome in run.outcomes:
                    outcomes[outcome] = outcomes.get(outcome, 0) + 1
            keep = self.context.policy.overlap_records
            cursor.tail.extend(
                zip(run.offsets[-keep:], run.digests[-keep:], strict=True)  # type: ignore[arg-type]  # columns are plain integers
            )
            while len(cursor.tail) > keep:
                cursor.tail.popleft()
            cursor.distrusted = False
        hand = cursor.hand
        page = None if hand is None else hand.page
        seconds = None if page is None else self.context.now.monotonic - page.handed_at
        self.note_promotion(cursor, "won", outcomes, seconds)
        if hand is None or page is None:
            self.after_promotion(cursor)
            return
        if install.ahead:
            page.durable.update(r.offset for r in install.ahead)
        page.done += sum(len(run) for run in install.receipts)
        if page.done == len(page.offsets):
            hand.page = None
            answer = cursor.answer(None)
            cursor.keep_answer(page.id, answer)
            waiters, cursor.waiters = cursor.waiters, []
            for waiter in waiters:
                self.answer_report(cursor, waiter.request, page.id, waiter.until is not None)
        self.after_promotion(cursor)

    def after_promotion(self, cursor: Cursor) -> None:
        hand = cursor.hand
        if hand is None or cursor.revoking:
            return
        self.promote(cursor)
        self.parts.recovery.look_if_drained(cursor)

    def note_promotion(
        self, cursor: Cursor, result: str, outcomes: dict[Outcome, int], seconds: float | None
    ) -> None:
        checkpoint = cursor.checkpoint
        assert checkpoint is not None
        self.context.note(
            PromotionEnded(
                cursor.partition,
                result,
                checkpoint.applied,
                checkpoint.generation,
                outcomes,
                seconds,
            )
        )

    def answer_waiters(self, cursor: Cursor, page: Page) -> None:
        """The reports are recorded as far as they go; what is left stays unresolved."""
        waiters, cursor.waiters = cursor.waiters, []
        for waiter in waiters:
            self.context.do(m.Reply(waiter.request, cursor.answer(page)))

    def answer_report(
        self, cursor: Cursor, request: m.RequestId, page: PageId, wait_committed: bool
    ) -> None:
        answer = cursor.answers[page]
        committed = cursor.committed
        if wait_committed and (committed is None or committed < answer.next):
            cursor.waiters.append(Waiter(request, page, answer.next, self.context.now.monotonic))
            self.parts.commits.urgent = True
            return
        self.context.do(m.Reply(request, replace(answer, committed=committed)))

    def expire_waiters(self, cursor: Cursor) -> None:
        """A report is answered within half a page's deadline, whatever is waited for."""
        patience = max(1.0, self.context.policy.page_deadline_seconds / 2)
        late = [w for w in cursor.waiters if self.context.now.monotonic - w.since >= patience]
        for waiter in late:
            cursor.waiters.remove(waiter)
            self.context.refuse(
                waiter.request,
                Refused.UNVERIFIED,
                f"not known to be recorded: the partition is {cursor.phase} ({cursor.detail}); "
                "send the same report again",
                1.0,
            )


def _matches(partition: Partition, wanted: m.PageWanted) -> bool:
    page = wanted.page
    return (page.topic is None or page.topic == partition.topic) and (
        page.partition is None or page.partition == partition.index
    )
