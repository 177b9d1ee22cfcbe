"""One attempt at a partition, event by event: what has to come before what, and what must not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from sidecar.core.enrolment import GroupEvidence
from sidecar.core.evidence import Evidence, LogEnd, TopicDescription
from sidecar.core.facts import VerdictReached
from sidecar.core.faults import ABSENT, Component, Fault, FaultKind, Known, Unreadable
from sidecar.core.gap import GapState
from sidecar.core.policy import OnGap, Start
from sidecar.core.recovery import Phase
from sidecar.core.types import (
    Condition,
    GapReason,
    Instant,
    Interval,
    LeaderEpoch,
    Offset,
    Outcome,
    Partition,
    PartitionState,
    StoreId,
    TopicId,
    Verdict,
)
from sidecar.core.views import Each, Refusal, Refused, ReportAnswer
from sidecar.engine import Engine
from sidecar.engine import messages as m
from sidecar.engine.delivery import PARKED_MAX
from sidecar.ports import Assigned, CursorFailed, LeaderChanged, Revoked
from tests.core import situations
from tests.engine.process import GROUP, ORDERS, TOPIC, finished
from tests.engine.rig import Rig
from tests.fakes.kafka import FakeKafka
from tests.fakes.store import Mishap

T = TypeVar("T")

DENIED = Fault(Component.KAFKA, FaultKind.AUTHORIZATION, "GROUP_AUTHORIZATION_FAILED", "no right")
CUT = Fault(Component.KAFKA, FaultKind.EPOCH_SUSPECT, "_AUTO_OFFSET_RESET", "the log was cut")
TIMED_OUT = Fault(Component.KAFKA, FaultKind.UNAVAILABLE, "_TIMED_OUT", "no answer in time")


def resting(records: int = 9, pages: int = 3, **policy: Any) -> Rig:
    """Some records applied and committed."""
    rig = Rig(**policy)
    rig.produce(records)
    rig.run(1.0)
    rig.consume(pages)
    rig.run(1.0)
    return rig


def only(items: Iterable[T]) -> T:
    found = list(items)
    assert len(found) == 1, found
    return found[0]


def the_gap(rig: Rig) -> tuple[GapReason, Interval]:
    gap = only(rig.gaps)
    assert rig.cursor.phase is Phase.GAP
    return gap.reason, gap.interval


# Looking


def test_only_the_very_same_answer_comes_to_count_as_lasting() -> None:
    """A topic that was unknown for long says nothing of a leader epoch that fell just now."""
    engine = Engine(situations.POLICY, name="e")

    def looked(at: float, event: m.Event, seen: Evidence) -> list[m.Command]:
        commands = engine.step(event, Instant(at, at))
        look = only(c for c in commands if isinstance(c, m.Look))
        return engine.step(m.Looked(look.ask, {situations.PARTITION: seen}), Instant(at, at))

    unknown = situations.evidence(topic=situations.fault(FaultKind.TOPIC_UNKNOWN))
    end = LogEnd(situations.END, situations.END, LeaderEpoch(2))
    fell = situations.evidence(log_end=Known(end))
    looked(0.0, Assigned((situations.PARTITION,)), unknown)
    commands = looked(60.0, m.Tick(), fell)
    assert not any(isinstance(c, m.PerformInstall) for c in commands)
    assert engine.cursors[situations.PARTITION].phase is Phase.WAITING
    commands = looked(100.0, m.Tick(), fell)
    assert any(isinstance(c, m.PerformInstall) for c in commands)


# Before the first page


def begun(**policy: Any) -> Rig:
    """A topic is registered, and nothing of it was claimed."""
    rig = Rig(**policy)
    rig.withholding = (m.PerformInstall,)
    rig.run(1.0)
    return rig


def test_a_topic_created_again_before_its_first_page_is_begun_once_its_id_lasts() -> None:
    """Not at once: a broker that lags behind would have it be the one before. Questions that are
    not answered in between do not make it longer. And from its beginning, wherever new ones begin:
    nothing in it is older than the group."""
    rig = begun(start=Start.LATEST)
    rig.kafka.recreate_topic(TOPIC)
    rig.produce(3)
    later = rig.next_life("later", topic_unknown_seconds=5.0, start=Start.LATEST)
    for _ in range(3):
        later.run(1.0)
        assert later.cursor.phase is Phase.WAITING
        later.kafka.fail("committed", TIMED_OUT, times=1)
    later.run(6.0)
    assert list(later.page().offsets) == [0, 1, 2]
    said = [f.detail for f in later.facts if isinstance(f, VerdictReached)]
    assert said[0].endswith("nothing of the earlier one from 0 on was delivered")
    assert said[1:] == ["a history begins here, at 0"]


def test_a_third_topic_id_begins_its_wait_anew() -> None:
    """Of two that were named in turn, neither has lasted."""
    rig = begun()
    rig.kafka.recreate_topic(TOPIC)
    later = rig.next_life("later", topic_unknown_seconds=5.0)
    later.run(3.5)
    rig.kafka.recreate_topic(TOPIC)
    rig.produce(2)
    later.run(5.5)
    assert later.cursor.phase is Phase.WAITING
    later.run(10.0)
    assert list(later.page().offsets) == [0, 1]


def test_a_time_without_an_answer_does_not_count_for_a_topic_id() -> None:
    """A broker that lags behind and one that starts again are often the same."""
    rig = begun()
    rig.kafka.recreate_topic(TOPIC)
    later = rig.next_life("later", topic_unknown_seconds=30.0)
    later.kafka.down = True
    later.run(60.0)
    later.kafka.down = False
    later.run(8.0)
    assert later.cursor.phase is Phase.WAITING
    later.run(30.0)
    assert later.cursor.caught_up


def test_an_id_that_was_believed_by_mistake_is_given_up_again() -> None:
    """A broker lagged for long, and somebody accepted what it said; then the topic that is there is
    an earlier one, and was named as one for as long. It is no stale answer for ever."""
    rig = Rig()
    rig.produce(3)
    rig.run(2.0)
    rig.consume(1)
    rig.run(2.0)
    true_id = rig.kafka.topics[TOPIC].id
    rig.kafka.topics[TOPIC].id = TopicId("older")
    accepting = {GapReason.TOPIC_RECREATED: OnGap.ACCEPT}
    later = rig.next_life("later", topic_unknown_seconds=5.0, on_gap=accepting)
    later.run(5.0)
    assert later.stored.identity.topic_id == "older"
    rig.kafka.topics[TOPIC].id = true_id
    last = later.next_life("last", topic_unknown_seconds=5.0, on_gap=accepting)
    last.run(2.0)
    assert last.cursor.phase is Phase.WAITING
    last.run(8.0)
    assert last.stored.identity.topic_id == true_id
    assert last.stored.identity.former_topic_ids == ("older",)
    assert list(last.page().offsets) == [0, 1, 2]


def test_a_topic_that_is_left_out_of_the_registry_waits_and_is_enrolled_later() -> None:
    """What is written is of another topic, whose questions were answered."""
    rig = Rig()
    rig.withholding = (m.GatherGroup,)
    rig.run(0.2)
    (gather,) = rig.withheld
    rig.withheld.clear()
    audit = Partition("audit", 0)
    rig.give(
        m.GroupGathered(
            gather.ask,
            GroupEvidence(
                group=GROUP,
                registry=ABSENT,
                store=StoreId("store"),
                committed=Known({}),
                topics={
                    TOPIC: Unreadable(TIMED_OUT),
                    audit.topic: Known(TopicDescription(TopicId("audit-1"), 1, False)),
                },
                log_ends={audit: Known(LogEnd(Offset(0), Offset(0), None))},
                log_starts={audit: Known(Offset(0))},
                asked_at=rig.now,
            ),
        )
    )
    assert (rig.cursor.phase, rig.cursor.detail) == (Phase.WAITING, TIMED_OUT.detail)
    rig.withholding = ()
    rig.produce(1)
    rig.run(2.0)
    assert list(rig.page().offsets) == [0]


def test_there_is_no_page_before_a_commit_of_ours() -> None:
    """Otherwise a store that is lost then would look like a first day."""
    rig = Rig()
    rig.produce(3)
    rig.withholding = (m.Commit,)
    rig.run(1.0)
    assert rig.no_page()
    commit = only(rig.withheld)
    rig.withholding = ()
    rig.answer(commit)
    rig.run(0.0)
    assert rig.committed == 0
    assert rig.page().first == 0


def test_there_is_no_page_before_the_partition_is_marked_as_started() -> None:
    rig = Rig()
    rig.produce(3)
    rig.withholding = (m.MarkStarted,)
    rig.run(1.0)
    assert rig.no_page()
    rig.withholding = ()
    rig.answer(rig.withheld[0])
    rig.run(0.0)
    assert rig.page().first == 0
    registry = finished(rig.store.registry(GROUP))
    assert isinstance(registry, Known)
    assert ORDERS in registry.value.started


def test_a_checkpoint_that_nobody_marked_as_started_is_marked() -> None:
    """A registry that was lost alone, and written anew, knows of no start."""
    rig = resting()
    rig.store.restore(replace(rig.store.snapshot(), registries={}))
    later = rig.next_life("later")
    registry = finished(later.store.registry(GROUP))
    assert isinstance(registry, Known)
    assert ORDERS in registry.value.started


# Commits


def test_a_commit_that_fell_behind_is_made_again_without_a_new_record() -> None:
    rig = resting(pages=1)
    older = rig.kafka.group(GROUP).commits[ORDERS]
    rig.consume(2)
    rig.run(1.0)
    rig.kafka.group(GROUP).commits[ORDERS] = older
    later = rig.next_life("later")
    assert later.committed == 9
    assert later.witness.next == 9


def test_a_stranger_s_commit_at_the_same_offset_gets_its_witness_back() -> None:
    rig = resting()
    rig.kafka.reset_offset(GROUP, ORDERS, 9)
    assert rig.next_life("later").witness.next == 9


def test_a_commit_covers_only_what_was_promoted_before_its_topic_was_asked_for() -> None:
    """`incarnation_pinned`: a describe says nothing of what was fetched after it began."""
    rig = resting(pages=1)
    rig.withholding = (m.AskTopics,)
    rig.consume(1)
    rig.run(1.0)
    asked = list(rig.withheld)
    rig.consume(1)
    rig.commands.clear()
    for question in asked:
        rig.answer(question)
    commit = only(c for c in rig.commands if isinstance(c, m.Commit))
    assert [request.next for request in commit.offsets.values()] == [6]
    assert rig.committed == 6


def test_nothing_is_committed_in_a_topic_that_was_created_again() -> None:
    rig = resting(pages=1)
    rig.withholding = (m.AskTopics,)
    rig.consume(1)
    rig.run(1.0)
    assert (rig.committed, rig.cursor.next) == (3, 6)
    rig.kafka.recreate_topic(TOPIC)
    rig.commands.clear()
    rig.withholding = ()
    for question in list(rig.withheld):
        rig.answer(question)
    assert not [c for c in rig.commands if isinstance(c, m.Commit)]
    rig.run(1.0)
    assert rig.committed is None
    assert the_gap(rig)[0] is GapReason.TOPIC_RECREATED


def test_what_was_asked_for_one_topic_is_not_committed_to_the_next() -> None:
    """`incarnation_pinned`: store, commits and topic were lost while the question for its identity
    was on its way. The answer names the topic the partition is read from by now; the offset is of
    the one before."""
    rig = resting(pages=1)
    rig.withholding = (m.AskTopics,)
    rig.consume(1)
    rig.run(1.0)
    asked = list(rig.withheld)
    rig.store.flush()
    rig.kafka.recreate_topic(TOPIC)
    rig.produce(1)
    rig.give(LeaderChanged((ORDERS,)))
    rig.run(1.0)
    assert (rig.stored.identity.topic_id, rig.stored.token.next) == ("id-orders-2", 0)
    rig.commands.clear()
    for question in asked:
        rig.answer(question)
    assert not [c for c in rig.commands if isinstance(c, m.Commit)]
    rig.withholding = ()
    for question in list(rig.withheld):
        rig.answer(question)
    rig.run(1.0)
    assert (rig.committed, rig.witness.topic_id) == (0, "id-orders-2")


def test_a_gap_names_only_what_was_confirmed_of_its_own_topic() -> None:
    """A topic that was created again twice: what was confirmed of the first says nothing of what
    was promoted of the second."""
    rig = resting(on_gap={GapReason.TOPIC_RECREATED: OnGap.ACCEPT})
    rig.kafka.recreate_topic(TOPIC)
    rig.run(2.0)
    assert rig.stored.identity.topic_id == "id-orders-2"
    rig.withholding = (m.AskTopics,)
    rig.produce(1)
    rig.run(1.0)
    rig.consume(1)
    rig.kafka.recreate_topic(TOPIC)
    rig.give(LeaderChanged((ORDERS,)))
    answer = finished(rig.store.gaps(GROUP))
    assert isinstance(answer, Known)
    named = {gap.topic_id: gap.evidence["confirmed_to"] for gap in answer.value}
    assert named == {"id-orders-1": 9, "id-orders-2": 0}


def test_no_commit_is_ahead_of_what_the_store_acknowledged() -> None:
    """`commit_behind_checkpoint`: a promotion that is on its way is not committed."""
    rig = resting(records=12, pages=1)
    rig.consume(2)
    offer = rig.page()
    rig.withholding = (m.PerformInstall,)
    rig.report(offer)
    rig.run(1.0)
    assert rig.stored.token.next == 9
    assert rig.committed == 9
    rig.withholding = ()
    rig.answer(only(rig.withheld))
    rig.run(1.0)
    assert rig.committed == 12


def test_a_commit_that_is_refused_is_shown_until_it_is_taken() -> None:
    """A permanent fault is never retried in silence, and holds nothing that can be delivered."""
    rig = resting(pages=1)
    rig.kafka.fail("commit", DENIED, times=None)
    rig.consume(1)
    rig.run(1.0)
    view = only(rig.engine.views())
    assert view.conditions == (Condition.COMMIT_REFUSED,)
    rig.consume(1)
    rig.kafka.heal()
    rig.run(10.0)
    view = only(rig.engine.views())
    assert view.conditions == ()
    assert rig.committed == 9


# Writes


def test_a_write_whose_answer_was_lost_is_settled_under_its_own_name() -> None:
    """Told 503, an application sends the same report again and gets the answer that was lost."""
    rig = resting(pages=1)
    offer = rig.page()
    rig.store.fail(Mishap.REPLY_LOST)
    refused = rig.report(offer)
    assert isinstance(refused, Refusal)
    assert refused.refused is Refused.STORE_UNAVAILABLE
    rig.run(1.0)
    again = rig.report(offer)
    assert isinstance(again, ReportAnswer)
    assert again.next == 6
    assert rig.stored.token.next == 6


# Content


def test_records_that_are_gone_from_a_topic_that_keeps_them_are_a_divergence() -> None:
    """Only compaction may take single records away."""
    rig = resting()
    rig.kafka.rewind(TOPIC, 0, 6)
    rig.kafka.skip(TOPIC, 0, 3)
    rig.produce(2)
    later = rig.next_life("later")
    assert the_gap(later) == (GapReason.LOG_DIVERGED, Interval(Offset(6), Offset(9)))


def test_behind_an_anchor_that_differs_the_last_match_is_looked_for() -> None:
    """The overlap is four records; what is retained beyond it finds where the log still holds."""
    rig = resting()
    rig.kafka.rewind(TOPIC, 0, 2)
    rig.produce(9, b"other")
    later = rig.next_life("later")
    assert the_gap(later) == (GapReason.LOG_DIVERGED, Interval(Offset(2), Offset(9)))
    assert later.gaps[0].evidence["last_matching"] == 1


def test_a_receipt_ahead_skips_its_record_and_no_other() -> None:
    """What was applied behind an open record is not delivered again; other bytes are a gap."""

    def ahead() -> Rig:
        rig = Rig()
        rig.produce(3)
        rig.run(1.0)
        offer = rig.page()
        some = [(Offset(0), Outcome.RETRY), (Offset(1), Outcome.APPLIED)]
        rig.report(offer, Each(some))
        return rig

    same = ahead().next_life("later")
    assert list(same.page().offsets) == [0, 2]

    other = ahead()
    other.kafka.rewind(TOPIC, 0, 1)
    other.produce(2, b"other")
    later = other.next_life("later")
    assert later.no_page()
    later.run(1.0)
    assert the_gap(later)[0] is GapReason.LOG_DIVERGED
    assert later.gaps[0].evidence["first_differing"] == 1


def test_a_truncation_with_nothing_left_to_compare_is_a_gap() -> None:
    rig = resting(records=12)
    rig.kafka.topics[TOPIC].compacted = True
    rig.kafka.compact(TOPIC, 0, range(9))
    rig.give(CursorFailed(ORDERS, rig.cursor.session, CUT, True, None))
    rig.run(1.0)
    assert the_gap(rig)[0] is GapReason.LOG_TRUNCATED


def test_nothing_goes_on_behind_a_record_that_cannot_be_read() -> None:
    """What lies before it is delivered and committed; there it is held, and says where."""
    rig = Rig()
    rig.produce(6)
    rig.kafka.poison(TOPIC, 0, 4)
    rig.run(1.0)
    rig.consume(2)
    rig.run(1.0)
    view = only(rig.engine.views())
    assert (view.state, view.reason) == (PartitionState.HELD, Verdict.BLOCKED_RECORD)
    assert (view.next, rig.committed) == (4, 4)
    assert rig.no_page()


# Gaps


def test_a_gap_outlives_the_loss_of_the_store_by_the_commit_s_witness() -> None:
    """`gap_outlives`: our own offset is committed again, and its witness names the gap."""
    rig = resting(pages=1)
    rig.kafka.reset_offset(GROUP, ORDERS, 7)
    gapped = rig.next_life("gapped")
    gap = only(gapped.gaps)
    assert (gap.reason, gap.interval) == (
        GapReason.EXTERNAL_RESET,
        Interval(Offset(3), Offset(7)),
    )
    assert gapped.committed == 3
    assert gapped.witness.gap is not None
    assert gapped.witness.gap.id == gap.id
    gapped.store.flush()
    later = gapped.next_life("later")
    again = only(later.gaps)
    assert (again.id, again.reason, again.interval) == (gap.id, gap.reason, gap.interval)
    assert again.state is GapState.OPEN


def test_a_gap_that_the_store_forgot_by_going_back_is_written_down_again() -> None:
    """Opening it changed the owner's name, so what the store holds then is of another one."""
    rig = resting(pages=1)
    before = rig.store.snapshot()
    rig.kafka.delete_records(TOPIC, 0, 8)
    gapped = rig.next_life("gapped")
    gap = only(gapped.gaps)
    gapped.store.restore(before)
    assert list(gapped.gaps) == []
    gapped.run(4.0)
    assert only(gapped.gaps).interval == gap.interval
    assert gapped.stored.gap == only(gapped.gaps).id


