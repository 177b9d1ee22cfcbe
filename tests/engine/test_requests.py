"""What people ask, executed by whoever has the partition, and never half done."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.core import gap as gaps
from sidecar.core.facts import GapChanged, GapOpened, RequestSettled
from sidecar.core.faults import Component, Fault, FaultKind
from sidecar.core.gap import Resolution
from sidecar.core.policy import Adopt, Start
from sidecar.core.request import PENDING_MAX, Request, RequestId, RequestKind, RequestState
from sidecar.core.types import Condition, Interval, IsolationLevel, Offset, Partition, Verdict
from tests.engine.process import GROUP, ORDERS, TOPIC, Process, finished, known
from tests.engine.stand import Stand
from tests.fakes.store import AWAY

P1 = Partition(TOPIC, 1)
DENIED = Fault(Component.KAFKA, FaultKind.AUTHORIZATION, "TOPIC_AUTHORIZATION_FAILED", "denied")


def at_a_gap() -> tuple[Stand, Process]:
    """Applied up to 4, and the log begins at 8."""
    stand = Stand(records=12)
    life = stand.start()
    stand.apply(life, 4)
    stand.kill(life)
    stand.kafka.delete_records(TOPIC, 0, 8)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "gap")
    return stand, life


def asked_by_a_commit() -> tuple[Stand, Process]:
    """Applied up to 8, and a foreign hand went back to 3: it is asked whether to deliver again."""
    stand = Stand(records=12)
    life = stand.start()
    stand.apply(life, 8)
    stand.kill(life)
    stand.kafka.reset_offset(GROUP, ORDERS, 3)
    life = stand.start()
    stand.until(lambda: stand.view(life).conditions == (Condition.REPLAY_REQUESTED,))
    return stand, life


# --- gaps -----------------------------------------------------------------------------------------


def test_a_resolution_that_was_left_is_executed_within_a_second() -> None:
    """By the owner, who hears of it from the store; it is answered in the same write, and audited
    with who and why."""
    stand, life = at_a_gap()
    name = stand.ask(RequestKind.RESOLVE, stand.gap().id, resolution="accepted")
    stand.run(1.0)
    answered = stand.asked(name)
    assert (answered.state, answered.detail) == (RequestState.DONE, "reading goes on at 8")
    stand.until(lambda: stand.view(life).state == "delivering", 1.0)
    assert stand.view(life).next == 8
    assert ("asked: resolve", "on-call", "a test") in stand.audit()
    assert ("done: resolve", "on-call", "reading goes on at 8") in stand.audit()
    (resolved,) = known(finished(stand.store.gaps(GROUP)))
    assert resolved.resolution is not None
    assert (resolved.resolution.by, resolved.resolution.resolution) == (
        "on-call",
        Resolution.ACCEPTED,
    )
    assert [f.request.id for f in life.facts if isinstance(f, RequestSettled)] == [name]


@pytest.mark.parametrize("kind", [k for k in RequestKind if k is not RequestKind.RESOLVE])
def test_what_waits_for_a_partition_to_go_on_keeps_out_nobody_who_lets_it(
    kind: RequestKind,
) -> None:
    """However many ask for the same: the gap is decided, and then they are heard."""
    stand, life = at_a_gap()
    stand.kill(life)
    arguments: dict[str, Any] = {"from": 0, "to": 2}
    waiting = [stand.ask(kind, **arguments) for _ in range(PENDING_MAX)]
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "gap")
    name = stand.ask(RequestKind.RESOLVE, stand.gap().id, resolution="accepted")
    stand.run(3.0)
    assert stand.asked(name).state is RequestState.DONE
    stand.ask(RequestKind.CONTINUE)
    stand.until(lambda: not any(stand.asked(one).pending for one in waiting))


def test_a_replay_that_a_commit_asked_for_is_not_answered_while_a_gap_stands() -> None:
    """The gap comes first, and an answer that waited would be in the way of those to come."""
    stand, life = asked_by_a_commit()
    (shown,) = life.engine.holds()
    stand.kill(life)
    stand.kafka.delete_records(TOPIC, 0, 11)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "gap")
    name = stand.ask(RequestKind.ANSWER, shown.id, answer="replay")
    stand.run(1.0)
    answered = stand.asked(name)
    assert (answered.code, answered.detail) == (
        "request-refused",
        "the partition stands still (retention_loss): that has to be decided first",
    )


def test_a_resolution_that_cannot_hold_is_refused_with_words() -> None:
    stand, life = at_a_gap()
    name = stand.ask(RequestKind.RESOLVE, stand.gap().id, resolution="accepted", resume_at=9)
    stand.run(1.0)
    answered = stand.asked(name)
    assert (answered.state, answered.code) == (RequestState.REFUSED, "resolution-impossible")
    assert "goes on at 8" in answered.detail
    assert stand.view(life).state == "gap"


@pytest.mark.parametrize("arguments", [{"resolution": "whatever"}, {"resolution": 7}, {}])
def test_a_request_that_cannot_be_read_is_refused(arguments: dict[str, Any]) -> None:
    """Somebody else's tool may have written it; nothing stops."""
    stand, _ = at_a_gap()
    name = stand.ask(RequestKind.RESOLVE, stand.gap().id, **arguments)
    stand.run(1.0)
    assert stand.asked(name).code == "resolution-impossible"


