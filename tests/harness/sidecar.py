"""The sidecar as a real process: started, asked, frozen, killed; its log lines as values."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benches.process import BenchError, Process
from tests.benches.waiting import wait_until
from tests.harness.api import AWAY, Api, GapSeen, PartitionState

Event = dict[str, Any]

ENTRY = (sys.executable, "-c", "from sidecar.cli import main; main()")
"""What the installed script does, without asking where it was installed."""


class SidecarProcess(Process):
    """One identity of a sidecar; it may die and be started again, its log goes on.

    Ports are the kernel's: they are read from the `sidecar_started` line of each life.
    """

    def __init__(self, settings: Mapping[str, object], *, name: str = "sidecar") -> None:
        super().__init__(name)
        self.settings = dict(settings)
        self.entry: Sequence[str] = ENTRY
        """What the next life is started with."""
        self._events: list[Event] = []
        self._reading = threading.Lock()  # tests and their applications ask at the same time
        self._read_to = 0
        self._life_from = 0
        self._apis: list[Api] = []

    # Life

    def start(self, timeout_seconds: float = 90.0, **settings: object) -> float:
        """Start and wait until it listens, which needs no server; returns the seconds taken."""
        self.launch_sidecar(**settings)
        return self.await_ready(
            lambda: self.last("sidecar_started", this_life=True) is not None,
            timeout_seconds=timeout_seconds,
        )

    def launch_sidecar(self, **settings: object) -> None:
        self.settings |= settings
        self._life_from = self.mark()
        flags = [word for name, value in self._flags() for word in ("--set", f"{name}={value}")]
        self.launch([*self.entry, "run", *flags])

    def _flags(self) -> list[tuple[str, object]]:
        given = {
            "API__LISTEN": "127.0.0.1:0",
            "ADMIN__LISTEN": "127.0.0.1:0",
            **self.settings,
        }
        return [(name, value) for name, value in given.items() if value is not None]

    def ended(self, timeout_seconds: float = 30.0) -> int:
        """Wait until it ends by itself; returns the exit code."""
        assert self._child is not None
        child = self._child
        try:
            code = child.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise BenchError(self.describe(f"still runs after {timeout_seconds:g} s")) from None
        self._wait(1)
        return code

    def ask_to_end(self) -> None:
        """SIGTERM, without waiting."""
        self._signal(signal.SIGTERM)

    def terminate(self, timeout_seconds: float = 30.0) -> tuple[int, float]:
        """SIGTERM; returns exit code and seconds."""
        assert self._child is not None
        started = time.monotonic()
        self._child.terminate()
        code = self.ended(timeout_seconds)
        return code, time.monotonic() - started

    @property
    def cpu_seconds(self) -> float:
        """User and system time of this life so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        for api in self._apis:
            api.close()
        super().close()

    # Its API

    @property
    def address(self) -> str:
        """Of the application API, in this life."""
        return str(self._started["api"])

    @property
    def admin_address(self) -> str:
        return str(self._started["admin"])

    @property
    def _started(self) -> Event:
        event = self.last("sidecar_started", this_life=True)
        # As a client finds it. The port of one that has ended may be somebody else's by now.
        if event is None or not self.running:
            raise ConnectionRefusedError(f"{self.name} does not listen")
        return event

    def api(self, timeout_seconds: float = 40.0) -> Api:
        """A connection to the application API, closed with this object."""
        self._apis.append(Api(self.address, timeout_seconds))
        return self._apis[-1]

    def admin(self) -> Api:
        self._apis.append(Api(self.admin_address))
        return self._apis[-1]

    # Its log

    def events(self, name: str | None = None, **fields: object) -> list[Event]:
        """Log lines so far, of all lives; those with this name and these fields."""
        return self.since(0, name, **fields)

    def mark(self) -> int:
        """For `since`: what was logged before does not count."""
        return len(self._read())

    def since(self, mark: int, name: str | None = None, **fields: object) -> list[Event]:
        return [
            event
            for event in self._read()[mark:]
            if (name is None or event.get("event") == name)
            and all(event.get(key) == value for key, value in fields.items())
        ]

    def last(self, name: str, *, this_life: bool = False, **fields: object) -> Event | None:
        found = self.since(self._life_from if this_life else 0, name, **fields)
        return found[-1] if found else None

    def await_event(
        self,
        name: str,
        *,
        after: int | None = None,
        timeout_seconds: float = 30.0,
        **fields: object,
    ) -> Event:
        """The first such line since `after` (a mark; None: this life's beginning)."""
        mark = self._life_from if after is None else after

        def found() -> Event | None:
            events = self.since(mark, name, **fields)
            return events[0] if events else None

        return wait_until(found, self._what(f"{name} {fields}"), timeout_seconds=timeout_seconds)

    def await_store_error(
        self, code: str | None = None, *, after: int = 0, timeout_seconds: float = 30.0
    ) -> str:
        """The store's first error since a mark (or the first of a code), as `kind/CODE`."""

        def found() -> str | None:
            for event in self.since(after, component="redis"):
                said = event.get("code")
                if said and (code is None or said == code):
                    return f"{event.get('kind') or event.get('reason')}/{said}"
            return None

        what = self._what(f"the store's error {code or ''}")
        return wait_until(found, what, timeout_seconds=timeout_seconds)

    def verdicts(self, topic: str, partition: int = 0, *, after: int | None = None) -> list[str]:
        mark = self._life_from if after is None else after
        seen = self.since(mark, "verdict_reached", topic=topic, partition=partition)
        return [str(event["verdict"]) for event in seen]

    def _read(self) -> list[Event]:
        with self._reading:
            if self.log.exists():
                with self.log.open("rb") as log:
                    log.seek(self._read_to)
                    data = log.read()
                whole = data[: data.rfind(b"\n") + 1]
                self._read_to += len(whole)
                self._events += map(_event, whole.splitlines())
            return self._events

    # Waiting

    def await_partition(
        self,
        topic: str,
        partition: int = 0,
        *,
        timeout_seconds: float = 45.0,
        **wanted: object,
    ) -> PartitionState:
        """Until the partition is shown with these fields (`state="gap"`, `caught_up=True`, …)."""
        api = self.api(5.0)
        seen: list[PartitionState | None] = [None]

        def there() -> PartitionState | None:
            state = seen[0] = api.partition(topic, partition)
            if state is None:
                return None
            matches = all(getattr(state, name) == value for name, value in wanted.items())
            return state if matches else None

        try:
            return wait_until(
                there,
                self._what(f"{topic}/{partition} is {wanted}"),
                timeout_seconds=timeout_seconds,
                every_seconds=0.05,
                ignoring=AWAY,
            )
        except TimeoutError as error:
            raise TimeoutError(f"{error}\nlast: {seen[0]}") from None

    def await_gap(self, topic: str, partition: int = 0, **wait: float) -> GapSeen:
        """Until the partition is stopped by an open gap; returns it."""
        state = self.await_partition(topic, partition, state="gap", **wait)
        api = self.api()
        (gap,) = [gap for gap in api.gaps() if gap.id == state.gap]
        return gap

    def await_up(self, *, timeout_seconds: float = 60.0) -> float:
        """Until it calls itself ready; returns the seconds that took."""
        began = time.monotonic()
        api = self.api(5.0)
        wait_until(
            lambda: api.status().ready,
            self._what("ready"),
            timeout_seconds=timeout_seconds,
            ignoring=AWAY,
        )
        return time.monotonic() - began

    def _what(self, what: str) -> str:
        return f"{self.name}: {what}"


def _event(line: bytes) -> Event:
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    if isinstance(event, dict):
        return event
    return {"event": "not_an_event", "text": line.decode(errors="replace")}
