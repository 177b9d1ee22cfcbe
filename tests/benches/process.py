"""Server processes that never outlive the tests, however the tests end.

Each server has a process group of its own (so that Ctrl-C reaches the tests, which then stop it in
order), writes into a log file, and is listed with a guard: a tiny process that reads our pipe and,
once it closes (we ended, even by SIGKILL), kills whatever is still listed and removes its data.

Rejected: `PR_SET_PDEATHSIG`. It needs `preexec_fn`, which warns as soon as there is a thread
(librdkafka has many), and it fires when the starting *thread* ends, so a helper thread that
restarts a broker would take the broker down with it.
"""

import atexit
import contextlib
import errno
import functools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from tests.benches.waiting import wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
# Set BENCH_KEEP to find the data of every server in $TMPDIR/sidecar-bench-* afterwards.
KEEP = bool(os.environ.get("BENCH_KEEP"))


class BenchError(Exception):
    """A bench could not do what was asked of it; the message ends with the server's last words."""


class PortTakenError(BenchError):
    """The server found its port in use: choose others and try again."""


_GUARD = """
import os, shutil, signal, sys
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


class _Guard:
    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD],
            stdin=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )

    def tell(self, message: str) -> None:
        """One short write to a pipe: whole, whichever threads write at the same time."""
        assert self._child.stdin is not None
        self._child.stdin.write(f"{message}\n".encode())

    def close(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait(10)


_live: list["Process"] = []


@functools.cache
def _guard() -> _Guard:
    return _Guard()


@atexit.register
def _close_all() -> None:
    for process in live():
        process.close()
    if _guard.cache_info().currsize:
        _guard().close()


def live() -> list["Process"]:
    """Every server process that has not been closed, for failure reports."""
    return list(_live)


# --- ports ----------------------------------------------------------------------------------------

_reserved: dict[int, socket.socket] = {}


def _ephemeral_ports_from() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32768


def free_port() -> int:
    """Reserve a TCP port of 127.0.0.1 that stays ours, also while its server is down.

    Not port 0: the kernel would answer from its ephemeral range, where any outgoing connection may
    take the port of a server that is being restarted; a client that keeps dialling it can even
    connect to itself. So: a port below that range, where nobody listens, reserved against other
    benches by a UDP socket bound to the same number.
    """
    top = _ephemeral_ports_from()
    bottom = 10_000 if top > 12_000 else 1024
    for _ in range(1000):
        port = random.randrange(bottom, top)
        reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                reservation.bind(("127.0.0.1", port))
                probe.bind(("127.0.0.1", port))
            except OSError:
                reservation.close()
                continue
        _reserved[port] = reservation
        return port
    raise BenchError(f"no free port in {bottom}..{top}")


def release_port(port: int) -> None:
    """Let others have a port from `free_port`."""
    if (reservation := _reserved.pop(port, None)) is not None:
        reservation.close()


def accepts(port: int) -> bool:
    """Does somebody accept connections on this port?"""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.5):
        return True
    return False


# --- processes ------------------------------------------------------------------------------------


class Process:
    """One server: a temporary directory, a log, and at most one process, which can be restarted."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.directory = Path(tempfile.mkdtemp(prefix=f"sidecar-bench-{name}-"))
        self.log = self.directory / "log"
        self._child: subprocess.Popen[bytes] | None = None
        if not KEEP:
            _guard().tell(f"+path {self.directory}")
        _live.append(self)

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        assert self._child is not None, f"{self.name} is not running"
        return self._child.pid

    @property
    def rss_mb(self) -> float:
        """Resident memory of the running server."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def launch(self, argv: Sequence[str | Path]) -> None:
        """Start the server without waiting for it."""
        assert not self.running, f"{self.name} is running already"
        self.kill()
        self._launched_at = time.monotonic()
        self._log_from = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [str(word) for word in argv],
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,
            )
        _guard().tell(f"+pid {self.pid}")

    def await_ready(self, ready: Callable[[], bool], *, timeout_seconds: float = 60.0) -> float:
        """Wait until `ready`; returns how many seconds that took since `launch`."""

        def up() -> bool:
            if not self.running:
                self.kill()
                words = self.log.read_bytes()[self._log_from :].decode(errors="replace")
                kind = PortTakenError if os.strerror(errno.EADDRINUSE) in words else BenchError
                raise kind(self.describe("ended at its start"))
            return ready()

        try:
            wait_until(up, f"{self.name} ready", timeout_seconds=timeout_seconds)
        except TimeoutError as error:
            report = self.describe(str(error))
            self.kill()
            raise BenchError(report) from None
        return time.monotonic() - self._launched_at

    def stop(self, timeout_seconds: float = 30.0) -> float:
        """SIGTERM (also to a paused server); returns how many seconds it took to end."""
        started = time.monotonic()
        if self.running:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)
        self._wait(timeout_seconds)
        return time.monotonic() - started

    def kill(self) -> None:
        """SIGKILL."""
        if self.running:
            self._signal(signal.SIGKILL)
        self._wait(10)

    def pause(self) -> None:
        """SIGSTOP; returns once every thread stands still."""
        self._signal(signal.SIGSTOP)
        how = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        wait_until(
            lambda: os.waitid(os.P_PID, self.pid, how) is not None,
            f"{self.name} paused",
            timeout_seconds=5,
        )

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def log_tail(self, lines: int = 30) -> str:
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""

    def describe(self, problem: str) -> str:
        """The problem, where the log is, and its end; the log then outlives this process object."""
        kept = REPOSITORY / "build" / "bench-logs" / f"{self.directory.name}.log"
        with contextlib.suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.log, kept)
        return f"{self.name}: {problem}\nlog: {kept}\n{self.log_tail()}"

    def close(self) -> None:
        """End the server at once and remove its data."""
        self.kill()
        if self in _live:
            _live.remove(self)
            if not KEEP:
                shutil.rmtree(self.directory, ignore_errors=True)
                _guard().tell(f"-path {self.directory}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def _wait(self, timeout_seconds: float) -> None:
        """Reap the child, if there is one, and take it off the guard's list."""
        if (child := self._child) is None:
            return
        problem = ""
        try:
            child.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            problem = self.describe(f"did not end within {timeout_seconds:g} s")
            self._signal(signal.SIGKILL)
            child.wait(10)
        _guard().tell(f"-pid {child.pid}")
        self._child = None
        if problem:
            raise BenchError(problem)
