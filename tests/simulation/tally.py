"""What many schedules reached, in a form that adds up: pieces of a long run make one summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sidecar.core.recovery import TRANSITIONS
from sidecar.core.types import Verdict
from sidecar.store.scripts import Code
from tests.simulation.faults import FAULTS
from tests.simulation.schedule import Result

VIOLATIONS_KEPT = 100
ELSEWHERE = frozenset({Code.CHANGED})
"""Codes the adapter deals with below its port: tests/store holds those."""
ALL_REACHED_FROM = 5_000
"""A run of so many seeds reaches all there is to reach, or fails."""


def _transitions() -> set[str]:
    return {f"{phase} {step}" for phase, step in TRANSITIONS}


def _pairs() -> set[str]:
    return {f"{one} > {other}" for one in FAULTS for other in FAULTS}


@dataclass(slots=True)
class Tally:
    seeds: int = 0
    steps: int = 0
    steps_min: int = 0
    moves: int = 0
    cpu_seconds: float = 0.0
    seconds: float = 0.0
    violations: dict[int, str] = field(default_factory=dict)
    violated: int = 0
    transitions: Counter[str] = field(default_factory=Counter)
    """In how many lives of an engine each row was taken."""
    verdicts: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    pairs: Counter[str] = field(default_factory=Counter)
    """Two faults of one schedule, the second being the first one after the other."""

    def note(self, seed: int, result: Result) -> None:
        self.seeds += 1
        self.steps += result.steps
        self.steps_min = min(self.steps_min or result.steps, result.steps)
        self.moves += result.moves
        if result.violation is not None:
            self.violated += 1
            self.violations[seed] = str(result.violation)[:300]
        for life in result.world.every:
            context = life.engine.context
            self.transitions.update(f"{phase} {step}" for phase, step in context.taken)
            self.verdicts.update(context.verdicts)
        self.codes.update(code.name for code in result.world.store.codes)
        self.faults.update(result.faults)
        self.pairs.update(f"{one} > {other}" for one, other in pairwise(result.faults))

    def add(self, other: Tally) -> None:
        self.steps_min = min(self.steps_min or other.steps_min, other.steps_min or self.steps_min)
        self.seeds += other.seeds
        self.steps += other.steps
        self.moves += other.moves
        self.cpu_seconds += other.cpu_seconds
        self.seconds += other.seconds
        self.violated += other.violated
        self.violations |= other.violations
        self.transitions += other.transitions
        self.verdicts += other.verdicts
        self.codes += other.codes
        self.faults += other.faults
        self.pairs += other.pairs

    def missing(self) -> dict[str, list[str]]:
        """What was not reached, by what it is."""
        lacking = {
            "transitions": _transitions() - set(self.transitions),
            "codes": {c.name for c in Code if c not in ELSEWHERE} - set(self.codes),
            "faults": set(FAULTS) - set(self.faults),
            "pairs": _pairs() - set(self.pairs),
        }
        return {what: sorted(names) for what, names in lacking.items() if names}

    def summary(self) -> dict[str, Any]:
        possible = _transitions()
        return {
            "seeds": self.seeds,
            "steps": self.steps,
            "violations": self.violated,
            "transitions_reached": len(possible.intersection(self.transitions)),
            "transitions_total": len(possible),
            "schedules_per_second": _rate(self.seeds, self.seconds),
            "schedules_per_cpu_second": _rate(self.seeds, self.cpu_seconds),
            "steps_min": self.steps_min,
            "steps_mean": _rate(self.steps, self.seeds),
            "seconds": round(self.seconds, 1),
            "cpu_seconds": round(self.cpu_seconds, 1),
            "moves": self.moves,
            "verdicts_reached": len(self.verdicts),
            "verdicts_total": len(Verdict),
            "codes_reached": len(self.codes),
            "codes_total": len(Code),
            "faults_reached": len(self.faults),
            "faults_total": len(FAULTS),
            "fault_pairs_reached": len(_pairs().intersection(self.pairs)),
            "fault_pairs_total": len(_pairs()),
            "missing": {
                what: names if len(names) <= VIOLATIONS_KEPT else f"{len(names)}"
                for what, names in self.missing().items()
            },
            "violating_seeds": dict(sorted(self.violations.items())[:VIOLATIONS_KEPT]),
            "reached": {
                "transitions": _sorted(self.transitions),
                "verdicts": _sorted(self.verdicts),
                "codes": _sorted(self.codes),
                "faults": _sorted(self.faults),
                "pairs": _sorted(self.pairs),
            },
        }


def read(summary: Mapping[str, Any]) -> Tally:
    """A tally out of the summary it wrote."""
    reached = summary["reached"]
    return Tally(
        seeds=summary["seeds"],
        steps=summary["steps"],
        steps_min=summary["steps_min"],
        moves=summary["moves"],
        cpu_seconds=summary["cpu_seconds"],
        seconds=summary["seconds"],
        violations={int(seed): text for seed, text in summary["violating_seeds"].items()},
        violated=summary["violations"],
        transitions=Counter(reached["transitions"]),
        verdicts=Counter(reached["verdicts"]),
        codes=Counter(reached["codes"]),
        faults=Counter(reached["faults"]),
        pairs=Counter(reached["pairs"]),
    )


def merged(tallies: Iterable[Tally]) -> Tally:
    """One of several pieces that ran one after the other."""
    whole = Tally()
    for tally in tallies:
        whole.add(tally)
    return whole


def _rate(count: int, over: float) -> float:
    return round(count / over, 1) if over else 0.0


def _sorted(counter: Counter[str]) -> dict[str, int]:
    return dict(sorted(counter.items()))
