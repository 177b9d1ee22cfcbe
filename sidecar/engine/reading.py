"""What the fetcher brings in: taken in hand, proven, bounded; and where the log stands."""

from __future__ import annotations

from sidecar.core.evidence import Cue
from sidecar.core.facts import (
    CaughtUp,
    FaultMet,
    HoleCovered,
)
from sidecar.core.faults import Known, Unreadable
from sidecar.core.recovery import Phase
from sidecar.core.types import (
    GapReason,
    Offset,
    Partition,
)
from sidecar.engine import messages as m
from sidecar.engine.context import Context
from sidecar.engine.cursor import Cursor
from sidecar.engine.parts import Part
from sidecar.engine.replays import replay_pends
from sidecar.ports import (
    Batch,
    EndReached,
    Fetched,
)

BOUNDS_SECONDS = 1.0
FULL_SECONDS = 0.25
"""How long one partition may hold up another that starves."""


class Reading(Part):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._bounds: m.Ask | None = None
        self._bounds_at = -1e9
        self._throttled = False
        self._full: set[Partition] = set()

    @property
    def throttled(self) -> bool:
        """Whether the fetcher waits for somebody to take what it has brought."""
        return self._throttled

    def fetched(self, event: Fetched) -> None:
        cursor = self.context.cursors.get(event.partition)
        if (
            cursor is None
            or cursor.revoking
            or cursor.session != event.session
            or not cursor.fetching
            or cursor.hand is None
            or not event.batch.offsets
        ):
            return
        self.context.touched.setdefault(event.partition)
        batch = event.batch
        cursor.failures = 0
        cursor.caught_up = False
        cursor.end_reached = None
        if cursor.overlap is not None and cursor.phase is Phase.VERIFYING:
            below = cursor.overlap.take(batch.offsets, batch.digests)
            if below == len(batch.offsets):
                if batch.offsets[-1] + 1 >= cursor.overlap.until:
                    self.parts.recovery.conclude(cursor)
                return
            if below:
                batch = Batch(
                    batch.offsets[below:],
                    batch.digests[below:],
                    batch.sizes[below:],
                    batch.records[below:],
                    batch.epochs,
                )
            self.parts.recovery.conclude(cursor)
        cursor.hand.disturbed |= event.after_hold
        again = cursor.hand.intake(batch)
        if again is not None:
            cursor.hand.drop_unproven()
            self.parts.recovery.fetch(cursor, cursor.hand.position)
            return
        cursor.decided = None
        self.ask_floor(cursor)

    def ask_floor(self, cursor: Cursor) -> None:
        hand = cursor.hand
        if hand is None or not hand.wants_floor or cursor.floor_ask is not None:
            return
        cursor.floor_ask = self.context.ask()
        cursor.floor_reads = hand.reads
        self.context.do(m.AskFloors(cursor.floor_ask, (cursor.partition,)))

    def end_reached(self, event: EndReached) -> None:
        cursor = self.context.cursors.get(event.partition)
        if (
            cursor is None
            or cursor.session != event.session
            or cursor.hand is None
            or not cursor.fetching
        ):
            return
        cursor.failures = 0
        if cursor.phase is Phase.VERIFYING and cursor.overlap is not None:
            if event.position >= cursor.overlap.until:
                cursor.end_reached = event.position  # it is said only once
                cursor.hand.reached(event.position)
                cursor.decided = None
                self.parts.recovery.conclude(cursor)
            elif cursor.look_at is None:
                # A stale event; or the last stable offset still lies below the position; or the
                # log was cut below what is in hand. Asked again in a while, it will show.
                cursor.look_at = self.context.now.monotonic + BOUNDS_SECONDS
            return
        cursor.end_reached = event.position
        cursor.hand.reached(event.position)
        cursor.decided = None
        self.ask_floor(cursor)

    def floors_answered(self, event: m.FloorsAnswered) -> None:
        for partition, answer in event.floors.items():
            cursor = self.context.cursors.get(partition)
            if cursor is None or cursor.revoking:
                continue
            if isinstance(answer, Known):
                cursor.log_start = answer.value
            if cursor.ask == event.ask and cursor.phase is Phase.CONCLUDING:
                if isinstance(answer, Unreadable):
                    self.context.unanswered(cursor, answer.fault)
                else:
                    self.parts.recovery.concluded(cursor, answer.value)
                    if cursor.hand is not None:
                        self.ask_floor(cursor)
            elif cursor.floor_ask == event.ask:
                cursor.floor_ask = None
                if isinstance(answer, Unreadable):
                    self.context.note(FaultMet(answer.fault, partition))
                else:
                    self.prove(cursor, answer.value)

    def prove(self, cursor: Cursor, floor: Offset) -> None:
        hand = cursor.hand
        if hand is None:
            return
        self.context.touched.setdefault(cursor.partition)
        covered, lost = hand.prove(cursor.floor_reads, floor)
        for first, end in covered:
            kind = "trailing" if end == hand.position and not hand.ready else "inner"
            self.context.note(HoleCovered(cursor.partition, first, end, kind))
        if lost is not None and cursor.phase is Phase.REPLAYING:
            # The log start is within it: looked at, and gone on with from there.
            self.context.look(cursor, Cue.CURSOR_ERROR)
        elif lost is not None:
            # What follows cannot be covered: deliver what is in hand, then look.
            self.context.stop_fetching(cursor)
            cursor.look_when_drained = Cue.CURSOR_ERROR
        else:
            self.ask_floor(cursor)
        self.parts.delivery.promote(cursor)

    def tick(self, cursor: Cursor) -> None:
        if cursor.hand is not None:
            self.ask_floor(cursor)

    def watch(self, partitions: tuple[Partition, ...]) -> None:
        """From time to time: where does the log stand?"""
        now = self.context.now.monotonic
        if self._bounds is None and now - self._bounds_at >= BOUNDS_SECONDS:
            self._bounds_at = now
            self._bounds = self.context.ask()
            self.context.do(m.AskBounds(self._bounds, partitions))

    def bounds_answered(self, event: m.BoundsAnswered) -> None:
        if event.ask != self._bounds:
            return
        self._bounds = None
        for partition, start in event.starts.items():
            cursor = self.context.cursors.get(partition)
            if cursor is None:
                continue
            end = event.ends.get(partition)
            if isinstance(end, Known):
                cursor.log_end = end.value
                self.parts.conditions.end_sampled(cursor, end.value, asked_at=self._bounds_at)
            self.parts.conditions.progress_sampled(cursor)
            if not isinstance(start, Known):
                continue
            cursor.log_start = start.value
            self.parts.forecasts.start_sampled(cursor, start.value)
            if cursor.phase is Phase.GAP and cursor.gap is not None and cursor.install is None:
                end_of_gap = cursor.gap.interval.end
                if (
                    cursor.gap.reason is GapReason.RETENTION_LOSS
                    and end_of_gap is not None
                    and start.value > end_of_gap
                ):
                    self.context.look(cursor, Cue.RETRY)
                continue
            self.judge_caught_up(cursor)

    def judge_caught_up(self, cursor: Cursor) -> None:
        """At the end, the floor at or below it, nothing in hand, no open gap."""
        hand, end, next_ = cursor.hand, cursor.readable_end, cursor.next
        caught_up = (
            cursor.phase is Phase.DELIVERING
            and not replay_pends(cursor)
            and hand is not None
            and hand.empty
            and hand.trailing is None
            and end is not None
            and next_ is not None
            and cursor.end_reached is not None
            and next_ >= end
            and cursor.log_start is not None
            and cursor.log_start <= next_
        )
        if caught_up and not cursor.caught_up:
            assert next_ is not None
            self.context.note(CaughtUp(cursor.partition, next_))
        cursor.caught_up = caught_up

    def pressure(self) -> None:
        """What is in hand is bounded by throttling the fetcher, which holds back what it has and
        loses nothing of it. One partition that stays full while another one starves behind it is
        paused instead; that costs what was prefetched of it, and a fetch to begin again."""
        for partition in self.context.touched:
            cursor = self.context.cursors.get(partition)
            if cursor is not None and self._over(cursor):
                self._full.add(partition)
            else:
                self._full.discard(partition)
        if bool(self._full) != self._throttled:
            self._throttled = bool(self._full)
            self.context.do(m.Throttle(self._throttled))

    def _over(self, cursor: Cursor) -> bool:
        """Whether the fetcher has to wait for this one; pauses and resumes it on the way.

        Full at the limit, and until half of it is gone, so that a slow application is not woken
        for each page; with another partition starving, only until there is room again.
        """
        policy, hand, now = self.context.policy, cursor.hand, self.context.now.monotonic
        if hand is None or not cursor.fetching or cursor.phase is Phase.VERIFYING:
            # An overlap adds nothing to what is in hand, and has to be read however full it is.
            return False
        pages = policy.buffer_records // policy.page_records_max // len(self.context.cursors)
        pages = max(policy.buffer_pages, min(policy.buffer_pages_max, pages))
        high = pages * policy.page_records_max
        high_bytes = policy.buffer_pages * policy.page_bytes_max
        if cursor.paused:
            if hand.records <= high // 4 and hand.bytes <= high_bytes // 4:
                cursor.paused = False
                self.context.do(m.Resume(cursor.partition))
            return False
        full = hand.records >= high or hand.bytes >= high_bytes
        if not full and hand.records <= high // 2 and hand.bytes <= high_bytes // 2:
            cursor.full_since = None
            return False
        if not self._starving(cursor):
            cursor.full_since = None
            return full or cursor.partition in self._full
        if cursor.full_since is None:
            cursor.full_since = now
        if full and now - cursor.full_since >= FULL_SECONDS:
            cursor.paused = True
            cursor.full_since = None
            hand.disturbed = True
            self.context.do(m.Pause(cursor.partition))
            return False
        return full

    def _starving(self, full: Cursor) -> bool:
        """Whether another partition could do with records that may be queued behind this one's."""
        return any(
            cursor is not full
            and cursor.fetching
            and not cursor.paused
            and cursor.hand is not None
            and cursor.hand.records < self.context.policy.page_records_max
            for cursor in self.context.cursors.values()
        )
