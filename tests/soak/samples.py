"""What processes and the store hold, again and again, from outside."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import redis

from tests.benches.process import Process
from tests.soak.slopes import BOUNDS, Sample, Slope, slope

EVERY_SECONDS = 2.0


def held(process: Process) -> dict[str, float]:
    """Resident memory, open files and threads."""
    here = Path(f"/proc/{process.pid}")
    return {
        "rss": process.rss_mb,
        "fds": len(os.listdir(here / "fd")),
        "threads": len(os.listdir(here / "task")),
    }


class Sampler:
    """`store` says what the store holds; it may be away at times, which gives no sample."""

    def __init__(
        self, processes: Mapping[str, Process], store: Callable[[], Mapping[str, float]]
    ) -> None:
        self._processes = processes
        self._store = store
        self._series: dict[str, list[Sample]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._began = time.monotonic()

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stopping.wait(EVERY_SECONDS):
            for name, process in self._processes.items():
                for what, value in held(process).items():
                    self._note(f"{name} {what}", value)
            with contextlib.suppress(redis.RedisError, OSError):
                for what, value in self._store().items():
                    self._note(what, value)

    def _note(self, what: str, value: float) -> None:
        self._series.setdefault(what, []).append((time.monotonic() - self._began, value))

    def latest(self) -> str:
        return " · ".join(f"{what} {rows[-1][1]:.4g}" for what, rows in self._series.items())

    def slopes(self) -> list[Slope]:
        return [
            slope(what, samples, BOUNDS[what.split()[-1]]) for what, samples in self._series.items()
        ]
