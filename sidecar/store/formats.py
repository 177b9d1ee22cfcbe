"""What is kept as JSON: the body of a checkpoint, audit entries (gaps: `sidecar.store.gaps`).

Each has a wire type of its own, apart from the core's, because what is stored outlives the release
that wrote it: a field of the core may be renamed, a field on the wire may not. Each carries a
format number; fields that are not known are ignored, so that a release may add some before it
relies on them, and a higher number is refused by name (`NewerFormat`), never guessed at. What
cannot be read is `Malformed`: it is never taken for "nothing there".
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from sidecar.core.checkpoint import Audit, Checkpoint, Identity, Paused, Replaying
from sidecar.core.request import RequestId
from sidecar.core.types import (
    ClusterId,
    GapId,
    Generation,
    GroupId,
    Interval,
    IsolationLevel,
    LeaderEpoch,
    Lineage,
    Offset,
    OwnerId,
    Partition,
    StoreId,
    Token,
    TopicId,
)
from sidecar.store.receipts import Malformed, NewerFormat

CHECKPOINT_FORMAT = 1
AUDIT_FORMAT = 1

EXACT_MAX = 2**53 - 1
"""Numbers beyond this are not exact in Lua, nor in JSON as most tools read it."""


class _Head(msgspec.Struct):
    format: int


class _Body(msgspec.Struct):
    """The part of a checkpoint that changes seldom."""

    format: int
    group: str
    topic: str
    partition: int
    cluster_id: str
    topic_id: str | None
    isolation: IsolationLevel
    former_topic_ids: tuple[str, ...]
    lineages: tuple[tuple[int, int], ...]
    baseline: int
    store: str
    keyed_by: str | None = None
    replay: tuple[int, int | None] | None = None
    store_epoch: str = ""
    resolved: str | None = None
    paused: tuple[str, str, float] | None = None
    replaying: tuple[str, str, int, int, int, int] | None = None


class _Audit(msgspec.Struct):
    format: int
    at: float
    what: str
    by: str
    why: str
    fields: dict[str, Any]


encode = msgspec.json.Encoder().encode
_head_decoder = msgspec.json.Decoder(_Head)
_body_decoder = msgspec.json.Decoder(_Body)
_audit_decoder = msgspec.json.Decoder(_Audit)


class _Versioned(Protocol):
    format: int


S = TypeVar("S", bound=_Versioned)


def decode(decoder: msgspec.json.Decoder[S], raw: bytes, newest: int, name: str) -> S:
    try:
        value = decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        # A newer format may well not fit; then that is the news, not the misfit.
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            check_format(_head_decoder.decode(raw).format, newest, name)
        raise Malformed(f"{name} cannot be read: {error}") from None
    check_format(value.format, newest, name)
    return value


def check_format(version: int, newest: int, name: str) -> None:
    if version > newest:
        raise NewerFormat(
            f"{name} is written in format {version}, and this release reads up to {newest}"
        )
    if version < 1:
        raise Malformed(f"{name} has format {version}")


# --- checkpoint -----------------------------------------------------------------------------------


def encode_body(checkpoint: Checkpoint) -> bytes:
    identity = checkpoint.identity
    return encode(
        _Body(
            CHECKPOINT_FORMAT,
            identity.group,
            identity.partition.topic,
            identity.partition.index,
            identity.cluster_id,
            identity.topic_id,
            identity.isolation,
            identity.former_topic_ids,
            tuple((lineage.number, lineage.first) for lineage in checkpoint.lineages),
            checkpoint.baseline,
            checkpoint.store,
            identity.keyed_by,
            None if checkpoint.replay is None else (checkpoint.replay.first, checkpoint.replay.end),
            checkpoint.store_epoch,
            checkpoint.resolved,
            None
            if checkpoint.paused is None
            else (checkpoint.paused.by, checkpoint.paused.why, checkpoint.paused.at),
            None if checkpoint.replaying is None else _replaying_out(checkpoint.replaying),
        )
    )


CHECKPOINT_FIELDS = (
    b"format",
    b"next",
    b"epoch",
    b"generation",
    b"owner",
    b"horizon",
    b"gap",
    b"body",
)
"""The hash fields that make a checkpoint, in the order in which scripts answer them."""


def decode_checkpoint(fields: Sequence[bytes | None]) -> Checkpoint:
    """From `CHECKPOINT_FIELDS`. Raises `NewerFormat` or `Malformed`."""
    version, next_, epoch, generation, owner, horizon, gap, body = fields[:8]
    check_format(number(version, "format"), CHECKPOINT_FORMAT, "the checkpoint")
    if body is None or owner is None or epoch is None or gap is None:
        missing = [
            name.decode()
            for name, value in zip(CHECKPOINT_FIELDS, fields, strict=False)
            if value is None
        ]
        raise Malformed(f"the checkpoint lacks {', '.join(missing)}")
    wire = decode(_body_decoder, body, CHECKPOINT_FORMAT, "the checkpoint")
    if not wire.lineages:
        raise Malformed("the checkpoint has no lineage")
    return Checkpoint(
        Identity(
            GroupId(wire.group),
            Partition(wire.topic, wire.partition),
            ClusterId(wire.cluster_id),
            None if wire.topic_id is None else TopicId(wire.topic_id),
            wire.isolation,
            tuple(map(TopicId, wire.former_topic_ids)),
            wire.keyed_by,
        ),
        tuple(Lineage(n, Offset(first)) for n, first in wire.lineages),
        Offset(wire.baseline),
        Token(
            Offset(number(next_, "next")),
            None if epoch == b"" else LeaderEpoch(number(epoch, "epoch")),
        ),
        Generation(number(generation, "generation")),
        OwnerId(text(owner, "owner")),
        Offset(number(horizon, "horizon")),
        StoreId(wire.store),
        None if gap == b"" else GapId(text(gap, "gap")),
        None if wire.replay is None else interval(*wire.replay),
        wire.store_epoch,
        None if wire.resolved is None else GapId(wire.resolved),
        None if wire.paused is None else Paused(*wire.paused),
        None if wire.replaying is None else _replaying_in(*wire.replaying),
    )


def _replaying_out(given: Replaying) -> tuple[str, str, int, int, int, int]:
    return given.request, given.by, given.first, given.position, given.end, given.gone


def _replaying_in(
    request: str, by: str, first: int, position: int, end: int, gone: int
) -> Replaying:
    return Replaying(RequestId(request), by, Offset(first), Offset(position), Offset(end), gone)


def interval(first: int, end: int | None) -> Interval:
    return Interval(Offset(first), None if end is None else Offset(end))


def number(raw: bytes | None, name: str) -> int:
    if raw is None:
        raise Malformed(f"the checkpoint lacks {name}")
    if not raw.isdigit():
        raise Malformed(f"{name} is no number: {raw[:40]!r}")
    return int(raw)


def text(raw: bytes, name: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Malformed(f"{name} is no text: {raw[:40]!r}") from None


# --- audit ----------------------------------------------------------------------------------------


def encode_audit(entry: Audit) -> bytes:
    return encode(
        _Audit(AUDIT_FORMAT, entry.at, entry.what, entry.by, entry.why, dict(entry.fields))
    )


def decode_audit(raw: bytes) -> Audit:
    """Raises `NewerFormat` or `Malformed`."""
    wire = decode(_audit_decoder, raw, AUDIT_FORMAT, "an audit entry")
    return Audit(wire.at, wire.what, wire.by, wire.why, wire.fields)
