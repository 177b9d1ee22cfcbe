"""`/v1/events`: server-sent events, resumable.

A few lines over a plain streamed response; a library would add a dependency and a task per client
for what is a loop. A client that reads slowly holds up its own stream alone: the desk's iterator
keeps a bounded number of notices, and writing waits for the socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from aiohttp import hdrs, web

from sidecar.api.codec import JSON
from sidecar.api.messages import rfc3339
from sidecar.api.problems import malformed
from sidecar.core.views import Notice

KEEPALIVE_SECONDS = 15.0
RETRY_MILLISECONDS = 1_000


def last_event_id(request: web.BaseRequest) -> int | None:
    text = request.headers.get("Last-Event-ID")
    if text is None or text == "":
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise malformed("Last-Event-ID is the number of an event that was received.")
    return int(text)


def event_bytes(notice: Notice) -> bytes:
    data = JSON.encode({"at": rfc3339(notice.at), **notice.fields})
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (notice.id, notice.name.encode(), data)


async def stream(
    request: web.Request,
    notices: AsyncIterator[Notice],
    closing: Callable[[], bool],
    keepalive_seconds: float = KEEPALIVE_SECONDS,
) -> web.StreamResponse:
    """Runs until the client leaves, or the server stops: both cancel it, and `closing` tells."""
    response = web.StreamResponse(
        headers={
            hdrs.CONTENT_TYPE: "text/event-stream",
            hdrs.CACHE_CONTROL: "no-store",
            "X-Accel-Buffering": "no",
        }
    )
    await response.prepare(request)
    await response.write(b"retry: %d\n\n" % RETRY_MILLISECONDS)
    # Waited for without cancelling: a generator that is cancelled in `__anext__` has ended.
    upcoming = asyncio.ensure_future(anext(notices))
    try:
        while True:
            done, _ = await asyncio.wait({upcoming}, timeout=keepalive_seconds)
            if not done:
                await response.write(b": alive\n\n")
                continue
            try:
                notice = upcoming.result()
            except StopAsyncIteration:
                break
            await response.write(event_bytes(notice))
            upcoming = asyncio.ensure_future(anext(notices))
    except ConnectionError:
        pass  # the client left; it resumes with Last-Event-ID
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not closing() or task is None:
            raise
        task.uncancel()  # ended by us, so the stream is ended in order
    finally:
        upcoming.cancel()
        await asyncio.wait({upcoming})
        if not upcoming.cancelled():
            upcoming.exception()  # seen: the stream is over either way
        close = getattr(notices, "aclose", None)
        if close is not None:
            await close()
    return response
