"""A client of the application API: the contract's JSON as values, refusals as one exception.

Written from the contract rather than from the product's own messages, so that a field that is
renamed there is missed here.
"""

import http.client
import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class RecordSeen(msgspec.Struct, frozen=True):
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    idempotency_key: str
    redelivered: bool


class Page(msgspec.Struct, frozen=True):
    page: str
    topic: str
    partition: int
    generation: int
    first: int
    last: int
    successor: int
    remaining_records: int
    attempt: int
    deadline: str
    records: list[RecordSeen]

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in self.records]


class Answer(msgspec.Struct, frozen=True):
    applied: int
    next: int
    generation: int
    committed: int | None
    unresolved: list[int]


class PartitionState(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    state: str
    reason: str | None
    verdict: str | None
    applied: int | None
    next: int | None
    committed: int | None
    generation: int | None
    cluster_id: str | None
    topic_id: str | None
    leader_epoch: int | None
    log_start: int | None
    log_end: int | None
    lag_records: int | None
    caught_up: bool
    conditions: list[str]
    gap: str | None
    hold: str | None
    since: str
    detail: str


class GapSeen(msgspec.Struct, frozen=True):
    id: str
    topic: str
    partition: int
    first: int
    end: int | None
    reason: str
    state: str
    evidence: dict[str, Any]
    generation: int
    opened_at: str
    acknowledged: dict[str, Any] | None
    resolution: dict[str, Any] | None
    audit: list[dict[str, Any]]

    @property
    def holds(self) -> bool:
        return self.state in ("open", "acknowledged")


class HoldSeen(msgspec.Struct, frozen=True):
    id: str
    topic: str
    partition: int
    verdict: str
    evidence: dict[str, Any]
    answers: list[str]
    since: str
    detail: str


class Dependency(msgspec.Struct, frozen=True):
    up: bool
    since: str
    reason: str | None
    detail: str | None


class Status(msgspec.Struct, frozen=True):
    ready: bool
    reasons: list[str]
    group: str
    member: str | None
    cluster_id: str | None
    assigned: int
    dependencies: dict[str, Dependency]


class _Problem(msgspec.Struct, frozen=True):
    type: str
    status: int
    detail: str = ""


class _Partitions(msgspec.Struct):
    partitions: list[PartitionState]


class _Gaps(msgspec.Struct):
    gaps: list[GapSeen]


class _Holds(msgspec.Struct):
    holds: list[HoldSeen]


class Refused(Exception):
    """A problem+json answer."""

    def __init__(self, status: int, kind: str, detail: str, retry_after: str | None) -> None:
        super().__init__(f"{status} {kind}: {detail}")
        self.status = status
        self.kind = kind
        self.detail = detail
        self.retry_after = retry_after


AWAY = (OSError, http.client.HTTPException)
"""What a request raises while the sidecar is not there."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Api:
    """One connection, kept open; for one thread. `address`: `host:port` or `unix:/path`."""

    def __init__(self, address: str, timeout_seconds: float = 40.0) -> None:
        self.address = address
        self._timeout = timeout_seconds
        self._connection: http.client.HTTPConnection | None = None

    # The application's

    def take(
        self,
        wait_seconds: float = 5.0,
        *,
        records_max: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> Page | None:
        asked = {
            "wait_seconds": wait_seconds,
            "records_max": records_max,
            "topic": topic,
            "partition": partition,
        }
        status, body = self._call("POST", "/v1/pages", asked)
        return None if status == 204 else msgspec.json.decode(body, type=Page)

    def report(self, page: str, body: Mapping[str, object], *, committed: bool = False) -> Answer:
        query = "?wait=committed" if committed else ""
        return self._decoded(Answer, "POST", f"/v1/pages/{page}/outcomes{query}", body)

    def applied(self, page: Page, *, through: int | None = None, committed: bool = False) -> Answer:
        body: dict[str, object] = {"outcome": "applied"}
        if through is not None:
            body["through"] = through
        return self.report(page.page, body, committed=committed)

    def each(self, page: Page, outcomes: Mapping[int, str]) -> Answer:
        listed = [{"offset": offset, "outcome": outcome} for offset, outcome in outcomes.items()]
        return self.report(page.page, {"outcomes": listed})

    def drain(self) -> None:
        self._call("POST", "/v1/drain", {})

    # State

    def status(self) -> Status:
        return self._decoded(Status, "GET", "/v1/status")

    def partitions(self) -> list[PartitionState]:
        return self._decoded(_Partitions, "GET", "/v1/partitions").partitions

    def partition(self, topic: str, index: int = 0) -> PartitionState | None:
        """None while it is not assigned here."""
        for seen in self.partitions():
            if (seen.topic, seen.partition) == (topic, index):
                return seen
        return None

    def gaps(self, state: str | None = None) -> list[GapSeen]:
        query = f"?state={state}" if state else ""
        return self._decoded(_Gaps, "GET", f"/v1/gaps{query}").gaps

    def holds(self) -> list[HoldSeen]:
        return self._decoded(_Holds, "GET", "/v1/holds").holds

    # Decisions

    def acknowledge(self, gap: str, *, by: str = "on-call", why: str = "seen") -> GapSeen:
        body = {"by": by, "why": why}
        return self._decoded(GapSeen, "POST", f"/v1/gaps/{gap}/acknowledge", body)

    def resolve(
        self, gap: str, resolution: str, *, by: str = "on-call", why: str = "a test", **more: object
    ) -> GapSeen:
        body = {"resolution": resolution, "by": by, "why": why, **more}
        return self._decoded(GapSeen, "POST", f"/v1/gaps/{gap}/resolve", body)

    def answer(self, hold: str, answer: str) -> HoldSeen:
        body = {"answer": answer, "by": "on-call", "why": "a test"}
        return self._decoded(HoldSeen, "POST", f"/v1/holds/{hold}/answer", body)

    def text(self, path: str) -> tuple[int, str]:
        """Status and body of a GET, refusals included: for probes and metrics."""
        try:
            status, body = self._call("GET", path)
        except Refused as refused:
            return refused.status, refused.detail
        return status, body.decode()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # How

    def _decoded(
        self, kind: type[T], method: str, path: str, body: Mapping[str, object] | None = None
    ) -> T:
        return msgspec.json.decode(self._call(method, path, body)[1], type=kind)

    def _call(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> tuple[int, bytes]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            if self._connection is None:
                self._connection = self._connect()
            self._connection.request(method, path, data, headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except AWAY:
            self.close()
            raise
        if answer.status >= 400:
            raise self._refused(answer, content)
        return answer.status, content

    @staticmethod
    def _refused(answer: http.client.HTTPResponse, content: bytes) -> Refused:
        try:
            problem = msgspec.json.decode(content, type=_Problem)
        except msgspec.DecodeError:
            problem = _Problem("", answer.status, content.decode(errors="replace"))
        retry_after = answer.getheader("Retry-After")
        return Refused(answer.status, problem.type, problem.detail, retry_after)

    def _connect(self) -> http.client.HTTPConnection:
        if self.address.startswith("unix:"):
            return _UnixConnection(self.address.removeprefix("unix:"), self._timeout)
        host, _, port = self.address.rpartition(":")
        return http.client.HTTPConnection(host, int(port), timeout=self._timeout)


def offsets(pages: Sequence[Page]) -> list[int]:
    return [offset for page in pages for offset in page.offsets]
