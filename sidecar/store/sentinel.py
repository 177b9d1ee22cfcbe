"""The master that Sentinel names.

All sentinels are asked at once, and of what most of them answer the highest configuration epoch
counts: one that is cut off from the others still names the old master, and the first to answer may
be that one. While all seems well they are asked again now and then, since an old master that was
frozen and wakes up takes writes for ten seconds and more before it is told that it is none.

A call that fails, or is answered `READONLY`, gives the connections up; the next one asks anew. The
failed one is not sent again: whether it was done cannot be told from here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from redis.exceptions import ResponseError

from sidecar.core.faults import FaultKind
from sidecar.store.connections import (
    Bound,
    Connector,
    Reply,
    Server,
    ask_each,
    ask_most,
    is_readonly,
    pack,
)
from sidecar.store.faults import StoreFailed, failed, refused, unavailable
from sidecar.store.url import Address

MASTER_CHECK_SECONDS: Final = 2.0
"""How often Sentinel is asked again while all seems well."""
LOOK_UP_SHARE: Final = 0.6
"""How much of a call's time may go into finding the master."""


class SentinelClient:
    """The master that most sentinels name, by the highest configuration epoch among them."""

    failover_possible = True

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._timeout_seconds = connector.timeout_seconds
        self._service = connector.target.service
        self._sentinels = [connector.sentinel(a) for a in connector.target.addresses]
        self._master: Server | None = None
        self._address: Address | None = None
        self._lock = asyncio.Lock()
        self._check_at = 0.0
        self._check: asyncio.Task[None] | None = None
        self._closed = False

    async def call(self, key: bytes, packed: bytes, replies: int = 1) -> list[Reply]:
        bound = Bound(self._timeout_seconds)
        server = await self._find(bound)
        try:
            answers = await server.exchange(packed, replies, timeout_seconds=bound.left)
        except StoreFailed:
            await self._forget(server)
            raise
        if is_readonly(answers):
            await self._forget(server)
        return answers

    async def many(self, requests: Sequence[tuple[bytes, bytes]]) -> list[Reply | StoreFailed]:
        bound = Bound(self._timeout_seconds)
        try:
            server = await self._find(bound)
        except StoreFailed as failure:
            return [failure] * len(requests)
        answers = await ask_each(server, requests, bound.left)
        if answers and isinstance(answers[0], StoreFailed):
            await self._forget(server)
        return answers

    async def every(self, packed: bytes, replies: int) -> Mapping[str, list[Reply] | StoreFailed]:
        bound = Bound(self._timeout_seconds)
        try:
            server = await self._find(bound)
        except StoreFailed as failure:
            return {self._service: failure}
        try:
            return {server.name: await server.exchange(packed, replies, timeout_seconds=bound.left)}
        except StoreFailed as failure:
            await self._forget(server)
            return {server.name: failure}

    async def close(self) -> None:
        self._closed = True
        if self._check is not None:
            self._check.cancel()
            await asyncio.gather(self._check, return_exceptions=True)
        for server in (*self._sentinels, *([self._master] if self._master else ())):
            await server.close()

    async def _find(self, bound: Bound) -> Server:
        if (server := self._master) is None:
            async with self._lock:
                if self._master is None:
                    await self._adopt(await self._look_up(bound.left * LOOK_UP_SHARE))
                server = self._master
                assert server is not None
        elif self._check is None and asyncio.get_running_loop().time() >= self._check_at:
            self._check = asyncio.create_task(self._check_master())
        return server

    async def _adopt(self, address: Address) -> None:
        self._check_at = asyncio.get_running_loop().time() + MASTER_CHECK_SECONDS
        if self._closed:
            raise unavailable("CLOSED", "the store was closed", maybe_done=False)
        if address == self._address and self._master is not None:
            return
        old, self._master = self._master, self._connector.server(address)
        self._address = address
        if old is not None:
            await old.close("the master changed")

    async def _forget(self, server: Server) -> None:
        """The next call asks the sentinels."""
        if self._master is server:
            self._master = None
        await server.close("the master is looked up again")

    async def _check_master(self) -> None:
        """While all seems well: is it still the master? Says nothing when that cannot be told."""
        try:
            await self._adopt(await self._look_up(self._timeout_seconds))
        except StoreFailed:
            self._check_at = asyncio.get_running_loop().time() + MASTER_CHECK_SECONDS
        finally:
            self._check = None

    async def _look_up(self, timeout_seconds: float) -> Address:
        question = pack("SENTINEL", "MASTER", self._service)
        heard = await ask_most(self._sentinels, question, 1, timeout_seconds)
        named: list[tuple[int, Address]] = []
        unknown, down, failure = False, False, None
        for _, answer in heard:
            if isinstance(answer, StoreFailed):
                failure = answer
            elif isinstance(answer[0], ResponseError):
                unknown = unknown or "No such master" in str(answer[0])
                failure = failed(answer[0], sent=False, during="sentinel")
            else:
                words = [word.decode(errors="replace") for word in answer[0]]
                facts = dict(zip(words[::2], words[1::2], strict=False))
                if "_down" in facts.get("flags", ""):
                    down = True
                else:
                    where = Address(facts["ip"], int(facts["port"]))
                    named.append((int(facts.get("config-epoch", "0")), where))
        if named:
            return max(named)[1]
        if down:
            raise unavailable(
                "NO_MASTER",
                f"the master of {self._service} is down, says Sentinel",
                maybe_done=False,
            )
        if unknown:
            raise refused("NO_SERVICE", f"the sentinels know no master named {self._service}")
        if failure is not None and failure.fault.kind is not FaultKind.UNAVAILABLE:
            raise failure
        raise unavailable(
            "NO_MASTER",
            f"no sentinel answered ({failure.fault.detail if failure else 'in time'})",
            maybe_done=False,
        )
