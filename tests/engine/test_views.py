"""What a partition is shown as: what is true now, for the reader that this is."""

from __future__ import annotations

from sidecar.core.types import IsolationLevel, PartitionState, Verdict
from tests.engine.driven import Driven
from tests.engine.process import ORDERS, TOPIC
from tests.fakes.kafka import TIMED_OUT


def test_lag_is_told_by_what_this_reader_can_read() -> None:
    """An open transaction's records are lag under `read_uncommitted` and not under
    `read_committed`, and caught up means the end of what can be read."""
    for isolation, lag in (
        (IsolationLevel.READ_COMMITTED, 0),
        (IsolationLevel.READ_UNCOMMITTED, 3),
    ):
        one = Driven(isolation=isolation)
        one.produce(b"a", b"b")
        one.kafka.begin(TOPIC, 0, [b"c", b"d", b"e"])
        one.run(2)
        one.apply(2)
        one.run(2)
        assert (one.view().next, one.view().lag_records) == (2, lag)
        assert one.view().caught_up is (lag == 0)
        if lag:
            one.apply(3)
            one.run(2)
            assert (one.view().next, one.view().lag_records, one.view().caught_up) == (5, 0, True)


def test_the_detail_says_what_is_true_after_a_recovery() -> None:
    """Not what was found on the way: a commit that was behind, a leader that did not answer."""
    one = Driven()
    one.produce(b"a", b"b", b"c")
    one.run(1)
    one.apply(3)
    one.run(1)
    verified = "records of overlap that matched their receipts: 3"
    one.kafka.fail("log_ends", TIMED_OUT, times=3)
    one.kafka.elect(TOPIC, 0)
    one.run(0.2)
    assert one.view().state is PartitionState.WAITING
    assert one.view().detail == TIMED_OUT.detail
    one.run(5)
    assert one.view().state is PartitionState.DELIVERING
    assert (one.view().verdict, one.view().detail) == (Verdict.NEW_GROUP, verified)
    one.kafka.leave(one.fetcher)
    one.kafka.expire_commits(one.policy.group)
    again = Driven(one.kafka, one.store)
    assert (again.view().verdict, again.view().detail) == (Verdict.COMMIT_EXPIRED, verified)
    assert again.kafka.group(one.policy.group).commits[ORDERS].next == 3