def test_a_claim_that_the_store_forgot_is_not_read_on_without_its_receipts() -> None:
    """No receipts are nothing to compare with: the log may be another one below the position."""
    rig = resting(pages=2)
    rig.kafka.expel(rig.fetcher)
    next_ = Rig(rig.kafka, rig.store, name="next")
    next_.now = rig.now + 1.0
    next_.withholding = (m.ReadMemory,)
    next_.run(1.0)
    reading = only(next_.withheld)
    next_.store.flush()
    next_.withholding = ()
    next_.answer(reading)
    assert next_.cursor.phase is Phase.WAITING
    next_.run(4.0)
    assert next_.cursor.verdict is Verdict.STORE_LOST
    assert next_.stored.token.next == 6


def test_a_gap_stops_its_partition_and_no_other() -> None:
    """`gap_holds`: the others are delivered and committed as ever."""
    kafka = FakeKafka()
    kafka.create_topic(TOPIC, 2)
    rig = Rig(kafka)
    rig.produce(3)
    rig.run(1.0)
    rig.consume(1)
    rig.run(1.0)
    rig.kafka.reset_offset(GROUP, ORDERS, 7)
    later = rig.next_life("later")
    assert the_gap(later)[0] is GapReason.EXTERNAL_RESET
    later.produce(3)
    other = Partition(TOPIC, 1)
    kafka.produce(TOPIC, 1, b"1")
    later.run(1.0)
    offer = later.page()
    assert offer.partition == other
    assert isinstance(later.report(offer), ReportAnswer)
    later.run(1.0)
    assert kafka.group(GROUP).commits[other].next == 1
    assert later.no_page()
    assert later.committed == 3


