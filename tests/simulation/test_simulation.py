"""Some schedules in every run of the tests; `make sim` runs as many as one likes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation import history
from tests.simulation.schedule import STEPS, run_seed
from tests.simulation.tally import Tally, merged

SEEDS = 5_000
BLOCKS = 50
KEPT = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_history_that_broke_something_once_breaks_nothing_any_more(path: Path) -> None:
    """Shrunk when it was found; what was wrong stands in it."""
    result = history.load(path).run()
    assert result.violation is None, result.violation


def nothing_breaks(block: int) -> None:
    size = SEEDS // BLOCKS
    broken = {}
    for seed in range(block * size, (block + 1) * size):
        result = run_seed(seed)
        assert result.steps >= STEPS
        if result.violation is not None:
            broken[seed] = str(result.violation)
    assert not broken, "tell one with: python -m tests.simulation --seed SEED --shrink FILE"


@pytest.mark.timeout(300)
class TestNoInvariantBreaks:
    """Every invariant after every step, and rest within a bounded number of rounds after peace.

    In two classes, because each is given to one process of the tests."""

    @pytest.mark.parametrize("block", range(0, BLOCKS, 2))
    def test_in_even_blocks(self, block: int) -> None:
        nothing_breaks(block)


@pytest.mark.timeout(300)
class TestNoInvariantBreaksEither:
    @pytest.mark.parametrize("block", range(1, BLOCKS, 2))
    def test_in_odd_blocks(self, block: int) -> None:
        nothing_breaks(block)


DIGEST = """
from tests.simulation.history import digest_of
from tests.simulation.schedule import run_seed
for seed in (7, 1001, 4242, *range(5100, 5160)):
    print(digest_of(run_seed(seed, telling=True).world.story))
"""


def test_a_seed_gives_the_same_history_byte_for_byte_in_any_process() -> None:
    """Whatever the process hashes strings with: nothing depends on the order of a set. (With other
    hashes, 5155 once handed out pages of two partitions in another order.)"""
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2", "13")
    }
    assert len(digests) == 1


def test_a_kept_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    kept = history.of_seed(3, 40)
    path = tmp_path / "3.json"
    path.write_text(kept.text())
    assert history.load(path) == kept


def test_a_history_is_what_its_seed_gives() -> None:
    by_seed = run_seed(11, telling=True)
    replayed = history.of_seed(11, by_seed.moves).run(telling=True)
    assert replayed.world.story == by_seed.world.story


def test_pieces_of_a_run_add_up() -> None:
    whole, pieces = Tally(), [Tally(), Tally()]
    for seed in range(6):
        result = run_seed(seed)
        whole.note(seed, result)
        pieces[seed % 2].note(seed, result)
    assert merged(pieces) == whole
