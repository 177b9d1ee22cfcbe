"""The witness: what a commit's metadata testifies about the checkpoint behind it.

Redis and Kafka each testify about the other. A store that forgot, was flushed or failed over to
a stale replica is caught by a commit that knows more, and can be rebuilt and verified from it; a
commit that expired is rebuilt from the store; an offset that somebody else committed shows,
because it comes without a witness or with one that does not fit it.

Text, at most 4,095 characters (Kafka's default `offset.metadata.max.bytes` less one), about 1,000
as a rule: `csw1:CRC32:JSON` with one-letter names. The checksum tells a damaged witness from
somebody else's text; it is no signature, and nothing secret stands here.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import TypeAlias

from sidecar.core.checkpoint import Checkpoint
from sidecar.core.gap import Gap
from sidecar.core.types import (
    DIGEST_SCHEME,
    ClusterId,
    Digest,
    GapId,
    GapReason,
    Generation,
    GroupId,
    Interval,
    LeaderEpoch,
    Lineage,
    Offset,
    Partition,
    StoreId,
    TopicId,
)

WITNESS_FORMAT = 1
METADATA_CHARACTERS_MAX = 4095
LINEAGES_MAX = 16
"""The newest lineages go into a witness; the checkpoint keeps them all."""

_PREFIX = "csw"


@dataclass(frozen=True, slots=True)
class WitnessGap:
    id: GapId
    reason: GapReason
    interval: Interval


@dataclass(frozen=True, slots=True)
class Witness:
    """`tail` are offset and digest of the last receipts, rising."""

    store: StoreId
    cluster_id: ClusterId
    group: GroupId
    partition: Partition
    topic_id: TopicId | None
    lineages: tuple[Lineage, ...]
    baseline: Offset
    generation: Generation
    next: Offset
    epoch: LeaderEpoch | None
    horizon: Offset
    digest_scheme: int
    tail: tuple[tuple[Offset, Digest], ...] = ()
    gap: WitnessGap | None = None
    resolved: GapId | None = None
    keyed_by: str | None = None


@dataclass(frozen=True, slots=True)
class Ours:
    """Our own witness, intact, and it fits the offset it stands beside."""

    witness: Witness


@dataclass(frozen=True, slots=True)
class Foreign:
    """Committed by somebody else, or altered since. `why` is for people."""

    why: str


@dataclass(frozen=True, slots=True)
class NewerFormat:
    """Written by a later release: not ours to overwrite."""

    format: str


Testimony: TypeAlias = Ours | Foreign | NewerFormat


def witness_of(
    checkpoint: Checkpoint,
    *,
    digest_scheme: int,
    tail: tuple[tuple[Offset, Digest], ...] = (),
    gap: Gap | None = None,
) -> Witness:
    """What a commit of this checkpoint testifies; `gap` is its open one."""
    identity = checkpoint.identity
    return Witness(
        store=checkpoint.store,
        cluster_id=identity.cluster_id,
        group=identity.group,
        partition=identity.partition,
        topic_id=identity.topic_id,
        lineages=checkpoint.lineages,
        baseline=checkpoint.baseline,
        generation=checkpoint.generation,
        next=checkpoint.token.next,
        epoch=checkpoint.token.epoch,
        horizon=checkpoint.horizon,
        digest_scheme=digest_scheme,
        tail=tail,
        gap=None if gap is None else WitnessGap(gap.id, gap.reason, gap.interval),
        resolved=checkpoint.resolved,
        keyed_by=identity.keyed_by,
    )


def encode(witness: Witness) -> str:
    """The metadata text. Digests are dropped, oldest first, until it fits."""
    tail = witness.tail
    while True:
        body = _body(witness, tail)
        text = f"{_PREFIX}{WITNESS_FORMAT}:{zlib.crc32(body.encode()):08x}:{body}"
        if len(text) <= METADATA_CHARACTERS_MAX or not tail:
            return text
        tail = tail[1:]


def _body(witness: Witness, tail: tuple[tuple[Offset, Digest], ...]) -> str:
    gap = witness.gap
    fields: dict[str, object] = {
        "s": witness.store,
        "c": witness.cluster_id,
        "g": witness.group,
        "t": witness.partition.topic,
        "p": witness.partition.index,
        "i": witness.topic_id,
        "l": [[line.number, line.first] for line in witness.lineages[-LINEAGES_MAX:]],
        "b": witness.baseline,
        "n": witness.generation,
        "o": witness.next,
        "e": witness.epoch,
        "h": witness.horizon,
        "v": witness.digest_scheme,
        "d": [[offset, f"{digest:x}"] for offset, digest in tail],
    }
    if gap is not None:
        fields["x"] = [gap.id, gap.reason.value, gap.interval.first, gap.interval.end]
    if witness.resolved is not None:
        fields["r"] = witness.resolved
    if witness.keyed_by is not None:
        fields["k"] = witness.keyed_by
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=True)


def decode(
    metadata: str | None, *, group: GroupId, partition: Partition, committed: Offset
) -> Testimony:
    """Whose commit is it?

    Ours when the metadata parses, its checksum holds, it names this group and partition, and its
    `next` equals the committed offset. Everything else is foreign, except a newer format of ours.
    """
    if not metadata:
        return Foreign("the commit carries no witness")
    head, _, rest = metadata.partition(":")
    if not head.startswith(_PREFIX) or not head[len(_PREFIX) :].isdigit():
        return Foreign("the commit's metadata is not a witness")
    checksum, _, body = rest.partition(":")
    if checksum != f"{zlib.crc32(body.encode()):08x}":
        return Foreign("the witness is damaged: its checksum does not hold")
    if int(head[len(_PREFIX) :]) > WITNESS_FORMAT:
        return NewerFormat(head)
    try:
        witness = _parse(body)
    except (ValueError, KeyError, TypeError, IndexError):
        return Foreign("the witness cannot be read")
    if witness.digest_scheme > DIGEST_SCHEME:
        return NewerFormat(f"{head}, digests of scheme {witness.digest_scheme}")
    if witness.group != group or witness.partition != partition:
        return Foreign(f"the witness is of {witness.group} {witness.partition}")
    if witness.next != committed:
        return Foreign(f"the witness testifies to {witness.next}, the commit says {committed}")
    return Ours(witness)


def _parse(body: str) -> Witness:
    f = json.loads(body)
    gap = f.get("x")
    scheme = int(f["v"])
    # Digests of an earlier scheme say nothing about today's: they are no memory.
    tail = f["d"] if scheme == DIGEST_SCHEME else ()
    return Witness(
        store=StoreId(f["s"]),
        cluster_id=ClusterId(f["c"]),
        group=GroupId(f["g"]),
        partition=Partition(f["t"], int(f["p"])),
        topic_id=None if f["i"] is None else TopicId(f["i"]),
        lineages=tuple(Lineage(int(n), Offset(int(first))) for n, first in f["l"]),
        baseline=Offset(int(f["b"])),
        generation=Generation(int(f["n"])),
        next=Offset(int(f["o"])),
        epoch=None if f["e"] is None else LeaderEpoch(int(f["e"])),
        horizon=Offset(int(f["h"])),
        digest_scheme=scheme,
        tail=tuple((Offset(int(o)), Digest(int(d, 16))) for o, d in tail),
        gap=None
        if gap is None
        else WitnessGap(
            GapId(gap[0]), GapReason(gap[1]), Interval(Offset(gap[2]), _offset(gap[3]))
        ),
        resolved=None if f.get("r") is None else GapId(f["r"]),
        keyed_by=f.get("k"),
    )


def _offset(value: int | None) -> Offset | None:
    return None if value is None else Offset(int(value))
