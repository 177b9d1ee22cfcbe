"""What a forecast of loss rests on, and what becomes of it when that is not there."""

from __future__ import annotations

from sidecar.core.forecast import Retention
from sidecar.engine import messages as m
from sidecar.ports import EndReached, Fetched
from tests.engine.driven import WALL, Driven
from tests.engine.process import TOPIC
from tests.fakes.kafka import TIMED_OUT, TOPIC_DENIED, FakeKafka

WEEK = 604_800.0


def written(seconds: float) -> int:
    """A timestamp so long before the driven clock's zero."""
    return round((WALL - seconds) * 1000)


def left(one: Driven) -> float | None:
    told = one.view().seconds_to_loss
    return None if told is None else round(told + one.now, 1)


def test_the_first_unread_record_in_hand_tells_it() -> None:
    """And the next one once it is applied; with nothing unread there is nothing to lose."""
    one = Driven()
    assert left(one) is None
    one.produce(b"a", timestamp=written(1_000))
    one.produce(b"b", timestamp=written(400))
    one.run(2)
    assert left(one) == WEEK - 1_000
    one.apply(1)
    one.run(1)
    assert left(one) == WEEK - 400
    one.apply(1)
    one.run(2)
    assert left(one) is None
    assert all(not c.offsets for c in one.commands if isinstance(c, m.AskRetention))


def test_a_partition_that_stands_is_told_of_by_the_record_itself() -> None:
    """A gap: nothing is in hand, and what lies behind it goes on growing old."""
    one = Driven()
    for age in (900, 800, 700, 600):
        one.produce(b"x", timestamp=written(age))
    one.run(1)
    one.apply(1)
    one.run(1)
    one.kafka.leave(one.fetcher)
    one.kafka.delete_records(TOPIC, 0, before=2)
    again = Driven(one.kafka, one.store)
    again.run(25)
    assert again.view().gap is not None
    assert left(again) == WEEK - 700
    again.kafka.delete_records(TOPIC, 0, before=3)
    again.run(15)
    assert left(again) == WEEK - 600


def test_without_the_right_to_read_the_settings_nothing_is_told() -> None:
    """Absent, not wrong; a question that was merely not answered leaves what was known."""
    one = Driven()
    one.produce(b"a", timestamp=written(10))
    one.run(2)
    one.kafka.fail("retentions", TIMED_OUT, times=None)
    one.run(30)
    assert left(one) == WEEK - 10
    one.kafka.heal()
    one.kafka.fail("retentions", TOPIC_DENIED, times=None, topic=TOPIC)
    one.run(15)
    assert left(one) is None


def test_by_size_it_is_told_once_the_log_start_has_moved() -> None:
    """And sooner, or not at all, when timestamps say nothing."""
    kafka = FakeKafka()
    kafka.create_topic(TOPIC)
    kafka.topics[TOPIC].retention = Retention(None, by_size=True)
    one = Driven(kafka)
    one.produce(*[b"x"] * 100, timestamp=5)
    one.run(2)
    one.apply(30)
    assert left(one) is None
    one.run(20)
    one.kafka.delete_records(TOPIC, 0, before=10)
    one.run(20)
    one.kafka.delete_records(TOPIC, 0, before=20)
    one.run(1.5)
    told = one.view().seconds_to_loss
    assert told is not None
    assert 30 <= told <= 41  # the second step from now on takes 30


def test_many_partitions_are_asked_for_in_few_questions() -> None:
    """None of them is in hand; each has its turn."""
    kafka = FakeKafka()
    kafka.create_topic(TOPIC, 300)
    one = Driven(kafka)
    one.deaf.update((Fetched, EndReached))
    for index in range(300):
        kafka.produce(TOPIC, index, b"x")
    kafka.fail("stamps", TIMED_OUT)
    one.run(35)
    asked = [c.offsets for c in one.commands if isinstance(c, m.AskRetention)]
    assert [len(offsets) for offsets in asked] == [0, 256, 256, 44]
    assert kafka.calls["retentions"] == kafka.calls["stamps"] == 4
    assert {partition for offsets in asked for partition in offsets} == set(one.engine.cursors)
