"""The URL of a store, read.

URLs::

    redis://[USER:PASSWORD@]HOST[:PORT][/DB]            rediss:// with TLS
    unix://[USER:PASSWORD@]/PATH[?db=DB]
    redis+sentinel://[...@]HOST:PORT,HOST:PORT[/DB]?service=NAME     rediss+sentinel:// with TLS
    redis+cluster://[...@]HOST:PORT,HOST:PORT                        rediss+cluster:// with TLS

The password of sentinels themselves is `sentinel_username` and `sentinel_password` in the query;
`ssl_ca_certs`, `ssl_certfile`, `ssl_keyfile`, `ssl_check_hostname` and `ssl_cert_reqs` are TLS's.
No password is ever part of a message or of a `repr`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from sidecar.errors import SettingFault, SettingsError

URL_SETTING = "REDIS__URL"


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Target:
    """A URL, read. Secrets are not shown."""

    kind: str
    addresses: tuple[Address, ...] = ()
    path: str | None = None
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    service: str = ""
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        where = self.path or ",".join(map(str, self.addresses))
        return f"{self.kind} {where}" + (f" service {self.service}" if self.service else "")


_TLS_OPTIONS: Final = frozenset(
    {"ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname"}
    | {"ssl_cert_reqs"}
)
_SCHEMES: Final[Mapping[str, tuple[str, bool, int]]] = {
    "redis": ("single", False, 6379),
    "rediss": ("single", True, 6379),
    "unix": ("unix", False, 0),
    "redis+sentinel": ("sentinel", False, 26379),
    "rediss+sentinel": ("sentinel", True, 26379),
    "redis+cluster": ("cluster", False, 6379),
    "rediss+cluster": ("cluster", True, 6379),
}


def parse_url(url: str) -> Target:
    """Raises `SettingsError`, which names what is wrong and never repeats the URL."""
    try:
        return _parse_url(url)
    except ValueError as error:
        raise SettingsError([SettingFault(URL_SETTING, str(error))]) from None


def _parse_url(url: str) -> Target:
    scheme, separator, _ = url.partition("://")
    if not separator or scheme.lower() not in _SCHEMES:
        raise ValueError(f"a URL that begins with one of {', '.join(s + '://' for s in _SCHEMES)}")
    kind, tls, port = _SCHEMES[scheme.lower()]
    try:
        parts = urlsplit(url)
        query = dict(
            parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        )
    except ValueError:
        raise ValueError("a URL that can be read: escape special characters as %XX") from None
    if parts.fragment:
        raise ValueError("no # in the URL: escape it as %23")
    credentials, _, hosts = parts.netloc.rpartition("@")
    username, _, password = credentials.partition(":")
    path, database = parts.path, query.pop("db", None)
    if kind == "unix" and (hosts or not path):
        raise ValueError("unix:///path/of/the/socket")
    addresses = tuple(_address(host, port) for host in hosts.split(",") if host)
    if kind != "unix" and database is None:
        database, path = path.strip("/") or None, ""
    if database is not None and not (database.isascii() and database.isdigit()):
        raise ValueError("a database that is a number")
    if kind == "cluster" and database not in (None, "0"):
        raise ValueError("no database but 0 with Redis Cluster")
    if kind in ("sentinel", "cluster") and not addresses:
        raise ValueError(f"at least one host with {scheme}://")
    if kind == "single" and len(addresses) > 1:
        raise ValueError(
            "one host with redis://; several with redis+sentinel:// or redis+cluster://"
        )
    service = query.pop("service", "") if kind == "sentinel" else ""
    if kind == "sentinel" and not service:
        raise ValueError("?service=NAME, the name that the sentinels know the master by")
    options = {name: query.pop(name) for name in _TLS_OPTIONS & query.keys()} if tls else {}
    sentinel = {
        name: query.pop(name, None) or None for name in ("sentinel_username", "sentinel_password")
    }
    if query or (kind != "sentinel" and any(sentinel.values())):
        known = "service, db, sentinel_username, sentinel_password and, with TLS, ssl_*"
        raise ValueError(f"no query but {known}; not {', '.join(sorted(query)) or 'sentinel_*'}")
    return Target(
        kind=kind,
        addresses=addresses or ((Address("localhost", port),) if kind == "single" else ()),
        path=unquote(path) if kind == "unix" else None,
        database=int(database or 0),
        username=unquote(username) or None,
        password=unquote(password) or None,
        tls=tls,
        tls_options={name: _tls_option(name, value) for name, value in options.items()},
        service=service,
        sentinel_username=sentinel["sentinel_username"],
        sentinel_password=sentinel["sentinel_password"],
    )


def _address(text: str, port_default: int) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(port_default)
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError("ports between 1 and 65535")
    host = unquote(host.removeprefix("[").removesuffix("]"))
    if not host:
        raise ValueError("a host before each port")
    return Address(host, int(port))


def _tls_option(name: str, value: str) -> object:
    if name == "ssl_check_hostname":
        return value.lower() in ("1", "true", "yes")
    if name == "ssl_cert_reqs" and value not in ("none", "optional", "required"):
        raise ValueError("ssl_cert_reqs: none, optional or required")
    return value
