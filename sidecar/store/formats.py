"""What is kept as JSON: the body of a checkpoint, gaps, audit entries, a registry's head.

Each has a wire type of its own, apart from the core's, because what is stored outlives the release
that wrote it: a field of the core may be renamed, a field on the wire may not. Each carries a
format number; fields that are not known are ignored, so that a release may add some before it
relies on them, and a higher number is refused by name (`NewerFormat`), never guessed at. What
cannot be read is `Malformed`: it is never taken for "nothing there".

A gap is kept in two fields. The first is written by the owner, whole. The second holds what people
add from outside while the gap is open (the acknowledgement, fences), and only `update_gap` writes
it; reading puts the two together. So an acknowledgement needs no dead owner, and neither side
overwrites the other: an owner that lets a gap grow from a copy it read a second ago loses no
acknowledgement, and an acknowledgement made from an old copy does not shrink the gap again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from sidecar.core.checkpoint import Audit, Checkpoint, Identity
from sidecar.core.gap import AUDIT_ENTRIES_MAX, Decision, Gap, GapEvent, GapState, Resolution
from sidecar.core.types import (
    ClusterId,
    GapId,
    GapReason,
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
GAP_FORMAT = 1
AUDIT_FORMAT = 1
REGISTRY_FORMAT = 1

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


class _Event(msgspec.Struct):
    at: float
    what: str
    by: str
    why: str
    evidence: dict[str, Any]


class _Decision(msgspec.Struct):
    resolution: Resolution
    by: str
    why: str
    at: float
    resume_at: int
    fence: int | None
    end_max: int | None
    evidence: str | None


class _Gap(msgspec.Struct):
    format: int
    id: str
    reason: GapReason
    state: GapState
    group: str
    topic: str
    partition: int
    cluster_id: str
    topic_id: str | None
    lineage: int
    first: int
    end: int | None
    generation: int
    opened_at: float
    evidence: dict[str, Any]
    acknowledged: _Event | None
    resolution: _Decision | None
    superseded_by: str | None
    fences: tuple[tuple[int, float], ...]
    audit: tuple[_Event, ...]


class _Overlay(msgspec.Struct):
    """What was added to an open gap from outside."""

    format: int
    acknowledged: _Event | None
    fences: tuple[tuple[int, float], ...]
    audit: tuple[_Event, ...]


class _Audit(msgspec.Struct):
    format: int
    at: float
    what: str
    by: str
    why: str
    fields: dict[str, Any]


class RegistryHead(msgspec.Struct):
    """A registry's own facts; topics, baselines and the started are fields of their own."""

    format: int
    group: str
    created_at: float
    rebuilt: bool
    predecessors: tuple[str, ...]


_encode = msgspec.json.Encoder().encode
_head_decoder = msgspec.json.Decoder(_Head)
_body_decoder = msgspec.json.Decoder(_Body)
_gap_decoder = msgspec.json.Decoder(_Gap)
_overlay_decoder = msgspec.json.Decoder(_Overlay)
_audit_decoder = msgspec.json.Decoder(_Audit)
_registry_decoder = msgspec.json.Decoder(RegistryHead)

S = TypeVar("S", _Body, _Gap, _Overlay, _Audit, RegistryHead)


def _decode(decoder: msgspec.json.Decoder[S], raw: bytes, newest: int, name: str) -> S:
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
    return _encode(
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
    wire = _decode(_body_decoder, body, CHECKPOINT_FORMAT, "the checkpoint")
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
        None if wire.replay is None else _interval(*wire.replay),
    )


def _interval(first: int, end: int | None) -> Interval:
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


# --- gap ------------------------------------------------------------------------------------------


def encode_gap(gap: Gap) -> bytes:
    resolution = gap.resolution
    return _encode(
        _Gap(
            GAP_FORMAT,
            gap.id,
            gap.reason,
            gap.state,
            gap.group,
            gap.partition.topic,
            gap.partition.index,
            gap.cluster_id,
            gap.topic_id,
            gap.lineage,
            gap.interval.first,
            gap.interval.end,
            gap.generation,
            gap.opened_at,
            dict(gap.evidence),
            None if gap.acknowledged is None else _event_out(gap.acknowledged),
            None
            if resolution is None
            else _Decision(
                resolution.resolution,
                resolution.by,
                resolution.why,
                resolution.at,
                resolution.resume_at,
                resolution.fence,
                resolution.end_max,
                resolution.evidence,
            ),
            gap.superseded_by,
            gap.fences,
            tuple(map(_event_out, gap.audit)),
        )
    )


