"""docs/verdicts.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from sidecar.core.types import Condition, Verdict
from tests.core.situations import CommitSays, StoreSays
from tests.core.test_verdict import CELLS

DOC = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text()


def test_every_verdict_has_its_section() -> None:
    assert set(re.findall(r"^### (\w+)$", DOC, re.MULTILINE)) == {v.value for v in Verdict}


def test_every_condition_is_named() -> None:
    assert all(f"`{condition}`" in DOC for condition in Condition)


def test_the_table_of_testimonies_is_the_codes() -> None:
    rows = [
        f"| {store} | " + " | ".join(CELLS[store, commit] for commit in CommitSays) + " |"
        for store in StoreSays
    ]
    head = "| store \\ commit | " + " | ".join(CommitSays) + " |"
    for row in (head, *rows):
        assert row in DOC
