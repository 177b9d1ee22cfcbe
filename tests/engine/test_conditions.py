"""Conditions: beside the verdict, raised by time, cleared by movement, holding nothing."""

from __future__ import annotations

import pytest

from sidecar.core.facts import ConditionChanged
from sidecar.core.types import Condition, IsolationLevel, PartitionState
from sidecar.engine import messages as m
from sidecar.ports import EndReached, Fetched
from tests.engine.driven import Driven
from tests.engine.process import ORDERS, TOPIC
from tests.fakes.kafka import TIMED_OUT

HANGING = Condition.HANGING_TRANSACTION
STUCK = Condition.NO_PROGRESS


def changes(one: Driven, condition: Condition) -> list[bool]:
    return [
        fact.present
        for fact in one.facts
        if isinstance(fact, ConditionChanged) and fact.condition is condition
    ]


def test_a_transaction_that_hangs_is_told_after_a_while_and_holds_nothing() -> None:
    """What lies before it is delivered, nothing behind it is skipped, and its end clears it."""
    one = Driven(hanging_transaction_seconds=90.0)
    one.produce(b"a", b"b")
    transaction = one.kafka.begin(TOPIC, 0, [b"c"])
    one.produce(b"d")
    one.run(60)
    one.apply(2)
    one.run(29)
    assert one.view().conditions == ()
    one.run(4)
    view = one.view()
    assert (view.state, view.conditions) == (PartitionState.DELIVERING, (HANGING,))
    assert (view.next, view.lag_records, view.caught_up) == (2, 0, True)
    assert view.hanging_transaction_seconds is not None
    assert 90 <= view.hanging_transaction_seconds <= 95
    assert one.take() is None
    transaction.commit()
    one.run(2)
    view = one.view()
    assert (view.conditions, view.hanging_transaction_seconds) == ((), 0.0)
    one.apply(2)
    assert changes(one, HANGING) == [True, False]


def test_a_busy_transactional_topic_is_not_taken_for_one_that_hangs() -> None:
    """The last stable offset is always below the end, and advances."""
    one = Driven(hanging_transaction_seconds=10.0)
    running = [one.kafka.begin(TOPIC, 0, [b"0"])]

    def work() -> None:
        if round(one.now * 10) % 40 == 0:
            running.append(one.kafka.begin(TOPIC, 0, [b"x"]))
            running.pop(0).commit()
        one.take()

    one.run(60, each=work)
    assert one.view().last_stable != one.view().log_end
    assert changes(one, HANGING) == []


def test_samples_that_could_not_be_taken_change_no_condition() -> None:
    one = Driven(hanging_transaction_seconds=10.0)
    one.kafka.begin(TOPIC, 0, [b"a"])
    one.run(15)
    assert one.view().conditions == (HANGING,)
    one.kafka.fail("log_ends", TIMED_OUT, times=None)
    one.run(30)
    assert one.view().conditions == (HANGING,)
    assert changes(one, HANGING) == [True]


def test_nobody_who_reads_uncommitted_records_waits_for_a_transaction() -> None:
    one = Driven(isolation=IsolationLevel.READ_UNCOMMITTED, hanging_transaction_seconds=10.0)
    one.kafka.begin(TOPIC, 0, [b"a"])
    one.run(30)
    assert changes(one, HANGING) == []
    assert one.view().hanging_transaction_seconds is None


def starved(no_progress_seconds: float) -> Driven:
    """Records are there, and the fetcher brings none."""
    one = Driven(no_progress_seconds=no_progress_seconds)
    one.run(2)
    one.deaf.update((Fetched, EndReached))
    one.produce(b"a", b"b")
    return one


def test_reading_that_stands_still_is_told_and_cleared_by_what_comes() -> None:
    one = starved(no_progress_seconds=30.0)
    one.run(28)
    assert one.view().conditions == ()
    one.run(5)
    view = one.view()
    assert (view.state, view.conditions, view.lag_records) == (
        PartitionState.DELIVERING,
        (STUCK,),
        2,
    )
    one.deaf.clear()
    one.kafka.reconnect(TOPIC, 0)
    one.run(3)
    assert one.view().conditions == ()
    one.apply(2)
    assert changes(one, STUCK) == [True, False]


def test_a_record_nobody_finishes_is_no_standstill() -> None:
    """It has been read: the application has it, or does not ask for it."""
    one = Driven(no_progress_seconds=5.0)
    one.produce(b"a", b"b")
    one.run(20)
    assert one.take(1) is not None
    one.run(60)
    assert changes(one, STUCK) == []


@pytest.mark.parametrize("why", ["caught up", "draining", "gap"])
def test_what_stops_reading_here_is_no_standstill(why: str) -> None:
    one = Driven(no_progress_seconds=5.0)
    one.deaf.update((Fetched, EndReached))
    if why == "draining":
        one.request(m.DrainAsked)
    if why != "caught up":
        one.produce(b"a", b"b")
    if why == "gap":
        one.kafka.reset_offset(one.policy.group, ORDERS, 5)
        one.kafka.reconnect(TOPIC, 0)
    one.run(30)
    assert changes(one, STUCK) == []
