"""A TCP proxy between a client and a server on this machine, worked by the test like a tap.

It is the only way to make the network misbehave without touching either end: cut, refuse, delay,
swallow, and above all lose the reply to a request that the server has executed, after which the
client cannot know whether it happened.

For Kafka whole frames are passed on, so that the lost reply is the one to the request that was
meant and not to another one in flight on the same connection; the broker must advertise the proxy:
`KafkaBroker(port=port, advertised=proxy.port)`. A Redis connection has one request at a time.

One event loop in a thread of its own; every method below may be called from any thread.
"""

import asyncio
import contextlib
import enum
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Self, TypeVar

from tests.benches.process import free_port, release_port

T = TypeVar("T")

_CHUNK_BYTES = 65536
_FRAMES_IN_FLIGHT_MAX = 256
_CONTROL_SECONDS = 10


class KafkaApi(enum.IntEnum):
    """The request types that tests lose the replies of."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13

    def requested_by(self, frame: bytes) -> bool:
        return int.from_bytes(frame[4:6]) == self


class LostReply:
    """A reply that is going to be lost, once a request matches."""

    def __init__(self, matches: Callable[[bytes], bool]) -> None:
        self.matches = matches
        self._lost = threading.Event()

    @property
    def happened(self) -> bool:
        return self._lost.is_set()

    def wait(self, timeout_seconds: float = 15.0, what: str = "") -> None:
        """Wait until the server has answered and the answer was thrown away. `what`: its name."""
        if not self._lost.wait(timeout_seconds):
            named = f"reply to {what}" if what else "reply"
            raise TimeoutError(f"no {named} was lost within {timeout_seconds:g} s")

    def happen(self) -> None:
        self._lost.set()


class _Link:
    """One client connection and its counterpart to the server."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.writers = [client]
        self.directions: list[asyncio.Task[None]] = []
        self.doomed: LostReply | None = None
        self.correlation = b""

    def cut(self) -> None:
        for writer in self.writers:
            writer.transport.abort()
        for direction in self.directions:
            direction.cancel()


class Proxy:
    """Listens on `port` and passes bytes to and from `target_port`, which may be set later."""

    def __init__(self, target_port: int | None = None, *, kafka: bool = False) -> None:
        self.port = free_port()
        self.target_port = target_port
        self._kafka = kafka
        self._delay_seconds = 0.0
        self._links: set[_Link] = set()
        self._armed: LostReply | None = None
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._run(self._listen())

    @property
    def url(self) -> str:
        """For a Redis client."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def connections(self) -> int:
        return len(self._links)

    def cut(self) -> None:
        """Reset every connection; new ones are welcome."""
        self._run(self._cut())

    def refuse(self) -> None:
        """Reset every connection and let nobody connect until `heal`."""
        self._run(self._refuse())

    def blackhole(self) -> None:
        """Keep connections and accept new ones, but let nothing arrive, either way, until `heal`.

        As on a network that drops packets: what was sent meanwhile arrives after `heal`.
        """
        self._run(self._set_flowing(False))

    def delay(self, seconds: float) -> None:
        """Let everything arrive this much later, each way; the throughput stays."""
        self._delay_seconds = seconds

    def lose_reply(self, matches: Callable[[bytes], bool] = lambda request: True) -> LostReply:
        """Let the server execute the next request that matches, then cut instead of replying.

        `matches` is asked of bytes as they were sent, with Kafka of a whole frame
        (`KafkaApi.X.requested_by`).
        """
        self._armed = LostReply(matches)
        return self._armed

    def heal(self) -> None:
        """Pass everything again, at once."""
        self._delay_seconds = 0.0
        self._armed = None
        self._run(self._listen())
        self._run(self._set_flowing(True))

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CONTROL_SECONDS)
        self._loop.close()
        release_port(self.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- in the loop ---

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CONTROL_SECONDS)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port)

    async def _cut(self) -> None:
        for link in self._links:
            link.cut()

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._cut()

    async def _set_flowing(self, flowing: bool) -> None:
        if flowing:
            self._flowing.set()
        else:
            self._flowing.clear()

    async def _end(self) -> None:
        self._flowing.set()
        await self._refuse()
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others, timeout=_CONTROL_SECONDS / 2)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(writer)
        self._links.add(link)
        try:
            await self._flowing.wait()
            there, back = await asyncio.open_connection("127.0.0.1", self.target_port)
            link.writers.append(back)
            link.directions = [
                asyncio.create_task(self._pass(self._requests(link, reader), back)),
                asyncio.create_task(self._pass(self._replies(link, there), writer)),
            ]
            # Whichever side ends first, both do: neither protocol uses half-closed connections.
            await asyncio.wait(link.directions, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass  # the server is not there, which the client learns by losing its connection
        finally:
            link.cut()
            self._links.discard(link)
            await asyncio.gather(*link.directions, return_exceptions=True)

    async def _pass(self, frames: AsyncIterator[bytes], writer: asyncio.StreamWriter) -> None:
        """Read ahead into a queue, and write from it when each frame is due."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue(_FRAMES_IN_FLIGHT_MAX)

        async def read_ahead() -> None:
            async for frame in frames:
                await queue.put((loop.time(), frame))
            await queue.put(None)

        reading = asyncio.create_task(read_ahead())
        try:
            while (item := await queue.get()) is not None:
                arrived, frame = item
                await asyncio.sleep(max(0.0, arrived + self._delay_seconds - loop.time()))
                await self._flowing.wait()
                writer.write(frame)
                await writer.drain()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _requests(self, link: _Link, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        async for frame in self._frames(reader):
            if self._armed is not None and link.doomed is None and self._armed.matches(frame):
                link.doomed, self._armed = self._armed, None
                link.correlation = frame[8:12]
            yield frame

    async def _replies(self, link: _Link, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        async for frame in self._frames(reader):
            mine = not self._kafka or frame[4:8] == link.correlation
            if link.doomed is not None and mine:
                link.cut()
                link.doomed.happen()
                return
            yield frame

    async def _frames(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if self._kafka:
                while True:
                    size = await reader.readexactly(4)
                    yield size + await reader.readexactly(int.from_bytes(size))
            while chunk := await reader.read(_CHUNK_BYTES):
                yield chunk
