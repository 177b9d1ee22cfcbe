"""What is in hand: coverage, pages, outcomes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.types import Offset, Outcome, PageId, Record
from sidecar.core.views import AllApplied, Each
from sidecar.engine.hand import Hand, Page
from sidecar.ports import Batch

BLANK: Record = (None, None, None, None)


def batch(*offsets: int, size: int = 10) -> Batch:
    return Batch(
        list(offsets),
        [o * 7 for o in offsets],
        [size] * len(offsets),
        [BLANK] * len(offsets),
        [(Offset(offsets[0]), None)],
    )


def hand(at: int = 0) -> Hand:
    return Hand(Offset(at), Offset(at))


def cut(held: Hand, records: int = 500, size: int = 10**9, below: int = 10**9) -> list[int]:
    columns = held.cut_page(records_max=records, bytes_max=size, below=Offset(below))
    return [] if columns is None else columns[0]


def test_consecutive_offsets_are_ready_at_once() -> None:
    held = hand()
    held.intake(batch(0, 1, 2))
    assert not held.wants_floor
    assert cut(held) == [0, 1, 2]


def test_a_hole_is_not_ready_until_a_floor_asked_after_it_covers_it() -> None:
    held = hand()
    held.intake(batch(0, 1, 4, 5))
    assert held.wants_floor
    assert cut(held) == []
    covered, lost = held.prove(held.reads, Offset(2))
    assert (covered, lost) == ([(2, 4)], None)
    assert cut(held) == [0, 1, 4, 5]


def test_a_floor_asked_before_the_read_proves_nothing() -> None:
    held = hand()
    asked = held.reads
    held.intake(batch(0, 3))
    assert held.prove(asked, Offset(0)) == ([], None)
    assert held.wants_floor


def test_a_hole_the_floor_passed_is_cut_and_reading_stops_there() -> None:
    held = hand()
    held.intake(batch(0, 1, 4, 5))
    covered, lost = held.prove(held.reads, Offset(3))
    assert (covered, lost) == ([], 2)
    assert cut(held) == [0, 1]
    assert held.position == 2
    assert held.frontier == 2


def test_a_hole_in_front_of_the_first_record_belongs_to_its_batch() -> None:
    held = hand(10)
    held.intake(batch(12, 13))
    assert held.frontier == 10
    assert held.prove(held.reads, Offset(11))[1] == 10


def test_what_follows_a_hole_waits_behind_it() -> None:
    held = hand()
    held.intake(batch(0, 2))
    held.intake(batch(3, 4))
    assert cut(held) == []
    held.prove(held.reads, Offset(0))
    assert cut(held) == [0, 2, 3, 4]


def test_a_trailing_hole_is_covered_by_the_end_and_the_floor() -> None:
    held = hand(5)
    held.reached(Offset(8))
    assert held.frontier == 5
    assert held.prove(held.reads, Offset(5)) == ([(5, 8)], None)
    assert held.frontier == 8


def test_a_trailing_hole_the_floor_passed_is_lost() -> None:
    held = hand(5)
    held.reached(Offset(8))
    assert held.prove(held.reads, Offset(6)) == ([], 5)


def test_a_hole_right_after_a_disturbance_is_read_once_more() -> None:
    held = hand()
    held.intake(batch(0, 1))
    held.disturbed = True
    assert held.intake(batch(5, 6)) == 2
    held.began = Offset(2)
    assert held.intake(batch(5, 6)) is None
    assert held.wants_floor


def test_records_read_again_are_not_taken_twice() -> None:
    held = hand()
    held.intake(batch(0, 1, 2))
    held.intake(batch(1, 2, 3))
    assert cut(held) == [0, 1, 2, 3]


def test_a_page_is_bounded_by_records_bytes_and_horizon() -> None:
    held = hand()
    held.intake(batch(*range(10)))
    assert cut(held, records=3) == [0, 1, 2]
    assert cut(held, size=25) == [3, 4]
    assert cut(held, size=1) == [5]
    assert cut(held, below=8) == [6, 7]
    assert cut(held, below=8) == []
    assert cut(held) == [8, 9]
    assert (held.records, held.bytes) == (0, 0)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=40), st.integers(1, 7))
def test_pages_hold_every_record_once_in_order(steps: list[int], size: int) -> None:
    offsets, at = [], 0
    for step in steps:
        at += step
        offsets.append(at)
    held = hand()
    for i in range(0, len(offsets), 3):
        held.intake(batch(*offsets[i : i + 3]))
    held.prove(held.reads, Offset(0))
    seen: list[int] = []
    while page := cut(held, records=size):
        assert len(page) <= size
        seen += page
    assert seen == offsets
    assert held.frontier == offsets[-1] + 1


def page(*offsets: int) -> Page:
    return Page(
        PageId("p"), 1, 0.0, 30.0, list(offsets), [o * 7 for o in offsets],
        [BLANK] * len(offsets), [(Offset(offsets[0]), None)], [None] * len(offsets),
    )  # fmt: skip


def test_one_outcome_for_all() -> None:
    made = page(4, 5, 7)
    assert not made.take(AllApplied(Outcome.APPLIED))
    assert made.resolved
    assert made.run(3).outcomes is Outcome.APPLIED


def test_through_resolves_the_head_only() -> None:
    made = page(4, 5, 7)
    made.take(AllApplied(Outcome.APPLIED, Offset(5)))
    assert made.head() == 2
    assert made.unresolved == (7,)


def test_the_first_terminal_outcome_stands() -> None:
    made = page(4, 5)
    made.take(Each([(Offset(4), Outcome.DROPPED)]))
    made.take(AllApplied(Outcome.APPLIED))
    assert made.outcomes == [Outcome.DROPPED, Outcome.APPLIED]
    assert list(made.run(2).outcomes) == [Outcome.DROPPED, Outcome.APPLIED]


def test_a_retry_keeps_the_head_open_and_what_lies_behind_is_remembered() -> None:
    made = page(4, 5, 7)
    every = [(Offset(4), Outcome.RETRY), (Offset(5), Outcome.APPLIED), (Offset(7), Outcome.APPLIED)]
    assert made.take(Each(every))
    assert made.head() == 0
    assert [r.offset for r in made.beyond(0)] == [5, 7]
    assert made.unresolved == (4,)


@pytest.mark.parametrize(("offset", "within"), [(3, False), (4, True), (6, False), (7, True)])
def test_offsets_that_are_not_in_the_page_are_known(offset: int, within: bool) -> None:
    assert page(4, 5, 7).covers(Each([(Offset(offset), Outcome.APPLIED)])) is within


def test_retries_are_kept_over_several_reports() -> None:
    """A page is offered again as soon as only retries are left of it, however they were told."""
    made = page(4, 5, 7)
    assert not made.take(Each([(Offset(4), Outcome.RETRY)]))
    assert made.take(Each([(Offset(5), Outcome.APPLIED), (Offset(7), Outcome.APPLIED)]))
    again = page(4, 5, 7)
    assert not again.take(AllApplied(Outcome.RETRY, Offset(5)))
    assert again.take(Each([(Offset(7), Outcome.DROPPED)]))
