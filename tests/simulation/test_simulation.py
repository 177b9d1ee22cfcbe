"""Some schedules in every run of the tests; `make sim` runs as many as one likes."""

from __future__ import annotations

import pytest

from tests.simulation.schedule import run

FOUND = {
    45: "a full hand kept the fetcher throttled while its overlap had to be read",
    62: "records handed out before a live look were not flagged after it",
    270: "an end of partition below what was in hand was waited for without end",
    811: "a checkpoint without a registry was never started",
    1636: "a promotion between a commit's question and its sending was not committed",
    1953: "a leader that changed while the first commit was made was not looked at",
    2899: "records in hand were trusted although the leader had changed",
    10600: "a claim was begun while a promotion had no answer yet",
}
"""Seeds that found a fault once, with what it was."""


@pytest.mark.parametrize("seed", FOUND, ids=str)
def test_a_fault_that_was_found_stays_mended(seed: int) -> None:
    assert run(seed).violation is None


@pytest.mark.parametrize("block", range(4))
def test_no_invariant_breaks(block: int) -> None:
    """Every invariant after every step, and rest within a bounded number of rounds after peace."""
    broken = {
        seed: str(result.violation)
        for seed in range(block * 150, (block + 1) * 150)
        if (result := run(seed)).violation is not None
    }
    assert not broken


def test_the_same_seed_gives_the_same_history() -> None:
    first, second = run(7, telling=True), run(7, telling=True)
    assert first.story == second.story
    assert first.steps == second.steps