def test_a_page_that_was_out_when_a_gap_opened_is_lost() -> None:
    """What it reports belongs to an attempt that is over."""
    rig = resting(pages=1)
    offer = rig.page()
    rig.kafka.recreate_topic(TOPIC)
    rig.run(2.0)
    assert the_gap(rig)[0] is GapReason.TOPIC_RECREATED
    refused = rig.report(offer)
    assert isinstance(refused, Refusal)
    assert refused.refused is Refused.PAGE_LOST
    assert rig.stored.token.next == 3


# Owners


def test_a_partition_that_is_given_back_is_not_claimed_again() -> None:
    """While its last offsets are settled the next owner may already be claiming it."""
    rig = resting(pages=1)
    rig.withholding = (m.AskTopics,)
    rig.consume(1)
    offer = rig.page()
    answers: list[object] = []
    rig.give(Revoked((ORDERS,), lost=False, answer=answers.append))
    assert answers == [], "its last offset waits for the topic's identity"
    rig.commands.clear()
    rig.give(LeaderChanged((ORDERS,)))
    refused = rig.report(offer)
    assert isinstance(refused, Refusal)
    assert refused.refused is Refused.PAGE_LOST
    assert rig.no_page()
    asked = [c for c in rig.commands if isinstance(c, m.Look | m.PerformInstall | m.Fetch)]
    assert not asked


