"""The table of a recovery: complete, closed, and every phase can be left."""

from __future__ import annotations

from itertools import product

from sidecar.core.recovery import STATES, TRANSITIONS, Phase, Step, after


def test_every_phase_is_shown_as_a_state() -> None:
    assert set(STATES) == set(Phase)


def test_every_phase_can_be_reached_and_left() -> None:
    """From the first look, nothing is a dead end: a look can follow from everywhere."""
    reached, edge = {Phase.LOOKING}, [Phase.LOOKING]
    while edge:
        phase = edge.pop()
        for (before, _), then in TRANSITIONS.items():
            if before is phase and then not in reached:
                reached.add(then)
                edge.append(then)
    assert reached == set(Phase)
    assert {before for before, _ in TRANSITIONS} == set(Phase)


def test_delivery_begins_only_behind_a_verified_overlap() -> None:
    into = {before for (before, _), then in TRANSITIONS.items() if then is Phase.DELIVERING}
    assert into == {Phase.CONCLUDING, Phase.COMMITTING}


def test_nothing_is_read_before_the_claim() -> None:
    """The claim is the only way from a look to reading, except for a live owner's, and under an
    open gap, where nothing is delivered and opening it was a claim."""
    reading = {(b, s) for (b, s), then in TRANSITIONS.items() if then is Phase.REMEMBERING}
    assert reading == {
        (Phase.CLAIMING, Step.CLAIMED),
        (Phase.LOOKING, Step.CHECK),
        (Phase.CONCLUDING, Step.WIDEN),
    }
    into = {(b, s) for (b, s), then in TRANSITIONS.items() if then is Phase.VERIFYING}
    assert into == {(Phase.LOOKING, Step.CONFIRMED), (Phase.REMEMBERING, Step.REMEMBERED)}


def test_what_is_not_in_the_table_leads_nowhere() -> None:
    for phase, step in product(Phase, Step):
        assert after(phase, step) == TRANSITIONS.get((phase, step))
