"""The overlap: reading again what was applied, and comparing it record by record.

A seek that succeeded proves nothing; the same bytes at the same offsets do. The anchor is the
N-th last receipt, reading begins there, and every record below the position is compared with what
is remembered of it. No mismatch and at least one match is enough.

What is remembered counts only at or above the log start asked *after* the read: below it, a
record that does not appear was merely retained away. A record that does not appear above it is a
mismatch, unless the topic is or may be compacted, where it says nothing either way. A visible
record where none is remembered is a mismatch on every topic: retention, compaction and aborts only
ever take records away.

A record that cannot be read, then or now, says nothing either way, and the read goes on behind it.
Rejected: to remember nothing from before it. A log that was rewound below it would be read on in
silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sidecar.core.types import UNREAD, Digest, Offset

START = Offset(0)


@dataclass(frozen=True, slots=True)
class OverlapResult:
    """Counts are of remembered records. `first_differing` is the lowest offset that differs,
    `last_matching` the greatest below it that matched."""

    matched: int
    mismatched: int
    inconclusive: int
    last_matching: Offset | None
    first_differing: Offset | None

    @property
    def diverged(self) -> bool:
        return self.first_differing is not None

    @property
    def boundary(self) -> bool:
        """Nothing could be compared: the incarnation and the epoch are the proof."""
        return not self.diverged and self.matched == 0


@dataclass(slots=True)
class Overlap:
    """One read over ground that was covered before.

    `expected` maps offsets to the digests remembered, `until` is the position new records begin
    at. Feed it with `take`; it is finished once the read has passed `until`.
    """

    anchor: Offset
    until: Offset
    expected: Mapping[Offset, Digest]
    complete_from: Offset
    seen: dict[Offset, Digest] = field(default_factory=dict)
    unexpected: list[Offset] = field(default_factory=list)
    unread: set[Offset] = field(default_factory=set)
    """Offsets whose records cannot be read now."""

    def take(self, offsets: Sequence[int], digests: Sequence[int]) -> int:
        """Keeps what lies below `until`; returns how many leading records that were."""
        below = 0
        for offset, digest in zip(offsets, digests, strict=True):
            if offset >= self.until:
                break
            below += 1
            if offset in self.expected:
                self.seen[Offset(offset)] = Digest(digest)
            elif offset >= self.complete_from:
                self.unexpected.append(Offset(offset))
        return below

    def behind_unread(self, at: Offset, began: Offset, *, anyway: bool = False) -> Offset | None:
        """Where to read on, when a read that began at `began` came upon a record that cannot be
        read; None: it is one that can be compared, and somebody has to say that it need not be.

        `anyway`: it is the last time that it could be compared.
        Of a batch that is broken only its first offset is named, in each read into it anew."""
        blocked = Offset(max(at, began))
        same_batch = at < began and began - 1 in self.unread
        if not (same_batch or anyway) and self.expected.get(blocked, UNREAD) != UNREAD:
            return None
        self.unread.add(blocked)
        return Offset(blocked + 1)

    def conclude(self, *, floor: Offset, compacted: bool | None) -> OverlapResult:
        """`compacted` None: it could not be read, so it may be."""
        matched = mismatched = inconclusive = 0
        last_matching: Offset | None = None
        first_differing: Offset | None = None
        unexpected = set(self.unexpected)
        for offset in sorted(unexpected.union(self.expected)):
            if offset < floor or offset < self.anchor or offset >= self.until:
                continue
            seen = self.seen.get(offset)
            known = self.expected.get(offset)
            silent = seen is None and (compacted is not False or offset in self.unread)
            if known == UNREAD or (known is not None and silent):
                inconclusive += 1
            elif known is not None and seen == known:
                matched += 1
                if first_differing is None:
                    last_matching = offset
            else:
                mismatched += 1
                if first_differing is None:
                    first_differing = offset
        return OverlapResult(matched, mismatched, inconclusive, last_matching, first_differing)


def begin(
    remembered: Iterable[tuple[Offset, Digest]],
    *,
    position: Offset,
    floor: Offset,
    records: int,
    complete_from: Offset = START,
) -> Overlap:
    """`complete_from`: from there on, every visible record is remembered.

    Where to begin to read, and what to expect: the last `records` remembered at or above the
    floor and below the position. With none, reading begins at the position itself."""
    comparable = sorted(
        (offset, digest) for offset, digest in remembered if floor <= offset < position
    )
    chosen = comparable[-records:]
    anchor = chosen[0][0] if chosen else max(position, floor)
    return Overlap(
        anchor=anchor,
        until=position,
        expected=dict(chosen),
        complete_from=Offset(max(anchor, complete_from)),
    )
