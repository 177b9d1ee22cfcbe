"""A row passes only when its test does and its figures say so; one that did not run says that."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.declared import NOT_RUN

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

TESTS = """
    import pytest

    def fault(name, **more):
        return pytest.mark.fault(row=name, bench="K1", expected="resume", **more)

    class Found:
        def __init__(self, *faults):
            self.faults = list(faults)
        def check(self):
            assert not self.faults, self.faults[0]

    @fault("well", cases=(3,))
    def test_well(row):
        row.inflicted()
        row.judged("resume", "delivering")
        row.cured()
        row.delivering()
        row.account(Found())

    @fault("silent")
    def test_silent(row):
        pass

    @fault("other")
    def test_other(row):
        row.observe("adopted")

    @fault("lost")
    def test_lost(row):
        row.observe("resume")
        row.account(Found("unaccounted: t/0/1"))

    @fault("repeated")
    def test_repeated(row):
        row.observe("resume")
        row.account(Found("redelivery_flagged: t/0/1"))

    @fault("slow", within_seconds=0)
    def test_slow(row):
        row.inflicted()
        row.judged("resume")

    @fault("skipped")
    @pytest.mark.skip(reason="no such server")
    def test_skipped(row):
        pass

    @pytest.fixture
    def broken():
        raise RuntimeError("no broker")

    @fault("unset")
    def test_unset(broken, row):
        pass

    @fault("many")
    @pytest.mark.parametrize("n", [1, 2])
    def test_many(n, row):
        row.observe("resume")

    def test_that_is_no_row():
        raise AssertionError("not for the matrix")
"""


def run(pytester: pytest.Pytester, *options: str) -> tuple[pytest.RunResult, dict[str, Any]]:
    result = pytester.runpytest_subprocess(
        *("-p", "tests.faults.plugin", "--faults", "faults.json", *options),
        timeout=150,
    )
    summary = json.loads((pytester.path / "faults.json").read_text())
    summary["rows"] = {row["fault"]: row for row in summary["rows"]}
    for row in NOT_RUN:  # what is declared without a test is in every matrix
        assert summary["rows"].pop(row.fault)["status"] == "not_run"
    return result, summary


@pytest.fixture(autouse=True)
def rows(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makepyfile(TESTS)


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "two workers"])
def test_each_row_has_its_status_and_figures(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    """Also through workers. A test without the mark is not run."""
    result, summary = run(pytester, *workers)
    assert result.ret == 1
    rows = summary["rows"]
    assert {name: row["status"] for name, row in rows.items()} == {
        "well": "passed",
        "many/1": "passed",
        "many/2": "passed",
        **dict.fromkeys(("silent", "other", "lost", "repeated", "slow", "unset"), "failed"),
        "skipped": "not_run",
    }
    assert (summary["ok"], summary["passed"], summary["failed"]) == (False, 3, 6)
    well = rows["well"]
    assert (well["bench"], well["expected"], well["observed"]) == ("K1", "resume", "resume")
    assert (well["lost"], well["repeated_unflagged"], well["state"]) == (0, 0, "delivering")
    assert (well["cases"], well["reason"]) == ([3], "")
    assert well["seconds_to_verdict"] >= 0
    assert well["seconds_to_first_delivery"] >= 0
    assert rows["many/1"]["seconds_to_verdict"] is None
    assert (rows["lost"]["lost"], rows["repeated"]["repeated_unflagged"]) == (1, 1)
    assert "nothing was observed" in rows["silent"]["reason"]
    assert "expected resume, observed adopted" in rows["other"]["reason"]
    assert "of 0 s at most" in rows["slow"]["reason"]
    assert rows["skipped"]["reason"] == "no such server"
    assert "no broker" in rows["unset"]["reason"]


def test_rows_that_were_not_asked_for_are_not_run(pytester: pytest.Pytester) -> None:
    """They are listed all the same, and what was asked for alone decides."""
    result, summary = run(pytester, "--rows", "many*,well")
    assert result.ret == 0
    assert (summary["ok"], summary["whole"], summary["passed"]) == (True, False, 3)
    assert summary["not_run"] == 7 + len(NOT_RUN)
    assert summary["rows"]["lost"]["reason"] == "other rows were asked for"


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("row='x', bench='K9', expected='resume'", "no such bench: K9"),
        ("row='x', bench='K1', expected='fine'", "'fine' is no verdict"),
        ("row='x', bench='K1', expected='resume', cases=(99,)", "no such field case"),
        ("row='well', bench='K1', expected='resume'", "two rows of one name: well"),
        ("bench='K1', expected='resume'", "takes keywords, `row` among them"),
    ],
)
def test_a_mark_that_says_nothing_is_refused(
    pytester: pytest.Pytester, mark: str, words: str
) -> None:
    pytester.makepyfile(
        test_wrong=f"""
        import pytest
        @pytest.mark.fault({mark})
        def test_wrong(row): pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "tests.faults.plugin", timeout=150)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in result.stdout.str() + result.stderr.str()


def test_a_row_without_its_fixture_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_wrong="""
        import pytest
        @pytest.mark.fault(row="x", bench="K1", expected="resume")
        def test_wrong(): pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "tests.faults.plugin", timeout=150)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "does not use the fixture `row`" in result.stdout.str() + result.stderr.str()
