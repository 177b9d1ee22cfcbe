"""What stands beside a verdict and holds nothing: a transaction that hangs, reading that stands
still.

Both are shown by time alone, so each is told by samples of the log's bounds, which are asked for
all partitions at once anyway. A sample that could not be taken says nothing: it neither raises a
condition nor clears one.

*Hanging transaction.* The last stable offset stood at the same place below the high watermark in
two samples that lie far enough apart. Between them it cannot have moved: it never goes back but
with the log itself. On a busy transactional topic it is nearly always below, and moves.

*No progress.* There are records this reader could read, nothing of ours keeps it from fetching, and
nothing came. A frozen follower or a leader without its controllers looks like that, and gives no
error. A record that the application does not finish is another thing: the age of the head of the
line (`oldest_unresolved_timestamp_seconds`) shows that one.
"""

from __future__ import annotations

from sidecar.core.evidence import LogEnd
from sidecar.core.recovery import Phase
from sidecar.core.types import Condition, IsolationLevel
from sidecar.engine.cursor import Cursor
from sidecar.engine.parts import Part


class Conditions(Part):
    def end_sampled(self, cursor: Cursor, end: LogEnd, *, asked_at: float) -> None:
        """`asked_at`: monotonic seconds when the question left. The first sample counts from its
        answer and the second from its question, so the time between them is never overstated."""
        if (
            cursor.isolation is not IsolationLevel.READ_COMMITTED
            or end.last_stable >= end.high_watermark
        ):
            cursor.stable_since = None
        elif cursor.stable_since is None or cursor.stable_since[0] != end.last_stable:
            cursor.stable_since = end.last_stable, self.context.now.monotonic
        since = cursor.stable_since
        patience = self.context.policy.hanging_transaction_seconds
        hangs = since is not None and asked_at - since[1] >= patience
        self.context.condition(
            cursor,
            Condition.HANGING_TRANSACTION,
            hangs,
            f"the last stable offset stands at {end.last_stable}, below the end "
            f"{end.high_watermark}: a transaction is open there, and what follows it waits"
            if hangs
            else "",
        )

    def progress_sampled(self, cursor: Cursor) -> None:
        if cursor.phase is Phase.LOOKING:
            return  # of what comes of the look, it is not known yet
        now, hand, next_, end = (
            self.context.now.monotonic,
            cursor.hand,
            cursor.next,
            cursor.readable_end,
        )
        wants = (
            cursor.phase is Phase.DELIVERING
            and hand is not None
            and hand.empty
            and cursor.fetching
            and not cursor.paused
            and not self.parts.reading.throttled
            and not self.context.draining
            and next_ is not None
            and end is not None
            and next_ < end
        )
        position = None if hand is None else hand.position
        if not wants or position != cursor.still_at:
            cursor.still_at, cursor.still_since = position, now
        stands = wants and now - cursor.still_since >= self.context.policy.no_progress_seconds
        self.context.condition(
            cursor,
            Condition.NO_PROGRESS,
            stands,
            f"nothing was read from {position} on for {now - cursor.still_since:.0f} s, "
            f"although the log ends at {end}"
            if stands
            else "",
        )
