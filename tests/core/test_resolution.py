"""Deciding a gap: where reading goes on, and what cannot hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.core.checkpoint import Replaying
from sidecar.core.evidence import Evidence, LogEnd, TopicDescription
from sidecar.core.faults import ABSENT, FaultKind, Known
from sidecar.core.gap import Decision, Gap, GapState, Resolution
from sidecar.core.request import RequestId
from sidecar.core.resolution import Plan, Settled, plan
from sidecar.core.types import (
    GapId,
    GapReason,
    Generation,
    Interval,
    Lineage,
    Offset,
    Token,
    TopicId,
)
from sidecar.core.views import Refusal, Refused, ResolveRequest
from sidecar.core.witness import WitnessGap
from tests.core.situations import (
    CLUSTER,
    EPOCH,
    GROUP,
    NEXT,
    PARTITION,
    POLICY,
    TOPIC,
    checkpoint,
    evidence,
    fault,
    foreign,
    identity,
    ours,
    stored,
)

GAP = GapId("gap-1")


def gap(reason: GapReason, end: int | None, **changes: object) -> Gap:
    return replace(
        Gap(
            id=GAP,
            reason=reason,
            group=GROUP,
            partition=PARTITION,
            cluster_id=CLUSTER,
            topic_id=TOPIC,
            lineage=0,
            interval=Interval(NEXT, None if end is None else Offset(end)),
            state=GapState.OPEN,
            evidence={},
            generation=Generation(8),
            opened_at=500.0,
        ),
        **changes,  # type: ignore[arg-type]  # checked by the dataclass
    )


def seen(open_gap: Gap, start: int = 150, end: int = 200, **changes: object) -> Evidence:
    found: dict[str, object] = {
        "stored": stored(checkpoint(gap=GAP), open_gap),
        "log_start": Known(Offset(start)),
        "log_end": Known(LogEnd(Offset(end), Offset(end), EPOCH)),
    }
    return evidence(**(found | changes))


def asked(resolution: Resolution, **changes: object) -> ResolveRequest:
    return replace(ResolveRequest(resolution, "on-call", "because"), **changes)  # type: ignore[arg-type]  # likewise


def at(planned: Plan) -> int:
    assert isinstance(planned, Settled), planned
    return planned.checkpoint.token.next


def refused(planned: Plan) -> Refused:
    assert isinstance(planned, Refusal), planned
    return planned.refused


LOSS = gap(GapReason.RETENTION_LOSS, 150)


def decide(open_gap: Gap, request: ResolveRequest, **changes: object) -> Plan:
    return plan(seen(open_gap, **changes), request, POLICY, gap_id=GAP)  # type: ignore[arg-type]  # likewise


def test_an_accepted_retention_loss_goes_on_at_the_log_start_of_now() -> None:
    """It moved on since the gap was opened: whatever is lost up to there joins the gap."""
    planned = decide(LOSS, asked(Resolution.ACCEPTED), start=160)
    assert at(planned) == 160
    assert isinstance(planned, Settled)
    assert planned.gap.interval == Interval(NEXT, Offset(160))
    assert planned.gap.state is GapState.RESOLVED
    assert planned.checkpoint.gap is None
    assert planned.checkpoint.resolved == GAP
    assert planned.history_ends


def test_a_bound_on_what_is_accepted_holds() -> None:
    request = asked(Resolution.ACCEPTED, end_max=Offset(155))
    assert at(decide(LOSS, request, start=155)) == 155
    assert refused(decide(LOSS, request, start=156)) is Refused.RESOLUTION_IMPOSSIBLE


def test_what_can_be_shown_cannot_be_chosen() -> None:
    request = asked(Resolution.ACCEPTED, resume_at=Offset(170))
    assert refused(decide(LOSS, request)) is Refused.RESOLUTION_IMPOSSIBLE


@pytest.mark.parametrize(
    ("fence", "taken_at", "expected"),
    [
        *[(180, 600.0, 180), (180, 500.0, 180), (150, 600.0, 150)],
        *[(180, 400.0, None), (149, 600.0, None), (None, 600.0, None)],
    ],
)
def test_a_snapshot_needs_a_fence_taken_while_the_gap_was_open(
    fence: int | None, taken_at: float, expected: int | None
) -> None:
    """And at or beyond the gap's end, or the snapshot does not reach over it."""
    offset = None if fence is None else Offset(fence)
    taken = replace(LOSS, fences=() if offset is None else ((offset, taken_at),))
    planned = decide(taken, asked(Resolution.SNAPSHOT, fence=offset))
    if expected is None:
        assert refused(planned) is Refused.RESOLUTION_IMPOSSIBLE
        return
    assert at(planned) == expected
    assert isinstance(planned, Settled)
    assert planned.gap.resolution is not None
    assert planned.gap.resolution.fence == expected


