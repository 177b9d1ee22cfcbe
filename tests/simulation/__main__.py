"""`make sim`: many schedules on all cores, a summary, and the shrunk story of what failed."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from sidecar.core.recovery import TRANSITIONS
from tests.simulation.schedule import run


@dataclass(slots=True)
class Tally:
    steps: int = 0
    reached: set[tuple[str, str]] = field(default_factory=set)
    verdicts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[int, str]] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.steps += other.steps
        self.reached |= other.reached
        self.verdicts += other.verdicts
        self.faults += other.faults
        self.violations += other.violations


def chunk(first: int, count: int, steps: int) -> Tally:
    tally = Tally()
    for seed in range(first, first + count):
        result = run(seed, steps=steps)
        told = [] if result.violation is None else [(seed, str(result.violation)[:300])]
        tally.add(Tally(result.steps, result.transitions, result.verdicts, result.faults, told))
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--seed", type=int, default=None, help="one schedule, told")
    parser.add_argument("--summary", type=Path, default=None)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.seed is not None:
        result = run(arguments.seed, steps=arguments.steps, telling=True)
        print("\n".join(result.story))
        print(result.violation or "no violation")
        return 1 if result.violation else 0
    began = time.monotonic()
    size = 100
    tally = Tally()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        starts = range(arguments.first, arguments.first + arguments.seeds, size)
        ends = arguments.first + arguments.seeds
        jobs = [pool.submit(chunk, s, min(size, ends - s), arguments.steps) for s in starts]
        for job in jobs:
            tally.add(job.result())
    seconds = time.monotonic() - began
    possible = {(str(a), str(b)) for a, b in TRANSITIONS}
    summary = {
        "seeds": arguments.seeds,
        "steps": tally.steps,
        "violations": len(tally.violations),
        "violating_seeds": [seed for seed, _ in tally.violations][:100],
        "transitions_reached": len(tally.reached & possible),
        "transitions_total": len(possible),
        "transitions_missing": sorted(" ".join(t) for t in possible - tally.reached),
        "schedules_per_second": round(arguments.seeds / seconds, 1),
        "seconds": round(seconds, 1),
        "verdicts": dict(tally.verdicts),
        "faults": dict(tally.faults),
    }
    if arguments.summary is not None:
        arguments.summary.parent.mkdir(parents=True, exist_ok=True)
        arguments.summary.write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary, indent=1))
    kinds = Counter(text.split(":")[0] for _, text in tally.violations)
    for kind, count in kinds.most_common():
        seed, text = next(v for v in tally.violations if v[1].startswith(kind))
        print(f"{kind}: {count} times, first in seed {seed}: {text}", file=sys.stderr)
    return 1 if tally.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
