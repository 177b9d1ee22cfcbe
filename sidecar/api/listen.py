"""An address to listen on or to reach: `host:port`, `[v6]:port`, or `unix:/path`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Tcp:
    """`host` None: every interface. Port 0: any free one."""

    host: str | None
    port: int

    def __str__(self) -> str:
        host = "" if self.host is None else f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Unix:
    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


Address: TypeAlias = Tcp | Unix


def parse(text: str) -> Address:
    """ValueError when it is neither; the settings have checked it already."""
    if text.startswith("unix:"):
        return Unix(text.removeprefix("unix:"))
    host, _, port = text.rpartition(":")
    return Tcp(host.removeprefix("[").removesuffix("]") or None, int(port))
