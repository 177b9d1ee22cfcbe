"""The account: each record in exactly one place, and a complaint for each that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.demo import application
from sidecar.demo.ledger import Ledger, Line, Lost, Row, account

GAP = Lost(0, 3, 5)
PRODUCED = {(0, offset): 100 + offset for offset in range(5)}
APPLIED = [Line(0, offset, 100 + offset, False) for offset in range(3)]


def test_every_record_is_applied_or_twice_and_flagged_or_in_a_gap() -> None:
    """The three places, and nothing else."""
    told = account(PRODUCED, [*APPLIED, Line(0, 2, 102, True)], [GAP])
    assert told.complaints == ()
    assert told.total == told.rows[0] == Row(5, 2, 1, 2, 0)


@pytest.mark.parametrize(
    ("lines", "gaps", "complaint"),
    [
        (APPLIED, [], "offset 3: never applied, and in no gap"),
        (APPLIED, [Lost(1, 3, 5)], "offset 3: never applied, and in no gap"),
        ([*APPLIED, APPLIED[0]], [GAP], "offset 0: applied 2×, flagged 0×"),
        ([*APPLIED, Line(0, 3, 103, False)], [GAP], "offset 3: applied 1×, and declared lost"),
        ([*APPLIED, *[Line(0, 0, 100, True)] * 2], [GAP], "offset 0: applied 3×, flagged 2×"),
        ([*APPLIED[:2], Line(0, 2, 999, False)], [GAP], "offset 2: applied as another order"),
        ([*APPLIED, Line(0, 7, 107, False)], [GAP], "offset 7: applied 1×, never produced"),
    ],
    ids=["lost", "another-gap", "unflagged", "both", "thrice", "another-order", "invented"],
)
def test_what_is_in_no_place_or_in_two_is_unaccounted_for(
    lines: list[Line], gaps: list[Lost], complaint: str
) -> None:
    """Also a flag that came first, or a record that nobody wrote."""
    told = account(PRODUCED, lines, gaps)
    assert told.unaccounted > 0
    assert complaint in told.complaints[0]
    total = told.total
    places = total.applied + total.applied_twice_flagged + total.in_gaps + total.unaccounted
    assert total.produced == places == len(PRODUCED)


def test_a_first_application_that_is_flagged_counts_once() -> None:
    """Flagged means that it may have been handed out before, not that it was applied."""
    told = account({(0, 0): 1}, [Line(0, 0, 1, True)], [])
    assert told.total == Row(1, 1, 0, 0, 0)


def test_half_a_line_is_no_line_and_is_cut_by_the_next_start(tmp_path: Path) -> None:
    """A kill in the middle of a write leaves an order that was never reported."""
    path = tmp_path / "ledger"
    entry = {"partition": 0, "offset": 0, "order": 1, "key": "k", "redelivered": False}
    application.Ledger(path).book(entry)
    with path.open("ab") as file:
        file.write(b'{"partition": 0, "offs')
    read = Ledger(path)
    assert read.refresh() == [Line(0, 0, 1, False)]
    application.Ledger(path).book(entry | {"offset": 1, "redelivered": True})
    assert read.refresh() == [Line(0, 0, 1, False), Line(0, 1, 1, True)]
    assert read.applied(0) == {0, 1}
