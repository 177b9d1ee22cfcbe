"""Comparing again what was applied: what is a match, a mismatch, and neither."""

from __future__ import annotations

import pytest

from sidecar.core.overlap import Overlap, begin
from sidecar.core.types import UNREAD, Digest, Offset


def remembered(*offsets: int) -> list[tuple[Offset, Digest]]:
    return [(Offset(o), Digest(1000 + o)) for o in offsets]


def read(overlap: Overlap, *offsets: int, changed: tuple[int, ...] = ()) -> None:
    overlap.take(list(offsets), [o if o in changed else 1000 + o for o in offsets])


def test_the_anchor_is_the_nth_last_receipt_at_or_above_the_floor() -> None:
    whole = remembered(*range(100))
    assert begin(whole, position=Offset(100), floor=Offset(0), records=64).anchor == 36
    assert begin(whole, position=Offset(100), floor=Offset(90), records=64).anchor == 90
    assert begin(whole, position=Offset(50), floor=Offset(0), records=10).anchor == 40


def test_with_nothing_comparable_reading_begins_at_the_position() -> None:
    overlap = begin(remembered(1, 2), position=Offset(100), floor=Offset(50), records=64)
    assert (overlap.anchor, dict(overlap.expected)) == (100, {})
    assert overlap.conclude(floor=Offset(50), compacted=False).boundary


def test_all_match() -> None:
    overlap = begin(remembered(7, 8, 9), position=Offset(10), floor=Offset(0), records=64)
    read(overlap, 7, 8, 9, 10, 11)
    result = overlap.conclude(floor=Offset(0), compacted=False)
    assert (result.matched, result.mismatched, result.inconclusive) == (3, 0, 0)
    assert not result.diverged
    assert not result.boundary


def test_only_what_lies_below_the_position_is_taken() -> None:
    overlap = begin(remembered(8, 9), position=Offset(10), floor=Offset(0), records=64)
    assert overlap.take([8, 9, 10, 11], [1008, 1009, 5, 5]) == 2


def test_a_differing_record_names_the_last_match_and_the_first_difference() -> None:
    overlap = begin(remembered(*range(10)), position=Offset(10), floor=Offset(0), records=64)
    read(overlap, *range(10), changed=(6, 8))
    result = overlap.conclude(floor=Offset(0), compacted=False)
    assert (result.last_matching, result.first_differing) == (5, 6)
    assert (result.matched, result.mismatched) == (8, 2)


@pytest.mark.parametrize(("compacted", "diverged"), [(False, True), (True, False), (None, False)])
def test_a_record_that_does_not_appear(compacted: bool | None, diverged: bool) -> None:
    """A mismatch, unless the topic is or may be compacted."""
    overlap = begin(remembered(7, 8, 9), position=Offset(10), floor=Offset(0), records=64)
    read(overlap, 7, 9)
    result = overlap.conclude(floor=Offset(0), compacted=compacted)
    assert result.diverged is diverged
    assert result.inconclusive == (0 if diverged else 1)


def test_what_lies_below_the_floor_asked_after_the_read_is_not_compared() -> None:
    """It was retained away meanwhile: neither a match nor a mismatch."""
    overlap = begin(remembered(7, 8, 9), position=Offset(10), floor=Offset(0), records=64)
    read(overlap, 9)
    result = overlap.conclude(floor=Offset(9), compacted=False)
    assert (result.matched, result.mismatched, result.inconclusive) == (1, 0, 0)
    assert overlap.conclude(floor=Offset(10), compacted=False).boundary


def test_nothing_matched_on_a_compacted_topic_is_a_boundary_and_counted() -> None:
    overlap = begin(remembered(7, 8), position=Offset(10), floor=Offset(0), records=64)
    result = overlap.conclude(floor=Offset(0), compacted=True)
    assert result.boundary
    assert result.inconclusive == 2


@pytest.mark.parametrize("compacted", [False, True, None])
def test_a_record_where_none_is_remembered_is_a_mismatch(compacted: bool | None) -> None:
    """A log that was put back holds other bytes where an aborted transaction had left a hole."""
    overlap = begin(remembered(5, 9), position=Offset(10), floor=Offset(0), records=64)
    read(overlap, 5, 6, 9)
    result = overlap.conclude(floor=Offset(0), compacted=compacted)
    assert (result.last_matching, result.first_differing) == (5, 6)


@pytest.mark.parametrize(("unknown", "diverged"), [(5, False), (6, False), (7, True), (8, True)])
def test_below_where_memory_is_complete_an_unknown_record_says_nothing(
    unknown: int, diverged: bool
) -> None:
    """A witness remembers its last few only."""
    overlap = begin(
        remembered(3, 9),
        position=Offset(10),
        floor=Offset(0),
        records=64,
        complete_from=Offset(7),
    )
    read(overlap, 3, unknown, 9)
    assert overlap.conclude(floor=Offset(0), compacted=False).diverged is diverged


def test_a_record_that_could_not_be_read_says_nothing_and_those_around_it_do() -> None:
    passed = [*remembered(4, 5), (Offset(6), UNREAD), *remembered(7, 8)]
    for seen in ((4, 5, 7, 8), (4, 5, 6, 7, 8)):
        overlap = begin(passed, position=Offset(9), floor=Offset(0), records=64)
        read(overlap, *seen)
        result = overlap.conclude(floor=Offset(0), compacted=False)
        assert (result.matched, result.mismatched, result.inconclusive) == (4, 0, 1)
        overlap = begin(passed, position=Offset(9), floor=Offset(0), records=64)
        read(overlap, *seen, changed=(7,))
        result = overlap.conclude(floor=Offset(0), compacted=False)
        assert (result.last_matching, result.first_differing) == (5, 7)


def test_reading_goes_on_behind_what_cannot_be_read_unless_it_could_be_compared() -> None:
    passed = [*remembered(4), (Offset(6), UNREAD), *remembered(7, 8, 9)]
    overlap = begin(passed, position=Offset(10), floor=Offset(0), records=64)
    assert overlap.behind_unread(Offset(8), Offset(4)) is None
    assert overlap.behind_unread(Offset(8), Offset(4), anyway=True) == 9
    assert overlap.behind_unread(Offset(5), Offset(4)) == 6
    assert overlap.behind_unread(Offset(6), Offset(6)) == 7


def test_the_rest_of_a_batch_that_was_passed_is_passed_with_it() -> None:
    """Its first offset is named again, in each read that begins within it."""
    passed = [*remembered(4), (Offset(6), UNREAD), *remembered(7, 8, 9)]
    overlap = begin(passed, position=Offset(10), floor=Offset(0), records=64)
    assert overlap.behind_unread(Offset(6), Offset(4)) == 7
    assert overlap.behind_unread(Offset(6), Offset(7)) == 8
    assert overlap.behind_unread(Offset(6), Offset(8)) == 9
    read(overlap, 4, 9)
    result = overlap.conclude(floor=Offset(0), compacted=False)
    assert (result.matched, result.mismatched, result.inconclusive) == (2, 0, 3)
    apart = begin(passed, position=Offset(10), floor=Offset(0), records=64)
    assert apart.behind_unread(Offset(6), Offset(8)) is None
