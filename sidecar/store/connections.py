"""Connections to one server, and what it takes to know whether a command had left.

The connections are redis-py's (TLS, authentication, parsing), its clients and pools are not used.
Three things decide that:

- a write must be known as surely not sent, or as possibly done; a client that retries, reconnects
  or follows a redirection in between hides which, and may execute twice;
- `WAIT` counts only what its own connection wrote, so a script and its `WAIT` share one;
- time is bounded once, around everything (a free connection, connecting, sending, the answer), by
  one timer instead of one a step, which would add up.

An exchange that failed closes its connection: an answer that comes too late must never be taken
for the answer to the next question.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from hiredis import pack_command
from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    RedisSSLContext,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.exceptions import ResponseError

from sidecar.store.faults import CAUGHT, StoreFailed, failed, meaning_of, unavailable
from sidecar.store.url import Address, Target

Reply: TypeAlias = Any
"""What hiredis makes of an answer: bytes, int, None, a list of these, or a `ResponseError`."""


class Server:
    """One address. `connections_max` exchanges at a time; more wait for their turn."""

    def __init__(
        self,
        make: Callable[[], AbstractConnection],
        *,
        name: str,
        timeout_seconds: float,
        connections_max: int,
    ) -> None:
        self.name = name
        self._make = make
        self._timeout_seconds = timeout_seconds
        self._turns = asyncio.Semaphore(connections_max)
        self._idle: list[AbstractConnection] = []
        self._life = 0
        """Raised by `drop`: a connection of an earlier life is not used again."""
        self._closed: str | None = None

    def __repr__(self) -> str:
        return f"Server({self.name})"

    async def exchange(
        self, packed: bytes, replies: int, *, timeout_seconds: float | None = None
    ) -> list[Reply]:
        """Send, and read that many answers. Errors that are answers are returned, not raised.

        Raises `StoreFailed` for everything else.
        """
        life, connection, sent = self._life, None, False
        limit = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        answers: list[Reply] = []
        try:
            async with asyncio.timeout(limit), self._turns:
                if self._closed is not None:
                    raise unavailable("CLOSED", self._closed, maybe_done=False)
                connection = self._idle.pop() if self._idle else self._make()
                # Something to read, or an end, before anything was asked: of no use any more.
                if connection.is_connected and await connection.can_read():
                    await connection.disconnect(nowait=True)
                if not connection.is_connected:
                    await connection.connect()  # type: ignore[no-untyped-call]  # redis-py
                sent = True
                await connection.send_packed_command(packed, check_health=False)
                for _ in range(replies):
                    try:
                        answers.append(await connection.read_response())
                    except ResponseError as error:
                        answers.append(error)
                if life == self._life:
                    self._idle.append(connection)
                    connection = None
            return answers
        except CAUGHT as error:
            failure = failed(error, sent=sent, during=self.name)
            failure.maybe_done |= bool(answers)
            try:
                raise failure from None
            finally:
                del failure  # its traceback holds this frame: a cycle for each try at a dead server
        except RuntimeError as error:
            # uvloop says so of a transport that closed under the write.
            if "closed" not in str(error):
                raise
            raise failed(ConnectionResetError(str(error)), sent=sent, during=self.name) from None
        finally:
            if connection is not None:
                await _discard(connection)

    async def drop(self) -> None:
        """Close every connection, now or as soon as it is free; the next ones are new."""
        self._life += 1
        idle, self._idle = self._idle, []
        for connection in idle:
            await _discard(connection)

    async def close(self, why: str = "the store was closed") -> None:
        """No exchange begins any more; those under way end, and their connections with them."""
        self._closed = why
        await self.drop()


async def _discard(connection: AbstractConnection) -> None:
    with contextlib.suppress(*CAUGHT):
        await connection.disconnect(nowait=True)


class Connector:
    """Makes servers of one target, with its credentials."""

    def __init__(self, target: Target, timeout_seconds: float, connections_max: int) -> None:
        self.target = target
        self.timeout_seconds = timeout_seconds
        self._connections_max = connections_max
        self._tls: RedisSSLContext | None = None
        if target.tls:
            options = {n.removeprefix("ssl_"): v for n, v in target.tls_options.items()}
            options = {"cert_reqs": "required", "check_hostname": True, **options}
            self._tls = RedisSSLContext(**options)

    def __repr__(self) -> str:
        return f"Connector({self.target})"

    def server(self, address: Address | None = None) -> Server:
        """One that takes data; `None`: the Unix socket."""
        target = self.target
        return self._server(address, target.username, target.password, target.database)

    def sentinel(self, address: Address) -> Server:
        target = self.target
        return self._server(address, target.sentinel_username, target.sentinel_password, 0)

    def _server(
        self, address: Address | None, username: str | None, password: str | None, database: int
    ) -> Server:
        options: dict[str, Any] = {
            "db": database,
            "username": username,
            "password": password,
            # One timer around the whole exchange bounds everything: see `connections`.
            "socket_timeout": None,
            "socket_connect_timeout": self.timeout_seconds,
            # redis-py would send again what may have been done.
            "retry": None,
            # Answers are simpler, and nothing is pushed to us.
            "protocol": 2,
            # No CLIENT SETINFO: one right fewer to grant.
            "driver_info": None,
        }

        def make() -> AbstractConnection:
            if address is None:
                return UnixDomainSocketConnection(path=self.target.path or "", **options)
            if self._tls is None:
                return Connection(host=address.host, port=address.port, **options)
            connection = SSLConnection(host=address.host, port=address.port, **options)
            connection.ssl_context = self._tls  # reading the certificates takes 20 ms: once
            return connection

        return Server(
            make,
            name=str(address or self.target.path),
            timeout_seconds=self.timeout_seconds,
            connections_max=self._connections_max,
        )


class Client(Protocol):
    """Brings commands to servers. Raises `StoreFailed` and nothing else."""

    @property
    def failover_possible(self) -> bool:
        """Does this client follow a promotion by itself?"""
        ...

    async def call(self, key: bytes, packed: bytes, replies: int = 1) -> list[Reply]:
        """Commands that follow one another on one connection to the server of `key`."""
        ...

    async def many(self, requests: Sequence[tuple[bytes, bytes]]) -> list[Reply | StoreFailed]:
        """One command for each key, in one round trip a server; a failure is its keys' alone."""
        ...

    async def every(self, packed: bytes, replies: int) -> Mapping[str, list[Reply] | StoreFailed]:
        """The same commands to every server that takes writes, by address."""
        ...

    async def close(self) -> None: ...


