"""What a looker without an attempt sees, over every cell of the testimonies and every range."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import pytest

from sidecar.cli.meanings import MEANINGS
from sidecar.core.answerable import found
from sidecar.core.checkpoint import Paused, Replaying
from sidecar.core.evidence import Evidence, LogEnd, TopicDescription
from sidecar.core.faults import ABSENT, FaultKind, Known
from sidecar.core.gap import Gap, GapState
from sidecar.core.holds import hold_id
from sidecar.core.line import Line, Stretch, lines
from sidecar.core.request import RequestId
from sidecar.core.survey import checkpoint_of, survey
from sidecar.core.types import (
    ClusterId,
    Condition,
    GapId,
    GapReason,
    Generation,
    Interval,
    IsolationLevel,
    Offset,
    PartitionState,
    TopicId,
    Verdict,
)
from sidecar.core.verdict import Go, Hold, describe, judge
from sidecar.core.views import HoldView, PartitionView
from tests.core.situations import (
    CLUSTER,
    EPOCH,
    GROUP,
    NEXT,
    PARTITION,
    POLICY,
    TOPIC,
    CommitSays,
    StoreSays,
    checkpoint,
    evidence,
    fault,
    foreign,
    ours,
    stored,
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


def standing(reason: GapReason, **changes: object) -> Gap:
    return replace(
        Gap(
            id=GapId("gap-1"),
            reason=reason,
            group=GROUP,
            partition=PARTITION,
            cluster_id=CLUSTER,
            topic_id=TOPIC,
            lineage=0,
            interval=Interval(NEXT, Offset(150)),
            state=GapState.OPEN,
            evidence={},
            generation=Generation(8),
            opened_at=500.0,
        ),
        **changes,  # type: ignore[arg-type]  # checked by the dataclass
    )


def shown(looked: Evidence, *, owned: bool = True) -> PartitionView:
    return survey(looked, judge(looked, POLICY), owned=owned)


ALL_IS_WELL = PartitionView(
    topic="orders",
    partition=0,
    state=PartitionState.DELIVERING,
    reason=None,
    verdict=Verdict.RESUME,
    applied=Offset(99),
    next=NEXT,
    committed=NEXT,
    generation=Generation(7),
    cluster_id=CLUSTER,
    topic_id=TOPIC,
    leader_epoch=EPOCH,
    log_start=Offset(10),
    log_end=Offset(200),
    lag_records=100,
    caught_up=False,
    conditions=(),
    gap=None,
    hold=None,
    since=evidence().asked_at,
    detail="checkpoint and commit agree",
)


def test_a_view_says_all_that_is_known() -> None:
    assert shown(evidence()) == ALL_IS_WELL
    assert shown(evidence(), owned=False) == replace(ALL_IS_WELL, state=PartitionState.WAITING)


def test_a_view_of_the_end_of_what_can_be_read_is_caught_up() -> None:
    """Behind the last stable offset nothing is visible yet; and not while something is replayed."""
    end = Known(LogEnd(Offset(200), NEXT, EPOCH))
    assert shown(evidence(log_end=end)) == replace(ALL_IS_WELL, lag_records=0, caught_up=True)
    again = Replaying(RequestId("again"), "on-call", Offset(20), Offset(30), Offset(40))
    view = shown(evidence(log_end=end, stored=stored(checkpoint(replaying=again))))
    assert not view.caught_up
    assert view.conditions == (Condition.REPLAYING,)
    assert view.detail == str(again)


def test_a_view_says_what_people_asked_for() -> None:
    paused = Paused("on-call", "a deployment", 5.0)
    view = shown(evidence(stored=stored(checkpoint(paused=paused, replay=Interval(NEXT, NEXT)))))
    assert set(view.conditions) == {Condition.PAUSED, Condition.REPLAY_REQUESTED}
    assert view.detail == str(paused)


def test_a_view_names_the_gap_that_stands_and_how_it_grew() -> None:
    for start, detail in (
        (150, "the gap [100, 150) stands"),
        (160, "the gap [100, 150) stands, and the log start has moved on to 160"),
    ):
        looked = evidence(
            stored=stored(checkpoint(gap=GapId("gap-1")), standing(GapReason.RETENTION_LOSS)),
            log_start=Known(Offset(start)),
        )
        assert shown(looked) == replace(
            ALL_IS_WELL,
            state=PartitionState.GAP,
            reason=Verdict.RETENTION_LOSS,
            verdict=Verdict.RETENTION_LOSS,
            log_start=Offset(start),
            gap=GapId("gap-1"),
            since=500.0,
            detail=detail,
        )


def test_a_view_of_what_is_held_names_the_hold() -> None:
    """One that is transient has none: nobody has to answer it."""
    looked = evidence(isolation=IsolationLevel.READ_UNCOMMITTED)
    judged = judge(looked, POLICY)
    assert isinstance(judged, Hold)
    view = shown(looked)
    assert (view.state, view.verdict) == (PartitionState.HELD, Verdict.SCOPE_CHANGED)
    assert view.hold == judged.id(GROUP, PARTITION)
    for kind, state in (
        (FaultKind.UNAVAILABLE, PartitionState.WAITING),
        (FaultKind.AUTHORIZATION, PartitionState.HELD),
    ):
        view = shown(evidence(topic=fault(kind)))
        assert (view.state, view.detail) == (state, f"it says {kind.value}")
        assert (view.hold is None) == (state is PartitionState.WAITING)
        assert view.next == NEXT


def test_what_can_be_answered_is_found_by_who_only_looks() -> None:
    looked = evidence(
        topic=fault(FaultKind.AUTHORIZATION),
        stored=stored(checkpoint(replay=Interval(Offset(40), NEXT))),
    )
    latched, asked = found(looked, judge(looked, POLICY))
    assert (latched.verdict, latched.detail) == (Verdict.AUTHORIZATION, "it says authorization")
    assert asked == HoldView(
        id=hold_id(GROUP, PARTITION, Condition.REPLAY_REQUESTED, str(Interval(Offset(40), NEXT))),
        partition=PARTITION,
        verdict=Condition.REPLAY_REQUESTED,
        evidence=describe(looked),
        since=looked.asked_at,
        detail="somebody committed 40, below the position at 100",
    )
    assert (latched.partition, latched.evidence, latched.since) == (
        PARTITION,
        describe(looked),
        looked.asked_at,
    )


def names(line: Line) -> dict[int, tuple[str, ...]]:
    return {mark.offset: mark.names for mark in line.marks}


def test_a_line_names_every_offset_that_is_known() -> None:
    looked = evidence(
        log_end=Known(LogEnd(Offset(200), Offset(180), EPOCH)), log_start=Known(Offset(150))
    )
    (line,) = drawn(looked)
    assert line.title == ""
    assert names(line) == {
        0: ("baseline",),
        99: ("applied",),
        100: ("next", "committed", "gap_first"),
        150: ("log_start", "gap_end"),
        180: ("last_stable",),
        200: ("log_end",),
    }
    fresh = evidence(stored=stored(checkpoint(0)), committed=ours(0), log_start=Known(Offset(0)))
    assert names(drawn(fresh)[0])[0] == ("log_start", "baseline", "next", "committed")


def test_a_line_of_a_gap_that_stands_reaches_as_far_as_it_grew() -> None:
    gap = standing(GapReason.RETENTION_LOSS)
    for start, end in ((150, 150), (160, 160)):
        looked = evidence(
            stored=stored(checkpoint(gap=gap.id), gap), log_start=Known(Offset(start))
        )
        (line,) = drawn(looked)
        assert "gap_first" in names(line)[100]
        assert "gap_end" in names(line)[end]


def test_an_earlier_incarnation_has_a_line_of_its_own_as_long_as_its_gap_stands() -> None:
    gap = standing(GapReason.TOPIC_RECREATED, interval=Interval(NEXT, None))
    other = Known(TopicDescription(TopicId("another"), 3, False))
    for looked in (
        evidence(topic=other),
        evidence(topic=other, stored=stored(checkpoint(gap=gap.id), gap)),
        evidence(cluster_id=Known(ClusterId("cluster-b"))),
    ):
        before, now = drawn(looked)
        assert before.title == "as it was, in the earlier incarnation"
        assert now.title == "the log there is now"
        assert "next" in names(before)[100]
        assert "log_end" in names(now)[200]
    elsewhere, _ = drawn(evidence(cluster_id=Known(ClusterId("cluster-b"))))
    assert elsewhere.marks[-1].then is None  # it is no gap
    before, _ = drawn(evidence(topic=other))
    assert before.marks[-1].then is Stretch.GAP


def test_without_a_checkpoint_there_is_the_log_if_it_can_be_read() -> None:
    nothing = evidence(stored=ABSENT, committed=ABSENT, registry=ABSENT)
    (line,) = drawn(nothing)
    assert (line.title, names(line)) == ("the log", {10: ("log_start",), 200: ("log_end",)})
    away = fault(FaultKind.UNAVAILABLE)
    assert drawn(replace(nothing, log_start=away, log_end=away)) == ()