def test_a_request_for_a_gap_that_is_none_any_more_is_refused() -> None:
    stand, _ = at_a_gap()
    gap = stand.gap().id
    first = stand.ask(RequestKind.RESOLVE, gap, resolution="accepted")
    second = stand.ask(RequestKind.RESOLVE, gap, resolution="accepted")
    stand.run(3.0)
    assert stand.asked(first).state is RequestState.DONE
    assert (stand.asked(second).state, stand.asked(second).code) == (
        RequestState.REFUSED,
        "gap-changed",
    )


def test_what_is_left_while_nobody_runs_is_executed_by_the_next_owner() -> None:
    stand, life = at_a_gap()
    stand.kill(life)
    name = stand.ask(RequestKind.RESOLVE, stand.gap().id, resolution="accepted")
    stand.run(2.0)
    assert stand.asked(name).pending
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "delivering")
    assert stand.asked(name).state is RequestState.DONE


def test_a_request_outlives_an_owner_that_dies_over_it() -> None:
    """The write is lost on its way and its owner with it: it still pends, and is executed."""
    stand, life = at_a_gap()
    name = stand.ask(RequestKind.RESOLVE, stand.gap().id, resolution="accepted")
    stand.store.away()
    stand.run(1.0)
    stand.kill(life)
    stand.store.away(None)
    assert stand.asked(name).pending
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "delivering")
    assert stand.asked(name).state is RequestState.DONE


def test_an_acknowledgement_beside_the_owner_is_heard_within_a_second() -> None:
    """It needs nobody, and whoever has the partition says that it heard."""
    stand, life = at_a_gap()
    standing = stand.gap()
    seen = gaps.acknowledge(standing, by="on-call", why="seen", at=stand.now().wall)
    assert seen is not None
    finished(stand.store.update_gap(seen, was=standing))
    stand.run(1.0)
    told = [f.gap for f in life.facts if isinstance(f, GapChanged)]
    assert [(gap.state, gap.audit[-1].by) for gap in told] == [("acknowledged", "on-call")]
    assert stand.view(life).state == "gap"


def test_evidence_that_cannot_be_had_refuses_nothing() -> None:
    """It is asked again, not often, until it can be."""
    stand, _ = at_a_gap()
    gap = stand.gap().id
    stand.kafka.fail("log_starts", AWAY, times=None)
    name = stand.ask(RequestKind.RESOLVE, gap, resolution="accepted")
    stand.run(5.0)
    assert stand.asked(name).pending
    stand.kafka.heal()
    stand.until(lambda: stand.asked(name).state is RequestState.DONE)


# --- holds ----------------------------------------------------------------------------------------


def hold_of(life: Process, partition: Partition = ORDERS) -> str:
    (view,) = life.engine.cursors[partition].hold_views()
    return view.id


def test_a_hold_has_the_same_id_for_every_owner_and_another_at_another_place() -> None:
    stand = Stand(partitions=2, start=Start.REFUSE)
    first = stand.start()
    stand.until(lambda: stand.view(first).state == "held")
    before = hold_of(first)
    assert hold_of(first, P1) != before
    stand.run(20.0)
    assert hold_of(first) == before
    stand.kill(first)
    second = stand.start()
    stand.until(lambda: stand.view(second).state == "held")
    assert hold_of(second) == before


