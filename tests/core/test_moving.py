"""Where a partition goes on in another cluster: found by content, never by its old offsets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.core.checkpoint import Install
from sidecar.core.evidence import Evidence, LogEnd, TopicDescription
from sidecar.core.faults import ABSENT, FaultKind, Known
from sidecar.core.moving import (
    REBOUND,
    Beginning,
    CannotMove,
    Settled,
    TailSearch,
    Unstarted,
    begin,
    move,
    parse_place,
    position,
)
from sidecar.core.types import ClusterId, Digest, Offset, Partition, TopicId, Verdict
from sidecar.core.verdict import Go, judge
from sidecar.core.witness import encode, witness_of
from tests.core.situations import (
    EPOCH,
    POLICY,
    checkpoint,
    evidence,
    fault,
    foreign,
    stored,
)

THERE = ClusterId("cluster-b")
TOPIC_THERE = TopicId("topic-b")


def moved(**changes: object) -> Evidence:
    """The group's state, with another cluster's answers: the log there holds [0, 60)."""
    there = evidence(
        cluster_id=Known(THERE),
        topic=Known(TopicDescription(TOPIC_THERE, 3, False)),
        log_start=Known(Offset(0)),
        log_end=Known(LogEnd(Offset(60), Offset(60), EPOCH)),
        committed=foreign(30),
    )
    return replace(there, **changes)  # type: ignore[arg-type]  # checked by the dataclass


def searched(remembered: list[int], log: list[int], first: int) -> TailSearch:
    search = TailSearch([Digest(one) for one in remembered])
    for at in range(0, len(log), 2):  # in pieces, as it is read
        search.take(range(first + at, first + at + len(log[at : at + 2])), log[at : at + 2])
    return search


@pytest.mark.parametrize(
    ("remembered", "log", "last", "complete"),
    [
        ([1, 2, 3], [9, 1, 2, 3, 4, 5], 33, True),
        ([1, 2, 3], [2, 3, 4], 31, True),
        ([1, 2, 3], [1, 2, 8, 9], 31, False),
        ([1, 2, 3], [7, 8, 9], None, False),
        # A stream of equal records proves nothing.
        ([5, 5, 5], [5, 5, 5, 5, 5], None, False),
        # One that was applied and is written again later: behind the last one nothing counts.
        ([1, 2, 3], [1, 2, 3, 1, 2], 32, True),
        # In another order they are not the ones that were applied.
        ([1, 2, 3, 4], [3, 1, 2, 9], 30, False),
        ([], [1, 2], None, True),
    ],
)
def test_only_what_was_applied_last_in_its_order_is_found(
    remembered: list[int], log: list[int], last: int | None, complete: bool
) -> None:
    """Reading goes on behind the last that is found; a chance likeness skips nothing."""
    search = searched(remembered, log, 30)
    assert (search.last_found, search.complete) == (last, complete)


def write(looked: Evidence, search: TailSearch) -> Install:
    beginning = begin(looked, None, accept_open_gaps=False)
    assert isinstance(beginning, Beginning)
    return move(looked, beginning, search, by="on-call", why="moved", name="x1")


def test_a_moved_partition_resumes_in_its_new_incarnation() -> None:
    """After the write and its commit the judgement is to go on, behind the last match; everything
    up to the log's end is flagged; keys begin anew; and moving again finds it settled."""
    looked = moved()
    install = write(looked, searched([1, 2, 3], [1, 2, 3], 30))
    after = install.checkpoint
    assert install.expected == checkpoint().expected
    assert install.receipts_replaced
    assert (after.token.next, after.baseline, after.horizon) == (33, 30, 60)
    assert after.lineage.number == checkpoint().lineage.number + 1
    assert after.identity.incarnation == TOPIC_THERE
    text = encode(witness_of(after, digest_scheme=1))
    again = replace(
        looked,
        stored=stored(after),
        committed=Known(replace(foreign(33).value, metadata=text)),
    )
    judged = judge(again, POLICY)
    assert isinstance(judged, Go)
    assert (judged.verdict, judged.base.token.next) == (Verdict.RESUME, 33)
    assert begin(again, None, accept_open_gaps=False) == Settled(after, False)
    uncommitted = replace(again, committed=foreign(30))
    assert begin(uncommitted, None, accept_open_gaps=False) == Settled(after, True)


def test_a_group_that_did_not_move_is_left_alone() -> None:
    """Also where somebody else committed: that is a sidecar's to judge, not to be written over."""
    for commit in (foreign(150), foreign(50), ABSENT):
        settled = begin(evidence(committed=commit), None, accept_open_gaps=False)
        assert settled == Settled(checkpoint(), False)


def test_moving_back_knows_the_first_cluster_again() -> None:
    """An ID that was replaced is no stale answer any more."""
    there = write(moved(), searched([], [], 0)).checkpoint
    back = evidence(stored=stored(there), committed=foreign(100))
    after = write(back, searched([], [], 0)).checkpoint
    assert after.identity.topic_id == checkpoint().identity.topic_id
    assert after.identity.former_topic_ids == (TOPIC_THERE,)
    assert not isinstance(begin(back, None, accept_open_gaps=False), CannotMove)


def test_where_nothing_tells_where_to_begin_a_person_says() -> None:
    """No offset, or one out of range: refused by name, unless one is given that can be read."""
    for commit in (ABSENT, foreign(61)):
        lost = begin(moved(committed=commit), None, accept_open_gaps=False)
        assert isinstance(lost, CannotMove)
        assert "--at orders/0=N" in lost.why
        given = begin(moved(committed=commit), Offset(10), accept_open_gaps=False)
        assert isinstance(given, Beginning)
        assert position(given, TailSearch([])) == 10
    beyond = begin(moved(), Offset(61), accept_open_gaps=False)
    assert isinstance(beyond, CannotMove)
    smaller = moved(topic=Known(TopicDescription(TOPIC_THERE, 0, False)))
    assert isinstance(begin(smaller, None, accept_open_gaps=False), CannotMove)


def test_what_cannot_be_read_moves_nothing() -> None:
    """An unanswered question is no absence."""
    for name in ("cluster_id", "committed", "stored", "topic", "log_end", "log_start"):
        unread = moved(**{name: fault(FaultKind.UNAVAILABLE)})
        assert isinstance(begin(unread, None, accept_open_gaps=False), CannotMove)
    assert begin(moved(stored=ABSENT), None, accept_open_gaps=False) == Unstarted(Offset(30))


def test_a_move_is_audited_with_who_and_where() -> None:
    """Where it stood, where it goes on, and on what that rests."""
    install = write(moved(), searched([1, 2], [1, 9], 30))
    (entry,) = install.audit
    assert (entry.by, entry.why) == ("on-call", "moved")
    assert entry.fields["from_next"] == 100
    assert (entry.fields["to_next"], entry.fields["found"], entry.fields["remembered"]) == (
        31,
        1,
        2,
    )
    assert install.checkpoint.owner.startswith(REBOUND)


def test_a_place_is_typed_as_topic_index_and_offset() -> None:
    """A topic may hold what separates; anything else is named."""
    assert parse_place("a/b=c/1=7") == (Partition("a/b=c", 1), 7)
    for text in ("orders=7", "orders/x=7", "orders/0", "/0=7", "orders/0=-1"):
        with pytest.raises(ValueError, match="TOPIC/INDEX=OFFSET"):
            parse_place(text)
