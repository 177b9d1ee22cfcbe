"""The application beside a sidecar: makes each record's effect durable, then reports it.

Its effect is one line in a ledger of its own, synced to disk before the report leaves. A real
application that crashes between the two has done the record and never said so; the ledger is what
was really done, whatever anybody was told.
"""

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import msgspec

from tests.benches.waiting import wait_until
from tests.harness.api import AWAY, Answer, Api, Page, Refused


class Effect(msgspec.Struct, frozen=True):
    """One record, done once. `digest` is over the value as it was received."""

    topic: str
    partition: int
    offset: int
    key: str
    digest: str
    redelivered: bool
    attempt: int
    page: str
    by: str


def digest(value: bytes | None) -> str:
    return "none" if value is None else hashlib.sha256(value).hexdigest()[:16]


class Ledger:
    """Effects in the order in which they happened, shared by the applications of one group."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab")
        self._lock = threading.Lock()
        self.count = 0

    def write(self, page: Page, by: str) -> None:
        lines = b"".join(
            msgspec.json.encode(
                Effect(
                    page.topic,
                    page.partition,
                    record.offset,
                    record.idempotency_key,
                    digest(record.value),
                    record.redelivered,
                    page.attempt,
                    page.page,
                    by,
                )
            )
            + b"\n"
            for record in page.records
        )
        with self._lock:
            self._file.write(lines)
            self._file.flush()
            os.fdatasync(self._file.fileno())
            self.count += len(page.records)

    def effects(self) -> list[Effect]:
        return list(self._effects())

    def _effects(self) -> Iterator[Effect]:
        with self.path.open("rb") as lines:
            for line in lines:
                yield msgspec.json.decode(line, type=Effect)

    def close(self) -> None:
        self._file.close()


class Died(Exception):
    """Raised by a hook: the application ends here, as if it had crashed."""


Report = dict[str, object]


class Application:
    """Pulls pages on a thread of its own until it is stopped.

    `address` is asked anew whenever the sidecar was not there, since its port changes with each
    life. `before_report(page)` runs between effect and report: it may wait, or raise `Died`.
    `outcome(page)` is the report's body; by default everything was applied.
    """

    def __init__(
        self,
        address: Callable[[], str],
        ledger: Ledger,
        *,
        name: str = "app",
        records_max: int | None = None,
        before_report: Callable[[Page], None] | None = None,
        outcome: Callable[[Page], Report] | None = None,
    ) -> None:
        self._address = address
        self._ledger = ledger
        self.name = name
        self._records_max = records_max
        self._before_report = before_report
        self._outcome = outcome or (lambda page: {"outcome": "applied"})
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.problems: Counter[str] = Counter()
        """Kinds of refusals met."""
        self.reported = 0
        """Records whose report was answered."""
        self.failure: BaseException | None = None

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """Ends after the page in hand; raises what the thread raised."""
        self._stopping.set()
        self._thread.join(timeout_seconds)
        if self._thread.is_alive():
            raise TimeoutError(f"{self.name} did not stop within {timeout_seconds:g} s")
        if self.failure is not None and not isinstance(self.failure, Died):
            raise self.failure

    def rest(self, seconds: float) -> None:
        """For a hook: be slow, but not to stop."""
        self._stopping.wait(seconds)

    def await_death(self, timeout_seconds: float = 20.0) -> None:
        wait_until(
            lambda: isinstance(self.failure, Died),
            f"{self.name} died",
            timeout_seconds=timeout_seconds,
        )

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        api: Api | None = None
        try:
            while not self._stopping.is_set():
                try:
                    if api is None:
                        api = Api(self._address())
                    self._turn(api)
                except AWAY:
                    # Killed, or not listening yet: ask where it is now.
                    api = None
                    self._stopping.wait(0.02)
        except BaseException as error:
            self.failure = error
        finally:
            if api is not None:
                api.close()

    def _turn(self, api: Api) -> None:
        try:
            page = api.take(1.0, records_max=self._records_max)
        except Refused as refused:
            self.problems[refused.kind] += 1
            self._stopping.wait(0.05)
            return
        if page is None:
            return
        self._ledger.write(page, self.name)
        if self._before_report is not None:
            self._before_report(page)
        answer = self._report(api, page, self._outcome(page))
        if answer is not None:
            self.reported += len(page.records)

    def _report(self, api: Api, page: Page, body: Report) -> Answer | None:
        """The same report again while it is not known to be recorded; None when the page is no
        longer ours, and its records will come again."""
        while True:
            try:
                return api.report(page.page, body)
            except Refused as refused:
                self.problems[refused.kind] += 1
                if refused.status != 503 or self._stopping.is_set():
                    return None
                self._stopping.wait(0.1)
