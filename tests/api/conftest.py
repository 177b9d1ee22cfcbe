from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from sidecar.api.handlers import Limits
from sidecar.api.listen import Tcp, Unix
from sidecar.api.server import AdminServer, AppServer, Server
from sidecar.errors import SidecarError
from tests.api.desk import FakeDesk

TOKEN = "a-token-for-people-to-change-things"


@dataclass(slots=True)
class Bench:
    """A desk, a server over it, and a client that reaches it."""

    desk: FakeDesk
    server: Server
    client: aiohttp.ClientSession
    broke: list[SidecarError]


def client_of(server: Server, **options: Any) -> aiohttp.ClientSession:
    match server.address:
        case Unix(path):
            return aiohttp.ClientSession(
                "http://sidecar", connector=aiohttp.UnixConnector(path), **options
            )
        case Tcp(host, port):
            return aiohttp.ClientSession(f"http://{host}:{port}", **options)


Open = Callable[..., Any]


@pytest.fixture
async def open_bench() -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        async def open_(
            listen: str = "127.0.0.1:0",
            *,
            admin: bool = False,
            token: str | None = None,
            limits: Limits | None = None,
            exposition: Callable[[str], tuple[str, bytes]] = lambda _: ("text/plain", b"x 1\n"),
            alive: Callable[[], str | None] = lambda: None,
        ) -> Bench:
            desk = FakeDesk()
            broke: list[SidecarError] = []
            limits = limits or Limits()
            server: Server
            if admin:
                server = AdminServer(
                    desk,
                    listen,
                    limits,
                    broke.append,
                    token=token,
                    exposition=exposition,
                    alive=alive,
                )
            else:
                server = AppServer(desk, listen, limits, broke.append)
            await server.start()
            stack.push_async_callback(server.stop)
            client = await stack.enter_async_context(client_of(server))
            return Bench(desk, server, client, broke)

        yield open_


@pytest.fixture(params=["tcp", "unix"])
async def bench(request: pytest.FixtureRequest, open_bench: Open, tmp_path: Path) -> Bench:
    """The application's listener, over both kinds of address."""
    listen = "127.0.0.1:0" if request.param == "tcp" else f"unix:{tmp_path}/api.sock"
    made: Bench = await open_bench(listen)
    return made


@pytest.fixture
async def admin(open_bench: Open) -> Bench:
    made: Bench = await open_bench(admin=True, token=TOKEN)
    return made
