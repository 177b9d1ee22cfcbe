"""What an engine holds does not depend on how much it has delivered.

Every object that can be reached from the engine is counted after so many rounds of a habit, and
after as many again. Whatever remembers something for
each page, report, poll, commit, question or assignment makes the second count the larger one,
long before any process has grown by a megabyte.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, ModuleType

import pytest

from sidecar.core.types import Offset, Outcome, PageId
from sidecar.core.views import AllApplied, Each, Refusal, ReportAnswer
from sidecar.engine import messages as m
from tests.engine.rig import Rig

ROUNDS = 60
"""More than anything is kept of that is kept by number."""
SLACK = 25
"""Objects that the count may differ by: a number that no longer is a small one, a record that is
just in hand. Fewer than one for every second round."""

_CODE = (type, ModuleType, FunctionType, BuiltinFunctionType)


def held(root: object) -> int:
    """Objects that can be reached from here; not through code."""
    seen: set[int] = set()
    found = [root]
    while found:
        one = found.pop()
        if id(one) not in seen and not isinstance(one, _CODE):
            seen.add(id(one))
            found += gc.get_referents(one)
    return len(seen)


def _applied(rig: Rig) -> None:
    rig.produce(1)
    rig.run(0.5)
    assert isinstance(rig.report(rig.page()), ReportAnswer)


def _reported_twice(rig: Rig) -> None:
    rig.produce(1)
    rig.run(0.5)
    page = rig.page()
    assert isinstance(rig.report(page), ReportAnswer)
    assert isinstance(rig.report(page), ReportAnswer)


def _retried(rig: Rig) -> None:
    """Handed out again until it is applied, as an application does that is in trouble."""
    rig.produce(1)
    rig.run(0.5)
    assert isinstance(rig.report(rig.page(), AllApplied(Outcome.RETRY)), ReportAnswer)
    rig.run(rig.policy.retry_seconds_max)
    assert isinstance(rig.report(rig.page()), ReportAnswer)


def _never_reported(rig: Rig) -> None:
    rig.produce(1)
    rig.run(0.5)
    rig.page()
    rig.run(rig.policy.page_deadline_seconds)
    assert isinstance(rig.report(rig.page()), ReportAnswer)


def _in_pieces(rig: Rig) -> None:
    """The last record first, so that the store holds receipts beyond the position."""
    rig.produce(3)
    rig.run(0.5)
    page = rig.page()
    for offset in reversed(page.offsets):
        rig.report(page, Each([(Offset(offset), Outcome.APPLIED)]))


def _given_up(rig: Rig) -> None:
    """A long poll that nobody waits for any more, and a page that nobody knows."""
    assert rig.no_page()
    said = AllApplied(Outcome.APPLIED)
    asked = rig.ask(lambda n: m.Reported(n, PageId(f"other-page{n}-0"), said, False))
    assert isinstance(rig.answers[asked], Refusal)
    rig.run(0.5)


def _lost_and_found(rig: Rig) -> None:
    """The partition goes and comes, with a page out that nobody will report."""
    rig.produce(1)
    rig.run(0.5)
    rig.page()
    rig.kafka.expel(rig.fetcher)
    rig.kafka.join(rig.fetcher)
    rig.run(1.0)
    assert isinstance(rig.report(rig.page()), ReportAnswer)


HABITS = [
    _applied,
    _reported_twice,
    _retried,
    _never_reported,
    _in_pieces,
    _given_up,
    _lost_and_found,
]


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.__name__.strip("_"))
def test_an_engine_holds_no_more_after_twice_as_many_rounds(habit: Callable[[Rig], None]) -> None:
    rig = Rig(retry_seconds_max=0.5, page_deadline_seconds=1.0)
    rig.run(1.0)
    counts = []
    for _ in range(3):
        for _ in range(ROUNDS):
            habit(rig)
        rig.run(1.0)
        counts.append(held(rig.engine))
    assert counts[2] - counts[1] < SLACK, f"{counts} objects after each {ROUNDS} rounds"
