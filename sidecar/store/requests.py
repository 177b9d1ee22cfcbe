"""Requests, as they are kept: a hash under the partition's tag, one JSON by id.

Its `order` is written by the script that leaves it, as the last field: what is encoded here has
none before that, and keeps it afterwards.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sidecar.core.request import Request, RequestId, RequestKind, RequestState
from sidecar.core.types import GroupId, Partition
from sidecar.store.formats import decode, encode

REQUEST_FORMAT = 1


class _Request(msgspec.Struct, omit_defaults=True):
    format: int
    id: str
    group: str
    topic: str
    partition: int
    kind: RequestKind
    target: str
    by: str
    why: str
    at: float
    arguments: dict[str, Any]
    state: RequestState
    code: str
    detail: str
    settled_at: float | None
    order: int = 0


_decoder = msgspec.json.Decoder(_Request)


def encode_request(request: Request) -> bytes:
    return encode(
        _Request(
            REQUEST_FORMAT,
            request.id,
            request.group,
            request.partition.topic,
            request.partition.index,
            request.kind,
            request.target,
            request.by,
            request.why,
            request.at,
            dict(request.arguments),
            request.state,
            request.code,
            request.detail,
            request.settled_at,
            request.order,
        )
    )


def decode_request(raw: bytes) -> Request:
    """Raises `NewerFormat` or `Malformed`."""
    wire = decode(_decoder, raw, REQUEST_FORMAT, "a request")
    return Request(
        RequestId(wire.id),
        GroupId(wire.group),
        Partition(wire.topic, wire.partition),
        wire.kind,
        wire.target,
        wire.by,
        wire.why,
        wire.at,
        wire.arguments,
        wire.state,
        wire.code,
        wire.detail,
        wire.settled_at,
        wire.order,
    )