def test_a_snapshot_has_to_reach_over_what_was_lost_wherever_the_log_begins() -> None:
    taken = replace(LOSS, fences=((Offset(140), 600.0),))
    planned = decide(taken, asked(Resolution.SNAPSHOT, fence=Offset(140)), start=120)
    assert isinstance(planned, Refusal)
    assert planned.detail == "the fence 140 lies below the gap's end 150"


def test_where_no_gap_stands_there_is_none_to_decide() -> None:
    for nothing in (ABSENT, stored(checkpoint()), stored(checkpoint(gap=GAP))):
        planned = decide(LOSS, asked(Resolution.ACCEPTED), stored=nothing)
        assert refused(planned) is Refused.GAP_CHANGED


def test_a_snapshot_of_a_topic_created_again_need_not_reach_over_the_earlier_one() -> None:
    """The gap's end, if it has one, counts offsets of another log."""
    again = gap(GapReason.TOPIC_RECREATED, 190, fences=((Offset(180), 600.0),))
    other = Known(TopicDescription(TopicId("topic-2"), 3, False))
    planned = decide(again, asked(Resolution.SNAPSHOT, fence=Offset(180)), topic=other)
    assert at(planned) == 180


def test_what_was_lost_and_not_backfilled_stays_open_wherever_the_log_begins() -> None:
    """Also where its start, as it is answered now, lies below what was lost."""
    planned = decide(LOSS, asked(Resolution.BACKFILLED, resume_at=Offset(130)), start=120)
    assert isinstance(planned, Settled)
    assert planned.gap.state is GapState.OPEN
    assert planned.gap.interval == Interval(Offset(130), Offset(150))


def test_what_was_backfilled_in_part_leaves_the_rest_open() -> None:
    planned = decide(LOSS, asked(Resolution.BACKFILLED, resume_at=Offset(130)), start=155)
    assert isinstance(planned, Settled)
    assert planned.gap.state is GapState.OPEN
    assert planned.gap.interval == Interval(Offset(130), Offset(155))
    assert planned.checkpoint.gap == GAP
    assert at(planned) == 130


def test_what_was_backfilled_whole_goes_on_behind_it() -> None:
    planned = decide(LOSS, asked(Resolution.BACKFILLED, resume_at=Offset(155)))
    assert at(planned) == 155
    assert refused(decide(LOSS, asked(Resolution.BACKFILLED))) is Refused.RESOLUTION_IMPOSSIBLE


def test_a_foreign_reset_is_followed_or_ignored() -> None:
    reset = gap(GapReason.EXTERNAL_RESET, 180)
    changes = {"start": 10, "committed": foreign(180)}
    assert at(decide(reset, asked(Resolution.ACCEPTED), **changes)) == 180
    assert at(decide(reset, asked(Resolution.IGNORED), **changes)) == NEXT
    assert refused(decide(LOSS, asked(Resolution.IGNORED))) is Refused.RESOLUTION_IMPOSSIBLE
    endless = gap(GapReason.EXTERNAL_RESET, None)
    unsaid = decide(endless, asked(Resolution.ACCEPTED), **changes)
    assert isinstance(unsaid, Refusal)
    assert unsaid.detail == "resume_at is needed: where reading goes on"
    said = asked(Resolution.ACCEPTED, resume_at=Offset(120))
    assert at(decide(endless, said, **changes)) == 120
    beyond = gap(GapReason.EXTERNAL_RESET, 10_000)
    planned = decide(beyond, asked(Resolution.ACCEPTED), **changes)
    assert refused(planned) is Refused.RESOLUTION_IMPOSSIBLE


