"""The stage: every process of the story, none of which outlives it.

Each child has a process group of its own, so that Ctrl-C reaches the story alone, which then takes
the others down in order. For the ends a story cannot write (kill -9 of this process, too), a guard
holds the other end of a pipe: when the pipe closes, it kills what is still listed and removes the
directory. `PR_SET_PDEATHSIG` would need code between fork and exec, in a process full of threads,
and knows no directories.

Nothing here sleeps for a time; `until` waits for a condition, and ends when a child that should be
there has gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

import sidecar

T = TypeVar("T")

POLL_SECONDS = 0.02
TAIL_LINES = 12
TAIL_COLUMNS = 160
END_SECONDS = 15.0
KILLED_SECONDS = 40.0
"""How long one that was killed may stay: a store is not gone before the disk took what it wrote,
and a busy disk was seen to take more than 15 s."""
SOCKET_PATH_MAX = 90
"""Unix sockets have short names: 104 bytes on macOS, 108 on Linux."""


class StageFailed(Exception):
    """What went wrong, in a sentence, and the last words of whom it concerns."""

    def __init__(self, what: str, child: Child | None = None) -> None:
        super().__init__(what)
        self.details: tuple[str, ...] = ()
        self.who = None if child is None else child.name
        self.tail = () if child is None else child.tail()


class NotSeen(StageFailed):
    """A consequence that did not come in time."""


class Child:
    """One process and its log. Started again, it writes on in the same log."""

    def __init__(self, name: str, argv: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self.name = name
        self._log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                argv,
                env=dict(env),
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> str | None:
        """How it ended; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        return f"exit {code}" if code >= 0 else signal.Signals(-code).name

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        try:
            self._process.wait(KILLED_SECONDS)
        except subprocess.TimeoutExpired:
            raise StageFailed(
                f"The {self.name} is not gone {KILLED_SECONDS:g} s after SIGKILL.", self
            ) from None

    def terminate(self) -> int:
        """SIGTERM, and its exit code."""
        self._process.terminate()
        try:
            return self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            raise StageFailed(
                f"The {self.name} did not end within {END_SECONDS:g} s of SIGTERM.", self
            ) from None

    def tail(self) -> tuple[str, ...]:
        with contextlib.suppress(OSError):
            lines = self._log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
            return tuple(_for_people(line) for line in lines)
        return ()


class Stage:
    """`seconds` is how long the story may take from now on, whatever it still waits for."""

    def __init__(self, seconds: float) -> None:
        self._began = time.monotonic()
        self._seconds = seconds
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD],
            stdin=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        self.directory = _directory()
        self._tell(f"+path {self.directory}")
        self._children: dict[str, Child] = {}

    @property
    def elapsed_seconds(self) -> float:
        return time.monotonic() - self._began

    def launch(self, name: str, argv: Sequence[str], env: Mapping[str, str]) -> Child:
        """It is expected to run until `kill`, `terminate` or the end."""
        child = Child(name, argv, env, self.log_of(name))
        self._children[name] = child
        self._tell(f"+pid {child.pid}")
        return child

    def kill(self, child: Child) -> None:
        self._children.pop(child.name, None)
        child.kill()
        self._tell(f"-pid {child.pid}")

    def terminate(self, child: Child) -> int:
        self._children.pop(child.name, None)
        try:
            return child.terminate()
        finally:
            child.kill()
            self._tell(f"-pid {child.pid}")

    def log_of(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def until(
        self,
        what: str,
        condition: Callable[[], T | None],
        timeout_seconds: float,
        about: Child | None = None,
    ) -> T:
        """The first truthy answer. `about` is whose last words are of interest if there is none."""
        now = time.monotonic()
        limit = min(timeout_seconds, self._began + self._seconds - now)
        while True:
            for child in self._children.values():
                if (how := child.ended) is not None:
                    raise StageFailed(f"The {child.name} has ended by itself ({how}).", child)
            if answer := condition():
                return answer
            if time.monotonic() - now >= limit:
                raise NotSeen(f"Not seen within {max(0.0, limit):.0f} s: {what}.", about)
            time.sleep(POLL_SECONDS)

    def clear(self) -> None:
        """Last come, first gone."""
        while self._children:
            self.kill(next(reversed(self._children.values())))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait(KILLED_SECONDS)  # it clears the disk, too
        shutil.rmtree(self.directory, ignore_errors=True)

    def _tell(self, message: str) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{message}\n".encode())


def events_of(log: Path, begin: int) -> Iterator[dict[str, object]]:
    """The sidecar's log from this byte on, as events; lines of others are passed over."""
    with log.open("rb") as file:
        file.seek(begin)
        for line in file:
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict) and "event" in event:
                    yield event


def _for_people(line: str) -> str:
    """An event as one short line; anything else as it is."""
    with contextlib.suppress(ValueError):
        event = json.loads(line)
        if isinstance(event, dict) and "event" in event:
            time_of_day = str(event.pop("timestamp", ""))[11:19]
            head = f"{time_of_day} {event.pop('level', '')} {event.pop('event')}"
            line = " ".join([head, *(f"{k}={v}" for k, v in event.items() if k != "group")])
    return line if len(line) <= TAIL_COLUMNS else f"{line[: TAIL_COLUMNS - 1]}…"


def environment(**more: str) -> dict[str, str]:
    """Ours without any settings of a sidecar, so that a person's own cannot get into the story."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("CURSOR_SIDECAR_")}
    here = str(Path(sidecar.__file__).parents[1])
    paths = [here, *filter(None, [inherited.get("PYTHONPATH")])]
    return {**inherited, "PYTHONPATH": os.pathsep.join(paths), **more}


def _directory() -> Path:
    made = Path(tempfile.mkdtemp(prefix="cursor-demo-"))
    if len(str(made)) <= SOCKET_PATH_MAX:
        return made
    made.rmdir()
    return Path(tempfile.mkdtemp(prefix="cursor-demo-", dir="/tmp"))


_GUARD = """
import os, shutil, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pids, paths = set(), set()
for line in sys.stdin:
    verb, value = line.rstrip("\\n").split(" ", 1)
    listed, item = (pids, int(value)) if verb[1:] == "pid" else (paths, value)
    (listed.add if verb[0] == "+" else listed.discard)(item)
for pid in pids:
    try: os.killpg(pid, signal.SIGKILL)
    except OSError: pass
for path in paths: shutil.rmtree(path, ignore_errors=True)
"""
