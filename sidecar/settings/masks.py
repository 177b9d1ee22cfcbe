"""Showing values without their secrets, and knowing the secrets in order to strike them out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any
from urllib.parse import unquote

from sidecar.settings.kinds import MASK, Secret


def is_secret_name(name: str) -> bool:
    return re.search(r"passw|secret|token$|jaas|\.pem$|sasl\.oauthbearer\.config", name) is not None


_USERINFO = re.compile(r"(?<=://).*(?=@)")
_QUERY_SECRET = re.compile(r"(?<=[?&])((?:passw\w*|token|secret|key)=)(.*)")
"""To the end: what follows an unescaped ampersand may still be the secret."""


def url_secrets(text: str) -> list[str]:
    """As written and as meant: a client that quotes one in an error has decoded it."""
    userinfo = _USERINFO.search(text)
    found = [userinfo[0].partition(":")[2]] if userinfo else []
    for _, value in _QUERY_SECRET.findall(text):
        found += [value, value.partition("&")[0]]
    return found + [unquote(value) for value in found]


def masked(value: Any) -> Any:
    if isinstance(value, Secret):
        text = value.get_secret_value()
        if re.match(r"[\w+.-]+://", text):
            return _USERINFO.sub(MASK, _QUERY_SECRET.sub(rf"\1{MASK}", text))
        return MASK
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        return {str(k): MASK if is_secret_name(str(k)) else masked(v) for k, v in value.items()}
    return list(value) if isinstance(value, tuple) else value