def test_what_ends_what_is_remembered_says_that_it_was_not_verified() -> None:
    """Not where nothing below can be read any more, nor where nothing is forgotten. A log that
    diverged may have been cut again since, if it can still be read up to the position."""

    def unverified(open_gap: Gap, request: ResolveRequest, start: int = 10) -> bool:
        planned = decide(open_gap, request, start=start, committed=foreign(180))
        assert isinstance(planned, Settled)
        return planned.unverified

    reset = gap(GapReason.EXTERNAL_RESET, 180, fences=((Offset(190), 600.0),))
    assert unverified(reset, asked(Resolution.ACCEPTED))
    assert unverified(reset, asked(Resolution.ACCEPTED), start=NEXT)
    assert unverified(reset, asked(Resolution.SNAPSHOT, fence=Offset(190)))
    assert unverified(reset, asked(Resolution.BACKFILLED, resume_at=Offset(180)))
    assert not unverified(reset, asked(Resolution.ACCEPTED), start=NEXT + 1)
    assert not unverified(reset, asked(Resolution.IGNORED))
    assert not unverified(LOSS, asked(Resolution.ACCEPTED), start=150)
    cut = gap(GapReason.LOG_DIVERGED, 100, evidence={"last_matching": 60})
    assert unverified(cut, asked(Resolution.ACCEPTED))
    short = gap(GapReason.LOG_TRUNCATED, 100, evidence={"last_matching": 60})
    assert not unverified(short, asked(Resolution.ACCEPTED))
    whole = decide(cut, asked(Resolution.ACCEPTED), start=10, end=NEXT)
    assert isinstance(whole, Settled)
    assert whole.unverified
    ended = decide(cut, asked(Resolution.ACCEPTED), start=10, end=NEXT - 1)
    assert isinstance(ended, Settled)
    assert not ended.unverified


@pytest.mark.parametrize(
    "reason", [GapReason.LOG_DIVERGED, GapReason.LOG_TRUNCATED, GapReason.CURSOR_AHEAD]
)
def test_going_back_begins_a_lineage_and_ends_what_was_remembered(reason: GapReason) -> None:
    """Old bytes keep their keys, and new bytes get new ones."""
    rewritten = gap(reason, 100, evidence={"last_matching": 60})
    planned = decide(rewritten, asked(Resolution.ACCEPTED), start=10)
    assert at(planned) == 61
    assert isinstance(planned, Settled)
    assert planned.history_ends
    assert planned.checkpoint.lineages == (Lineage(0, Offset(0)), Lineage(1, Offset(61)))
    assert planned.checkpoint.horizon == 200


def test_where_no_record_matches_a_person_has_to_say() -> None:
    rewritten = gap(GapReason.LOG_TRUNCATED, 100)
    assert refused(decide(rewritten, asked(Resolution.ACCEPTED), start=10)) is (
        Refused.RESOLUTION_IMPOSSIBLE
    )
    given = asked(Resolution.ACCEPTED, resume_at=Offset(40))
    assert at(decide(rewritten, given, start=10)) == 40


def test_a_lost_store_goes_on_only_where_a_person_says() -> None:
    lost = gap(GapReason.STORE_LOST, None)
    assert refused(decide(lost, asked(Resolution.ACCEPTED))) is Refused.RESOLUTION_IMPOSSIBLE
    assert at(decide(lost, asked(Resolution.ACCEPTED, resume_at=Offset(160)))) == 160


def test_a_topic_created_again_begins_a_new_incarnation() -> None:
    again = gap(GapReason.TOPIC_RECREATED, None)
    other = Known(TopicDescription(TopicId("topic-2"), 3, False))
    planned = decide(again, asked(Resolution.ACCEPTED), start=5, topic=other)
    assert at(planned) == 5
    assert isinstance(planned, Settled)
    identity = planned.checkpoint.identity
    assert identity.topic_id == "topic-2"
    assert identity.former_topic_ids == (TOPIC,)
    assert planned.checkpoint.baseline == 5


def test_a_topic_created_again_meanwhile_is_another_gap() -> None:
    other = Known(TopicDescription(TopicId("topic-2"), 3, False))
    planned = decide(LOSS, asked(Resolution.ACCEPTED), topic=other)
    assert refused(planned) is Refused.GAP_CHANGED


