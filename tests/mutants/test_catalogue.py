"""The list of deliberate faults is whole, and still speaks of the code as it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sidecar.core.types import Verdict
from tests.mutants.attacks import REACHED, Invariant, Promise, Row
from tests.mutants.catalogue import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
ATTACKED = {attack for mutant in MUTANTS for attack in mutant.attacks}


@pytest.mark.parametrize("invariant", list(Invariant), ids=str)
def test_every_invariant_is_attacked(invariant: Invariant) -> None:
    assert invariant in ATTACKED


@pytest.mark.parametrize("row", list(Row), ids=str)
def test_every_row_of_the_verdict_tables_is_attacked(row: Row) -> None:
    assert row in ATTACKED


@pytest.mark.parametrize("promise", list(Promise), ids=str)
def test_every_promise_is_attacked(promise: Promise) -> None:
    assert promise in ATTACKED


def test_every_verdict_has_a_row() -> None:
    """Whoever adds a verdict says what could be wrong about it."""
    assert set(REACHED) == set(Verdict)


def test_names_are_unique_and_there_are_enough() -> None:
    assert not [name for name, times in Counter(m.name for m in MUTANTS).items() if times > 1]
    assert len(MUTANTS) >= 40
    assert f": {len(MUTANTS)} faults," in (ROOT / "docs/proof.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_each_applies_exactly_once_and_compiles(mutant: Mutant) -> None:
    """One that does not apply any more would be a fault that nobody tests for."""
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, f"{mutant.file}: {mutant.old!r}"
    mutated = text.replace(mutant.old, mutant.new)
    assert mutated != text
    if mutant.file.endswith(".py"):
        compile(mutated, mutant.file, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_each_says_where_it_is_noticed(mutant: Mutant) -> None:
    assert mutant.noticed_by
    for target in mutant.noticed_by:
        if isinstance(target, str):
            assert (ROOT / target.partition("::")[0]).exists(), target