def test_an_answer_to_a_start_counts_for_its_partition_alone() -> None:
    """The other one is still held, with its own id."""
    stand = Stand(partitions=2, records=5, start=Start.REFUSE)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "held")
    name = stand.ask(RequestKind.ANSWER, hold_of(life), answer="latest")
    stand.until(lambda: stand.view(life).state == "delivering", 2.0)
    assert stand.view(life).next == 5
    assert stand.asked(name).state is RequestState.DONE
    stand.run(15.0)
    assert stand.view(life, P1).state == "held"
    other = stand.ask(RequestKind.ANSWER, hold_of(life, P1), partition=P1, answer="earliest")
    stand.until(lambda: stand.view(life, P1).state == "delivering", 2.0)
    assert stand.view(life, P1).next == 0
    assert stand.asked(other, P1).state is RequestState.DONE


def test_an_answer_left_while_nobody_runs_finds_its_situation_again() -> None:
    stand = Stand(records=5, start=Start.REFUSE)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "held")
    named = hold_of(life)
    stand.kill(life)
    name = stand.ask(RequestKind.ANSWER, named, answer="earliest")
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "delivering")
    assert stand.asked(name).state is RequestState.DONE
    assert ("asked: answer", "on-call", "a test") in stand.audit()


def test_an_adoption_is_answered_once_and_for_the_offset_that_was_shown() -> None:
    """The group commits on meanwhile: that is another situation, and another answer."""
    stand = Stand(records=9, adopt=Adopt.HOLD)
    stand.kafka.reset_offset(GROUP, ORDERS, 3)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "held")
    named = hold_of(life)
    stand.kill(life)
    stand.kafka.reset_offset(GROUP, ORDERS, 5)
    stale = stand.ask(RequestKind.ANSWER, named, answer="commit")
    life = stand.start()
    stand.until(lambda: not stand.asked(stale).pending)
    assert (stand.asked(stale).state, stand.asked(stale).code) == (
        RequestState.REFUSED,
        "hold-unknown",
    )
    assert stand.view(life).state == "held"
    fresh = stand.ask(RequestKind.ANSWER, hold_of(life), answer="commit")
    stand.until(lambda: stand.view(life).state == "delivering")
    assert stand.view(life).next == 5
    assert stand.asked(fresh).state is RequestState.DONE


def test_a_changed_scope_is_accepted_by_an_answer() -> None:
    stand = Stand(records=9)
    life = stand.start()
    stand.apply(life, 4)
    stand.kill(life)
    life = stand.start(isolation=IsolationLevel.READ_UNCOMMITTED)
    stand.until(lambda: stand.view(life).state == "held")
    name = stand.ask(RequestKind.ANSWER, hold_of(life), answer="accept")
    stand.until(lambda: stand.view(life).state == "delivering")
    assert stand.asked(name).state is RequestState.DONE
    stand.kill(life)
    life = stand.start(isolation=IsolationLevel.READ_UNCOMMITTED)
    stand.until(lambda: stand.view(life).state == "delivering")


def test_a_changed_scope_beside_an_open_gap_is_accepted_first_and_the_gap_still_stands() -> None:
    """Neither waits for the other: the answer is written, then the gap can be resolved."""
    stand, life = at_a_gap()
    stand.kill(life)
    life = stand.start(isolation=IsolationLevel.READ_UNCOMMITTED)
    stand.until(lambda: stand.view(life).state == "held")
    gap = stand.gap().id
    early = stand.ask(RequestKind.RESOLVE, gap, resolution="accepted")
    stand.run(1.0)
    assert "list the holds" in stand.asked(early).detail
    name = stand.ask(RequestKind.ANSWER, hold_of(life), answer="accept")
    stand.until(lambda: stand.view(life).state == "gap", 3.0)
    stand.until(lambda: stand.asked(name).state is RequestState.DONE, 1.0)
    stand.ask(RequestKind.RESOLVE, gap, resolution="accepted")
    stand.until(lambda: stand.view(life).state == "delivering", 3.0)
    assert stand.view(life).next == 8


@pytest.mark.parametrize("answer", ["commit", ""])
def test_an_answer_that_is_not_permitted_is_refused_with_those_that_are(answer: str) -> None:
    stand = Stand(start=Start.REFUSE)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "held")
    name = stand.ask(RequestKind.ANSWER, hold_of(life), answer=answer)
    stand.run(1.0)
    assert (stand.asked(name).code, stand.asked(name).detail) == (
        "answer-impossible",
        "permitted answers: earliest, latest",
    )


