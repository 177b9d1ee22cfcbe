"""A whole application beside the sidecar: pull a page, make its effects durable, report it.

This is all an application has to do, and the order is the point. It writes each effect and fsyncs
it, and only then reports; so whenever either process dies, a record is at worst handed out again,
flagged, under the same idempotency key, and never lost. This one keeps every application of a
record, the second one too, so that the demo can show them; one that stores the key with its effect
would drop the second and be exactly-once in outcome.

Standard library alone, so it can be copied and run: `python application.py --ledger FILE`.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

TAKE_WAIT_SECONDS = 5
AGAIN_SECONDS = 0.2
"""Before asking a sidecar that is away, or busy, once more."""


class Away(Exception):
    """No answer: the sidecar is not there, or went while it was asked."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("sidecar", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Sidecar:
    """Its HTTP API. `address` is `host:port` or `unix:/path`, as in API__LISTEN."""

    def __init__(self, address: str, timeout_seconds: float = TAKE_WAIT_SECONDS + 10) -> None:
        self._address = address
        self._timeout = timeout_seconds

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and decoded answer, None where there is none."""
        connection = self._connection()
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            raw = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Away(str(error)) from error
        finally:
            connection.close()
        return answer.status, json.loads(raw) if raw else None

    def _connection(self) -> http.client.HTTPConnection:
        if self._address.startswith("unix:"):
            return _UnixConnection(self._address.removeprefix("unix:"), self._timeout)
        return http.client.HTTPConnection(self._address, timeout=self._timeout)


class Ledger:
    """The application's effects: one line an order, on the disk before anybody is told."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        # A crash may leave half a line at the end. It was never reported, so it comes again.
        os.ftruncate(self._file, path.read_bytes().rfind(b"\n") + 1)

    def book(self, entry: dict[str, Any]) -> None:
        os.write(self._file, json.dumps(entry, separators=(",", ":")).encode() + b"\n")
        os.fsync(self._file)


def apply(page: dict[str, Any], ledger: Ledger, payments: Path) -> None:
    for record in page["records"]:
        order = json.loads(base64.b64decode(record["value"]))
        if order.get("unpaid"):
            await_payment(payments / str(order["order"]))
        ledger.book(
            {
                "topic": page["topic"],
                "partition": page["partition"],
                "offset": record["offset"],
                "order": order["order"],
                "key": record["idempotency_key"],
                "redelivered": record["redelivered"],
            }
        )


def await_payment(payment: Path) -> None:
    """Real work waits for others, too; meanwhile the rest of the page waits in our hands."""
    while not payment.exists():
        time.sleep(0.02)


def take(sidecar: Sidecar) -> dict[str, Any] | None:
    """A page, or None when there is none for now."""
    try:
        status, page = sidecar.ask("POST", "/v1/pages", {"wait_seconds": TAKE_WAIT_SECONDS})
    except Away:
        status, page = 503, None
    if status == 200:
        taken: dict[str, Any] = page
        return taken
    if status != 204:
        time.sleep(AGAIN_SECONDS)
    return None


def report(sidecar: Sidecar, page: dict[str, Any]) -> str:
    """Until it is answered: the same report may be sent any number of times."""
    while True:
        try:
            path = f"/v1/pages/{page['page']}/outcomes"
            status, answer = sidecar.ask("POST", path, {"outcome": "applied"})
        except Away:
            status, answer = 503, None
        if status == 200:
            return "reported"
        if status == 409:  # the page is no longer ours; what it held comes again, flagged
            return str(answer["type"])
        if status != 503:
            raise SystemExit(f"the report was refused: {status} {answer}")
        time.sleep(AGAIN_SECONDS)


def main() -> None:
    options = argparse.ArgumentParser(description="Books orders into a ledger, beside a sidecar.")
    options.add_argument("--api", default="127.0.0.1:8460", help="host:port or unix:/path")
    options.add_argument("--ledger", type=Path, required=True, help="what was done, line by line")
    options.add_argument("--payments", type=Path, default=Path(), help="one file a paid order")
    given = options.parse_args()
    sidecar, ledger = Sidecar(given.api), Ledger(given.ledger)
    while True:
        page = take(sidecar)
        if page is None:
            continue
        where = f"{page['topic']}/{page['partition']} {page['first']}..{page['last']}"
        print(f"{where}: {len(page['records'])} records taken", flush=True)
        apply(page, ledger, given.payments)
        print(f"{where}: {report(sidecar, page)}", flush=True)


if __name__ == "__main__":
    main()
