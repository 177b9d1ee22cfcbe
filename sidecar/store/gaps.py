"""Gaps, as they are kept.

A gap is kept in two fields. The first is written by the owner, whole. The second holds what people
add from outside while the gap is open (the acknowledgement, fences), and only `update_gap` writes
it; reading puts the two together. So an acknowledgement needs no dead owner, and neither side
overwrites the other: an owner that lets a gap grow from a copy it read a second ago loses no
acknowledgement, and an acknowledgement made from an old copy does not shrink the gap again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from sidecar.core.gap import AUDIT_ENTRIES_MAX, Decision, Gap, GapEvent, GapState, Resolution
from sidecar.core.types import (
    ClusterId,
    GapId,
    GapReason,
    Generation,
    GroupId,
    Offset,
    Partition,
    TopicId,
)
from sidecar.store.formats import decode, encode, interval

GAP_FORMAT = 1
FENCES_MAX = 8


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


class _Additions(msgspec.Struct):
    """What was added to an open gap from outside."""

    format: int
    acknowledged: _Event | None
    fences: tuple[tuple[int, float], ...]
    audit: tuple[_Event, ...]


_gap_decoder = msgspec.json.Decoder(_Gap)
_additions_decoder = msgspec.json.Decoder(_Additions)


def encode_gap(gap: Gap) -> bytes:
    resolution = gap.resolution
    return encode(
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


def decode_gap(raw: bytes, additions: bytes | None = None) -> Gap:
    """The gap with what was added to it. Raises `NewerFormat` or `Malformed`."""
    wire = decode(_gap_decoder, raw, GAP_FORMAT, "a gap")
    decision = wire.resolution
    gap = Gap(
        GapId(wire.id),
        wire.reason,
        GroupId(wire.group),
        Partition(wire.topic, wire.partition),
        ClusterId(wire.cluster_id),
        None if wire.topic_id is None else TopicId(wire.topic_id),
        wire.lineage,
        interval(wire.first, wire.end),
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
    return gap if additions is None else merge_gap(gap, decode_additions(additions))


def decode_additions(raw: bytes) -> GapAdditions:
    wire = decode(_additions_decoder, raw, GAP_FORMAT, "what was added to a gap")
    return GapAdditions(
        None if wire.acknowledged is None else _event_in(wire.acknowledged),
        tuple((Offset(fence), at) for fence, at in wire.fences),
        tuple(map(_event_in, wire.audit)),
    )


def encode_additions(additions: GapAdditions) -> bytes:
    return encode(
        _Additions(
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
