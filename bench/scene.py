"""What is measured on: one real broker, one real Valkey, topics full of records, and processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from confluent_kafka import Producer

from tests.benches.kafka import KafkaBroker
from tests.benches.process import REPOSITORY, BenchError, free_port, release_port
from tests.benches.redis import Valkey
from tests.benches.topics import Outsider

PARTITIONS = 4
KEY_BYTES = 8
LAUNCH_SECONDS = 30.0
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process: of all its threads, those that ended included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def rss_mb(pid: int) -> float:
    """Resident memory in millions of bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6


def rss_peak_mb(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return 0.0 if found is None else int(found[1]) * 1024 / 1e6


class Child:
    """A process of the benchmark that says events on its standard output."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._name = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stays: IO[str] = self._process.stdin
        self._lines: IO[str] = self._process.stdout

    @property
    def pid(self) -> int:
        return self._process.pid

    def hear(self, event: str, timeout_seconds: float = 180.0) -> dict[str, Any]:
        """The next event, which must be this one."""
        watchdog = threading.Timer(timeout_seconds, self._process.kill)
        watchdog.start()
        try:
            line = self._lines.readline()
        finally:
            watchdog.cancel()
        if not line:
            code = self._process.wait()
            raise BenchError(f"{self._name} ended with {code} while {event!r} was awaited")
        heard: dict[str, Any] = json.loads(line)
        if heard["event"] != event:
            raise BenchError(f"{self._name} said {heard['event']!r}, not {event!r}")
        return heard

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """It may end now, and does so by itself unless something is wrong."""
        self._stays.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._lines.close()


class Sidecar:
    """`cursor-sidecar run` with its defaults, one group, one topic, a Unix socket."""

    def __init__(
        self, scene: Scene, *, group: str, topic: str, settings: Mapping[str, str] | None = None
    ) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="sidecar-bench-run-")
        self.socket = f"{self._directory.name}/socket"
        self.log = REPOSITORY / "build" / "bench-logs" / f"sidecar-{group}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._admin_port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("CURSOR_SIDECAR_")},
            "CURSOR_SIDECAR_KAFKA__BOOTSTRAP_SERVERS": scene.broker.bootstrap,
            "CURSOR_SIDECAR_KAFKA__GROUP_ID": group,
            "CURSOR_SIDECAR_KAFKA__TOPICS": topic,
            "CURSOR_SIDECAR_REDIS__URL": scene.valkey.url,
            "CURSOR_SIDECAR_API__LISTEN": f"unix:{self.socket}",
            "CURSOR_SIDECAR_ADMIN__LISTEN": f"127.0.0.1:{self._admin_port}",
            **(settings or {}),
        }

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> float:
        """Launch without waiting; the monotonic second at which."""
        command = Path(sys.executable).with_name("cursor-sidecar")
        at = time.monotonic()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [command, "run"], env=self.environment, cwd=REPOSITORY, stdout=log, stderr=log
            )
        return at

    def await_ready(self) -> None:
        end = time.monotonic() + LAUNCH_SECONDS
        while True:
            try:
                with urllib.request.urlopen(self._url("/readyz"), timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                self._check(end)
            time.sleep(0.05)

    def partitions(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(self._url("/v1/partitions"), timeout=5) as answer:
            found: list[dict[str, Any]] = json.load(answer)["partitions"]
            return found

    def await_delivering(self, partitions: int = PARTITIONS) -> None:
        end = time.monotonic() + LAUNCH_SECONDS
        while sum(p["state"] == "delivering" for p in self.partitions()) < partitions:
            self._check(end)
            time.sleep(0.05)

    def _check(self, end: float) -> None:
        assert self._process is not None
        if self._process.poll() is not None or time.monotonic() > end:
            raise BenchError(f"the sidecar is not ready; its log: {self.log}")

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._admin_port}{path}"

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            code = self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise BenchError(f"the sidecar did not end; its log: {self.log}") from None
        finally:
            self._process = None
        if code:
            raise BenchError(f"the sidecar ended with {code}; its log: {self.log}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if kind is None:
            self.log.unlink(missing_ok=True)
        release_port(self._admin_port)
        self._directory.cleanup()


@dataclass(frozen=True)
class Topic:
    name: str
    records: int
    value_bytes: int


class Scene:
    """Broker and store, from the project's own fixtures, with a heap that holds the page cache."""

    def __init__(self) -> None:
        self.broker = KafkaBroker(heap="384m")
        self.valkey = Valkey()
        self._groups = 0

    def __enter__(self) -> Self:
        self.broker.start()
        self.valkey.start()
        self._outsider = Outsider(self.broker)
        return self

    def __exit__(self, *_: object) -> None:
        self.valkey.close()
        self.broker.close()

    def new_group(self, what: str) -> str:
        self._groups += 1
        return f"{what}-{self._groups}"

    def create(self, name: str) -> None:
        self._outsider.create(name, PARTITIONS)

    def delete(self, name: str) -> None:
        self._outsider.delete(name)

    def fill(self, name: str, records: int, value_bytes: int) -> Topic:
        """A topic with that many records, as a busy producer writes them: in batches of 64 KiB."""
        self.create(name)
        producer = self.producer(linger_ms=50)
        values = [os.urandom(value_bytes) for _ in range(64)]
        for i in range(records):
            key = b"%0*d" % (KEY_BYTES, i)
            while True:
                try:
                    producer.produce(name, values[i & 63], key=key, partition=i % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.05)
            if not i & 1023:
                producer.poll(0)
        if producer.flush(120):
            raise BenchError(f"{name} could not be filled")
        return Topic(name, records, value_bytes)

    def producer(self, *, linger_ms: float) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "linger.ms": linger_ms,
                "batch.size": 65_536,
                "queue.buffering.max.messages": 200_000,
                "acks": "1",
            }
        )


def arguments_of(**named: Any) -> Sequence[str]:
    """`--name value` for each; a flag for True."""
    words: list[str] = []
    for name, value in named.items():
        if value is True:
            words.append(f"--{name}")
        elif value not in (None, False):
            words += [f"--{name}", str(value)]
    return words
