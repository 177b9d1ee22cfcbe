"""`absent_is_not_error`, as the type checker sees it: code that mixes the answers is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GIVEN = """\
from sidecar.core.checkpoint import Checkpoint
from sidecar.core.evidence import Committed
from sidecar.core.faults import ABSENT, Absent, Answer, Known, Reading, Unreadable
from sidecar.core.types import Offset

reading: Reading[Committed]
answer: Answer[Offset]
"""
REFUSED = {
    "the value of an answer that may be an error": "def f() -> object: return reading.value",
    "an error where a value may be absent": (
        "def f() -> Known[Committed] | Absent: return reading"
    ),
    "absent where only a value or an error can be": "def f() -> Answer[Offset]: return ABSENT",
    "absent taken for every answer that is not known": (
        "def f() -> Absent | None:\n"
        "    match reading:\n"
        "        case Known():\n"
        "            return None\n"
        "        case other:\n"
        "            return other"
    ),
    "an offset made of an answer": "def f() -> Offset: return answer",
    "nothing in place of absent": "def f() -> Reading[Committed]: return None",
}
ACCEPTED = """\
def f() -> Committed | None:
    match reading:
        case Known(value):
            return value
        case Absent():
            return None
        case Unreadable(fault):
            raise RuntimeError(fault.detail)
"""


def checked(directory: Path, snippets: dict[str, str]) -> set[str]:
    """Which of the files made of `snippets` mypy finds errors in."""
    for name, text in snippets.items():
        (directory / f"{name}.py").write_text(GIVEN + text + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-pretty"]
        + [str(directory / f"{name}.py") for name in snippets],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return set(re.findall(r"(\w+)\.py:\d+: error", done.stdout))


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_code_that_mixes_absent_with_could_not_read_does_not_check(tmp_path: Path) -> None:
    """Each way of taking an error for "no value", or the reverse, is an error of types; taking the
    three answers apart is not."""
    names = {f"refused_{number}": why for number, why in enumerate(REFUSED)}
    snippets = {name: REFUSED[why] for name, why in names.items()} | {"accepted": ACCEPTED}
    wrong = checked(tmp_path, snippets)
    assert "accepted" not in wrong
    assert {why for name, why in names.items() if name not in wrong} == set()
