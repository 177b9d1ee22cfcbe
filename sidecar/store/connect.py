"""From a URL to a client: one server, the master that Sentinel names, or a Redis Cluster.

A client does one thing: it brings packed commands to the server that holds a key, and gives back
the answers. What it may do by itself is little, and is never a second execution: follow a Cluster's
redirection, and look up who is who again. After `READONLY`, a refused or a lost connection it gives
up its connections and looks again, and the caller is told `unavailable`: whether to send once more
is not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sidecar.store.cluster import ClusterClient
from sidecar.store.connections import Client, Connector, Reply, ask_each, is_readonly
from sidecar.store.faults import StoreFailed
from sidecar.store.sentinel import SentinelClient
from sidecar.store.url import Target, parse_url


def connect(url: str, *, timeout_seconds: float = 1.0, connections_max: int = 16) -> Client:
    """A client for the URL. Nothing is connected yet, and nothing is retried ever.

    `timeout_seconds` bounds each call as a whole. Raises `SettingsError`.
    """
    return connect_to(
        parse_url(url), timeout_seconds=timeout_seconds, connections_max=connections_max
    )


def connect_to(target: Target, *, timeout_seconds: float, connections_max: int) -> Client:
    connector = Connector(target, timeout_seconds, connections_max)
    match target.kind:
        case "sentinel":
            return SentinelClient(connector)
        case "cluster":
            return ClusterClient(connector)
        case _:
            return SingleClient(connector)


class SingleClient:
    """One server, by address or Unix socket. Its name is resolved anew at each connection."""

    failover_possible = False

    def __init__(self, connector: Connector) -> None:
        addresses = connector.target.addresses
        self._server = connector.server(addresses[0] if addresses else None)

    async def call(self, key: bytes, packed: bytes, replies: int = 1) -> list[Reply]:
        answers = await self._server.exchange(packed, replies)
        if is_readonly(answers):
            # A name that follows the master: another address may stand behind it now.
            await self._server.drop()
        return answers

    async def many(self, requests: Sequence[tuple[bytes, bytes]]) -> list[Reply | StoreFailed]:
        return await ask_each(self._server, requests)

    async def every(self, packed: bytes, replies: int) -> Mapping[str, list[Reply] | StoreFailed]:
        try:
            return {self._server.name: await self._server.exchange(packed, replies)}
        except StoreFailed as failure:
            return {self._server.name: failure}

    async def close(self) -> None:
        await self._server.close()