def test_a_replay_that_somebody_asked_for_by_committing_is_dismissed_by_an_answer() -> None:
    """It is listed among the holds though nothing is held, and gone for good after the answer."""
    stand, life = asked_by_a_commit()
    (shown,) = life.engine.holds()
    assert (shown.verdict, shown.answers) == (Condition.REPLAY_REQUESTED, ("replay", "dismiss"))
    name = stand.ask(RequestKind.ANSWER, shown.id, answer="dismiss")
    stand.run(1.0)
    assert stand.asked(name).state is RequestState.DONE
    assert stand.view(life).conditions == ()
    assert life.engine.holds() == []
    stand.kill(life)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "delivering")
    assert stand.view(life).conditions == ()


def test_an_answer_to_another_situation_answers_nothing() -> None:
    stand, life = asked_by_a_commit()
    name = stand.ask(RequestKind.ANSWER, "h-of-another", answer="dismiss")
    stand.run(1.0)
    assert stand.asked(name).code == "hold-unknown"
    assert stand.view(life).conditions == (Condition.REPLAY_REQUESTED,)


def test_what_cannot_be_answered_says_what_mends_it() -> None:
    """And an answer to it is refused with the same words."""
    stand = Stand(records=3)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "delivering")
    stand.kill(life)
    stand.kafka.fail("topics", DENIED, times=None)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "held")
    (shown,) = life.engine.holds()
    assert (shown.verdict, shown.answers) == (Verdict.AUTHORIZATION, ())
    assert "grant the right" in shown.mends
    assert stand.view(life).hold == shown.id
    name = stand.ask(RequestKind.ANSWER, shown.id, answer="accept")
    stand.run(1.0)
    assert (stand.asked(name).code, shown.mends in stand.asked(name).detail) == (
        "answer-impossible",
        True,
    )


# --- pause ----------------------------------------------------------------------------------------


def test_a_paused_partition_delivers_nothing_and_says_who_wants_it_so() -> None:
    """What was out is taken and committed; it stays paused across restarts, and goes on where it
    was when somebody says so."""
    stand = Stand(records=12)
    life = stand.start()
    page = stand.take(life)
    assert page is not None
    stand.ask(RequestKind.PAUSE)
    stand.run(1.0)
    assert stand.report(life, page).next == 4
    assert stand.take(life) is None
    shown = stand.view(life)
    assert (shown.state, shown.detail) == ("delivering", "paused by on-call: a test")
    assert shown.conditions == (Condition.PAUSED,)
    stand.until(lambda: stand.view(life).committed == 4, 2.0)
    stand.kill(life)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "delivering")
    assert stand.take(life) is None
    assert stand.view(life).conditions == (Condition.PAUSED,)
    name = stand.ask(RequestKind.CONTINUE)
    stand.run(1.0)
    assert stand.asked(name).state is RequestState.DONE
    assert stand.view(life).conditions == ()
    again = stand.take(life)
    assert again is not None
    assert again.first == 4


def test_a_pause_that_was_left_while_nobody_ran_stands_before_the_first_page() -> None:
    stand = Stand(records=12)
    life = stand.start()
    stand.apply(life, 4)
    stand.kill(life)
    name = stand.ask(RequestKind.PAUSE)
    life = stand.start()
    assert stand.take(life, 5.0) is None
    assert stand.asked(name).state is RequestState.DONE


def test_the_store_forgets_what_it_kept_and_nothing_is_executed_twice() -> None:
    """A request whose answer was lost with the store is judged again by what is found."""
    stand, life = at_a_gap()
    gap = stand.gap().id
    stand.ask(RequestKind.RESOLVE, gap, resolution="accepted")
    before = stand.store.snapshot()
    stand.until(lambda: stand.view(life).state == "delivering")
    stand.store.restore(before)
    stand.run(5.0)
    assert [one for one in requests(stand) if one.pending] == []


def requests(stand: Stand) -> list[Request]:
    return [*known(finished(stand.store.requests(GROUP, [ORDERS]))[ORDERS])]


# --- skip -----------------------------------------------------------------------------------------


def receipts(stand: Stand) -> dict[int, str]:
    memory = known(finished(stand.store.memory(GROUP, ORDERS, 100)))
    return {one.offset: one.outcome.value for run in memory.receipts for one in run}


def test_the_first_record_of_a_page_that_is_out_is_skipped() -> None:
    """It is kept as dropped; the rest of the page is as it was, and so is its report."""
    stand = Stand(records=6)
    life = stand.start()
    page = stand.take(life)
    assert page is not None
    name = stand.ask(RequestKind.SKIP, offset=0)
    stand.run(1.0)
    assert stand.asked(name).state is RequestState.DONE
    assert stand.view(life).next == 1
    assert stand.report(life, page).next == 4
    assert receipts(stand) == {0: "dropped", 1: "applied", 2: "applied", 3: "applied"}
    assert ("asked: skip", "on-call", "a test") in stand.audit()


