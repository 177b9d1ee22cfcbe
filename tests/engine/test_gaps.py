"""What becomes of a gap after it was decided."""

from __future__ import annotations

import pytest

from sidecar.core.facts import GapChanged, GapOpened, RecoveryEnded
from sidecar.core.gap import GapState, Resolution
from sidecar.core.policy import OnGap
from sidecar.core.types import GapReason, Interval, Offset, PartitionState, Verdict
from sidecar.core.views import Refused, ResolveRequest
from sidecar.engine import messages as m
from sidecar.ports import EndReached, Fetched, LeaderChanged
from tests.engine.driven import Driven
from tests.engine.process import GROUP, ORDERS, TOPIC, finished, known
from tests.engine.rig import Rig


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


def reset_to_nine() -> Driven:
    """Five records applied, offset 9 committed by somebody else, and the gap of it open."""
    one = Driven()
    one.produce(*[b"old%d" % i for i in range(12)])
    one.run(1)
    one.apply(5)
    one.run(1)
    one.kafka.reset_offset(GROUP, ORDERS, 9)
    one.run(6)
    assert one.view().verdict is Verdict.EXTERNAL_RESET
    return one


def written_anew(one: Driven, how: str, to: int) -> None:
    getattr(one.kafka, how)(TOPIC, 0, to)
    one.produce(*[b"new%d" % i for i in range(12)])


DECISIONS = [
    ResolveRequest(Resolution.ACCEPTED, "on-call", "known"),
    ResolveRequest(Resolution.BACKFILLED, "on-call", "known", resume_at=Offset(9)),
]


@pytest.mark.parametrize("wanted", DECISIONS)
@pytest.mark.parametrize("how", ["truncate", "rewind"])
def test_a_log_that_was_cut_below_a_foreign_reset_is_found_before_the_jump(
    how: str, wanted: ResolveRequest
) -> None:
    """Behind the jump nobody could: the records written anew at 3 and 4 would never be done."""
    one = reset_to_nine()
    was = one.engine.cursors[ORDERS].gap
    assert was is not None
    written_anew(one, how, 3)
    refused = one.resolve(wanted)
    assert refused.refusal is not None
    assert refused.refusal.refused is Refused.GAP_CHANGED
    gap = one.engine.cursors[ORDERS].gap
    assert gap is not None
    assert (gap.reason, gap.interval) == (GapReason.LOG_DIVERGED, Interval(Offset(3), Offset(5)))
    kept = {g.id: g for g in known(finished(one.store.gaps(GROUP)))}
    assert (kept[was.id].state, kept[was.id].superseded_by) == (GapState.SUPERSEDED, gap.id)
    assert one.resolve(DECISIONS[0]).detail == "reading goes on at 3"
    page = one.take()
    assert page is not None
    assert [value for _, _, value, _ in page.records][:2] == [b"new0", b"new1"]


def test_a_cut_of_which_no_record_is_left_to_compare_is_found_before_the_jump() -> None:
    """The client had said so; while the reset stands, nobody could look."""
    one = Driven()
    one.produce(*[b"old%d" % i for i in range(5)])
    one.run(1)
    one.apply(5)
    one.run(1)
    one.kafka.reset_offset(GROUP, ORDERS, 9)
    written_anew(one, "truncate", 3)
    one.kafka.delete_records(TOPIC, 0, before=5)
    one.run(1)
    assert one.view().verdict is Verdict.EXTERNAL_RESET
    assert one.resolve(DECISIONS[0]).refusal is not None
    assert one.view().verdict is Verdict.LOG_TRUNCATED


@pytest.mark.parametrize("wanted", DECISIONS)
def test_a_foreign_reset_above_verified_ground_is_followed(wanted: ResolveRequest) -> None:
    """Also where a record below cannot be read: it says nothing, and the others do."""
    for unreadable in (None, 2):
        one = reset_to_nine()
        if unreadable is not None:
            one.kafka.poison(TOPIC, 0, unreadable)
        assert one.resolve(wanted).detail == "reading goes on at 9"
        one.run(2)
        assert (one.view().state, one.view().next) == (PartitionState.DELIVERING, 9)
        verified = [f for f in one.facts if isinstance(f, RecoveryEnded)]
        assert verified[-2].matched == (5 if unreadable is None else 4)


@pytest.mark.parametrize("how", ["truncate", "rewind"])
def test_a_leader_that_changes_behind_the_verification_has_it_made_again(how: str) -> None:
    rig = Rig(on_gap={GapReason.EXTERNAL_RESET: OnGap.ACCEPT})
    rig.produce(12)
    rig.run(1.0)
    rig.consume(2)
    rig.run(1.0)
    rig.kafka.reset_offset(GROUP, ORDERS, 9)
    rig.withholding = (m.Look,)
    while rig.cursor.resolving is None or not rig.cursor.resolving.verified:
        rig.run(1.0)
        if not rig.cursor.resolving or not rig.cursor.resolving.verified:
            for question in list(rig.withheld):
                rig.answer(question)
    getattr(rig.kafka, how)(TOPIC, 0, 3)
    rig.produce(12, b"new")
    rig.give(LeaderChanged((ORDERS,)))
    rig.withholding = ()
    for question in list(rig.withheld):
        rig.answer(question)
    rig.run(2.0)
    (gap,) = rig.gaps
    assert (gap.reason, gap.interval) == (GapReason.LOG_DIVERGED, Interval(Offset(3), Offset(6)))


def test_a_log_that_was_cut_again_while_its_divergence_stood_is_found_before_the_decision() -> None:
    """What was decided then is where it was cut first, and what is new below it would be passed."""
    one = Driven()
    one.produce(*[b"old%d" % i for i in range(12)])
    one.run(1)
    one.apply(8)
    one.run(1)
    for cut in (6, 3):
        one.kafka.rewind(TOPIC, 0, cut)
        one.produce(*[b"cut at %d: %d" % (cut, i) for i in range(12)])
        one.run(2)
    first = one.engine.cursors[ORDERS].gap
    assert first is not None
    assert (first.reason, first.interval.first) == (GapReason.LOG_DIVERGED, 6)
    assert one.resolve(DECISIONS[0]).refusal is not None
    second = one.engine.cursors[ORDERS].gap
    assert second is not None
    assert (second.reason, second.interval.first) == (GapReason.LOG_DIVERGED, 3)
    assert one.resolve(DECISIONS[0]).detail == "reading goes on at 3"
    page = one.take()
    assert page is not None
    assert page.first == 3
