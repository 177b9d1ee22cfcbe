"""The checker finds each kind of fault, and nothing where there is none."""

from dataclasses import dataclass

import pytest

from tests.harness.application import Effect, digest
from tests.harness.checker import Produced, account


@dataclass
class _Gap:
    first: int
    end: int | None
    topic: str = "t"
    partition: int = 0
    state: str = "open"


def _produced(count: int = 4) -> Produced:
    produced = Produced()
    produced.note("t", 0, list(range(count)), [_value(i) for i in range(count)])
    return produced


def _value(offset: int) -> bytes:
    return b"v%d" % offset


def _effect(
    offset: int, *, again: bool = False, key: str = "", value: bytes | None = None
) -> Effect:
    shown = digest(_value(offset) if value is None else value)
    return Effect("t", 0, offset, key or f"id/0/0/{offset}", shown, again, 1, "p", "app")


WHOLE = [_effect(i) for i in range(4)]


def test_all_applied_once_is_well() -> None:
    found = account(_produced(), WHOLE).check()
    assert (found.produced, found.applied, found.repeated_flagged, found.in_gaps) == (4, 4, 0, 0)


def test_a_repetition_that_is_flagged_is_well() -> None:
    assert account(_produced(), [*WHOLE, _effect(1, again=True)]).check().repeated_flagged == 1


def test_a_record_in_a_gap_is_accounted_for_whatever_became_of_the_gap() -> None:
    for gap in (_Gap(2, 4), _Gap(2, None), _Gap(2, 4, state="resolved")):
        assert account(_produced(), WHOLE[:2], [gap]).check().in_gaps == 2


def test_what_was_declared_may_be_had_later() -> None:
    later = [_effect(0), _effect(2), _effect(3), _effect(1, again=True)]
    assert account(_produced(), later, [_Gap(1, 2, state="resolved")]).check().applied == 4


@pytest.mark.parametrize(
    ("effects", "gaps", "fault"),
    [
        (WHOLE[:3], [], "unaccounted"),
        (WHOLE[:3], [_Gap(3, 4, state="superseded")], "unaccounted"),
        (WHOLE[:3], [_Gap(3, 4, partition=1)], "unaccounted"),
        (WHOLE[:3], [_Gap(2, 3)], "unaccounted"),
        ([*WHOLE, _effect(2)], [], "redelivery_flagged"),
        ([_effect(0), _effect(2), _effect(1), _effect(3)], [], "order"),
        ([_effect(0), _effect(2), _effect(1), _effect(3)], [_Gap(2, 3)], "order"),
        ([*WHOLE, _effect(9)], [], "phantom"),
        ([*WHOLE[:3], _effect(3, value=b"other")], [], "content"),
        ([*WHOLE, _effect(1, again=True, key="id/1/0/1")], [], "key"),
        ([*WHOLE[:3], _effect(3, key="id/0/0/1")], [], "key"),
    ],
)
def test_each_fault_is_found(effects: list[Effect], gaps: list[_Gap], fault: str) -> None:
    found = account(_produced(), effects, gaps)
    assert [line.split(":")[0] for line in found.faults] == [fault]
    with pytest.raises(AssertionError, match=fault):
        found.check()