def test_retracted_only_when_the_evidence_shows_none() -> None:
    assert refused(decide(LOSS, asked(Resolution.RETRACTED))) is Refused.RESOLUTION_IMPOSSIBLE
    assert at(decide(LOSS, asked(Resolution.RETRACTED), start=NEXT)) == NEXT
    diverged = gap(GapReason.LOG_DIVERGED, 100)
    planned = decide(diverged, asked(Resolution.RETRACTED), start=10)
    assert refused(planned) is Refused.RESOLUTION_IMPOSSIBLE


def test_a_gap_that_a_commit_names_is_retracted_as_well() -> None:
    """As every one is that stood for longer than a commit takes."""
    named = WitnessGap(GAP, LOSS.reason, LOSS.interval)
    planned = decide(LOSS, asked(Resolution.RETRACTED), start=NEXT, committed=ours(gap=named))
    assert at(planned) == NEXT
    missing = decide(LOSS, asked(Resolution.RETRACTED), start=101, committed=ours(gap=named))
    assert refused(missing) is Refused.RESOLUTION_IMPOSSIBLE


def test_what_was_no_gap_ends_nothing_and_begins_no_lineage() -> None:
    """A deposed leader had answered, and the log is whole."""
    planned = decide(gap(GapReason.CURSOR_AHEAD, 100), asked(Resolution.RETRACTED), start=10)
    assert isinstance(planned, Settled)
    assert not planned.history_ends
    before = checkpoint(gap=GAP)
    assert planned.checkpoint == replace(before, gap=None, resolved=GAP)


@pytest.mark.parametrize("reason", [GapReason.LOG_DIVERGED, GapReason.TOPIC_RECREATED])
def test_what_was_being_delivered_again_ends_with_the_log_it_was_of(reason: GapReason) -> None:
    """And where a history begins is never above where it goes on."""
    replaying = Replaying(RequestId("again"), "on-call", Offset(20), Offset(30), Offset(40))
    standing = gap(reason, None, evidence={"last_matching": 49})
    before = checkpoint(
        gap=GAP, replaying=replaying, baseline=Offset(60), identity=identity(keyed_by="orders")
    )
    named = "topic-2" if reason is GapReason.TOPIC_RECREATED else TOPIC
    planned = decide(
        standing,
        asked(Resolution.ACCEPTED),
        start=45,
        stored=stored(before, standing),
        topic=Known(TopicDescription(TopicId(named), 3, False)),
    )
    assert isinstance(planned, Settled)
    assert planned.checkpoint.replaying is None
    assert planned.checkpoint.gap is None
    assert planned.checkpoint.baseline == at(planned) < 60
    keyed_by = None if reason is GapReason.TOPIC_RECREATED else "orders"
    assert planned.checkpoint.identity.keyed_by == keyed_by


def test_nothing_is_decided_on_evidence_that_could_not_be_had() -> None:
    unread = replace(seen(LOSS), log_start=fault(FaultKind.UNAVAILABLE))
    planned = plan(unread, asked(Resolution.ACCEPTED), POLICY, gap_id=GAP)
    assert refused(planned) is Refused.EVIDENCE_UNAVAILABLE


def test_a_gap_that_was_decided_by_somebody_else_is_not_decided_again() -> None:
    resolved = replace(LOSS, state=GapState.RESOLVED)
    planned = decide(resolved, asked(Resolution.ACCEPTED))
    assert refused(planned) is Refused.GAP_CHANGED


def test_a_decision_about_another_gap_decides_nothing() -> None:
    """Somebody looked at one gap, and graver evidence put another in its place since."""
    planned = plan(seen(LOSS), asked(Resolution.ACCEPTED), POLICY, gap_id="gap-0")
    assert refused(planned) is Refused.GAP_CHANGED


def test_a_decision_is_kept_with_who_why_and_on_what_evidence() -> None:
    """`gap_outlives`: afterwards anybody can tell what it rested on."""
    request = asked(Resolution.ACCEPTED, evidence="ticket 7", end_max=Offset(190))
    planned = decide(LOSS, request, start=160)
    assert isinstance(planned, Settled)
    assert planned.gap.resolution == Decision(
        resolution=Resolution.ACCEPTED,
        by="on-call",
        why="because",
        at=1000.0,
        resume_at=Offset(160),
        end_max=Offset(190),
        evidence="ticket 7",
    )
    last = planned.gap.audit[-1]
    assert (last.what, last.by, last.why, last.at) == (
        "resolved: accepted",
        "on-call",
        "because",
        1000.0,
    )
    assert (last.evidence["log_start"], last.evidence["resume_at"]) == (160, 160)


