"""Whether the mutated file can be loaded, and is the copy's.

A mutation that does not even load would fail every test and prove nothing. Asked in the process
that tests it, before anything else: a process of its own would cost as much as the test.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import sidecar
from tests.benches.redis import Valkey

FILE = "MUTANT_FILE"


def load() -> None:
    """Raises whatever keeps it from being loaded."""
    copied, name = Path.cwd() / "sidecar", os.environ[FILE]
    assert Path(sidecar.__file__).is_relative_to(copied), f"{sidecar.__file__} is not of {copied}"
    if name.endswith(".py"):
        importlib.import_module(name.removesuffix(".py").replace("/", "."))
    elif name:
        with Valkey() as server:
            server.start()
            server.command("SCRIPT", "LOAD", Path(name).read_text(encoding="utf-8"))