def test_no_page_is_handed_out_on_an_owner_mark_seen_too_long_ago() -> None:
    """Half a session time-out: a process that was frozen cannot go on where it stopped."""
    rig = resting(pages=1)
    rig.withholding = (m.AskOwners,)
    rig.run(rig.policy.session_timeout_seconds / 2)
    wanted = rig.want()
    assert wanted not in rig.answers
    rig.withholding = ()
    rig.answer(rig.withheld[-1])
    rig.run(0.0)
    assert wanted in rig.answers


def test_an_owner_that_reads_another_s_mark_hands_nothing_out() -> None:
    """`zombie_writes_nothing`: it may not know yet that the group gave the partition away."""
    zombie = resting(pages=1)
    owner = zombie.next_life("owner")
    assert owner.stored.owner != zombie.cursor.owner
    zombie.now = owner.now
    zombie.give(m.Tick())
    assert zombie.no_page()
    assert owner.page().first == 3


def test_what_a_zombie_has_out_changes_nothing() -> None:
    """Its report is refused, and the store holds what the owner wrote."""
    zombie = resting(pages=1)
    offer = zombie.page()
    owner = zombie.next_life("owner")
    stands = owner.stored
    refused = zombie.report(offer)
    assert isinstance(refused, Refusal)
    assert refused.refused is Refused.PAGE_LOST
    assert owner.stored == stands


