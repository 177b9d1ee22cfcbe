"""The matrix is whole: every verdict, condition, kind of store error and field case has a row.

A row counts whether it can be run or not: one that cannot is shown as `not_run`, with its reason.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from sidecar.core.faults import FaultKind
from sidecar.core.types import Condition, Verdict
from sidecar.store.faults import ANSWERS, MEANINGS, PHRASES
from tests.faults.declared import NOT_RUN
from tests.faults.plugin import DOCS, ROOT
from tests.faults.rows import FIELD_CASES, Declared, twice

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ELSEWHERE = {34, 37, 38}
"""Field cases about pods and charts: tests/chart has them."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Declared]:
    """What all the marks declare, whichever tests are being run, and what is declared without."""
    path = tmp_path_factory.mktemp("faults") / "rows.json"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-qq", "--list-faults", str(path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    tested = msgspec.json.decode(path.read_bytes(), type=list[Declared])
    return [*tested, *(row for row in NOT_RUN if row.fault not in {x.fault for x in tested})]


def missing(wanted: set[str], rows: list[Declared]) -> set[str]:
    return wanted - {name for row in rows for name in row.shown()}


def test_every_verdict_has_a_row(rows: list[Declared]) -> None:
    assert missing({str(verdict) for verdict in Verdict}, rows) == set()


def test_every_condition_has_a_row(rows: list[Declared]) -> None:
    assert missing({str(condition) for condition in Condition}, rows) == set()


def test_every_kind_of_store_error_has_a_row(rows: list[Declared]) -> None:
    """What it means, and each code that is known of the server, the way there or the client."""
    meanings = [*MEANINGS.values(), *ANSWERS.values(), *(meaning for _, meaning in PHRASES)]
    assert missing({str(kind) for kind in FaultKind}, rows) == set()
    assert missing({meaning.code for meaning in meanings}, rows) == set()


def test_every_field_case_has_a_row(rows: list[Declared]) -> None:
    shown = {case for row in rows for case in row.cases}
    assert FIELD_CASES - ELSEWHERE - shown == set()


def test_every_field_case_is_told() -> None:
    """Each number that a row can name says in the docs what it is of, once."""
    text = (ROOT / "docs" / "field-cases.md").read_text()
    numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]
    assert numbers == sorted(FIELD_CASES)


def test_rows_are_named_once_and_declared_well(rows: list[Declared]) -> None:
    assert twice(rows) == []
    assert [row.problem() for row in rows if row.problem()] == []
    assert [row.fault for row in NOT_RUN if not row.reason] == []


@pytest.mark.skipif(not DOCS.exists(), reason="the matrix was never published here")
def test_the_published_matrix_names_only_rows_that_exist(rows: list[Declared]) -> None:
    """Figures of a row that is no more would be of nothing; a new row comes with the next run."""
    table = [line for line in Path(DOCS).read_text().splitlines() if line.startswith("| ")]
    published = {tuple(cell.strip() for cell in line.split("|")[1:4]) for line in table[2:]}
    assert published - {(row.fault, row.bench, row.expected) for row in rows} == set()
