"""A row of the matrix: what its mark declares, what its test observes, what is made of both.

Values only, and the clock. How pytest carries them is `plugin`'s matter, how they are shown is
`report`'s.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeVar

import msgspec

from sidecar.core.faults import FaultKind
from sidecar.core.types import Condition, Verdict

BENCHES = frozenset({"K1", "K1a", "K3", "R1", "R2", "RC", "Prometheus", "none"})

FIELD_CASES = frozenset(range(1, 42))
"""The numbers of docs/field-cases.md."""

STATES = frozenset({"waiting", "recovering", "delivering", "held", "gap"})

OTHER = frozenset(
    {
        "caught_up",  # nothing is wrong, and nothing is said to be
        "store_refused",  # the store is there and must not be used: refused at the start, or later
        "fenced (exit 3)",  # another member took the identity
        "ended (exit 0)",  # told to end, and did, in time
        "page-lost",  # a report that came too late is refused by name
        "alert",  # somebody is told
        "no forecast",  # what cannot be known is not claimed
        "forecast",  # seconds until records are lost, never too late
    }
)
"""What may be expected besides verdicts, conditions, states and store errors."""


class Status(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not_run"


class Declared(msgspec.Struct, frozen=True):
    """What a mark says."""

    fault: str
    bench: str
    expected: str
    cases: tuple[int, ...] = ()
    covers: tuple[str, ...] = ()
    within_seconds: float | None = None
    test: str = ""
    reason: str = ""
    """Why there is no test of it, where there is none."""

    def problem(self) -> str | None:
        """What is wrong with it, in one sentence."""
        known = set(Verdict) | set(Condition) | STATES | OTHER
        kind, slash, code = self.expected.partition("/")
        if self.expected not in known and not (slash and code and kind in set(FaultKind)):
            return f"{self.expected!r} is no verdict, condition, state, kind/CODE, nor in OTHER"
        if strange := set(self.bench.split("+")) - BENCHES:
            return f"no such bench: {', '.join(sorted(strange))}"
        if not set(self.cases) <= FIELD_CASES:
            return f"no such field case in {self.cases}: docs/field-cases.md has them"
        return None

    def shown(self) -> frozenset[str]:
        """Verdicts, conditions, fault kinds and store codes that this row is the evidence of."""
        return frozenset({*self.expected.split("/"), *self.covers})


class Line(msgspec.Struct, frozen=True):
    """A row as it is written down."""

    fault: str
    bench: str
    expected: str
    observed: str | None
    status: Status
    state: str | None
    lost: int | None
    repeated_unflagged: int | None
    seconds_to_verdict: float | None
    seconds_to_first_delivery: float | None
    within_seconds: float | None
    cases: tuple[int, ...]
    test: str
    reason: str
    """Why it failed or was not run; empty when it passed."""


class Accounted(Protocol):
    """What the independent checker found."""

    @property
    def faults(self) -> list[str]: ...
    def check(self) -> object: ...


A = TypeVar("A", bound=Accounted)


@dataclass(slots=True)
class _Watch:
    """The longest of the times between two kinds of moments."""

    since: float | None = None
    longest: float | None = None

    def begin(self) -> None:
        self.since = time.monotonic()

    def end(self) -> None:
        if self.since is not None:
            spent = time.monotonic() - self.since
            self.longest = spent if self.longest is None else max(spent, self.longest)
            self.since = None


@dataclass(slots=True)
class Row:
    """What a test puts down while it runs."""

    declared: Declared
    observed: str | None = None
    state: str | None = None
    lost: int | None = None
    repeated_unflagged: int | None = None
    _verdict: _Watch = field(default_factory=_Watch)
    _delivery: _Watch = field(default_factory=_Watch)

    # Moments

    def inflicted(self) -> None:
        """The fault is there, and so is a sidecar that can see it."""
        self._verdict.begin()

    def judged(self, verdict: str, state: str | None = None) -> None:
        """The verdict (or condition, or store error) was seen."""
        self._verdict.end()
        self.observe(verdict, state)

    def cured(self) -> None:
        """Its cause is gone, or somebody decided."""
        self._delivery.begin()

    def delivering(self) -> None:
        """A record that had not been delivered was."""
        self._delivery.end()

    # Findings

    def observe(self, verdict: str, state: str | None = None) -> None:
        """Of several, the one that is not as expected is kept."""
        if self.observed is None or self.observed == self.declared.expected:
            self.observed = str(verdict)
        self.state = state or self.state

    def account(self, found: A) -> A:
        """Keeps what the checker counted, then raises if it found anything."""
        kinds = [fault.split(":", 1)[0] for fault in found.faults]
        self.receipts(lost=kinds.count("unaccounted"), repeated=kinds.count("redelivery_flagged"))
        found.check()
        return found

    def receipts(self, *, lost: int = 0, repeated: int = 0) -> None:
        """What the checker, or the store's own receipts where no application takes part, show."""
        self.lost = (self.lost or 0) + lost
        self.repeated_unflagged = (self.repeated_unflagged or 0) + repeated

    # What is made of it

    def problems(self, *, timed: bool) -> list[str]:
        """`timed`: hold the time to the verdict against its bound."""
        found = []
        if self.observed is None:
            found.append("nothing was observed")
        elif self.observed != self.declared.expected:
            found.append(f"expected {self.declared.expected}, observed {self.observed}")
        if self.lost:
            found.append(f"{self.lost} records lost")
        if self.repeated_unflagged:
            found.append(f"{self.repeated_unflagged} records applied again without a flag")
        bound, taken = self.declared.within_seconds, self._verdict.longest
        if bound is not None and timed:
            if taken is None:
                found.append("the time to the verdict was not taken")
            elif taken > bound:
                found.append(f"the verdict took {taken:.2f} s, of {bound:g} s at most")
        return found

    def line(self, status: Status, reason: str = "") -> Line:
        return Line(
            fault=self.declared.fault,
            bench=self.declared.bench,
            expected=self.declared.expected,
            observed=self.observed,
            status=status,
            state=self.state,
            lost=self.lost,
            repeated_unflagged=self.repeated_unflagged,
            seconds_to_verdict=_rounded(self._verdict.longest),
            seconds_to_first_delivery=_rounded(self._delivery.longest),
            within_seconds=self.declared.within_seconds,
            cases=self.declared.cases,
            test=self.declared.test,
            reason=reason,
        )


def not_run(declared: Declared, reason: str = "") -> Line:
    return Row(declared).line(Status.NOT_RUN, reason or declared.reason)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)


def twice(rows: Iterable[Declared]) -> list[str]:
    """Names that stand for two rows."""
    names = [row.fault for row in rows]
    return sorted({name for name in names if names.count(name) > 1})
