"""`make mutants`: every fault in turn, each in a copy of the code; what survives is named.

A copy for each worker below build/mutants, never the tree itself: whoever edits meanwhile sees
nothing of it, and an interrupted run leaves nothing behind. Before the first fault every target is
run on the copy as it is: where a target fails by itself, nothing it says counts.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutants.catalogue import MUTANTS, Mutant
from tests.mutants.loading import FILE
from tests.mutants.noticing import REPORT

ROOT = Path(__file__).parents[2]
COPIES = ROOT / "build" / "mutants"
LEFT_OUT = {".git", ".venv", "build", "dist", ".hypothesis"}
TARGET_SECONDS_MAX = 1800.0
"""A backstop. A test, and a seed, has a limit of its own and says when the fault brought it to a
stand; a target that takes longer than this says nothing about the fault."""


class Broken(Exception):
    """The run itself is wrong: a fault that does not apply or load, a target that fails anyway."""


@dataclass(frozen=True, slots=True)
class Noticed:
    """`how`: assertion, violation, or timeout (of a test's or a seed's own limit)."""

    how: str
    by: str


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    attacks: list[str]
    file: str
    killed_by: str | None
    how: str | None
    seconds: float


class Copy:
    """The tree as it is, where one fault at a time may be put into it."""

    def __init__(self, number: int) -> None:
        self.path = COPIES / str(number)
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(
            ROOT,
            self.path,
            ignore=lambda at, names: {
                n for n in names if n == "__pycache__" or (Path(at) == ROOT and n in LEFT_OUT)
            },
        )
        (self.path / "build").mkdir()
        if (ROOT / "build" / "kafka").exists():
            (self.path / "build" / "kafka").symlink_to(ROOT / "build" / "kafka")
        self.report = self.path / "build" / "noticed.json"

    def apply(self, mutant: Mutant) -> str:
        """Puts the fault in; returns the text as it was."""
        file = self.path / mutant.file
        text = file.read_text(encoding="utf-8")
        if text.count(mutant.old) != 1:
            raise Broken(f"its text stands {text.count(mutant.old)} times in {mutant.file}")
        self.write(mutant, text.replace(mutant.old, mutant.new))
        return text

    def write(self, mutant: Mutant, text: str) -> None:
        file = self.path / mutant.file
        file.write_text(text, encoding="utf-8")
        # Two faults of the same size within one second would share what was compiled of them.
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()

    def notice(self, target: str | int, file: str = "") -> Noticed | None:
        """`file`: what was mutated, and has to load."""
        self.report.unlink(missing_ok=True)
        if isinstance(target, int):
            code, told = self.run(file, "tests.mutants.simulated", str(target))
        else:
            code, told = self.run(file, "pytest", "-q", "-p", "tests.mutants.noticing", target)
        if code is None:
            raise Broken(f"{_named(target)} came to no end within {TARGET_SECONDS_MAX:g} s")
        if code not in (0, 1):
            raise Broken(f"{_named(target)} could not be run (exit {code})\n{told}")
        if code == 0 or not self.report.exists():
            return None
        return Noticed(**json.loads(self.report.read_text(encoding="utf-8")))

    def run(self, file: str, module: str, *arguments: str) -> tuple[int | None, str]:
        """Exit code (None: it took too long) and the end of what it said."""
        environment = os.environ | {
            "PYTHONPATH": str(self.path),
            REPORT: str(self.report),
            FILE: file,
        }
        with subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=self.path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as child:
            try:
                told, _ = child.communicate(timeout=TARGET_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                return None, ""
        return child.returncode, "\n".join(told.splitlines()[-15:])


def _named(target: str | int) -> str:
    return target if isinstance(target, str) else f"the simulator, {target} seeds"


def attempt(copy: Copy, mutant: Mutant) -> Row:
    began = time.monotonic()
    text = copy.apply(mutant)
    try:
        noticed = next((n for t in mutant.noticed_by if (n := copy.notice(t, mutant.file))), None)
    finally:
        copy.write(mutant, text)
    return Row(
        mutant.name,
        [str(attack) for attack in mutant.attacks],
        mutant.file,
        None if noticed is None else noticed.by,
        None if noticed is None else noticed.how,
        round(time.monotonic() - began, 1),
    )


def clean(copy: Copy, target: str | int) -> str | None:
    """Why the target says nothing: it fails on the code as it is."""
    noticed = copy.notice(target)
    return None if noticed is None else f"{_named(target)} fails by itself: {noticed.by}"


def everything(
    chosen: Sequence[Mutant], jobs: int, *, trusting: bool
) -> tuple[list[Row], list[str]]:
    copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for number in range(jobs):
        copies.put(Copy(number))

    def with_copy(work: str | int | Mutant) -> Row | str | None:
        copy = copies.get()
        try:
            if not isinstance(work, Mutant):
                return clean(copy, work)
            row = attempt(copy, work)
            print(f"{'killed' if row.how else 'SURVIVED':<9}{row.seconds:>6.1f} s  {row.name}")
            if row.killed_by:
                print(f"{'':<19}{row.how}: {row.killed_by}", flush=True)
            return row
        except Broken as broken:
            named = f"{work.name}: " if isinstance(work, Mutant) else ""
            return f"{named}{broken}"
        finally:
            copies.put(copy)

    targets = () if trusting else dict.fromkeys(t for m in chosen for t in m.noticed_by)
    with ThreadPoolExecutor(jobs) as pool:
        wrong = [str(why) for why in pool.map(with_copy, targets) if why is not None]
        if wrong:
            return [], wrong
        done = list(pool.map(with_copy, chosen))
    return [r for r in done if isinstance(r, Row)], [w for w in done if isinstance(w, str)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("pattern", nargs="?", default="", help="only those whose name matches")
    parser.add_argument("--summary", type=Path, default=None)
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument(
        "--trusting", action="store_true", help="the targets are known to pass as it is"
    )
    arguments = parser.parse_args()
    chosen = [m for m in MUTANTS if re.search(arguments.pattern, m.name)]
    if not chosen:
        parser.error(f"no fault's name matches {arguments.pattern!r}")
    began = time.monotonic()
    try:
        rows, errors = everything(chosen, arguments.jobs, trusting=arguments.trusting)
    finally:
        shutil.rmtree(COPIES, ignore_errors=True)
    survivors = [row.name for row in rows if row.how is None]
    summary = {
        "ok": not survivors and not errors,
        "total": len(chosen),
        "killed": len(rows) - len(survivors),
        "survivors": survivors,
        "errors": errors,
        "seconds": round(time.monotonic() - began, 1),
        "mutants": [asdict(row) for row in rows],
    }
    if arguments.summary is not None:
        arguments.summary.parent.mkdir(parents=True, exist_ok=True)
        arguments.summary.write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    print(f"\n{summary['killed']} of {len(chosen)} noticed in {summary['seconds']} s")
    for name in survivors:
        print(f"survived: {name}")
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    return 0 if summary["ok"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
