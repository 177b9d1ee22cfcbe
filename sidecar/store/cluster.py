"""A Redis Cluster: which master serves which slot, and what to do when that changes.

The map is asked of several nodes at once, and the one of the highest epoch from a node that says
the cluster is well counts. It is asked for again when something hints that it is old: a
redirection, a node that does not answer, `CLUSTERDOWN`.

`MOVED` and `ASK` are followed, because both say that nothing was run. Nothing else is sent twice.
`TRYAGAIN` (a slot is half moved, and the keys of one script lie on both sides) is the caller's to
wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import AskError, ClusterDownError, MovedError, ReadOnlyError, ResponseError

from sidecar.store.connections import Bound, Connector, Reply, Server, ask_each, ask_most, pack
from sidecar.store.faults import StoreFailed, failed, refused, unavailable
from sidecar.store.health import parse_info
from sidecar.store.url import Address

REDIRECTIONS_MAX: Final = 5
NODES_ASKED_MAX: Final = 8
MAP_SECONDS_MIN: Final = 0.25
"""The map is not asked for more often than this."""
MAP_SHARE: Final = 0.6
"""How much of a call's time may go into the map."""

_ASKING: Final = pack("ASKING")
_MAP: Final = pack("CLUSTER", "INFO") + pack("CLUSTER", "SLOTS")


