"""What people ask, while an answer is on its way or what they speak of changes under them."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.core.policy import Adopt
from sidecar.core.recovery import Phase
from sidecar.core.request import Request, RequestId, RequestKind, RequestState
from sidecar.core.types import Condition, Offset, Verdict
from sidecar.core.views import PageOffer, Refusal, Refused
from sidecar.engine import messages as m
from sidecar.ports import Revoked
from tests.engine.process import GROUP, ORDERS, TOPIC, finished, known
from tests.engine.rig import Rig
from tests.fakes.store import Mishap

OF_ALL: dict[str, Any] = {"from": 0, "to": 3}
"""Of what is applied at rest."""


def resting() -> Rig:
    """Three records of nine applied, and committed."""
    rig = Rig()
    rig.produce(9)
    rig.run(1.0)
    rig.consume(1)
    rig.run(2.0)
    assert rig.committed == 3
    return rig


def leave(rig: Rig, name: str, kind: RequestKind, target: str = "", **arguments: Any) -> None:
    at = rig.clock().wall
    left = Request(RequestId(name), GROUP, ORDERS, kind, target, "on-call", "a test", at, arguments)
    finished(rig.store.leave(left))


def asked(rig: Rig, name: str) -> Request:
    kept = known(finished(rig.store.requests(GROUP, [ORDERS]))[ORDERS])
    return next(one for one in kept if one.id == name)


def test_a_request_whose_answer_is_on_its_way_is_not_executed_again() -> None:
    """What is read of the store a moment later, for another request, still shows it pending."""
    rig = resting()
    rig.withholding = (m.AnswerRequest,)
    leave(rig, "first", RequestKind.SKIP, offset=8)
    rig.run(1.0)
    leave(rig, "second", RequestKind.SKIP, offset=7)
    rig.run(2.0)
    assert [question.request.id for question in rig.withheld] == ["first", "second"]


def test_a_refusal_that_may_stand_is_not_taken_back_by_what_was_read_before_it() -> None:
    """Its reply was lost, and the position moved on meanwhile: what was refused would be possible
    now. Only what is read of the store after the loss tells whether the refusal stands."""
    rig = resting()
    rig.withholding = (m.AnswerRequest, m.AskOwners)
    beyond: dict[str, Any] = {"from": 0, "to": 4}
    leave(rig, "again", RequestKind.REPLAY, **beyond)
    rig.run(1.0)
    (heard,) = rig.withheld
    rig.answer(heard)
    rig.run(1.0)
    refusal, watch = rig.withheld
    before = m.OwnersAnswered(
        watch.ask,
        finished(rig.store.watch(GROUP, [ORDERS])),
        rig.now,
        finished(rig.store.requests(GROUP, [ORDERS])),
    )
    rig.consume(1)
    rig.store.fail(Mishap.REPLY_LOST, method="answer_request")
    rig.answer(refusal)
    rig.give(before)
    rig.withholding = ()
    rig.run(2.0)
    assert asked(rig, "again").state is RequestState.REFUSED
    assert rig.page().offsets[0] == 6


def test_what_was_refused_meanwhile_is_not_executed_by_a_write_that_comes_late() -> None:
    """An attempt that is over left the write behind; who asked was told of the refusal."""
    rig = resting()
    rig.withholding = (m.PerformInstall,)
    leave(rig, "pause", RequestKind.PAUSE)
    rig.run(1.0)
    (writing,) = rig.withheld
    refusal = Refusal(Refused.REQUEST_REFUSED, "by the attempt after it")
    refused = asked(rig, "pause").refused(refusal, at=rig.clock().wall)
    finished(rig.store.answer_request(refused, owner=rig.stored.owner))
    rig.withholding = ()
    rig.answer(writing)
    assert rig.no_page()
    rig.run(2.0)
    assert asked(rig, "pause") == refused
    assert rig.stored.paused is None
    assert rig.page().offsets[0] == 3


def test_a_partition_that_is_given_back_executes_nothing_more() -> None:
    """The write that was under way stands; what is asked after it is the next owner's."""
    rig = resting()
    rig.withholding = (m.PerformInstall,)
    leave(rig, "pause", RequestKind.PAUSE)
    rig.now += 0.01
    leave(rig, "continue", RequestKind.CONTINUE)
    rig.run(1.0)
    (writing,) = rig.withheld
    rig.give(Revoked((ORDERS,), lost=False, answer=lambda _: None))
    rig.answer(writing)
    assert rig.withheld == []
    assert asked(rig, "pause").state is RequestState.DONE
    assert asked(rig, "continue").pending


