"""A pytest plugin: whether the mutated code was noticed, and by what.

Only what a test asserts counts: an assertion, an awaited condition that never came, the product's
own broken invariant. Code that merely falls over (a `TypeError` of a mutation that makes no sense)
proves nothing about the tests, and neither does a failure before the test itself began.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from sidecar.errors import InvariantBroken
from tests.mutants.loading import load

REPORT = "MUTANT_REPORT"
CANNOT_LOAD = 9
NOTICING = (AssertionError, pytest.fail.Exception, InvariantBroken, TimeoutError)


def is_noticing(raised: BaseException) -> bool:
    if isinstance(raised, BaseExceptionGroup):
        return all(is_noticing(each) for each in raised.exceptions)
    return isinstance(raised, NOTICING)


def tell(how: str, by: str) -> None:
    Path(os.environ[REPORT]).write_text(json.dumps({"how": how, "by": by}), encoding="utf-8")


def pytest_sessionstart() -> None:
    try:
        load()
    except Exception as error:
        pytest.exit(f"the mutated file does not load: {error!r}", returncode=CANNOT_LOAD)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    raised = None if call.excinfo is None else call.excinfo.value
    if report.failed and call.when == "call" and raised is not None and is_noticing(raised):
        late = isinstance(raised, pytest.fail.Exception) and "Timeout" in str(raised)
        tell("timeout" if late else "assertion", item.nodeid)
        item.session.shouldfail = "noticed"
    return report