def decode_gap(raw: bytes, overlay: bytes | None = None) -> Gap:
    """The gap with what was added to it. Raises `NewerFormat` or `Malformed`."""
    wire = _decode(_gap_decoder, raw, GAP_FORMAT, "a gap")
    decision = wire.resolution
    gap = Gap(
        GapId(wire.id),
        wire.reason,
        GroupId(wire.group),
        Partition(wire.topic, wire.partition),
        ClusterId(wire.cluster_id),
        None if wire.topic_id is None else TopicId(wire.topic_id),
        wire.lineage,
        _interval(wire.first, wire.end),
        wire.state,
        wire.evidence,
        Generation(wire.generation),
        wire.opened_at,
        None if wire.acknowledged is None else _event_in(wire.acknowledged),
        None
        if decision is None
        else Decision(
            decision.resolution,
            decision.by,
            decision.why,
            decision.at,
            Offset(decision.resume_at),
            None if decision.fence is None else Offset(decision.fence),
            None if decision.end_max is None else Offset(decision.end_max),
            decision.evidence,
        ),
        None if wire.superseded_by is None else GapId(wire.superseded_by),
        tuple((Offset(fence), at) for fence, at in wire.fences),
        tuple(map(_event_in, wire.audit)),
    )
    return gap if overlay is None else merge_gap(gap, decode_overlay(overlay))


def decode_overlay(raw: bytes) -> GapAdditions:
    wire = _decode(_overlay_decoder, raw, GAP_FORMAT, "what was added to a gap")
    return GapAdditions(
        None if wire.acknowledged is None else _event_in(wire.acknowledged),
        tuple((Offset(fence), at) for fence, at in wire.fences),
        tuple(map(_event_in, wire.audit)),
    )


def encode_overlay(additions: GapAdditions) -> bytes:
    return _encode(
        _Overlay(
            GAP_FORMAT,
            None if additions.acknowledged is None else _event_out(additions.acknowledged),
            additions.fences,
            tuple(map(_event_out, additions.audit)),
        )
    )


@dataclass(frozen=True, slots=True)
class GapAdditions:
    """What `update_gap` keeps beside a gap."""

    acknowledged: GapEvent | None = None
    fences: tuple[tuple[Offset, float], ...] = ()
    audit: tuple[GapEvent, ...] = ()


FENCES_MAX = 8


def additions_to(standing: Gap, added: GapAdditions, gap: Gap, was: Gap) -> GapAdditions:
    """`added`, with what the step from `was` to `gap` adds to it. `standing` has `added` in it."""
    fences = [fence for fence in gap.fences if fence not in was.fences]
    events = [event for event in gap.audit if event not in was.audit]
    return GapAdditions(
        gap.acknowledged if gap.acknowledged != was.acknowledged else added.acknowledged,
        (*added.fences, *(f for f in fences if f not in standing.fences))[-FENCES_MAX:],
        _bounded((*added.audit, *(e for e in events if e not in standing.audit))),
    )


def merge_gap(gap: Gap, added: GapAdditions) -> Gap:
    """What the owner wrote, and what was added from outside, as one gap."""
    state = gap.state
    if state is GapState.OPEN and added.acknowledged is not None:
        state = GapState.ACKNOWLEDGED
    fences = [*gap.fences, *(fence for fence in added.fences if fence not in gap.fences)]
    audit = [*gap.audit, *(event for event in added.audit if event not in gap.audit)]
    return replace(
        gap,
        state=state,
        acknowledged=added.acknowledged or gap.acknowledged,
        fences=tuple(sorted(fences, key=lambda fence: fence[1])[-FENCES_MAX:]),
        audit=_bounded(tuple(sorted(audit, key=lambda event: event.at))),
    )


def _bounded(audit: tuple[GapEvent, ...]) -> tuple[GapEvent, ...]:
    """The first line and the newest ones, as `Gap.noted` keeps them."""
    if len(audit) <= AUDIT_ENTRIES_MAX:
        return audit
    return (audit[0], *audit[-(AUDIT_ENTRIES_MAX - 1) :])


def _event_out(event: GapEvent) -> _Event:
    return _Event(event.at, event.what, event.by, event.why, dict(event.evidence))


def _event_in(wire: _Event) -> GapEvent:
    return GapEvent(wire.at, wire.what, wire.by, wire.why, wire.evidence)


# --- audit ----------------------------------------------------------------------------------------


def encode_audit(entry: Audit) -> bytes:
    return _encode(
        _Audit(AUDIT_FORMAT, entry.at, entry.what, entry.by, entry.why, dict(entry.fields))
    )


def decode_audit(raw: bytes) -> Audit:
    """Raises `NewerFormat` or `Malformed`."""
    wire = _decode(_audit_decoder, raw, AUDIT_FORMAT, "an audit entry")
    return Audit(wire.at, wire.what, wire.by, wire.why, wire.fields)


# --- registry -------------------------------------------------------------------------------------


def encode_registry_head(head: RegistryHead) -> bytes:
    return _encode(head)


def decode_registry_head(raw: bytes) -> RegistryHead:
    """Raises `NewerFormat` or `Malformed`."""
    return _decode(_registry_decoder, raw, REGISTRY_FORMAT, "the registry")
