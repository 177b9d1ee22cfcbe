"""The account: what was produced, set against the application's ledger and the declared gaps.

The sidecar's own word counts for nothing here but for its gaps. Each produced record is in exactly
one of three places: applied once; applied twice, the second time flagged as redelivered; or never
applied, inside an interval declared lost. Whatever is in none of them, or in two, is unaccounted
for, and named.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Place: TypeAlias = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class Line:
    """One application of one record, as the application fsynced it."""

    partition: int
    offset: int
    order: int
    redelivered: bool

    @property
    def place(self) -> Place:
        return self.partition, self.offset


class Ledger:
    """The application's file, read as it grows. Half a line is no line yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_to = 0
        self.lines: list[Line] = []

    def refresh(self) -> list[Line]:
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read_to)
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read_to += len(whole) + len(newline)
            self.lines += [_line(json.loads(text)) for text in whole.splitlines()]
        return self.lines

    def applied(self, partition: int) -> set[int]:
        """Offsets of this partition that were applied at least once."""
        return {line.offset for line in self.refresh() if line.partition == partition}


def _line(entry: dict[str, Any]) -> Line:
    return Line(entry["partition"], entry["offset"], entry["order"], entry["redelivered"])


@dataclass(frozen=True, slots=True)
class Lost:
    """`[first, end)` of one partition, as the gaps API declares it."""

    partition: int
    first: int
    end: int

    @property
    def records(self) -> int:
        return self.end - self.first


@dataclass(slots=True)
class Row:
    """`produced` is the sum of the other four."""

    produced: int = 0
    applied: int = 0
    applied_twice_flagged: int = 0
    in_gaps: int = 0
    unaccounted: int = 0

    def __add__(self, other: Row) -> Row:
        return Row(
            self.produced + other.produced,
            self.applied + other.applied,
            self.applied_twice_flagged + other.applied_twice_flagged,
            self.in_gaps + other.in_gaps,
            self.unaccounted + other.unaccounted,
        )


@dataclass(frozen=True, slots=True)
class Account:
    rows: Mapping[int, Row]
    complaints: tuple[str, ...]
    """One for each record that is in no place, in two, or was never produced."""

    @property
    def total(self) -> Row:
        return sum(self.rows.values(), Row())

    @property
    def unaccounted(self) -> int:
        """More than the rows know of: an applied record that nobody produced counts, too."""
        return len(self.complaints)


def account(produced: Mapping[Place, int], lines: Iterable[Line], gaps: Iterable[Lost]) -> Account:
    """`produced` gives each record's order number, which the ledger must have got right."""
    booked: dict[Place, list[Line]] = {}
    for line in lines:
        booked.setdefault(line.place, []).append(line)
    lost = {(gap.partition, at) for gap in gaps for at in range(gap.first, gap.end)}
    rows: dict[int, Row] = {}
    complaints = []
    for place, order in sorted(produced.items()):
        row = rows.setdefault(place[0], Row())
        row.produced += 1
        complaint = None
        match booked.pop(place, []):
            case []:
                if place in lost:
                    row.in_gaps += 1
                else:
                    complaint = "never applied, and in no gap"
            case [*times] if place in lost:
                complaint = f"applied {len(times)}×, and declared lost"
            case [*times] if any(line.order != order for line in times):
                complaint = f"applied as another order than {order}"
            case [_]:
                row.applied += 1
            case [_, again] if again.redelivered:
                row.applied_twice_flagged += 1
            case [*times]:
                flagged = sum(line.redelivered for line in times)
                complaint = f"applied {len(times)}×, flagged {flagged}×"
        if complaint is not None:
            row.unaccounted += 1
            complaints.append(f"partition {place[0]}, offset {place[1]}: {complaint}")
    for (partition, offset), times in booked.items():
        complaints.append(
            f"partition {partition}, offset {offset}: applied {len(times)}×, never produced"
        )
    return Account(rows, tuple(complaints))
