"""Holds three testimonies against each other: what was produced, what the application did, and
what the sidecar declared lost. It shares no code with the product.

Each finding is one line that names the invariant, the partition and the offset.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tests.harness.application import Effect

Place = tuple[str, int]
"""Topic and partition."""


class Declared(Protocol):
    """A gap, as the API shows it."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int | None: ...
    @property
    def state(self) -> str: ...


@dataclass(slots=True)
class Produced:
    """What the test wrote, visible records only: offset to digest, per partition.

    `note` is called by whoever produces, with the offsets the broker answered.
    """

    visible: dict[Place, dict[int, str]] = field(default_factory=dict)

    def note(
        self, topic: str, partition: int, offsets: Sequence[int], values: Sequence[bytes | None]
    ) -> None:
        place = self.visible.setdefault((topic, partition), {})
        for offset, value in zip(offsets, values, strict=True):
            place[offset] = "none" if value is None else hashlib.sha256(value).hexdigest()[:16]

    def count(self) -> int:
        return sum(map(len, self.visible.values()))


@dataclass(slots=True)
class Account:
    """What became of every record. `faults` is empty when all is well."""

    produced: int = 0
    applied: int = 0
    repeated_flagged: int = 0
    in_gaps: int = 0
    faults: list[str] = field(default_factory=list)

    def check(self) -> "Account":
        """Raises with the first faults, if there are any."""
        if self.faults:
            shown = "\n  ".join(self.faults[:20])
            raise AssertionError(f"{len(self.faults)} faults, {self}:\n  {shown}")
        return self

    def __str__(self) -> str:
        return (
            f"produced {self.produced}, applied {self.applied}, repeated and flagged "
            f"{self.repeated_flagged}, in gaps {self.in_gaps}"
        )


def account(
    produced: Produced,
    effects: Iterable[Effect],
    gaps: Collection[Declared] = (),
    *,
    starts: Mapping[Place, int] | None = None,
    unfinished_from: Mapping[Place, int] | None = None,
) -> Account:
    """`starts`: where a history rightly began later than the log did. `unfinished_from`: from
    there on the test did not wait for delivery."""
    found = Account(produced=produced.count())
    first_seen: dict[tuple[str, int, int], Effect] = {}
    keys: dict[str, tuple[str, int, int]] = {}
    reached: dict[Place, int] = {}
    lost = [gap for gap in gaps if gap.state != "superseded"]
    for effect in effects:
        place = (effect.topic, effect.partition)
        spot = (*place, effect.offset)
        name = f"{effect.topic}/{effect.partition}/{effect.offset}"
        known = produced.visible.get(place, {}).get(effect.offset)
        if known is None:
            found.faults.append(f"phantom: {name} was applied and never produced")
        elif known != effect.digest:
            found.faults.append(f"content: {name} was applied with other bytes than produced")
        if keys.setdefault(effect.key, spot) != spot:
            found.faults.append(f"key: {effect.key} stands for {name} and for another record")
        before = first_seen.get(spot)
        if before is None:
            first_seen[spot] = effect
            found.applied += 1
            late = effect.offset < reached.get(place, -1)
            # What was declared may be had again later, by a replay.
            if late and not any(_inside(gap, place, effect.offset) for gap in lost):
                found.faults.append(f"order: {name} came first after {reached[place]}")
            reached[place] = max(effect.offset, reached.get(place, -1))
            continue
        if before.key != effect.key:
            found.faults.append(f"key: {name} came as {before.key} and as {effect.key}")
        if effect.redelivered:
            found.repeated_flagged += 1
        else:
            found.faults.append(f"redelivery_flagged: {name} was repeated without a flag")
    for place, visible in produced.visible.items():
        begin = (starts or {}).get(place, 0)
        until = (unfinished_from or {}).get(place)
        for offset in visible:
            if offset < begin or (until is not None and offset >= until):
                continue
            if (*place, offset) in first_seen:
                continue
            if any(_inside(gap, place, offset) for gap in lost):
                found.in_gaps += 1
            else:
                found.faults.append(f"unaccounted: {place[0]}/{place[1]}/{offset}")
    return found


def _inside(gap: Declared, place: Place, offset: int) -> bool:
    return (
        (gap.topic, gap.partition) == place
        and gap.first <= offset
        and (gap.end is None or offset < gap.end)
    )
