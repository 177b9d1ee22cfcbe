"""Carries rows through pytest: the mark, the fixture, the collection, the workers' findings.

    worker      items with the mark ─► fixture `row` ─► user_properties of the test's report
    controller  reports ─► lines ─► build/faults.json, a table, docs/fault-matrix.md

With xdist the controller sees neither items nor marks, so a worker hands over what it collected
when it ends; of one that crashed the others collected the same.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.faults.declared import NOT_RUN
from tests.faults.report import page, show, summary
from tests.faults.rows import Declared, Line, Row, Status, not_run, twice

_ROW = pytest.StashKey[Row]()
_COLLECTED = pytest.StashKey[list[Declared]]()
_PROPERTY = "fault"
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "fault-matrix.md"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults", "the fault matrix")
    group.addoption("--faults", metavar="FILE", help="run the matrix's rows; write them to FILE")
    group.addoption("--rows", metavar="GLOB", default="", help="with --faults: rows so named only")
    group.addoption("--list-faults", metavar="FILE", help="write what marks declare to FILE")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--faults") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Matrix(config), "fault-matrix")


# --- where tests run ------------------------------------------------------------------------------


def declared(item: pytest.Item) -> Declared | None:
    mark = item.get_closest_marker("fault")
    if mark is None:
        return None
    given = dict(mark.kwargs)
    name = given.pop("row", None)
    if mark.args or name is None:
        raise pytest.UsageError(f"{item.nodeid}: the mark `fault` takes keywords, `row` among them")
    case = getattr(item, "callspec", None)
    try:
        made = Declared(fault=name if case is None else f"{name}/{case.id}", **given)
    except TypeError as error:
        raise pytest.UsageError(f"{item.nodeid}: mark `fault`: {error}") from None
    return msgspec.structs.replace(made, test=item.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    rows = config.stash[_COLLECTED] = []
    for item in items:
        row = declared(item)
        if row is None:
            continue
        problem = row.problem()
        if problem is None and "row" not in getattr(item, "fixturenames", ()):
            problem = "the test does not use the fixture `row`"
        if problem:
            raise pytest.UsageError(f"{item.nodeid}: row {row.fault}: {problem}")
        item.stash[_ROW] = Row(row)
        rows.append(row)
    if names := twice(rows):
        raise pytest.UsageError(f"two rows of one name: {', '.join(names)}")
    if config.getoption("--faults"):
        pattern = config.getoption("--rows") or "*"
        wanted = [i for i in items if _ROW in i.stash and _named(i.stash[_ROW].declared, pattern)]
        config.hook.pytest_deselected(items=[i for i in items if i not in wanted])
        items[:] = wanted


def _named(row: Declared, pattern: str) -> bool:
    return any(fnmatch.fnmatchcase(row.fault, glob) for glob in pattern.split(","))


def pytest_collection_finish(session: pytest.Session) -> None:
    if path := session.config.getoption("--list-faults"):
        rows = session.config.stash.get(_COLLECTED, list[Declared]())
        Path(path).write_bytes(msgspec.json.encode(rows))


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["fault_rows"] = msgspec.to_builtins(
            session.config.stash.get(_COLLECTED, list[Declared]())
        )


@pytest.fixture
def row(request: pytest.FixtureRequest) -> Row:
    """Where the test of a row puts what it observes."""
    found: Row | None = request.node.stash.get(_ROW, None)
    if found is None:
        pytest.fail("the fixture `row` is for tests with the mark `fault`", pytrace=False)
    return found


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """A test of a row passes only if the row does."""
    result = yield
    found = pyfuncitem.stash.get(_ROW, None)
    if found is not None:
        timed = bool(pyfuncitem.config.getoption("--faults"))
        if problems := found.problems(timed=timed):
            pytest.fail(f"row {found.declared.fault}: " + "; ".join(problems), pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    found = item.stash.get(_ROW, None)
    if found is not None:
        # Each phase reports; what a worse phase says stands (see `Matrix`).
        line = found.line(_status(report), _reason(report))
        report.user_properties.append((_PROPERTY, msgspec.json.encode(line).decode()))
    return report


def _status(report: pytest.TestReport) -> Status:
    if report.skipped:
        return Status.NOT_RUN
    return Status.PASSED if report.passed else Status.FAILED


def _reason(report: pytest.TestReport) -> str:
    if report.passed:
        return ""
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash is not None else report.longrepr).strip()
    return f"{report.when}: {text.splitlines()[0][:300]}" if text else str(report.when)


# --- where findings come together -----------------------------------------------------------------


class Matrix:
    """Lines of the rows that ran, and of those that did not."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._path = Path(config.getoption("--faults"))
        self._pattern = config.getoption("--rows")
        self._declared: dict[str, Declared] = {row.fault: row for row in NOT_RUN}
        self._lines: dict[str, Line] = {}
        self._called: set[str] = set()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        handed = getattr(node, "workeroutput", {}).get("fault_rows", [])
        self._know(msgspec.convert(handed, list[Declared]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        texts = [value for name, value in report.user_properties if name == _PROPERTY]
        if not texts:
            return
        line = msgspec.json.decode(str(texts[-1]), type=Line)
        if report.when == "call":
            self._called.add(line.fault)
        elif line.status is Status.PASSED:
            return  # a setup or an end without a finding says nothing of the row
        worse = self._lines.get(line.fault)
        if worse is None or worse.status is not Status.FAILED:
            self._lines[line.fault] = line
            if line.status is Status.FAILED:
                self._say(f"failed: {line.fault}: {line.reason}")

    def _say(self, words: str) -> None:
        """At once: a whole run takes a while."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.ensure_newline()
            terminal.write_line(words)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        collected = session.config.stash.get(_COLLECTED, list[Declared]())
        self._know(collected)
        lines = self.lines()
        whole = self._whole()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_bytes(summary(lines, whole=whole))
        if whole and self._called:
            DOCS.write_text(page(lines))

    def pytest_terminal_summary(self) -> None:
        lines = self.lines()
        show(lines if not self._pattern else [x for x in lines if x.fault in self._lines])

    def lines(self) -> list[Line]:
        missing = "other rows were asked for" if self._pattern else "its test was not reached"
        known = {
            name: self._lines.get(name) or not_run(row, row.reason or missing)
            for name, row in self._declared.items()
        }
        return [line for _, line in sorted({**known, **self._lines}.items())]

    def _whole(self) -> bool:
        """Every test was asked for: only such a run is published."""
        option = self._config.option
        everywhere = self._config.args_source is pytest.Config.ArgsSource.TESTPATHS
        return everywhere and not (self._pattern or option.keyword or option.markexpr)

    def _know(self, rows: Sequence[Declared]) -> None:
        self._declared |= {row.fault: row for row in rows}