def test_a_record_that_nobody_took_yet_is_skipped_also_while_paused() -> None:
    """And the overlap of the next owner matches it like any other."""
    stand = Stand(records=6)
    life = stand.start()
    stand.apply(life, 4)
    stand.ask(RequestKind.PAUSE)
    name = stand.ask(RequestKind.SKIP, offset=4)
    stand.until(lambda: not stand.asked(name).pending)
    assert stand.asked(name).state is RequestState.DONE
    stand.until(lambda: stand.view(life).next == 5)
    stand.kill(life)
    stand.ask(RequestKind.CONTINUE)
    life = stand.start()
    page = stand.take(life)
    assert page is not None
    assert page.first == 5


@pytest.mark.parametrize(("at", "says"), [(2, "the one at 4"), (5, "the one at 4")])
def test_only_the_head_of_the_line_can_be_skipped(at: int, says: str) -> None:
    stand = Stand(records=6)
    life = stand.start()
    stand.apply(life, 4)
    name = stand.ask(RequestKind.SKIP, offset=at)
    stand.run(1.0)
    assert (stand.asked(name).state, stand.asked(name).code) == (
        RequestState.REFUSED,
        "request-refused",
    )
    assert says in stand.asked(name).detail
    assert stand.view(life).next == 4


def test_what_is_not_there_cannot_be_skipped() -> None:
    stand = Stand(records=4)
    life = stand.start()
    stand.apply(life, 4)
    stand.run(2.0)
    name = stand.ask(RequestKind.SKIP, offset=4)
    stand.run(1.0)
    assert "the log ends at 4" in stand.asked(name).detail


def test_what_is_asked_of_a_partition_that_everybody_forgot_is_answered_once() -> None:
    """Its owner still knew a checkpoint that stands nowhere any more, and compared with that."""
    stand = Stand(records=8)
    stand.kafka.reset_offset(GROUP, ORDERS, 2)
    life = stand.start(start=Start.REFUSE)
    stand.apply(life, 4)
    stand.kafka.recreate_topic(TOPIC)
    stand.store.flush()
    stand.kafka.elect(TOPIC, 0)
    stand.until(lambda: stand.view(life).verdict is Verdict.START_REFUSED)
    name = stand.ask(RequestKind.RESOLVE, "no gap", resolution="accepted")
    stand.until(lambda: not stand.asked(name).pending, 5.0)
    assert stand.asked(name).code == "gap-changed"


@pytest.mark.parametrize("by_answer", [True, False], ids=["answered", "skipped"])
def test_a_record_that_cannot_be_read_is_passed_as_an_accepted_gap(by_answer: bool) -> None:
    """By answering what it was held for or by naming its offset; never in silence. The next owner
    recovers behind it."""
    stand = Stand(records=9)
    stand.kafka.poison(TOPIC, 0, 4)
    life = stand.start()
    stand.apply(life, 4)
    stand.until(lambda: stand.view(life).state == "held")
    assert stand.view(life).verdict is Verdict.BLOCKED_RECORD
    if by_answer:
        name = stand.ask(RequestKind.ANSWER, hold_of(life), answer="skip")
    else:
        name = stand.ask(RequestKind.SKIP, offset=4)
    stand.until(lambda: stand.view(life).next == 5, 2.0)
    assert stand.asked(name).state is RequestState.DONE
    (gap,) = known(finished(stand.store.gaps(GROUP)))
    assert gap.resolution is not None
    assert (gap.interval, gap.state, gap.resolution.by) == (
        Interval(Offset(4), Offset(5)),
        "resolved",
        "on-call",
    )
    stand.apply(life, 4)
    stand.kill(life)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "delivering")
    assert stand.view(life).next == 9


