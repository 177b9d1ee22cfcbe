"""Numbers with their spread, so that nobody takes one run for the truth."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    min: float
    median: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float], digits: int) -> Spread:
        return cls(
            *(round(f, digits) for f in (min(values), statistics.median(values), max(values)))
        )


def quantile(values: Sequence[float], share: float) -> float:
    """The nearest-rank quantile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
