"""A running sidecar, over HTTP: host and port, or a Unix socket. Standard library alone."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from sidecar.cli.options import TIMED_OUT, config_option, fail, load_listeners, set_option

F = TypeVar("F", bound=Callable[..., Any])

_ANY = ("", "0.0.0.0", "::", "[::]")
"""Listening on every interface; reached on loopback."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("sidecar", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@dataclass(frozen=True, slots=True)
class Service:
    """`address` is `host:port`, `unix:/path` or an http(s) URL."""

    address: str
    token: str | None = None
    timeout_seconds: float = 10.0

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def post(self, path: str, body: Any = None) -> Any:
        return self.ask("POST", path, body)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer, decoded; a problem or no answer ends the command and says why."""
        headers = {"Accept": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection, prefix = self._connection()
        try:
            connection.request(
                method, prefix + path, None if body is None else json.dumps(body), headers
            )
            response = connection.getresponse()
            raw = response.read()
        except TimeoutError:
            fail(f"No answer from {self.address} in {self.timeout_seconds:g} s.", TIMED_OUT)
        except (OSError, http.client.HTTPException) as error:
            fail(f"No sidecar reached at {self.address}: {error}")
        finally:
            connection.close()
        try:
            answer = json.loads(raw)
        except ValueError:
            fail(f"{self.address} answered {response.status}, and not as a sidecar does.")
        if response.status >= 400:
            fail(f"{answer.get('type', response.status)}: {answer.get('detail', '')}")
        return answer

    def _connection(self) -> tuple[http.client.HTTPConnection, str]:
        if self.address.startswith("unix:"):
            path = self.address.removeprefix("unix:")
            return _UnixConnection(path, self.timeout_seconds), ""
        try:
            url = urlsplit(self.address if "//" in self.address else f"http://{self.address}")
            host, port = url.hostname or "", url.port
        except ValueError:
            fail(f"{self.address!r} is no address: host:port, unix:/path or a URL.", 2)
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        host = "127.0.0.1" if host in _ANY else host
        return kind(host, port, timeout=self.timeout_seconds), url.path.rstrip("/")


def service_options(function: F) -> F:
    """How to reach one running sidecar, for commands that can ask it instead of the servers."""
    for option in (
        set_option,
        config_option,
        click.option(
            "--timeout",
            "timeout_seconds",
            type=click.FloatRange(min=0, min_open=True),
            default=10.0,
            show_default=True,
            metavar="SECONDS",
            help="How long to wait for the answer.",
        ),
        click.option(
            "--url",
            metavar="URL",
            help="Ask this running sidecar instead: host:port, unix:/path or a URL.",
        ),
    ):
        function = option(function)
    return function


def service(
    url: str | None,
    timeout_seconds: float,
    config: Path | None,
    flags: dict[str, str],
    *,
    admin: bool,
) -> Service:
    """With `url`, the admin token goes along, since a mutation may need it there."""
    listeners = load_listeners(config, flags)
    secret = listeners.admin.token
    token = None if secret is None else secret.get_secret_value()
    if url is not None:
        return Service(url, token, timeout_seconds)
    listen = listeners.admin.listen if admin else listeners.api.listen
    return Service(listen, token if admin else None, timeout_seconds)
