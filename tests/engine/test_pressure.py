"""What is in hand is bounded; a pause, which throws prefetched records away, is the exception."""

from __future__ import annotations

import pytest

from sidecar.core.policy import Policy
from sidecar.core.types import GroupId, Instant, Offset, Partition, Record
from sidecar.engine import Engine
from sidecar.engine import messages as m
from sidecar.engine.cursor import Cursor
from sidecar.engine.hand import Hand
from sidecar.engine.reading import FULL_SECONDS
from sidecar.ports import Batch, Fetched
from tests.store.values import checkpoint

POLICY = Policy(GroupId("g"))
FULL = POLICY.buffer_pages_max * POLICY.page_records_max
BLANK: Record = (None, None, None, None)


class Pressed:
    """An engine whose partitions are given what they hold, and asked what it makes of that."""

    def __init__(self, *held: int) -> None:
        self.engine = Engine(POLICY, name="n")
        self.cursors = [Cursor(Partition("t", i), since=0.0) for i in range(len(held))]
        for cursor in self.cursors:
            cursor.fetching = True
            self.engine.cursors[cursor.partition] = cursor
        self.hold(*held)

    def hold(self, *held: int) -> None:
        for cursor, count in zip(self.cursors, held, strict=True):
            cursor.hand = Hand(Offset(0), Offset(0))
            if count:
                cursor.hand.intake(
                    Batch(range(count), range(count), [1] * count, [BLANK] * count, [])
                )

    def at(self, seconds: float) -> list[m.Command]:
        """What is asked of the fetcher."""
        context = self.engine.context
        context.now = Instant(seconds, seconds)
        context.out = []
        context.touched = dict.fromkeys(self.engine.cursors)
        self.engine.parts.reading.pressure()
        return context.out


def test_a_full_partition_holds_the_fetcher_back_and_loses_nothing() -> None:
    """Where every partition has enough to hand out, however long that lasts, none is paused."""
    pressed = Pressed(FULL, FULL)
    assert pressed.at(0) == [m.Throttle(True)]
    assert pressed.at(100) == []


def test_the_fetcher_goes_on_once_half_is_gone() -> None:
    pressed = Pressed(FULL, FULL // 2 + 1)
    pressed.at(0)
    pressed.hold(FULL - 1, FULL // 2 + 1)
    assert pressed.at(1) == []
    pressed.hold(FULL // 2, FULL // 2)
    assert pressed.at(2) == [m.Throttle(False)]


def test_the_fetcher_goes_on_as_soon_as_another_partition_starves() -> None:
    pressed = Pressed(FULL, FULL)
    pressed.at(0)
    pressed.hold(FULL - 1, 0)
    assert pressed.at(0.01) == [m.Throttle(False)]


def test_one_that_stays_full_while_another_starves_is_paused() -> None:
    """It alone waits, and until three quarters of what it holds are gone."""
    pressed = Pressed(FULL, 0)
    slow = pressed.cursors[0].partition
    assert pressed.at(0) == [m.Throttle(True)]
    assert pressed.at(FULL_SECONDS - 0.01) == []
    assert pressed.at(FULL_SECONDS) == [m.Pause(slow), m.Throttle(False)]
    pressed.hold(FULL // 2, 0)
    assert pressed.at(1) == []
    pressed.hold(FULL // 4, 0)
    assert pressed.at(2) == [m.Resume(slow)]


def test_one_that_empties_in_time_is_not_paused() -> None:
    pressed = Pressed(FULL, 0)
    pressed.at(0)
    pressed.hold(FULL // 2, 0)
    assert pressed.at(FULL_SECONDS / 2) == [m.Throttle(False)]
    pressed.hold(FULL, 0)
    assert pressed.at(FULL_SECONDS) == [m.Throttle(True)]


def test_a_hole_right_behind_a_hold_is_read_once_more() -> None:
    """The fetcher gave up what it had prefetched: what lies between is not taken for a hole yet."""
    pressed = Pressed(5)
    (cursor,) = pressed.cursors
    cursor.checkpoint = checkpoint(POLICY.group, partition=cursor.partition)

    def fetched(*offsets: int, after_hold: bool) -> list[m.Command]:
        batch = Batch(offsets, offsets, [1] * len(offsets), [BLANK] * len(offsets), [])
        event = Fetched(cursor.partition, cursor.session, batch, after_hold)
        return pressed.engine.step(event, Instant(1, 1))

    (again,) = (c for c in fetched(7, 8, after_hold=True) if isinstance(c, m.Fetch))
    assert again.at == 5
    assert any(isinstance(c, m.AskFloors) for c in fetched(7, 8, after_hold=False))


@pytest.mark.parametrize(("partitions", "pages"), [(1, 16), (4, 16), (8, 8), (16, 4), (100, 4)])
def test_many_partitions_share_what_may_be_in_hand(partitions: int, pages: int) -> None:
    limit = pages * POLICY.page_records_max
    assert Pressed(*[limit - 1] * partitions).at(0) == []
    assert Pressed(limit, *[limit - 1] * (partitions - 1)).at(0) == [m.Throttle(True)]
