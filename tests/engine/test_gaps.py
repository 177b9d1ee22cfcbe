"""What becomes of a gap after it was decided."""

from __future__ import annotations

import pytest

from sidecar.core.facts import GapChanged, GapOpened
from sidecar.core.gap import Resolution
from sidecar.core.types import Offset, PartitionState
from sidecar.core.views import ResolveRequest
from sidecar.ports import EndReached, Fetched
from tests.engine.driven import TOPIC, Driven


def lost_twice(end_max: Offset | None) -> Driven:
    """A loss of [2, 5), accepted; and before the first record behind it is read, [5, 8) is lost."""
    one = Driven()
    one.produce(*[b"x"] * 12)
    one.run(1)
    one.apply(2)
    one.run(1)
    one.kafka.leave(one.fetcher)
    one.kafka.delete_records(TOPIC, 0, before=5)
    again = Driven(one.kafka, one.store)
    again.deaf.update((Fetched, EndReached))
    again.resolve(ResolveRequest(Resolution.ACCEPTED, "on-call", "known", end_max=end_max))
    assert again.view().next == 5
    again.kafka.delete_records(TOPIC, 0, before=8)
    again.deaf.clear()
    again.kafka.reconnect(TOPIC, 0)
    again.run(2)
    return again


@pytest.mark.parametrize("end_max", [None, Offset(8)])
def test_what_is_lost_before_the_first_record_joins_the_accepted_loss(
    end_max: Offset | None,
) -> None:
    """One gap, which ends where reading goes on; nobody is asked twice."""
    one = lost_twice(end_max)
    assert one.view().state is PartitionState.DELIVERING
    assert one.view().next == 8
    assert len([f for f in one.facts if isinstance(f, GapOpened)]) == 1
    gap = [f.gap for f in one.facts if isinstance(f, GapChanged)][-1]
    assert (gap.interval.first, gap.interval.end) == (2, 8)
    assert gap.resolution is not None
    assert gap.resolution.resume_at == 8
    assert [event.what for event in gap.audit][-1] == "grown after it was accepted"
    one.apply(4)
    one.run(1)
    # From the first record on, what is lost is lost anew.
    one.produce(*[b"y"] * 5)
    one.deaf.update((Fetched, EndReached))
    one.kafka.delete_records(TOPIC, 0, before=14)
    one.kafka.reconnect(TOPIC, 0)
    one.run(2)
    assert len([f for f in one.facts if isinstance(f, GapOpened)]) == 2


def test_a_bound_on_what_was_accepted_holds() -> None:
    """`end_max`: beyond it the loss is another one, and waits for somebody."""
    one = lost_twice(Offset(7))
    assert one.view().state is PartitionState.GAP
    gap = [f.gap for f in one.facts if isinstance(f, GapOpened)][-1]
    assert (gap.interval.first, gap.interval.end) == (5, 8)


def test_what_is_lost_after_the_end_was_reached_is_lost_anew() -> None:
    """A loss was accepted up to the end of the log, and nothing was left to read. What is written
    and lost afterwards is not what somebody agreed to."""
    one = Driven()
    one.produce(*[b"x"] * 5)
    one.run(1)
    one.apply(2)
    one.run(1)
    one.kafka.leave(one.fetcher)
    one.kafka.delete_records(TOPIC, 0, before=5)
    again = Driven(one.kafka, one.store)
    again.resolve(ResolveRequest(Resolution.ACCEPTED, "on-call", "known"))
    again.run(2)
    assert (again.view().next, again.view().caught_up) == (5, True)
    again.deaf.update((Fetched, EndReached))
    again.produce(*[b"y"] * 4)
    again.kafka.delete_records(TOPIC, 0, before=9)
    again.kafka.reconnect(TOPIC, 0)
    again.run(2)
    assert again.view().state is PartitionState.GAP
    assert again.view().next == 5
