"""What is being measured now, how long it took, and how much is left; on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Progress:
    """A line for each step; on a terminal the line is there while the step runs."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._done = 0
        self._begun = time.monotonic()
        self._live = sys.stderr.isatty()

    def step(self, label: str, work: Callable[[], T], shown: Callable[[T], str] = str) -> T:
        head = f"[{self._done + 1:>3}/{self._steps}] {label}"
        if self._live:
            sys.stderr.write(f"\r\x1b[K{head} … {self._left()}")
            sys.stderr.flush()
        begun = time.monotonic()
        result = work()
        self._done += 1
        seconds = time.monotonic() - begun
        start = "\r\x1b[K" if self._live else ""
        sys.stderr.write(f"{start}{head:<64} {seconds:6.1f} s  {shown(result)}\n")
        sys.stderr.flush()
        return result

    def _left(self) -> str:
        if not self._done:
            return ""
        passed = time.monotonic() - self._begun
        return f"about {passed / self._done * (self._steps - self._done):.0f} s left"