class Bound:
    """One deadline for a call that may take several steps."""

    def __init__(self, seconds: float) -> None:
        self._ends = asyncio.get_running_loop().time() + seconds

    @property
    def left(self) -> float:
        return max(self._ends - asyncio.get_running_loop().time(), 0.001)


async def ask_most(
    servers: Sequence[Server], packed: bytes, replies: int, timeout_seconds: float
) -> list[tuple[Server, list[Reply] | StoreFailed]]:
    """The answers that came until most of `servers` had given one, or no more will.

    Most, so that a single one that is cut off from the rest is not all we hear.
    """
    tasks = {
        asyncio.create_task(server.exchange(packed, replies, timeout_seconds=timeout_seconds)): (
            server
        )
        for server in servers
    }
    heard: list[tuple[Server, list[Reply] | StoreFailed]] = []
    answered, pending = 0, set(tasks)
    try:
        while pending and answered <= len(servers) // 2:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is None:
                    answered += 1
                    heard.append((tasks[task], task.result()))
                elif isinstance(error, StoreFailed):
                    heard.append((tasks[task], error))
                else:
                    raise error
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    return heard


def is_readonly(answers: Iterable[Reply]) -> bool:
    return any(
        isinstance(answer, ResponseError) and meaning_of(answer).code == "READONLY"
        for answer in answers
    )


async def ask_each(
    server: Server, requests: Sequence[tuple[bytes, bytes]], timeout_seconds: float | None = None
) -> list[Reply | StoreFailed]:
    try:
        return await server.exchange(
            b"".join([packed for _, packed in requests]),
            len(requests),
            timeout_seconds=timeout_seconds,
        )
    except StoreFailed as failure:
        return [failure] * len(requests)


def pack(*words: str | bytes | int) -> bytes:
    """One command as it goes over the wire."""
    packed: bytes = pack_command(words)  # type: ignore[arg-type]  # its stub says a tuple of one
    return packed
