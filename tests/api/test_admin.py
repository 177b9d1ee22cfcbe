"""The operator's listener, and both listeners' beginning and end."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from sidecar.api.handlers import Limits
from sidecar.api.listen import Tcp, Unix, parse
from sidecar.api.server import AppServer
from tests.api.conftest import TOKEN, Bench, Open
from tests.api.desk import FakeDesk

ASSENT = {"by": "on-call", "why": "restored"}
MUTATIONS: list[tuple[str, Any]] = [
    ("/v1/gaps/g-1/fence", None),
    ("/v1/gaps/g-1/acknowledge", ASSENT),
    ("/v1/gaps/g-1/resolve", {"resolution": "accepted", **ASSENT}),
    ("/v1/holds/h-1/answer", {"answer": "look", **ASSENT}),
    ("/v1/drain", None),
]


async def probe(bench: Bench, path: str) -> tuple[int, Any]:
    async with bench.client.get(path) as response:
        return response.status, await response.json()


async def test_probes_tell_alive_from_ready(admin: Bench) -> None:
    """A dependency that is away un-readies and says why; it neither kills nor blocks startup."""
    well = (200, {"ok": True, "reasons": []})
    assert await probe(admin, "/startupz") == well
    assert await probe(admin, "/livez") == well
    assert await probe(admin, "/readyz") == well
    admin.desk.ready = False
    assert await probe(admin, "/startupz") == well
    assert await probe(admin, "/livez") == well
    assert await probe(admin, "/readyz") == (
        503,
        {"ok": False, "reasons": ["redis: connection refused"]},
    )


async def test_liveness_fails_with_the_reason(open_bench: Open) -> None:
    """Only when whoever runs the process says so."""
    bench = await open_bench(admin=True, alive=lambda: "the consumer's thread has ended")
    assert await probe(bench, "/livez") == (
        503,
        {"ok": False, "reasons": ["the consumer's thread has ended"]},
    )


async def test_metrics_are_exposed_as_they_come(open_bench: Open) -> None:
    """The Accept header is passed on; content type and body are passed back."""
    asked: list[str] = []

    def exposition(accept: str) -> tuple[str, bytes]:
        asked.append(accept)
        return "text/plain; version=0.0.4; charset=utf-8", b"x 1\n"

    bench = await open_bench(admin=True, exposition=exposition)
    async with bench.client.get("/metrics", headers={"Accept": "text/plain"}) as response:
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert await response.read() == b"x 1\n"
    assert asked == ["text/plain"]


READABLE = ("status", "partitions", "partitions/orders/0", "gaps", "gaps/g-1", "holds")


@pytest.mark.parametrize("path", ["/openapi.json", *(f"/v1/{path}" for path in READABLE)])
async def test_state_is_readable_without_a_token(open_bench: Open, path: str) -> None:
    """The same as on the application's listener."""
    bench = await open_bench(admin=True)
    status, _ = await probe(bench, path)
    assert status == 200


@pytest.mark.parametrize(("path", "body"), MUTATIONS)
async def test_changes_need_the_token(admin: Bench, path: str, body: Any) -> None:
    """Missing, wrong, almost right, of another scheme: 401; right: done."""
    for given in (None, "Bearer wrong", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer ü"):
        headers = {} if given is None else {"Authorization": given}
        async with admin.client.post(path, json=body, headers=headers) as response:
            problem = await response.json(content_type="application/problem+json")
            assert (response.status, problem["type"]) == (401, "unauthorized")
            assert response.headers["WWW-Authenticate"] == "Bearer"
            assert TOKEN not in str(problem)
    assert admin.desk.asked == []
    assert not admin.desk.drained
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with admin.client.post(path, json=body, headers=headers) as response:
        assert response.status == 200


@pytest.mark.parametrize(("path", "body"), MUTATIONS)
async def test_without_a_configured_token_nothing_can_be_changed(
    open_bench: Open, path: str, body: Any
) -> None:
    """And the answer names the setting that would enable it. No token matches an absent one."""
    bench = await open_bench(admin=True, token=None)
    for given in ("", "Bearer", "Bearer None", "Bearer "):
        async with bench.client.post(path, json=body, headers={"Authorization": given}) as response:
            problem = await response.json(content_type="application/problem+json")
            assert (response.status, problem["type"]) == (403, "forbidden")
            assert "CURSOR_SIDECAR_ADMIN__TOKEN" in problem["detail"]
    assert bench.desk.asked == []


async def test_pages_are_not_handed_out_on_the_admin_listener(admin: Bench) -> None:
    """Records stay on loopback."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for path in ("/v1/pages", "/v1/pages/p-1/outcomes"):
        async with admin.client.post(path, json={}, headers=headers) as response:
            assert response.status == 404


def server(listen: str) -> AppServer:
    return AppServer(FakeDesk(), listen, Limits(), lambda _: None)


async def test_a_socket_is_shared_with_the_group_and_removed_at_the_end(tmp_path: Path) -> None:
    """Nobody else gets in, and no dead socket is left behind."""
    path = tmp_path / "api.sock"
    one = server(f"unix:{path}")
    await one.start()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
    await one.stop()
    assert not path.exists()


async def test_a_dead_socket_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    """What a killed process left is removed; another process, or a file, is respected."""
    path = tmp_path / "api.sock"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()
    one = server(f"unix:{path}")
    await one.start()
    with pytest.raises(OSError, match="another process listens there"):
        await server(f"unix:{path}").start()
    await one.stop()
    path.write_text("precious")
    with pytest.raises(FileExistsError):
        await server(f"unix:{path}").start()
    assert path.read_text() == "precious"


async def test_a_port_that_is_taken_is_an_error_at_start(tmp_path: Path) -> None:
    """Not a server that nobody reaches."""
    one = server("127.0.0.1:0")
    await one.start()
    with pytest.raises(OSError, match="address already in use"):
        await server(str(one.address)).start()
    await one.stop()


async def test_stopping_twice_is_stopping_once() -> None:
    """Shutdown may be asked for by more than one."""
    one = server("127.0.0.1:0")
    await one.start()
    await asyncio.gather(one.stop(), one.stop())
    await one.stop()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8460", Tcp("127.0.0.1", 8460)),
        ("[::1]:0", Tcp("::1", 0)),
        (":8461", Tcp(None, 8461)),
        ("unix:/run/a.sock", Unix("/run/a.sock")),
    ],
)
def test_an_address_reads_as_it_is_written(text: str, address: Tcp | Unix) -> None:
    """Both ways."""
    assert parse(text) == address
    assert str(address) == text