@pytest.mark.parametrize("applied", [False, True], ids=["next", "in the overlap"])
def test_a_log_that_is_rewound_under_a_record_that_was_passed_is_found_out(applied: bool) -> None:
    """A record that cannot be read takes nothing along of what is remembered around it."""
    stand = Stand(records=9)
    life = stand.start()
    stand.kafka.poison(TOPIC, 0, 4)
    stand.apply(life, 4)
    if applied:
        stand.kafka.log(TOPIC, 0).poisoned.clear()
        stand.run(61.0)
        stand.apply(life, 4)
        stand.kill(life)
        stand.kafka.poison(TOPIC, 0, 4)
        life = stand.start()
    stand.until(lambda: stand.view(life).verdict is Verdict.BLOCKED_RECORD)
    name = stand.ask(RequestKind.SKIP, offset=4)
    stand.until(lambda: stand.view(life).state == "delivering")
    assert stand.asked(name).state is RequestState.DONE
    stand.kill(life)
    stand.kafka.rewind(TOPIC, 0, 2)
    for at in range(12):
        stand.kafka.produce(TOPIC, 0, b"other %d" % at)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "gap")
    assert stand.view(life).verdict is Verdict.LOG_DIVERGED
    assert stand.gap().evidence["last_matching"] == 1
    assert stand.gap().evidence["first_differing"] == 2


def test_what_was_passed_and_can_be_read_again_one_day_is_no_difference() -> None:
    stand = Stand(records=9)
    life = stand.start()
    stand.kafka.poison(TOPIC, 0, 4)
    stand.apply(life, 4)
    stand.ask(RequestKind.SKIP, offset=4)
    stand.until(lambda: stand.view(life).next == 5)
    stand.apply(life, 4)
    stand.kill(life)
    stand.kafka.log(TOPIC, 0).poisoned.clear()
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "delivering")
    assert stand.view(life).next == 9


def test_a_report_that_is_recorded_is_not_lost_with_what_comes_behind_it() -> None:
    """It waits for its commit while the partition is held: told what stands, not `page-lost`."""
    stand = Stand(records=9)
    stand.kafka.poison(TOPIC, 0, 4)
    life = stand.start()
    page = stand.take(life)
    assert page is not None
    assert stand.report(life, page, wait_committed=True).next == 4
    assert stand.view(life).verdict is Verdict.BLOCKED_RECORD


def test_a_record_of_the_overlap_that_cannot_be_read_any_more_is_not_compared() -> None:
    """It was applied: nothing is lost with it, and nothing is declared lost."""
    stand = Stand(records=9)
    life = stand.start()
    stand.apply(life, 4)
    stand.kill(life)
    stand.kafka.poison(TOPIC, 0, 2)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "held")
    stand.ask(RequestKind.ANSWER, hold_of(life), answer="skip")
    stand.until(lambda: stand.view(life).state == "delivering")
    assert stand.view(life).next == 4
    assert known(finished(stand.store.gaps(GROUP))) == []
    stand.apply(life, 4)


# --- replay ---------------------------------------------------------------------------------------


def ask_again(stand: Stand, first: int | None, end: int) -> RequestId:
    arguments: dict[str, Any] = {"from": first, "to": end}
    return stand.ask(RequestKind.REPLAY, **arguments)


NONE = "the interval is none: `from` has to be below `to`"


@pytest.mark.parametrize(
    ("first", "end", "why"),
    [
        (4, 4, NONE),
        (6, 2, NONE),
        (-1, 3, NONE),
        (None, 3, NONE),
        (0, 9, "only what was applied can be delivered again, and the position is 8"),
    ],
)
def test_only_what_was_applied_is_delivered_again(first: int | None, end: int, why: str) -> None:
    """Not one record more; and it is said why."""
    stand = Stand(records=12)
    life = stand.start()
    stand.apply(life, 8)
    name = ask_again(stand, first, end)
    stand.run(1.0)
    refused = stand.asked(name)
    assert (refused.state, refused.detail) == (RequestState.REFUSED, why)


def replayed(stand: Stand, life: Process) -> list[int]:
    """Takes and applies what comes, as long as something does."""
    offsets: list[int] = []
    while (page := stand.take(life)) is not None:
        assert all(offset < page.redelivered_below for offset in page.offsets)
        offsets += page.offsets
        stand.report(life, page)
    return offsets


