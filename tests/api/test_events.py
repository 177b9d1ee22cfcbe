"""Server-sent events, resumed by id."""

from __future__ import annotations

import asyncio

import aiohttp
import msgspec
import pytest
from aiohttp import web

from sidecar.api.events import stream
from sidecar.api.handlers import Limits
from tests.api.conftest import Bench, Open
from tests.api.desk import FakeDesk


async def next_event(response: aiohttp.ClientResponse) -> dict[str, str]:
    """The next block of lines, without the opening `retry:`."""
    while True:
        block = (await response.content.readuntil(b"\n\n")).decode().strip()
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        if "id" in fields:
            return fields


async def test_events_arrive_as_they_happen(bench: Bench) -> None:
    """Name, rising id, and one JSON object with the time in it."""
    async with bench.client.get("/v1/events") as response:
        assert (response.status, response.content_type) == (200, "text/event-stream")
        await bench.desk.until("waiting", 1)
        await bench.desk.notify("gap_opened", topic="orders", partition=0, gap="g-1")
        event = await next_event(response)
    assert (event["id"], event["event"]) == ("1", "gap_opened")
    assert msgspec.json.decode(event["data"]) == {
        "at": "2025-11-30T12:00:00.000Z",
        "topic": "orders",
        "partition": 0,
        "gap": "g-1",
    }


async def test_a_stream_is_resumed_where_it_broke_off(bench: Bench) -> None:
    """Nothing between the last seen event and now is left out or repeated."""
    for name in ("assigned", "state_changed", "caught_up"):
        await bench.desk.notify(name)
    async with bench.client.get("/v1/events", headers={"Last-Event-ID": "1"}) as response:
        seen = [(await next_event(response))["event"] for _ in range(2)]
        await bench.desk.notify("revoked")
        seen.append((await next_event(response))["event"])
    assert seen == ["state_changed", "caught_up", "revoked"]


async def test_without_an_id_a_stream_begins_now(bench: Bench) -> None:
    """History is asked for, not forced on anybody."""
    await bench.desk.notify("assigned")
    async with bench.client.get("/v1/events") as response:
        await bench.desk.until("waiting", 1)
        await bench.desk.notify("revoked")
        assert (await next_event(response))["id"] == "2"


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "٣", "9" * 30])
async def test_an_id_nobody_gave_is_refused(bench: Bench, value: str) -> None:
    """Rather than beginning somewhere else in silence."""
    async with bench.client.get("/v1/events", headers={"Last-Event-ID": value}) as response:
        assert response.status == 400


async def test_a_client_that_leaves_frees_its_stream(open_bench: Open) -> None:
    """Streams are bounded; one that ended makes room."""
    bench: Bench = await open_bench(limits=Limits(streams_max=1))
    response = await bench.client.get("/v1/events")
    await bench.desk.until("waiting", 1)
    async with bench.client.get("/v1/events") as second:
        assert second.status == 503
    response.close()

    async def reopened() -> bool:
        async with bench.client.get("/v1/events") as again:
            return again.status == 200

    async with asyncio.timeout(5):
        while not await reopened():
            pass  # the server hears of the closed connection in its own time


async def test_stopping_ends_the_streams(bench: Bench) -> None:
    """An open stream does not hold up the end of the process."""
    async with bench.client.get("/v1/events") as response:
        await bench.desk.until("waiting", 1)
        stopping = asyncio.create_task(bench.server.stop())
        rest = await response.content.read()
        await stopping
    assert rest == b"retry: 1000\n\n"


async def test_a_quiet_stream_is_kept_alive() -> None:
    """A comment now and then, so that proxies do not cut it, and events still come after."""
    desk = FakeDesk()

    async def serve(request: web.Request) -> web.StreamResponse:
        return await stream(request, desk.notices(None), lambda: False, keepalive_seconds=0.01)

    app = web.Application()
    app.router.add_get("/", serve)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        async with (
            aiohttp.ClientSession() as client,
            client.get(f"http://127.0.0.1:{port}/") as response,
        ):
            await response.content.readuntil(b": alive\n\n")
            await desk.notify("caught_up")
            assert b"caught_up" in await response.content.readuntil(b"event: caught_up\n")
    finally:
        await runner.cleanup()
