"""From a request to the desk's values and back, one method an operation.

Who may be cut off, and who may not: a client that leaves cancels its request (aiohttp's handler
cancellation), which is right for a long poll and an event stream and wrong for a report half-way
into the store. So what changes something runs in a task of its own, shielded, to its end; a client
that left sends the same report again and gets the same answer.

A page that was taken for a client that left in the same instant is not lost: it stays out until
its deadline and is offered again, flagged.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import hdrs, web

from sidecar.api import messages as m
from sidecar.api.codec import JSON, Codec, answer_codec, body_codec
from sidecar.api.events import last_event_id, stream
from sidecar.api.openapi import openapi_bytes
from sidecar.api.pages import page_of
from sidecar.api.problems import Problem, malformed
from sidecar.core.gap import Gap, GapState
from sidecar.core.types import GapId, HoldId, PageId
from sidecar.core.types import Offset as Position
from sidecar.core.views import (
    AllApplied,
    Each,
    PageRequest,
    Refusal,
    Refused,
    Report,
    ResolveRequest,
)
from sidecar.ports import Desk

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def handler_name(operation_id: str) -> str:
    """`takePage` is answered by `take_page`."""
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", operation_id)


@dataclass(frozen=True, slots=True)
class Limits:
    """`parked_max`: requests that may wait at once, for a page or for a commit."""

    page_records_max: int = 500
    page_bytes_max: int = 1_048_576
    parked_max: int = 256
    streams_max: int = 32

    @property
    def body_bytes_max(self) -> int:
        """Room for an outcome with a reason for each record of the largest page."""
        return max(1_048_576, self.page_records_max * 256)


class Parking:
    """Requests that wait: bounded, and sent away when the server stops."""

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._waiting: set[asyncio.Task[Any]] = set()
        self._closed = False

    def __enter__(self) -> None:
        if self._closed:
            raise self._leaving()
        if len(self._waiting) >= self._most:
            raise Problem(
                Refused.BUSY,
                f"{self._most} {self._what} are open already; ask again.",
                retry_after_seconds=1,
            )
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._waiting.discard(task)
        if kind is asyncio.CancelledError and self._closed:
            task.uncancel()
            raise self._leaving() from None

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        for task in self._waiting:
            task.cancel()

    def _leaving(self) -> Problem:
        return Problem(Refused.DRAINING, "The sidecar is ending.", retry_after_seconds=1)


class Handlers:
    """`failed` hears of an error that no client is left to be told of."""

    def __init__(self, desk: Desk, limits: Limits, failed: Callable[[Exception], None]) -> None:
        self._desk = desk
        self._limits = limits
        self._failed = failed
        self.polls = Parking(limits.parked_max, "waiting requests")
        self.streams = Parking(limits.streams_max, "event streams")
        self._finishing: set[asyncio.Task[Any]] = set()

    # The application's

    async def take_page(self, request: web.Request) -> web.StreamResponse:
        codec = answer_codec(request)
        asked = await _body(request, m.PageBody, m.PageBody())
        if asked.partition is not None and asked.topic is None:
            raise malformed("`partition` needs `topic` beside it.")
        records_max = self._limits.page_records_max
        if asked.records_max is not None:
            records_max = min(records_max, asked.records_max)
        wanted = PageRequest(records_max, self._limits.page_bytes_max, asked.topic, asked.partition)
        with self.polls:
            offer = _granted(await self._desk.take_page(wanted, asked.wait_seconds))
        if offer is None:
            return web.Response(status=204)
        return _answer(codec, page_of(offer))

    async def report_outcomes(self, request: web.Request) -> web.StreamResponse:
        codec = answer_codec(request)
        wait = _query(request, "wait", ("committed",)) is not None
        report = _report(await _body(request, m.ReportBody))
        page = PageId(request.match_info["page"])
        with self.polls if wait else nullcontext():
            answer = await self._finish(self._desk.report(page, report, wait_committed=wait))
        return _answer(codec, m.Reported.of(_granted(answer)))

    # State

    async def get_status(self, request: web.Request) -> web.StreamResponse:
        return _answer(answer_codec(request), m.Status.of(self._desk.status()))

    async def list_partitions(self, request: web.Request) -> web.StreamResponse:
        views = self._desk.partitions()
        return _answer(
            answer_codec(request), m.Partitions([m.PartitionItem.of(view) for view in views])
        )

    async def get_partition(self, request: web.Request) -> web.StreamResponse:
        topic, index = request.match_info["topic"], request.match_info["partition"]
        for view in self._desk.partitions():
            if view.topic == topic and str(view.partition) == index:
                return _answer(answer_codec(request), m.PartitionItem.of(view))
        raise Problem(
            Refused.PARTITION_UNKNOWN,
            "Another member may have it; GET /v1/partitions lists those assigned here.",
        )

    async def list_gaps(self, request: web.Request) -> web.StreamResponse:
        state = _query(request, "state", tuple(GapState))
        gaps = _granted(await self._desk.gaps())
        return _answer(
            answer_codec(request),
            m.Gaps([m.GapItem.of(gap) for gap in gaps if state is None or gap.state == state]),
        )

    async def get_gap(self, request: web.Request) -> web.StreamResponse:
        wanted = request.match_info["id"]
        for gap in _granted(await self._desk.gaps()):
            if gap.id == wanted:
                return _answer(answer_codec(request), m.GapItem.of(gap))
        raise Problem(Refused.GAP_UNKNOWN, "GET /v1/gaps lists those that are kept.")

    async def list_holds(self, request: web.Request) -> web.StreamResponse:
        return _answer(
            answer_codec(request), m.Holds([m.HoldItem.of(view) for view in self._desk.holds()])
        )

    async def stream_events(self, request: web.Request) -> web.StreamResponse:
        after = last_event_id(request)
        with self.streams:
            return await stream(request, self._desk.notices(after), lambda: self.streams.closed)

    async def get_open_api(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=openapi_bytes(), content_type="application/json")

    # Decisions

    async def fence_gap(self, request: web.Request) -> web.StreamResponse:
        codec = answer_codec(request)
        fence = _granted(await self._finish(self._desk.fence(_gap(request))))
        return _answer(codec, m.Fence(fence))

    async def acknowledge_gap(self, request: web.Request) -> web.StreamResponse:
        codec = answer_codec(request)
        asked = await _body(request, m.AcknowledgeBody)
        gap: Gap = _granted(
            await self._finish(self._desk.acknowledge(_gap(request), by=asked.by, why=asked.why))
        )
        return _answer(codec, m.GapItem.of(gap))

    async def resolve_gap(self, request: web.Request) -> web.StreamResponse:
        codec = answer_codec(request)
        asked = await _body(request, m.ResolveBody)
        wanted = ResolveRequest(
            resolution=asked.resolution,
            by=asked.by,
            why=asked.why,
            evidence=asked.evidence,
            fence=_position(asked.fence),
            resume_at=_position(asked.resume_at),
            end_max=_position(asked.end_max),
        )
        gap: Gap = _granted(await self._finish(self._desk.resolve(_gap(request), wanted)))
        return _answer(codec, m.GapItem.of(gap))

    async def answer_hold(self, request: web.Request) -> web.StreamResponse:
        codec = answer_codec(request)
        asked = await _body(request, m.AnswerBody)
        hold = _granted(
            await self._finish(
                self._desk.answer(
                    HoldId(request.match_info["id"]), asked.answer, by=asked.by, why=asked.why
                )
            )
        )
        return _answer(codec, m.HoldItem.of(hold))

    async def drain(self, request: web.Request) -> web.StreamResponse:
        codec = answer_codec(request)
        await self._finish(self._desk.drain())
        return _answer(codec, m.Drained(drained=True))

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        """To its end, also when the client is gone by then."""
        task = asyncio.get_running_loop().create_task(work)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(self._left_behind)
            raise

    def _left_behind(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._failed(error)

    async def settle(self, timeout_seconds: float) -> None:
        """Wait for what clients have left behind."""
        if self._finishing:
            await asyncio.wait(self._finishing, timeout=timeout_seconds)


async def _body(request: web.Request, kind: type[T], default: T | None = None) -> T:
    try:
        body = await request.read()
    except web.RequestPayloadError:
        raise malformed("The body is not what its Content-Encoding says.") from None
    if body:
        return body_codec(request).decode(body, kind)
    if default is None:
        raise malformed("This operation needs a body.")
    return default


def _answer(codec: Codec, body: Any) -> web.Response:
    return web.Response(
        body=codec.encode(body),
        headers={hdrs.CONTENT_TYPE: codec.media_type, hdrs.CACHE_CONTROL: "no-store"},
    )


def _granted(answer: T | Refusal) -> T:
    if isinstance(answer, Refusal):
        raise Problem.of(answer)
    return answer


def _query(request: web.Request, name: str, values: tuple[str, ...]) -> str | None:
    given = request.query.get(name)
    if given is not None and given not in values:
        raise malformed(f"`{name}` in the query is one of: {', '.join(values)}.")
    return given


def _report(body: m.ReportBody) -> Report:
    if body.outcomes is not None:
        if body.outcome is not None or body.through is not None:
            raise malformed("`outcomes` stands alone, without `outcome` and `through`.")
        return Each([(Position(one.offset), one.outcome) for one in body.outcomes])
    if body.outcome is None:
        raise malformed("One of `outcome` and `outcomes` is needed.")
    return AllApplied(body.outcome, _position(body.through))


def _position(offset: int | None) -> Position | None:
    return None if offset is None else Position(offset)


def _gap(request: web.Request) -> GapId:
    return GapId(request.match_info["id"])


def health(ok: bool, reasons: tuple[str, ...]) -> web.Response:
    return web.Response(
        body=JSON.encode(m.Health(ok=ok, reasons=list(reasons))),
        status=200 if ok else 503,
        content_type=JSON.media_type,
    )