# Redelivery


def test_nothing_is_handed_out_beyond_the_horizon_that_the_store_holds() -> None:
    """Otherwise a crash would give it out again without a flag."""
    rig = Rig(horizon_records=2)
    rig.produce(6)
    rig.run(1.0)
    offer = rig.page()
    assert list(offer.offsets) == [0, 1]
    assert rig.stored.horizon == 2
    again = rig.next_life("later").page()
    assert again.redelivered_below == 2


def test_a_page_that_is_offered_again_says_so() -> None:
    rig = Rig()
    rig.produce(3)
    rig.run(1.0)
    first = rig.page()
    assert (first.attempt, first.redelivered_below) == (1, 0)
    rig.run(rig.policy.page_deadline_seconds)
    again = rig.page()
    assert (again.attempt, again.redelivered_below) == (2, 3)
    assert again.page != first.page


def test_after_a_clean_end_only_what_was_handed_out_is_flagged() -> None:
    rig = resting(pages=1)
    out = rig.page()
    drained = rig.ask(m.DrainAsked)
    rig.run(rig.policy.page_deadline_seconds + 1.0)
    assert drained in rig.answers
    later = rig.next_life("later")
    again = later.page()
    assert (again.first, again.redelivered_below) == (out.first, 6)
    assert isinstance(later.report(again), ReportAnswer)
    assert later.page().redelivered_below == 6


def test_a_topic_that_gains_an_id_keeps_its_idempotency_keys() -> None:
    kafka = FakeKafka(topic_ids=False)
    kafka.create_topic(TOPIC)
    rig = Rig(kafka)
    rig.produce(9)
    rig.run(1.0)
    prefix = only(p for _, p in rig.page().key_prefixes)
    assert prefix == f"{TOPIC}/0/0/"
    kafka.topic_ids = True
    later = rig.next_life("later")
    later.consume(1)
    assert later.stored.identity.topic_id == kafka.topics[TOPIC].id
    assert [p for _, p in later.page().key_prefixes] == [prefix]


# Limits


def test_requests_that_wait_for_a_page_are_bounded() -> None:
    rig = Rig()
    for _ in range(PARKED_MAX):
        assert rig.want() not in rig.answers
    refused = rig.answers.get(rig.want())
    assert isinstance(refused, Refusal)
    assert refused.refused is Refused.BUSY
