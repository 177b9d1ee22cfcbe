"""The fewest rights, as `docs/permissions.md` prints them: what is documented is what is tested."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from tests.benches.redis import Valkey

PAGE = Path(__file__).parents[2] / "docs" / "permissions.md"
USER, PASSWORD = "cursor-sidecar", "app-password"


@cache
def least() -> tuple[str, ...]:
    """The rules of the documented user, but password and key pattern."""
    found = re.search(r"^ACL SETUSER cursor-sidecar ((?:.*\\\n)*.*)$", PAGE.read_text(), re.M)
    assert found is not None, f"{PAGE} prints no ACL line"
    words = found[1].replace("\\\n", " ").split()
    return tuple(w for w in words if not w.startswith((">", "~")))


def commands() -> frozenset[str]:
    """What they allow, in small letters."""
    return frozenset(word[1:] for word in least() if word.startswith("+"))


def limited(server: Valkey, prefix: str, *rules: str) -> str:
    """A URL of the server as the documented user, with more rules or fewer."""
    server.command(
        "ACL", "SETUSER", USER, "reset", f">{PASSWORD}", f"~{prefix}:*", *least(), *rules
    )
    where = urlsplit(server.url)
    return f"redis://{USER}:{PASSWORD}@{where.netloc}{where.path}"
