"""How fast something grows, and whether that is too fast.

The slope is the median of the slopes between all pairs of samples (Theil and Sen): one garbage
collection, or the second in which a store rewrites its file, moves a line of least squares and
does not move this one. What grows until it is warm has not leaked, so the first part of a run does
not count.

A bound is broken only when both the slope and what was gained in the time looked at are too large:
in a run of two minutes a single megabyte is a slope of thirty an hour.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

Sample = tuple[float, float]
"""Seconds since the beginning, and the value."""

WARM_SHARE = 0.3
SAMPLES_MAX = 400


@dataclass(frozen=True, slots=True)
class Bound:
    """`unit` says what one is; `gain_allowed` is what may be gained whatever the slope."""

    unit: str
    per_hour_max: float
    gain_allowed: float


BOUNDS = {
    "rss": Bound("MB", per_hour_max=10.0, gain_allowed=6.0),
    "fds": Bound("open files", per_hour_max=6.0, gain_allowed=8.0),
    "threads": Bound("threads", per_hour_max=2.0, gain_allowed=2.0),
    "redis_keys": Bound("keys", per_hour_max=4.0, gain_allowed=2.0),
    "redis_memory": Bound("MB", per_hour_max=4.0, gain_allowed=2.0),
}


@dataclass(frozen=True, slots=True)
class Slope:
    what: str
    unit: str
    per_hour: float
    first: float
    last: float
    low: float
    high: float
    samples: int
    ok: bool


def slope(what: str, samples: Sequence[Sample], bound: Bound) -> Slope:
    """Of the samples behind the warm part."""
    began = samples[0][0]
    warm = began + WARM_SHARE * (samples[-1][0] - began)
    counted = [sample for sample in samples if sample[0] >= warm]
    step = max(1, len(counted) // SAMPLES_MAX)
    thinned = counted[::step]
    pairs = [
        (b - a) / (later - earlier)
        for i, (earlier, a) in enumerate(thinned)
        for later, b in thinned[i + 1 :]
        if later > earlier
    ]
    per_second = statistics.median(pairs) if pairs else 0.0
    gained = per_second * (thinned[-1][0] - thinned[0][0])
    per_hour = per_second * 3600
    values = [value for _, value in counted]
    return Slope(
        what,
        bound.unit,
        round(per_hour, 2),
        values[0],
        values[-1],
        min(values),
        max(values),
        len(counted),
        ok=per_hour <= bound.per_hour_max or gained <= bound.gain_allowed,
    )
