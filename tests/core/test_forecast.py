"""When unread records will be lost: never later than they are, and nothing without grounds."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sidecar.core.forecast import Movement, Retention, Stamp, sane, seconds_to_loss
from sidecar.core.types import Offset

NOW = 1_764_495_600.0
DAY = 86_400.0
BY_TIME = Retention(DAY, by_size=False)
BY_SIZE = Retention(None, by_size=True)


def forecast(
    retention: Retention | None,
    *,
    timestamp: int | None = None,
    at: int = 100,
    unread: int = 100,
    movement: Movement | None = None,
    monotonic: float = 0.0,
) -> float | None:
    return seconds_to_loss(
        retention,
        unread=Offset(unread),
        stamp=Stamp(Offset(at), timestamp),
        movement=movement,
        now=NOW,
        monotonic=monotonic,
    )


def ms(seconds_ago: float) -> int:
    return round((NOW - seconds_ago) * 1000)


def test_by_time_it_is_the_record_s_own_age() -> None:
    assert forecast(BY_TIME, timestamp=ms(3_600)) == DAY - 3_600
    assert forecast(BY_TIME, timestamp=ms(2 * DAY)) == 0.0
    assert forecast(BY_TIME, timestamp=ms(-60)) == DAY + 60


@pytest.mark.parametrize(
    "timestamp",
    [None, -1, 0, 5, int(NOW), round(NOW * 1e6), ms(-2 * 3_600), ms(-10 * 365 * DAY)],
    ids=["none", "minus one", "zero", "five", "seconds", "microseconds", "two hours on", "far on"],
)
def test_a_timestamp_that_makes_no_sense_gives_no_forecast(timestamp: int | None) -> None:
    assert not sane(timestamp, now=NOW)
    assert forecast(BY_TIME, timestamp=timestamp) is None


@pytest.mark.parametrize("retention", [None, Retention(None, by_size=False), BY_SIZE])
def test_without_retention_by_time_a_timestamp_says_nothing(retention: Retention | None) -> None:
    """Unreadable settings, a log that keeps everything, one that is limited by size."""
    assert forecast(retention, timestamp=ms(0)) is None


def test_a_record_behind_the_unread_one_says_nothing() -> None:
    """One before it goes first, so it is a bound; one behind it may go later."""
    assert forecast(BY_TIME, timestamp=ms(60), at=90) == DAY - 60
    assert forecast(BY_TIME, timestamp=ms(60), at=101) is None


@given(
    st.lists(st.lists(st.integers(-5_000, 50_000), min_size=1, max_size=8), min_size=1, max_size=6),
    st.floats(1.0, 40_000.0),
    st.data(),
)
def test_it_is_never_later_than_kafka_and_early_by_a_segment_s_span_at_most(
    segments: list[list[int]], retention: float, data: st.DataObject
) -> None:
    """Segments of records with any timestamps, in seconds ago: Kafka deletes a segment when its
    newest record is too old and all before it went. With rising timestamps the bound is early by
    the span of the record's segment and no more."""
    ordered = data.draw(st.booleans())
    if ordered:
        flat = iter(sorted((a for s in segments for a in s), reverse=True))
        segments = [[next(flat) for _ in s] for s in segments]
    which = data.draw(st.integers(0, len(segments) - 1))
    ago = data.draw(st.sampled_from(segments[which]))
    assume(ago > -3_600)
    expiries = [max(retention - a for a in s) for s in segments[: which + 1]]
    deleted_in = max(expiries)
    told = forecast(Retention(retention, by_size=False), timestamp=ms(ago))
    assert told is not None
    assert told <= max(0.0, deleted_in) + 0.002
    if ordered:
        span = max(segments[which]) - min(segments[which])
        assert told >= deleted_in - span - 0.002


def watched(*moves: tuple[float, int], start: int = 0) -> Movement:
    movement = Movement(Offset(start), 0.0)
    for at, to in moves:
        movement.seen(Offset(to), at)
    return movement


def test_by_size_it_is_how_the_log_start_was_seen_to_move() -> None:
    """The largest step and the shortest pause; what has passed of a pause counts."""
    assert forecast(BY_SIZE, movement=watched()) is None
    movement = watched((10.0, 20), (14.0, 30))
    assert forecast(BY_SIZE, unread=30, movement=movement, monotonic=15.0) == 3.0
    assert forecast(BY_SIZE, unread=49, movement=movement, monotonic=15.0) == 3.0
    assert forecast(BY_SIZE, unread=50, movement=movement, monotonic=15.0) == 7.0
    assert forecast(BY_SIZE, unread=50, movement=movement, monotonic=99.0) == 4.0
    assert forecast(BY_SIZE, unread=29, movement=movement, monotonic=15.0) == 0.0


def test_of_two_limits_the_nearer_one_counts() -> None:
    both = Retention(DAY, by_size=True)
    movement = watched((10.0, 20))
    assert forecast(both, timestamp=ms(DAY - 5), movement=movement, monotonic=10.0) == 5.0
    assert forecast(both, timestamp=ms(0), movement=movement, monotonic=10.0) == 50.0
    assert forecast(BY_TIME, timestamp=ms(0), movement=movement, monotonic=10.0) == DAY
    assert forecast(both, timestamp=-1, movement=movement, monotonic=10.0) == 50.0


@given(st.lists(st.tuples(st.floats(0.5, 60.0), st.integers(1, 500)), min_size=2, max_size=14))
def test_by_size_it_is_never_late_while_nothing_is_quicker_than_before(
    steps: list[tuple[float, int]],
) -> None:
    """Whatever came first is what comes later at most: the forecast at any time is met or early."""
    movement = Movement(Offset(0), 0.0)
    pause, largest = min(s for s, _ in steps), max(n for _, n in steps)
    now = start = 0.0
    movement.seen(Offset(largest), now := now + pause)  # the quickest and largest of all, seen
    position = largest
    end = position + sum(n for _, n in steps)
    told = []
    for seconds, size in steps:
        told.append((now, movement.seconds_to_pass(Offset(end - 1), now)))
        now += seconds
        position += size
        movement.seen(Offset(position), now)
    for at, seconds_told in told:
        assert seconds_told is not None
        assert at + seconds_told <= now + 1e-6
    assert start < now


def test_a_log_that_went_back_is_watched_anew() -> None:
    movement = watched((10.0, 20), (11.0, 5))
    assert (movement.at, movement.steps) == (5, ())


def test_what_is_kept_of_the_movement_is_bounded() -> None:
    assert len(watched(*((float(n), n) for n in range(1, 100))).steps) == 16
