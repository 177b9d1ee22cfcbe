"""A foreign commit while a member runs: seen, and written down before ours replaces it."""

from __future__ import annotations

from sidecar.core.faults import Known
from sidecar.core.gap import Resolution
from sidecar.core.request import RequestState
from sidecar.core.types import Condition, GapReason, Interval, Offset, PartitionState
from sidecar.core.views import ResolveRequest
from sidecar.core.witness import Ours, decode
from sidecar.engine import messages as m
from tests.engine.driven import Driven
from tests.engine.process import GROUP, ORDERS, finished


def running() -> Driven:
    """Four records, three of them applied and committed; the fourth is out with the application."""
    one = Driven()
    one.produce(b"a", b"b", b"c", b"d")
    one.run(1)
    one.apply(3)
    one.run(1)
    assert one.kafka.group(GROUP).commits[ORDERS].next == 3
    return one


def is_ours(one: Driven, next_: int) -> bool:
    commit = one.kafka.group(GROUP).commits[ORDERS]
    read = decode(commit.metadata, group=GROUP, partition=ORDERS, committed=commit.next)
    return isinstance(read, Ours) and commit.next == next_


def test_a_lower_offset_is_written_down_as_a_request_and_then_replaced() -> None:
    """The page that is out stays good, and the applied position does not move."""
    one = running()
    page = one.take()
    assert page is not None
    one.kafka.reset_offset(GROUP, ORDERS, 1)
    mark = len(one.commands)
    one.run(6)
    stored = finished(one.store.read(GROUP, [ORDERS]))[ORDERS]
    assert isinstance(stored, Known)
    assert stored.value.checkpoint.replay == Interval(Offset(1), Offset(3))
    view = one.view()
    assert (view.state, view.next) == (PartitionState.DELIVERING, 3)
    assert view.conditions == (Condition.REPLAY_REQUESTED,)
    assert is_ours(one, 3)
    written = [
        isinstance(c, m.Commit)
        for c in one.commands[mark:]
        if isinstance(c, m.Commit)
        or (isinstance(c, m.PerformInstall) and c.install.checkpoint.replay is not None)
    ]
    assert written[:2] == [False, True]
    one.report(page)
    one.run(1)
    assert is_ours(one, 4)


def test_nothing_replaces_it_while_it_cannot_be_written_down() -> None:
    one = running()
    one.deaf.add(m.InstallAnswered)
    one.kafka.reset_offset(GROUP, ORDERS, 1)
    one.run(20)
    assert one.kafka.group(GROUP).commits[ORDERS].metadata is None


def test_a_higher_offset_is_a_gap() -> None:
    one = running()
    one.kafka.reset_offset(GROUP, ORDERS, 4)
    one.run(6)
    gap = one.engine.cursors[ORDERS].gap
    assert gap is not None
    assert (gap.reason, gap.interval) == (
        GapReason.EXTERNAL_RESET,
        Interval(Offset(3), Offset(4)),
    )
    assert is_ours(one, 3)


def test_a_gap_that_is_none_any_more_is_retracted_though_a_commit_names_it() -> None:
    """The commit of ours that took the foreign one's place carries the gap."""
    one = running()
    one.produce(b"d", b"e")
    one.kafka.reset_offset(GROUP, ORDERS, 4)
    one.run(6)
    assert is_ours(one, 3)
    settled = one.resolve(ResolveRequest(Resolution.RETRACTED, "on-call", "a mistake"))
    assert settled.state is RequestState.DONE
    one.apply(2)
    one.run(1)
    assert is_ours(one, 5)
    assert one.engine.cursors[ORDERS].gap is None


def test_the_same_offset_without_a_witness_and_none_at_all_are_committed_again() -> None:
    one = running()
    one.kafka.reset_offset(GROUP, ORDERS, 3)
    one.run(6)
    assert is_ours(one, 3)
    one.kafka.expire_commits(GROUP)
    one.run(6)
    assert is_ours(one, 3)
    assert one.view().conditions == ()


def test_an_older_commit_of_ours_that_slipped_in_is_mended() -> None:
    """An owner that was frozen may still commit what it had: lower, and with a witness."""
    one = Driven()
    one.produce(b"a", b"b", b"c")
    one.run(1)
    one.apply(2)
    one.run(1)
    older = one.kafka.group(GROUP).commits[ORDERS]
    one.apply(1)
    one.run(1)
    one.kafka.group(GROUP).commits[ORDERS] = older
    one.run(6)
    assert is_ours(one, 3)
    assert one.view().conditions == ()
