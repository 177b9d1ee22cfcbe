"""Refusals as RFC 9457 problems. `type` is the bare, stable name that applications match on.

`detail` says what was expected and what to do. It never quotes what was sent: a body may hold a
payload, and a header a secret.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum

import msgspec
from aiohttp import web

from sidecar.core.views import Refusal, Refused

MEDIA_TYPE = "application/problem+json"


class Misuse(StrEnum):
    """Refused by HTTP itself, before the desk is asked."""

    MALFORMED = "malformed"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not-found"
    METHOD_NOT_ALLOWED = "method-not-allowed"
    NOT_ACCEPTABLE = "not-acceptable"
    TOO_LARGE = "too-large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported-media-type"
    INTERNAL = "internal"

    @property
    def status(self) -> int:
        return _STATUS[self]


_STATUS = {
    Misuse.MALFORMED: 400,
    Misuse.UNAUTHORIZED: 401,
    Misuse.FORBIDDEN: 403,
    Misuse.NOT_FOUND: 404,
    Misuse.METHOD_NOT_ALLOWED: 405,
    Misuse.NOT_ACCEPTABLE: 406,
    Misuse.TOO_LARGE: 413,
    Misuse.UNSUPPORTED_MEDIA_TYPE: 415,
    Misuse.INTERNAL: 500,
}

TITLES: dict[Misuse | Refused, str] = {
    Misuse.MALFORMED: "The request is not what this operation takes",
    Misuse.UNAUTHORIZED: "A bearer token is needed",
    Misuse.FORBIDDEN: "Not allowed on this listener",
    Misuse.NOT_FOUND: "There is nothing at this path",
    Misuse.METHOD_NOT_ALLOWED: "This path takes another method",
    Misuse.NOT_ACCEPTABLE: "None of the accepted media types can be given",
    Misuse.TOO_LARGE: "The body is too large",
    Misuse.UNSUPPORTED_MEDIA_TYPE: "The body's media type is not taken",
    Misuse.INTERNAL: "A bug in the sidecar; nothing can be said about the request",
    Refused.PAGE_LOST: "The page's partition or comparison was lost; do not report it again",
    Refused.PAGE_SUPERSEDED: "A later page for these records was handed out",
    Refused.OFFSETS_UNKNOWN: "The report names offsets that are not in the page",
    Refused.STORE_UNAVAILABLE: "Not known to be recorded; send the same request again",
    Refused.GAP_UNKNOWN: "There is no such gap",
    Refused.GAP_CHANGED: "The gap is another by now; read it again",
    Refused.RESOLUTION_IMPOSSIBLE: "This resolution cannot hold",
    Refused.HOLD_UNKNOWN: "There is no such hold",
    Refused.ANSWER_IMPOSSIBLE: "The hold permits no such answer",
    Refused.PARTITION_UNKNOWN: "The partition is not assigned to this sidecar",
    Refused.EVIDENCE_UNAVAILABLE: "The evidence cannot be read now; ask again",
    Refused.UNVERIFIED: "The overlap is being verified again; send the same report again",
    Refused.DRAINING: "The sidecar is draining",
    Refused.BUSY: "Too many requests are waiting",
    Refused.REQUEST_PENDING: "Recorded, and nobody has executed it yet",
    Refused.REQUEST_REFUSED: "The owner of the partition refused it",
}


class ProblemBody(msgspec.Struct, rename={"kind": "type"}, omit_defaults=True):
    kind: str
    title: str
    status: int
    detail: str
    retry_after_seconds: float | None = None


class Problem(Exception):
    """Raised by a handler; answered by the middleware."""

    def __init__(
        self,
        kind: Misuse | Refused,
        detail: str,
        *,
        retry_after_seconds: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail
        self.retry_after_seconds = retry_after_seconds
        self.headers = headers or {}

    @classmethod
    def of(cls, refusal: Refusal) -> Problem:
        return cls(refusal.refused, refusal.detail, retry_after_seconds=refusal.retry_after_seconds)

    def response(self) -> web.Response:
        body = ProblemBody(
            kind=self.kind.value,
            title=TITLES[self.kind],
            status=self.kind.status,
            detail=self.detail,
            retry_after_seconds=self.retry_after_seconds,
        )
        headers = dict(self.headers)
        if self.retry_after_seconds is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after_seconds)))
        return web.Response(
            body=msgspec.json.encode(body),
            status=self.kind.status,
            content_type=MEDIA_TYPE,
            headers=headers,
        )


def malformed(detail: str) -> Problem:
    return Problem(Misuse.MALFORMED, detail)


def without_values(message: str) -> str:
    """msgspec's complaint with the place and the expectation, but not what stood there."""
    message = re.sub(
        r"Invalid enum value .*?(?= - at `|$)",
        "A value that is none of the permitted ones",
        message,
    )
    return re.sub(r"(unknown field )`.*?`(?= - at `|$)", r"\1", message).strip()[:500]
