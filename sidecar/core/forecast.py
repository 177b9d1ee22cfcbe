"""When retention will take unread records: a lower bound, or nothing.

Kafka drops a log whole segments at a time, oldest first, and by time only once the *newest* record
of a segment is older than `retention.ms`. So

    deletion of the segment that holds x  ≥  timestamp(x) + retention.ms

whatever the order of timestamps, and the bound is early by no more than what separates x from the
newest record of its segment (with rising timestamps: the segment's span, which `segment.ms` and
`segment.bytes` limit) and one check (`log.retention.check.interval.ms`). Taking the segments' own
limits into account was rejected: where they begin cannot be asked, so they could only make the
bound later than it may be. A record before x, or one that nobody sees, serves as well: what stands
before x goes before it, or with it.

A timestamp that makes no sense (none, seconds in place of milliseconds, the far future) proves
nothing, and there is no bound by time.

By size nothing can be known before it happens: when a segment goes depends on how fast others
write. What can be said is how the log start moved while it was watched, in steps of a segment each:

    steps needed to pass x  =  distance ÷ the largest step, rounded up
    seconds                 ≥  the shortest pause between steps for each of them but the first,
                               and for the first what is left of such a pause

This holds as long as the log start moves in no larger and no quicker steps than its last 16;
a log that has not moved yet gives no such number. It counts only for topics with `retention.bytes`,
and there the smaller of both is the forecast. Neither sees a `DeleteRecords`, which people ask for,
nor a retention that is lowered after it was read.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.core.types import Offset

OLDEST_SECONDS = 946_684_800.0
"""2000-01-01: before Kafka. Seconds taken for milliseconds are of 1970."""
FUTURE_SECONDS_MAX = 3_600.0
"""How far a producer's clock may be ahead: Kafka's own limit, `message.timestamp.after.max.ms`."""
STEPS_KEPT = 16


@dataclass(frozen=True, slots=True)
class Retention:
    """Of one topic, as its settings say now. `seconds` None: not by time. `by_size`: there is a
    limit in bytes."""

    seconds: float | None
    by_size: bool


@dataclass(frozen=True, slots=True)
class Stamp:
    """The timestamp in milliseconds of the first record at or above `offset`; None: it has none."""

    offset: Offset
    timestamp: int | None


def sane(timestamp: int | None, *, now: float) -> bool:
    """Whether a record's timestamp can be a time at which it was written. `now` in Unix seconds."""
    if timestamp is None:
        return False
    seconds = timestamp / 1000
    return OLDEST_SECONDS <= seconds <= now + FUTURE_SECONDS_MAX


@dataclass(slots=True)
class Movement:
    """How a log start moved while it was watched; times are monotonic seconds.

    `steps` are (offsets, seconds since the step before it or since watching began), newest last.
    """

    at: Offset
    since: float
    steps: tuple[tuple[int, float], ...] = ()

    def seen(self, start: Offset, now: float) -> None:
        if start < self.at:  # the log is another
            self.at, self.since, self.steps = start, now, ()
        elif start > self.at:
            step = start - self.at, now - self.since
            self.at, self.since, self.steps = start, now, (*self.steps, step)[-STEPS_KEPT:]

    def seconds_to_pass(self, offset: Offset, now: float) -> float | None:
        """Until the log start lies beyond `offset`, if it goes on as it did; None: it never did."""
        if not self.steps:
            return None
        largest = max(size for size, _ in self.steps)
        pause = min(seconds for _, seconds in self.steps)
        needed = -(-(offset + 1 - self.at) // largest)
        if needed <= 0:
            return 0.0
        return max(0.0, pause - (now - self.since)) + (needed - 1) * pause


def seconds_to_loss(
    retention: Retention | None,
    *,
    unread: Offset,
    stamp: Stamp | None,
    movement: Movement | None,
    now: float,
    monotonic: float,
) -> float | None:
    """Until retention may take the first unread record, at the earliest; None: it cannot be said.

    `unread` is the first offset that is neither applied nor gone. `stamp` may be of an earlier
    record, never of a later one.
    """
    if retention is None:
        return None
    bounds = []
    if (
        retention.seconds is not None
        and stamp is not None
        and stamp.timestamp is not None
        and stamp.offset <= unread
        and sane(stamp.timestamp, now=now)
    ):
        bounds.append(max(0.0, stamp.timestamp / 1000 + retention.seconds - now))
    if retention.by_size and movement is not None:
        by_size = movement.seconds_to_pass(unread, monotonic)
        if by_size is not None:
            bounds.append(by_size)
    return min(bounds, default=None)