def test_an_answer_lets_nothing_pass_but_what_it_was_given_to() -> None:
    """The group commits elsewhere between the answer and the look that it leads to."""
    rig = Rig(adopt=Adopt.HOLD)
    rig.produce(9)
    rig.kafka.reset_offset(GROUP, ORDERS, 3)
    rig.run(1.0)
    (held,) = rig.engine.holds()
    assert held.verdict is Verdict.ADOPTED
    rig.withholding = (m.Look,)
    leave(rig, "answer", RequestKind.ANSWER, held.id, answer="commit")
    rig.run(1.0)
    rig.kafka.reset_offset(GROUP, ORDERS, 5)
    rig.withholding = ()
    rig.answer(rig.withheld[-1])
    rig.run(1.0)
    assert asked(rig, "answer").code == "hold-unknown"
    assert rig.cursor.phase is Phase.HELD
    assert rig.committed == 5


def test_nothing_new_is_delivered_while_a_replay_is_being_written() -> None:
    """Also where the store went back meanwhile and knows its request no more: what was begun is
    delivered all the same, and then what is new."""
    rig = resting()
    before = rig.store.snapshot()
    leave(rig, "replay", RequestKind.REPLAY, **OF_ALL)
    rig.withholding = (m.PerformInstall,)
    rig.run(1.0)
    (writing,) = rig.withheld
    rig.store.restore(before)
    rig.run(2.0)
    assert rig.no_page()
    rig.withholding = ()
    rig.answer(writing)
    rig.run(2.0)
    again = rig.page()
    assert (list(again.offsets), again.redelivered_below) == ([0, 1, 2], 3)
    rig.report(again)
    rig.run(2.0)
    assert rig.stored.replaying is None
    assert rig.stored.token.next == 3
    assert list(rig.page().offsets) == [3, 4, 5]


def ticks(rig: Rig, count: int) -> None:
    """Time passes, and nothing is fetched."""
    for _ in range(count):
        rig.now += 0.25
        rig.give(m.Tick())


def test_no_record_is_skipped_while_a_replay_stands() -> None:
    """An older request waited for its record to come. Its owner died over the beginning of the
    replay, and the next one has the record in hand."""
    rig = resting()
    rig.consume(2)
    rig.run(2.0)
    rig.produce(1)
    ticks(rig, 8)
    leave(rig, "skip", RequestKind.SKIP, offset=9)
    leave(rig, "replay", RequestKind.REPLAY, **OF_ALL)
    rig.withholding = (m.PerformInstall,)
    ticks(rig, 8)
    (writing,) = rig.withheld
    finished(rig.store.install(writing.install))
    assert rig.stored.replaying is not None
    assert asked(rig, "skip").pending
    after = rig.next_life("next")
    after.run(2.0)
    assert asked(after, "skip").code == "request-refused"
    assert after.stored.token.next == 9
    assert list(after.page().offsets) == [0, 1, 2]


def test_a_resolution_decides_the_gap_it_names_and_no_other() -> None:
    rig = resting()
    rig.kafka.delete_records(TOPIC, 0, 8)
    again = rig.next_life("next")
    (gap,) = again.gaps
    leave(again, "other", RequestKind.RESOLVE, f"{gap.id}-other", resolution="accepted")
    again.run(2.0)
    assert asked(again, "other").code == "gap-changed"
    assert [standing.id for standing in again.gaps] == [gap.id]


@pytest.mark.parametrize("offset", [3, 5])
def test_only_the_very_record_that_cannot_be_read_is_passed(offset: int) -> None:
    rig = Rig()
    rig.produce(9)
    rig.kafka.poison(TOPIC, 0, 4)
    rig.run(1.0)
    rig.report(rig.page())
    rig.run(1.0)
    while rig.cursor.phase is not Phase.HELD:
        rig.report(rig.page())
        rig.run(1.0)
    leave(rig, "skip", RequestKind.SKIP, offset=offset)
    rig.run(1.0)
    assert (asked(rig, "skip").code, rig.stored.token.next) == ("request-refused", 4)


def test_who_gives_a_partition_back_replaces_no_foreign_commit_that_is_not_written_down() -> None:
    """It was seen and the store does not know of it yet: the next owner sees it, too."""
    rig = resting()
    rig.kafka.reset_offset(GROUP, ORDERS, 1)
    for _ in range(200):
        rig.now += 0.25
        rig.give(m.Tick())
        while rig.fetcher.pump() and not seen(rig):
            pass
        if seen(rig):
            break
    assert seen(rig)
    given: list[Any] = []
    rig.give(Revoked((ORDERS,), lost=False, answer=given.append))
    rig.run(1.0)
    assert given == [{}]
    again = rig.next_life("next")
    assert again.stored.replay is not None
    assert again.stored.replay.first == Offset(1)
    assert Condition.REPLAY_REQUESTED in again.cursor.conditions


def seen(rig: Rig) -> bool:
    return rig.cursor.asked_replay is not None and rig.cursor.phase is Phase.DELIVERING


def test_a_page_that_is_out_is_taken_though_the_partition_is_paused_and_none_follows() -> None:
    rig = resting()
    offer = rig.page()
    assert isinstance(offer, PageOffer)
    leave(rig, "pause", RequestKind.PAUSE)
    rig.run(1.0)
    rig.report(offer)
    rig.run(1.0)
    assert rig.stored.token.next == 6
    assert rig.no_page()