def test_an_interval_is_delivered_again_flagged_and_nothing_moves() -> None:
    """Under the keys of old, before anything new; then the partition goes on where it stood."""
    stand = Stand(records=12)
    life = stand.start()
    first = stand.take(life)
    assert first is not None
    stand.report(life, first)
    stand.apply(life, 4)
    before, generation = receipts(stand), stand.view(life).next
    name = ask_again(stand, 1, 6)
    stand.run(1.0)
    shown = stand.view(life)
    assert (shown.state, shown.detail) == (
        "delivering",
        "delivering [1, 6) again for on-call: at 1",
    )
    assert Condition.REPLAYING in shown.conditions
    page = stand.take(life)
    assert page is not None
    assert list(page.offsets) == [1, 2, 3, 4]
    assert page.redelivered_below > 4
    assert page.key_prefixes == first.key_prefixes
    answer = stand.report(life, page)
    assert (answer.applied, answer.next) == (7, 8)
    assert stand.asked(name).pending
    rest = stand.take(life)
    assert rest is not None
    assert list(rest.offsets) == [5]
    stand.report(life, rest)
    stand.until(lambda: not stand.asked(name).pending, 2.0)
    assert stand.asked(name).detail == "[1, 6) was delivered again"
    assert (receipts(stand), stand.view(life).next) == (before, generation)
    assert stand.view(life).committed == 8
    page = stand.take(life, 3.0)
    assert page is not None
    assert page.first == 8
    assert stand.view(life).conditions == ()


def test_a_replay_goes_on_where_it_was_after_its_owner_died() -> None:
    """And nobody is caught up while it pends."""
    stand = Stand(records=8)
    life = stand.start()
    stand.apply(life, 8)
    stand.until(lambda: stand.view(life).caught_up)
    name = ask_again(stand, 0, 8)
    stand.run(1.0)
    assert not stand.view(life).caught_up
    page = stand.take(life)
    assert page is not None
    stand.report(life, page)
    stand.kill(life)
    life = stand.start()
    assert replayed(stand, life) == [4, 5, 6, 7]
    assert stand.asked(name).state is RequestState.DONE
    stand.until(lambda: stand.view(life).caught_up)


def test_a_replay_goes_on_without_its_request_where_the_store_went_back() -> None:
    """The owner had heard of it, and wrote it down over the older copy, which does not know the
    request. Nothing else is delivered before it is done, so the next owner goes on with it."""
    stand = Stand(records=8)
    life = stand.start()
    stand.apply(life, 4)
    page = stand.take(life)
    assert page is not None
    before = stand.store.snapshot()
    ask_again(stand, 0, 2)
    stand.run(1.0)
    stand.store.restore(before)
    stand.report(life, page)
    stand.run(0.1)
    shown = stand.view(life).detail
    assert shown == "delivering [0, 2) again for on-call: at 0"
    assert known(finished(stand.store.requests(GROUP, [ORDERS]))[ORDERS]) == []
    stand.kill(life)
    life = stand.start()
    assert replayed(stand, life) == [0, 1]
    stand.produce(1)
    stand.apply(life, 1)
    stand.until(lambda: stand.view(life).caught_up)
    assert stand.view(life).conditions == ()


def test_a_replay_whose_rest_is_gone_is_done_and_says_so() -> None:
    """The log start may lie beyond its end by the time it goes on."""
    stand = Stand(records=12)
    life = stand.start()
    stand.apply(life, 12)
    name = ask_again(stand, 0, 6)
    stand.run(1.0)
    page = stand.take(life)
    assert page is not None
    stand.report(life, page)
    stand.kill(life)
    stand.kafka.delete_records(TOPIC, 0, 8)
    life = stand.start()
    assert replayed(stand, life) == []
    assert stand.asked(name).detail == "[0, 6) was delivered again; 2 offsets of it were gone"
    stand.until(lambda: stand.view(life).caught_up)


def test_a_replay_does_not_end_before_it_is_known_whether_its_request_pends() -> None:
    """After a store went back, requests are read anew before any is executed; a replay that ended
    meanwhile would leave its request to be executed a second time."""
    stand = Stand(records=12)
    life = stand.start()
    stand.apply(life, 12)
    stand.ask(RequestKind.CONTINUE)
    name = ask_again(stand, 0, 6)
    stand.run(1.0)
    before = stand.store.snapshot()
    page = stand.take(life)
    assert page is not None
    stand.report(life, page)
    stand.kafka.delete_records(TOPIC, 0, 8)
    stand.store.restore(before)
    stand.until(lambda: not stand.asked(name).pending)
    assert stand.asked(name).detail == "[0, 6) was delivered again; 6 offsets of it were gone"


def test_a_page_that_is_out_is_finished_before_a_replay_begins() -> None:
    stand = Stand(records=12)
    life = stand.start()
    stand.apply(life, 4)
    page = stand.take(life)
    assert page is not None
    ask_again(stand, 0, 2)
    stand.run(1.0)
    assert stand.report(life, page).next == 8
    again = stand.take(life)
    assert again is not None
    assert list(again.offsets) == [0, 1]


