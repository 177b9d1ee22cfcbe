"""A schedule that breaks something is cut down to one that a person can follow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.core.policy import Policy
from sidecar.core.types import Token
from sidecar.engine.cursor import Cursor
from sidecar.ports import CommitRequest
from tests.simulation import history
from tests.simulation.schedule import run_seed

SHORTER = 4
"""How many times: a member joins, a page is read, handed out and applied, a commit is made."""


@pytest.fixture
def commits_before_it_promotes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that takes a report for a promotion."""
    shipped = Cursor.commit_request

    def early(self: Cursor, policy: Policy) -> CommitRequest:
        checkpoint, hand = self.checkpoint, self.hand
        if checkpoint is None or hand is None or hand.page is None or not hand.page.resolved:
            return shipped(self, policy)
        ahead = Token(hand.frontier, checkpoint.token.epoch)
        self.checkpoint = replace(checkpoint, token=ahead)
        try:
            return shipped(self, policy)
        finally:
            self.checkpoint = checkpoint

    monkeypatch.setattr(Cursor, "commit_request", early)


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("commits_before_it_promotes")
def test_a_broken_engine_is_found_and_its_history_shrunk(tmp_path: Path) -> None:
    """The same history every time; it breaks the same invariant when it is read back from its
    file, and is told move by move."""
    seed = next(s for s in range(200) if run_seed(s).violation is not None)
    broken = run_seed(seed)
    assert broken.violation is not None
    assert broken.violation.invariant == "commit_behind_checkpoint"
    found = history.of_seed(seed, broken.moves)
    assert history.shrink(found, tries_max=30) == history.shrink(found, tries_max=30)
    shrunk = history.shrink(found, tries_max=700)
    assert SHORTER * len(shrunk.moves) < len(found.moves)
    path = tmp_path / "found.json"
    path.write_text(shrunk.text())
    again = history.load(path).run()
    assert again.violation is not None
    assert str(again.violation) == shrunk.found
    told = history.told(shrunk)
    assert "commit_behind_checkpoint" in told
    assert "Reported" in told


def test_what_breaks_nothing_is_left_as_it_is() -> None:
    whole = history.of_seed(5, 100)
    assert history.shrink(whole) == whole
