"""Compile the hashed lock files from pyproject.toml, or check that they are current.

A lock file pins every package by version and hash for all supported platforms and Python versions.
It names no index and no address, so it installs the same from any mirror. Pins that still satisfy
pyproject.toml are kept; `--upgrade` takes the newest instead. `--check` compiles copies, compares
and changes nothing.
"""

import argparse
import difflib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = Path(sys.executable).parent / "uv"

# In this order: the development lock takes what is shipped, and what builds it, as it is.
LOCKS: dict[str, list[str]] = {
    "requirements/tools.txt": ["--group", "tools"],
    "requirements/build.txt": ["--group", "build"],
    "requirements/run.txt": ["pyproject.toml"],
    "requirements/dev.txt": [
        *("pyproject.toml", "--all-extras", "--group", "dev"),
        *("--constraints", "requirements/build.txt"),
        *("--constraints", "requirements/run.txt"),
    ],
}


def compile_locks(tree: Path, *, upgrade: bool) -> None:
    for name, sources in LOCKS.items():
        subprocess.run(
            [
                *(UV, "pip", "compile", "--quiet", "--universal", "--generate-hashes"),
                *("--python-version", "3.11", "--custom-compile-command", "make lock"),
                *(["--upgrade"] if upgrade else []),
                *("--output-file", name),
                *sources,
            ],
            cwd=tree,
            check=True,
        )
        for line in (tree / name).read_text().splitlines():
            if "://" in line or line.startswith("-"):
                sys.exit(f"{name}: names an address or an index option: {line}")


def stale() -> list[str]:
    """The differences between the lock files and what pyproject.toml compiles to, as diff lines."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        (tree / "requirements").mkdir()
        for name in ["pyproject.toml", *LOCKS]:
            if not (ROOT / name).exists():
                return [f"{name} is missing"]
            shutil.copy(ROOT / name, tree / name)
        compile_locks(tree, upgrade=False)
        return [
            line
            for name in LOCKS
            for line in difflib.unified_diff(
                (ROOT / name).read_text().splitlines(),
                (tree / name).read_text().splitlines(),
                name,
                f"{name} (compiled)",
                lineterm="",
                n=0,
            )
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail if stale")
    parser.add_argument("--upgrade", action="store_true", help="take the newest of everything")
    arguments = parser.parse_args()
    if not arguments.check:
        compile_locks(ROOT, upgrade=arguments.upgrade)
    elif differences := stale():
        print("\n".join(differences[:40]))
        sys.exit("the lock files are not current: run `make lock`")


if __name__ == "__main__":
    main()