def test_what_the_log_no_longer_holds_of_an_interval_is_said() -> None:
    stand = Stand(records=8)
    life = stand.start()
    stand.apply(life, 8)
    stand.kafka.delete_records(TOPIC, 0, 3)
    stand.run(2.0)
    name = ask_again(stand, 1, 8)
    stand.run(1.0)
    assert replayed(stand, life) == [3, 4, 5, 6, 7]
    assert stand.asked(name).detail == "[1, 8) was delivered again; 2 offsets of it were gone"
    gone = ask_again(stand, 1, 3)
    stand.run(1.0)
    assert "the log begins at 3" in stand.asked(gone).detail


def test_a_replay_ends_when_the_log_start_passes_all_that_is_left_of_it() -> None:
    stand = Stand(records=12)
    life = stand.start()
    stand.apply(life, 8)
    name = ask_again(stand, 1, 4)
    stand.run(1.0)
    stand.kafka.delete_records(TOPIC, 0, 6)
    stand.kafka.elect(TOPIC, 0)
    stand.until(lambda: not stand.asked(name).pending, 3.0)
    assert stand.asked(name).detail == "[1, 4) was delivered again; 3 offsets of it were gone"
    page = stand.take(life)
    assert page is not None
    assert page.first == 8


def test_a_leader_that_changes_interrupts_a_replay_and_loses_nothing_of_it() -> None:
    stand = Stand(records=8)
    life = stand.start()
    stand.apply(life, 8)
    name = ask_again(stand, 0, 8)
    stand.run(1.0)
    page = stand.take(life)
    assert page is not None
    stand.kafka.elect(TOPIC, 0)
    stand.run(1.0)
    assert replayed(stand, life) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert stand.asked(name).state is RequestState.DONE


def test_a_record_that_cannot_be_read_ends_a_replay_and_not_the_partition() -> None:
    stand = Stand(records=9)
    life = stand.start()
    stand.apply(life, 8)
    stand.run(2.0)
    stand.kafka.poison(TOPIC, 0, 2)
    name = ask_again(stand, 2, 4)
    stand.run(1.0)
    assert stand.asked(name).state is RequestState.REFUSED
    assert "the record at 2 cannot be read" in stand.asked(name).detail


def test_a_replay_that_somebody_asked_for_by_committing_is_granted_by_an_answer() -> None:
    """The interval between the foreign offset and ours; then it is asked for no more."""
    stand = Stand(records=12)
    life = stand.start()
    stand.apply(life, 8)
    stand.kill(life)
    stand.kafka.reset_offset(GROUP, ORDERS, 5)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "delivering")
    name = stand.ask(RequestKind.ANSWER, hold_of(life), answer="replay")
    stand.run(1.0)
    page = stand.take(life)
    assert page is not None
    assert list(page.offsets) == [5, 6, 7]
    stand.report(life, page)
    stand.until(lambda: not stand.asked(name).pending)
    assert stand.asked(name).state is RequestState.DONE
    assert life.engine.holds() == []


def test_what_lies_before_the_history_is_not_delivered_again() -> None:
    """Only what was applied here: a group that was adopted at 8 has no records below it."""
    stand = Stand(records=12)
    stand.kafka.reset_offset(GROUP, ORDERS, 8)
    life = stand.start()
    stand.apply(life, 4)
    assert stand.view(life).next == 12
    name = ask_again(stand, 4, 10)
    stand.run(1.0)
    refused = stand.asked(name)
    assert refused.state is RequestState.REFUSED
    assert refused.detail == "the history of the partition begins at 8"
    assert replayed(stand, life) == []


def test_a_store_that_forgets_a_gap_before_a_commit_names_it_renames_nothing() -> None:
    """Who watches the gap, and who decides it by its name, goes on with it."""
    stand = Stand(records=12)
    life = stand.start()
    stand.apply(life, 4)
    stand.kill(life)
    stand.kafka.delete_records(TOPIC, 0, 8)
    stand.kafka.fail("commit", AWAY, times=None)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "gap")
    gap = stand.gap().id
    stand.store.flush()
    stand.until(lambda: len([f for f in life.facts if isinstance(f, GapOpened)]) == 2)
    assert stand.gap().id == gap
    name = stand.ask(RequestKind.RESOLVE, gap, resolution="accepted")
    stand.until(lambda: not stand.asked(name).pending)
    assert stand.asked(name).state is RequestState.DONE
