"""What a looker without an attempt sees, over every cell of the testimonies and every range."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from sidecar.cli.meanings import MEANINGS
from sidecar.core.evidence import Evidence, LogEnd, TopicDescription
from sidecar.core.faults import ABSENT, FaultKind, Known
from sidecar.core.line import Line, Stretch, lines
from sidecar.core.survey import checkpoint_of, survey
from sidecar.core.types import Offset, PartitionState, TopicId, Verdict
from sidecar.core.verdict import Go, judge
from tests.core.situations import (
    EPOCH,
    POLICY,
    CommitSays,
    StoreSays,
    evidence,
    fault,
    foreign,
    told,
)

SITUATIONS = [
    *(told(store, commit) for store, commit in product(StoreSays, CommitSays)),
    evidence(log_start=Known(Offset(150))),
    evidence(log_end=Known(LogEnd(Offset(50), Offset(50), EPOCH))),
    evidence(topic=Known(TopicDescription(TopicId("another"), 3, False))),
    evidence(cluster_id=fault(FaultKind.UNAVAILABLE)),
    evidence(topic=fault(FaultKind.AUTHORIZATION)),
    evidence(committed=foreign(150)),
    evidence(committed=ABSENT),
]


def drawn(looked: Evidence, anchor: int | None = None) -> tuple[Line, ...]:
    judged = judge(looked, POLICY)
    at = None if anchor is None else Offset(anchor)
    return lines(looked, judged, checkpoint_of(looked, judged), at)


@pytest.mark.parametrize("looked", SITUATIONS)
def test_every_situation_has_a_view_and_a_line_in_order(looked: Evidence) -> None:
    """Total: a view whose state agrees with the judgement, and lines whose offsets rise."""
    judged = judge(looked, POLICY)
    for owned in (False, True):
        view = survey(looked, judged, owned=owned)
        going = isinstance(judged, Go)
        assert (view.state is PartitionState.DELIVERING) == (going and owned)
        assert not view.caught_up or (going and owned)
        assert view.detail
    for line in drawn(looked):
        offsets = [mark.offset for mark in line.marks]
        assert all(a < b for a, b in pairwise(offsets))
        assert all(mark.then is not None for mark in line.marks[:-1])


def test_a_line_says_what_lies_between() -> None:
    """Applied, read again, not yet applied; and the gap is exactly its interval."""
    (line,) = drawn(evidence(), anchor=40)
    assert [(mark.offset, mark.then) for mark in line.marks] == [
        (0, Stretch.GONE),
        (10, Stretch.APPLIED),
        (40, Stretch.OVERLAP),
        (99, Stretch.OVERLAP),
        (100, Stretch.WAITING),
        (200, None),
    ]
    (line,) = drawn(evidence(log_start=Known(Offset(150))))
    gap = [mark.offset for mark in line.marks if mark.then is Stretch.GAP]
    assert gap == [100]
    assert next(mark for mark in line.marks if mark.offset == 150).then is Stretch.WAITING


def test_offsets_of_two_incarnations_are_never_on_one_line() -> None:
    """They cannot be compared, though both are numbers."""
    before, now = drawn(evidence(topic=Known(TopicDescription(TopicId("another"), 3, False))))
    assert not {"log_start", "log_end"} & {name for mark in before.marks for name in mark.names}
    assert not {"applied", "next"} & {name for mark in now.marks for name in mark.names}


def test_every_verdict_has_a_meaning() -> None:
    """A person is never shown a bare name."""
    assert set(MEANINGS) == set(Verdict)
