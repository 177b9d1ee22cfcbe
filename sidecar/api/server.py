"""The two listeners, on one event loop.

`AppServer` is for the application beside us: loopback or a Unix socket, no authentication.
`AdminServer` is for people and machines that watch: open to read, and closed to change unless a
token is set and given.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import logging
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from aiohttp import hdrs, web

from sidecar.api.handlers import Handler, Handlers, Limits, handler_name, health
from sidecar.api.listen import Address, Tcp, Unix, parse
from sidecar.api.operations import OPERATIONS, Operation
from sidecar.api.problems import Misuse, Problem
from sidecar.errors import SidecarError
from sidecar.ports import Desk

_log = logging.getLogger("sidecar.api")

STOP_SECONDS = 2.0
SOCKET_MODE = 0o660
"""The application shares the socket through its group, as an `fsGroup` volume gives it."""

Broke = Callable[[SidecarError], None]


class Server:
    """One listener. `broke` hears of an error that must stop the process: an invariant that was
    found broken, or an identity another member took. The request is answered 500."""

    def __init__(self, desk: Desk, listen: str, limits: Limits, broke: Broke) -> None:
        self._listen = parse(listen)
        self._broke = broke
        self._handlers = Handlers(desk, limits, self._failed)
        self._limits = limits
        self._runner: web.AppRunner | None = None
        self._address: Address = self._listen

    @property
    def address(self) -> Address:
        """Where it really listens: with the port the system chose, if 0 was asked."""
        return self._address

    async def start(self) -> None:
        """Listen. OSError when the address cannot be had."""
        app = web.Application(
            middlewares=[self._answered], client_max_size=self._limits.body_bytes_max
        )
        for method, path, handler in self._routes():
            app.router.add_route(method, path, handler)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=STOP_SECONDS,
            keepalive_timeout=75.0,
        )
        await self._runner.setup()
        match self._listen:
            case Unix(path):
                _remove_stale(path)
                await web.UnixSite(self._runner, path).start()
                os.chmod(path, SOCKET_MODE)
            case Tcp(host, port):
                await web.TCPSite(self._runner, host, port).start()
                bound = self._runner.addresses[0]
                self._address = Tcp(host, int(bound[1]))

    async def stop(self) -> None:
        """No new requests; those that wait are sent away; changes under way are finished."""
        self._handlers.polls.close()
        self._handlers.streams.close()
        runner, self._runner = self._runner, None
        if runner is None:
            return
        await runner.cleanup()
        await self._handlers.settle(STOP_SECONDS)
        if isinstance(self._listen, Unix):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._listen.path)

    def _routes(self) -> list[tuple[str, str, Handler]]:
        raise NotImplementedError

    @web.middleware
    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except Problem as problem:
            return problem.response()
        except web.HTTPException as error:
            return _problem(error).response()
        except ConnectionError:
            raise  # the client left while it was being answered
        except Exception as error:
            self._failed(error)
            return Problem(
                Misuse.INTERNAL, "The sidecar's log names the place; please report it."
            ).response()

    def _failed(self, error: Exception) -> None:
        # Never the message: it may quote what was sent. The place is enough to find a bug.
        _log.error("request failed: %s in %s", type(error).__name__, _place(error))
        if isinstance(error, SidecarError):
            self._broke(error)


class AppServer(Server):
    """The application's."""

    def _routes(self) -> list[tuple[str, str, Handler]]:
        return [
            (op.method, op.path, getattr(self._handlers, handler_name(op.id)))
            for op in OPERATIONS
            if op.app
        ]


class AdminServer(Server):
    """The operator's. `exposition` is asked at each scrape with the Accept header and answers
    content type and body; `alive` answers why the process should be restarted, or None."""

    def __init__(
        self,
        desk: Desk,
        listen: str,
        limits: Limits,
        broke: Broke,
        *,
        token: str | None,
        exposition: Callable[[str], tuple[str, bytes]],
        alive: Callable[[], str | None],
    ) -> None:
        super().__init__(desk, listen, limits, broke)
        self._desk = desk
        self._token = None if token is None else token.encode()
        self._exposition = exposition
        self._alive = alive

    def _routes(self) -> list[tuple[str, str, Handler]]:
        own: dict[str, Handler] = {
            "startup": self._startup,
            "liveness": self._liveness,
            "readiness": self._readiness,
            "metrics": self._metrics,
        }
        return [
            (
                op.method,
                op.path,
                self._guarded(op, own.get(op.id) or getattr(self._handlers, handler_name(op.id))),
            )
            for op in OPERATIONS
            if op.admin
        ]

    def _guarded(self, operation: Operation, handler: Handler) -> Handler:
        if not operation.mutates:
            return handler

        async def guarded(request: web.Request) -> web.StreamResponse:
            if self._token is None:
                raise Problem(
                    Misuse.FORBIDDEN,
                    "This listener is read-only; CURSOR_SIDECAR_ADMIN__TOKEN enables changes.",
                )
            scheme, _, given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
            right = hmac.compare_digest(given.strip().encode(errors="replace"), self._token)
            if scheme.lower() != "bearer" or not right:
                raise Problem(
                    Misuse.UNAUTHORIZED,
                    "Send Authorization: Bearer with the value of CURSOR_SIDECAR_ADMIN__TOKEN.",
                    headers={hdrs.WWW_AUTHENTICATE: "Bearer"},
                )
            return await handler(request)

        return guarded

    async def _startup(self, request: web.Request) -> web.StreamResponse:
        return health(True, ())

    async def _liveness(self, request: web.Request) -> web.StreamResponse:
        reason = self._alive()
        return health(reason is None, () if reason is None else (reason,))

    async def _readiness(self, request: web.Request) -> web.StreamResponse:
        status = self._desk.status()
        return health(status.ready, status.reasons)

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        content_type, body = self._exposition(request.headers.get(hdrs.ACCEPT, ""))
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: content_type})


def _problem(error: web.HTTPException) -> Problem:
    """What aiohttp refuses by itself, in our words."""
    match error.status:
        case 404:
            return Problem(Misuse.NOT_FOUND, "GET /openapi.json lists what there is.")
        case 405:
            allowed = error.headers.get(hdrs.ALLOW, "")
            return Problem(
                Misuse.METHOD_NOT_ALLOWED,
                f"This path takes {allowed}.",
                headers={hdrs.ALLOW: allowed},
            )
        case 413:
            return Problem(Misuse.TOO_LARGE, "Report in several requests.")
        case status if 400 <= status < 500:
            return Problem(Misuse.MALFORMED, "The request cannot be read.")
        case _:
            return Problem(Misuse.INTERNAL, "The sidecar's log names the place.")


def _place(error: BaseException) -> str:
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return "an unknown place"
    return f"{traceback.tb_frame.f_code.co_qualname}:{traceback.tb_lineno}"


def _remove_stale(path: str) -> None:
    """A socket that a killed process left behind; never one that somebody listens on."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise FileExistsError(errno.EEXIST, "something else than a socket is there", path)
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        if probe.connect_ex(path) == 0:
            raise OSError(errno.EADDRINUSE, "another process listens there", path)
    Path(path).unlink()