def test_what_is_ignored_goes_on_as_if_nothing_had_been() -> None:
    """Position, epoch, lineage and what is remembered: a stranger's mistake touches none of it."""
    reset = gap(GapReason.EXTERNAL_RESET, 180)
    planned = decide(reset, asked(Resolution.IGNORED), start=10, committed=foreign(180))
    assert isinstance(planned, Settled)
    assert not planned.history_ends
    assert planned.checkpoint == checkpoint(resolved=GAP)
    assert planned.gap.interval == reset.interval


def test_going_on_where_one_stood_keeps_the_epoch_and_what_is_remembered() -> None:
    unsure = gap(GapReason.COVERAGE_UNKNOWN, 120)
    planned = decide(unsure, asked(Resolution.ACCEPTED), start=90)
    assert isinstance(planned, Settled)
    assert not planned.history_ends
    assert planned.checkpoint.token == checkpoint().token


def test_what_was_backfilled_exactly_to_the_end_leaves_nothing_open() -> None:
    planned = decide(LOSS, asked(Resolution.BACKFILLED, resume_at=Offset(150)))
    assert isinstance(planned, Settled)
    assert planned.gap.state is GapState.RESOLVED
    endless = gap(GapReason.RETENTION_LOSS, None)
    planned = decide(endless, asked(Resolution.BACKFILLED, resume_at=Offset(149)))
    assert isinstance(planned, Settled)
    assert planned.gap.state is GapState.OPEN
    assert planned.gap.interval == Interval(Offset(149), Offset(150))


def test_a_part_that_was_backfilled_is_noted_and_has_to_be_one() -> None:
    planned = decide(LOSS, asked(Resolution.BACKFILLED, resume_at=Offset(101)))
    assert isinstance(planned, Settled)
    assert planned.history_ends
    (noted,) = planned.gap.audit
    assert (noted.what, noted.by, noted.why) == ("backfilled in part", "on-call", "because")
    assert noted.evidence == {"from": NEXT, "to": 101}
    assert noted.at == evidence().asked_at
    nothing = decide(LOSS, asked(Resolution.BACKFILLED, resume_at=NEXT))
    assert refused(nothing) is Refused.RESOLUTION_IMPOSSIBLE


def test_a_new_incarnation_begins_with_nothing_of_the_old_one() -> None:
    """But its ID, so that an answer which still names it is known to be stale."""
    again = gap(GapReason.TOPIC_RECREATED, None)
    other = Known(TopicDescription(TopicId("topic-2"), 3, False))
    planned = decide(again, asked(Resolution.ACCEPTED), start=5, end=200, topic=other)
    assert isinstance(planned, Settled)
    made = planned.checkpoint
    assert made.identity == identity(
        topic_id=TopicId("topic-2"), former_topic_ids=(TOPIC,), keyed_by=None
    )
    assert made.lineages == (Lineage(1, Offset(5)),)
    assert (made.token, made.horizon) == (Token(Offset(5), None), 200)
    assert planned.history_ends


def test_nothing_below_where_it_stands_is_gone_back_to_in_the_same_lineage() -> None:
    """`applied_monotone`: also when somebody says that less was backfilled."""
    reset = gap(GapReason.EXTERNAL_RESET, 180)
    request = asked(Resolution.BACKFILLED, resume_at=Offset(50))
    planned = decide(reset, request, start=10, committed=foreign(180))
    assert refused(planned) is Refused.RESOLUTION_IMPOSSIBLE


def test_a_divergence_in_hand_goes_on_where_nothing_was_applied_yet() -> None:
    """What matched beyond `next` was handed out, and nobody reported it: it is read again."""
    in_hand = gap(GapReason.LOG_DIVERGED, 150, evidence={"last_matching": 119})
    assert at(decide(in_hand, asked(Resolution.ACCEPTED), start=10)) == NEXT


def test_records_between_the_position_and_a_gap_are_not_passed() -> None:
    far = gap(GapReason.RETENTION_LOSS, 150, interval=Interval(Offset(120), Offset(150)))
    planned = decide(far, asked(Resolution.ACCEPTED), start=150)
    assert refused(planned) is Refused.RESOLUTION_IMPOSSIBLE