class ClusterClient:
    """The masters of a Redis Cluster, by the map that most nodes agree to be the newest."""

    failover_possible = True

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._timeout_seconds = connector.timeout_seconds
        self._servers: dict[Address, Server] = {}
        self._slots: list[Address | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        self._masters: tuple[Address, ...] = ()
        self._known = connector.target.addresses
        self._lock = asyncio.Lock()
        self._stale = True
        self._asked_at = -MAP_SECONDS_MIN
        self._turn = 0
        self._closed = False

    async def call(self, key: bytes, packed: bytes, replies: int = 1) -> list[Reply]:
        return await self._call(key_slot(key), packed, replies, Bound(self._timeout_seconds))

    async def many(self, requests: Sequence[tuple[bytes, bytes]]) -> list[Reply | StoreFailed]:
        bound = Bound(self._timeout_seconds)
        answers: list[Reply | StoreFailed] = [None] * len(requests)
        try:
            self._check_open()
            await self._refresh(bound)
        except StoreFailed as failure:
            return [failure] * len(requests)
        groups: dict[Address, list[int]] = {}
        astray: list[int] = []
        for i, (key, _) in enumerate(requests):
            address = self._slots[key_slot(key)]
            if address is None:
                astray.append(i)
            else:
                groups.setdefault(address, []).append(i)

        async def ask(address: Address, indexes: list[int]) -> None:
            try:
                server = self._server(address)
            except StoreFailed as failure:
                heard: Sequence[Reply | StoreFailed] = [failure] * len(indexes)
            else:
                heard = await ask_each(server, [requests[i] for i in indexes], bound.left)
            for i, answer in zip(indexes, heard, strict=True):
                if isinstance(answer, AskError):  # MOVED is one, too
                    self._stale = self._stale or isinstance(answer, MovedError)
                    astray.append(i)
                else:
                    self._note(answer)
                    answers[i] = answer

        await asyncio.gather(*(ask(*group) for group in groups.items()))

        async def follow(i: int) -> None:
            key, packed = requests[i]
            try:
                answers[i] = (await self._call(key_slot(key), packed, 1, bound))[0]
            except StoreFailed as failure:
                answers[i] = failure

        await asyncio.gather(*map(follow, astray))
        return answers

    async def every(self, packed: bytes, replies: int) -> Mapping[str, list[Reply] | StoreFailed]:
        bound = Bound(self._timeout_seconds)
        self._stale = True
        try:
            self._check_open()
            await self._refresh(bound)
        except StoreFailed as failure:
            return {"cluster": failure}

        async def ask(address: Address) -> list[Reply] | StoreFailed:
            try:
                return await self._server(address).exchange(
                    packed, replies, timeout_seconds=bound.left
                )
            except StoreFailed as failure:
                self._note(failure)
                return failure

        masters = self._masters
        heard = await asyncio.gather(*map(ask, masters))
        return {str(address): answer for address, answer in zip(masters, heard, strict=True)}

    async def close(self) -> None:
        self._closed = True
        for server in self._servers.values():
            await server.close()

    async def _call(self, slot: int, packed: bytes, replies: int, bound: Bound) -> list[Reply]:
        await self._refresh(bound)
        address, asking = self._slots[slot], False
        if address is None:
            raise unavailable("CLUSTERDOWN", f"no node serves slot {slot}", maybe_done=False)
        for _ in range(REDIRECTIONS_MAX):
            server = self._server(address)
            try:
                answers = await server.exchange(
                    _ASKING + packed if asking else packed,
                    replies + asking,
                    timeout_seconds=bound.left,
                )
            except StoreFailed as failure:
                self._note(failure)
                raise
            if asking:
                del answers[0]
            first = answers[0]
            # Both say that nothing was run there.
            if isinstance(first, MovedError):
                address, asking = _redirection(first, address), False
                self._slots[slot], self._stale = address, True
            elif isinstance(first, AskError):
                address, asking = _redirection(first, address), True
            else:
                self._note(first)
                return answers
        raise unavailable("REDIRECTIONS", "too many redirections", maybe_done=False)

    def _note(self, answer: Reply | StoreFailed) -> None:
        if isinstance(answer, StoreFailed | ClusterDownError | ReadOnlyError):
            self._stale = True

    def _check_open(self) -> None:
        if self._closed:
            raise unavailable("CLOSED", "the store was closed", maybe_done=False)

    def _server(self, address: Address) -> Server:
        self._check_open()
        if (server := self._servers.get(address)) is None:
            server = self._servers[address] = self._connector.server(address)
        return server

    def _due(self) -> bool:
        if not self._stale or not self._masters:
            return self._stale
        return asyncio.get_running_loop().time() >= self._asked_at + MAP_SECONDS_MIN

    async def _refresh(self, bound: Bound) -> None:
        """Ask for the map, if there is a reason to; an old one is better than none."""
        if not self._due():
            return
        async with self._lock:
            if not self._due():  # somebody asked while we waited
                return
            self._asked_at = asyncio.get_running_loop().time()
            try:
                await self._ask_map(bound.left * MAP_SHARE)
                self._stale = False
            except StoreFailed:
                if not self._masters:
                    raise

    async def _ask_map(self, timeout_seconds: float) -> None:
        known = [*dict.fromkeys((*self._masters, *self._known))]
        self._turn += 1
        first = self._turn % len(known)
        asked = [self._server(a) for a in (known[first:] + known[:first])[:NODES_ASKED_MAX]]
        heard = await ask_most(asked, _MAP, 2, timeout_seconds)
        best: tuple[bool, int] | None = None
        failure: StoreFailed | None = None
        chosen: list[tuple[int, int, Address]] = []
        for server, answer in heard:
            if isinstance(answer, StoreFailed):
                failure = answer
                continue
            error = next((a for a in answer if isinstance(a, ResponseError)), None)
            if error is not None:
                failure = failed(error, sent=False, during=server.name)
                if "cluster support disabled" in str(error):
                    failure = refused("NOT_A_CLUSTER", f"{server.name} is not part of a Cluster")
                continue
            facts = parse_info(answer[0])
            ranges = _ranges(answer[1], server)
            rank = (
                facts.get("cluster_state") == "ok",
                int(facts.get("cluster_current_epoch", "0")),
            )
            if ranges and (best is None or rank > best):
                best, chosen = rank, ranges
        if not chosen:
            raise (
                failure
                if failure is not None
                else unavailable(
                    "CLUSTERDOWN", "no node of the Cluster knows who serves what", maybe_done=False
                )
            )
        slots: list[Address | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        for low, high, address in chosen:
            slots[low : high + 1] = [address] * (high + 1 - low)
        self._slots = slots
        self._masters = tuple(sorted({address for _, _, address in chosen}))
        keep = {*self._masters, *self._known}
        for address in [a for a in self._servers if a not in keep]:
            await self._servers.pop(address).close("this node left the Cluster")


def _ranges(answer: Sequence[Any], asked: Server) -> list[tuple[int, int, Address]]:
    """From CLUSTER SLOTS. A node that does not know its own name is where we asked."""
    ranges = []
    for low, high, master, *_ in answer:
        host = (master[0] or b"").decode(errors="replace")
        if host in ("", "?"):
            host = asked.name.rpartition(":")[0].strip("[]")
        ranges.append((int(low), int(high), Address(host, int(master[1]))))
    return ranges


def _redirection(error: AskError, asked: Address) -> Address:
    return Address(error.host or asked.host, error.port)
