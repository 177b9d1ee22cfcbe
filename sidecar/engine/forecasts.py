"""What a forecast of loss rests on: each topic's retention, how the log start moves, and the
timestamp of the first unread record.

That record is in hand as a rule, and then its timestamp costs nothing. Where nothing is in hand (a
gap, a hold, a partition that waits) it is read, of many partitions at once and seldom: these are
the ones whose records wait longest. A stamp that was seen once goes on to count when the position
moves on: an earlier record is a lower bound, too.
"""

from __future__ import annotations

from sidecar.core.faults import Known, Unreadable
from sidecar.core.forecast import Movement
from sidecar.core.types import Offset, Partition
from sidecar.engine import messages as m
from sidecar.engine.context import Context
from sidecar.engine.cursor import Cursor
from sidecar.engine.parts import Part

FORECAST_SECONDS = 10.0
STAMPS_AT_ONCE = 256


class Forecasts(Part):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._ask: m.Ask | None = None
        self._asked_at = -1e9
        self._next_first = 0
        """Where the next question begins, since one cannot hold them all."""

    def tick(self, cursor: Cursor) -> None:
        cursor.stamp = cursor.stamp_in_hand or cursor.stamp

    def start_sampled(self, cursor: Cursor, start: Offset) -> None:
        now = self.context.now.monotonic
        if cursor.movement is None:
            cursor.movement = Movement(start, now)
        cursor.movement.seen(start, now)

    def watch(self, partitions: tuple[Partition, ...]) -> None:
        now = self.context.now.monotonic
        if self._ask is not None or now - self._asked_at < FORECAST_SECONDS:
            return
        self._asked_at = now
        self._ask = self.context.ask()
        offsets: dict[Partition, Offset] = {}
        cursors = list(self.context.cursors.values())
        begin = self._next_first % len(cursors)
        for place, cursor in enumerate([*cursors[begin:], *cursors[:begin]]):
            unread, by_time = cursor.unread, cursor.retention
            if unread is None or by_time is None or by_time.seconds is None:
                continue
            if cursor.stamp is None or cursor.stamp.offset != unread:
                offsets[cursor.partition] = unread
            if len(offsets) == STAMPS_AT_ONCE:
                self._next_first = begin + place + 1
                break
        topics = tuple(sorted({partition.topic for partition in partitions}))
        self.context.do(m.AskRetention(self._ask, topics, offsets))

    def answered(self, event: m.RetentionAnswered) -> None:
        if event.ask != self._ask:
            return
        self._ask = None
        for cursor in self.context.cursors.values():
            match event.retentions.get(cursor.partition.topic):
                case Known(retention):
                    cursor.retention = retention
                case Unreadable(fault) if not fault.transient:
                    cursor.retention = None  # a right that is gone: nothing can be promised
                case _:
                    pass
        for partition, reading in event.stamps.items():
            held = self.context.cursors.get(partition)
            if held is not None and isinstance(reading, Known):
                held.stamp = reading.value
