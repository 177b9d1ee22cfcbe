"""What a value can be: types with their bounds, and checks that types cannot express.

A check answers with a complaint that never quotes the value, since any of them may hold a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import parse_qs, urlsplit

from msgspec import Meta

from sidecar.core.policy import OnGap
from sidecar.core.types import GapReason

MASK = "***"


class Secret:
    """Text that shows itself only to who asks for it by name."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def get_secret_value(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Secret('{MASK}')"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


class Mode(StrEnum):
    PULL = "pull"
    PUSH = "push"


class LogFormat(StrEnum):
    JSON = "json"
    CONSOLE = "console"


def _listen_complaint(text: str) -> str | None:
    if text.startswith("unix:"):
        return None if text.startswith("unix:/") else "the socket's path must be absolute"
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]/]*):(\d{1,5})", text)
    return None if found and int(found[2]) <= 65_535 else "no host and port in it"


_REDIS_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "redis+cluster")


def _redis_complaint(text: str) -> str | None:
    try:
        url = urlsplit(text)
        service = parse_qs(url.query).get("service")
    except ValueError:
        return "it cannot be read as a URL"
    if url.scheme not in _REDIS_SCHEMES:
        return f"the scheme must be one of {', '.join(_REDIS_SCHEMES)}"
    if url.scheme == "unix":
        return None if url.path.startswith("/") else "unix:// needs an absolute path"
    if not url.netloc.rpartition("@")[2]:
        return "it names no host"
    if url.scheme == "redis+sentinel" and not service:
        return "redis+sentinel:// needs ?service=NAME"
    return None


def _http_complaint(text: str) -> str | None:
    try:
        url = urlsplit(text)
    except ValueError:
        return "it cannot be read as a URL"
    return None if url.scheme in ("http", "https") and url.hostname else "it is no HTTP URL"


def _topics_complaint(topics: tuple[str, ...]) -> str | None:
    for topic in topics:
        if not (
            len(topic) > 1 if topic.startswith("^") else re.fullmatch(r"[\w.-]{1,249}", topic, re.A)
        ):
            return f"{topic[:60]!r} is no topic name"
    return None if len(set(topics)) == len(topics) else "a topic is named twice"


Complaint = Callable[[Any], str | None]
"""What is wrong with a value that has the right type, never quoting it; None: nothing."""


def about(
    *, expects: str | None = None, check: Complaint | None = None, from_file: bool = False
) -> Meta:
    """`expects`: what the setting takes, where its type does not say it. `from_file`: it takes
    `…_FILE` although it is no secret, since it may carry one, or travels with one."""
    given = {"expects": expects, "check": check, "from_file": from_file or None}
    return Meta(extra={name: value for name, value in given.items() if value is not None})


def token_complaint(text: str) -> str | None:
    return None if len(text) >= 16 else "it is too short to be one"


Name = Annotated[str, Meta(min_length=1, max_length=255)]
FileName = Annotated[Name, about(from_file=True)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Listen = Annotated[str, about(expects="host:port, or unix:/path", check=_listen_complaint)]
HttpUrl = Annotated[Secret, about(expects="an http:// or https:// URL", check=_http_complaint)]
RedisUrl = Annotated[
    Secret,
    about(
        expects="a URL: redis://, rediss://, unix://, redis+sentinel://H:P,H:P/DB?service=NAME "
        "or redis+cluster://H:P,H:P",
        check=_redis_complaint,
    ),
]
Topics = Annotated[
    tuple[str, ...],
    Meta(min_length=1),
    about(
        expects="topic names, or patterns that begin with ^: a comma list or a JSON array",
        check=_topics_complaint,
    ),
]
Properties = Annotated[
    dict[str, bool | int | float | str],
    about(
        expects='a JSON object of librdkafka properties, such as {"client.rack": "a"}',
        from_file=True,
    ),
]
OnGaps = Annotated[
    dict[GapReason, OnGap],
    about(expects=f"a JSON object from {', '.join(GapReason)} to {' or '.join(OnGap)}"),
]
Protocol: TypeAlias = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
Mechanism: TypeAlias = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"]
Level: TypeAlias = Literal["debug", "info", "warning", "error"]
