"""The application beside the sidecar: pulls pages over a Unix socket, reads them, reports applied.

    python -m bench.application throughput --socket PATH --records N [--msgpack]
    python -m bench.application latency ...
    python -m bench.application first ...

It does what any application has to: decode the page, take key, value and offset of each record,
report. `msgspec` decodes, several connections ask at once (a thread each), and HTTP is the standard
library's. It also holds the sidecar to its word: in each partition, every page begins where the one
before it ended, and nothing comes twice.
"""

from __future__ import annotations

import argparse
import http.client
import socket
import threading
import time
from collections.abc import Callable

import msgspec

from bench.wire import Window, say, sent_at, stay

CONNECTIONS = 4
WAIT_SECONDS = 5.0


class Record(msgspec.Struct, gc=False):
    offset: int
    key: bytes | None
    value: bytes | None


class Page(msgspec.Struct, gc=False):
    page: str
    partition: int
    first: int
    last: int
    successor: int
    records: list[Record]


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("sidecar", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Client:
    """One connection."""

    def __init__(self, path: str, *, msgpack: bool) -> None:
        codec = msgspec.msgpack if msgpack else msgspec.json
        media_type = "application/msgpack" if msgpack else "application/json"
        self._http = _Unix(path)
        self._headers = {"Content-Type": media_type, "Accept": media_type}
        self._decode = codec.Decoder(Page).decode
        self._pull = codec.encode({"wait_seconds": WAIT_SECONDS})
        self._applied = codec.encode({"outcome": "applied"})

    def _ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        self._http.request("POST", path, body, self._headers)
        response = self._http.getresponse()
        return response.status, response.read()

    def page(self) -> Page | None:
        status, body = self._ask("/v1/pages", self._pull)
        if status == 204:
            return None
        if status != 200:
            raise SystemExit(f"a page was refused with {status}: {body.decode()}")
        page: Page = self._decode(body)
        return page

    def report(self, page: Page) -> None:
        status, body = self._ask(f"/v1/pages/{page.page}/outcomes", self._applied)
        if status != 200:
            raise SystemExit(f"a report was refused with {status}: {body.decode()}")


class Application:
    """What the connections share. `take` is called for each page, one at a time."""

    def __init__(self, path: str, *, msgpack: bool, take: Callable[[Page, int], bool]) -> None:
        self._path = path
        self._msgpack = msgpack
        self._take = take
        self._lock = threading.Lock()
        self._expected: dict[int, int] = {}
        self._done = threading.Event()
        self._problem: str | None = None

    def run(self, connections: int = CONNECTIONS) -> None:
        for _ in range(connections):
            threading.Thread(target=self._guarded, daemon=True).start()
        self._done.wait()
        if self._problem is not None:
            raise SystemExit(self._problem)

    def _guarded(self) -> None:
        try:
            self._loop(Client(self._path, msgpack=self._msgpack))
        except (Exception, SystemExit) as error:
            self._problem = f"{type(error).__name__}: {error}"
            self._done.set()

    def _loop(self, client: Client) -> None:
        while not self._done.is_set():
            page = client.page()
            if page is None:
                continue
            octets = 0
            offset = page.first - 1
            for record in page.records:
                key, value, offset = record.key, record.value, record.offset
                octets += len(key or b"") + len(value or b"")
            if offset != page.last:
                raise AssertionError(f"the page ends at {offset}, not at {page.last}")
            with self._lock:  # the next page of this partition comes only after our report
                expected = self._expected.get(page.partition, page.first)
                self._expected[page.partition] = page.successor
            if page.first != expected:
                raise AssertionError(
                    f"partition {page.partition} went on at {page.first}, not at {expected}"
                )
            client.report(page)
            with self._lock:
                if self._take(page, octets):
                    self._done.set()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("throughput", "latency", "first"))
    parser.add_argument("--socket", required=True)
    parser.add_argument("--records", type=int, default=1)
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--msgpack", action="store_true")
    arguments = parser.parse_args()
    run = {"throughput": _throughput, "latency": _latency, "first": _first}[arguments.what]
    run(arguments)
    stay()


def _throughput(arguments: argparse.Namespace) -> None:
    window = Window(arguments.records)

    def take(page: Page, octets: int) -> bool:
        window.passed(len(page.records), octets)
        return window.closed

    _await(arguments.socket)
    Application(arguments.socket, msgpack=arguments.msgpack, take=take).run(arguments.connections)


def _latency(arguments: argparse.Namespace) -> None:
    """Each connection reads the clock as soon as it holds the decoded page."""
    seen: list[float] = []
    lock = threading.Lock()
    done = threading.Event()
    _await(arguments.socket)

    def loop() -> None:
        client = Client(arguments.socket, msgpack=arguments.msgpack)
        while not done.is_set():
            page = client.page()
            now = time.time()
            if page is None:
                continue
            with lock:
                seen.extend(now - sent_at(record.value or b"") for record in page.records)
            client.report(page)
            if len(seen) >= arguments.records:
                done.set()

    for _ in range(arguments.connections):
        threading.Thread(target=loop, daemon=True).start()
    say("ready")
    done.wait()
    say("latencies", seconds=seen)


def _first(arguments: argparse.Namespace) -> None:
    """The first page, as soon as it can be had."""
    say("ready")
    _await(arguments.socket)
    client = Client(arguments.socket, msgpack=arguments.msgpack)
    page = None
    while page is None:
        page = client.page()
    at = time.monotonic()
    client.report(page)
    say("first", at=at, offset=page.first, partition=page.partition)


def _await(path: str, timeout_seconds: float = 30.0) -> None:
    """Until the socket takes connections."""
    end = time.monotonic() + timeout_seconds
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
                return
            except OSError:
                if time.monotonic() >= end:
                    raise SystemExit(f"nobody listens on {path}") from None
        time.sleep(0.002)


if __name__ == "__main__":
    main()
