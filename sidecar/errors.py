"""Errors that leave a function by being raised.

    SidecarError
    ├── SettingsError        the settings cannot be used; every fault is listed, exit 2
    ├── InvariantBroken      a bug: the process stops rather than go on from a state it cannot have
    └── Fenced               another member took this identity; exit 3, nothing more is written

Everything an operator meets in normal life (a broker that is away, a right that is missing, a
comparison that was lost) is a value, see `sidecar.core.faults`, and is never raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class SidecarError(Exception):
    """The root: whatever this project raises on purpose."""


@dataclass(frozen=True, slots=True)
class SettingFault:
    """`name` as the environment spells it, `expected` what would do."""

    name: str
    expected: str


class SettingsError(SidecarError):
    def __init__(self, faults: Sequence[SettingFault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{f.name}: {f.expected}" for f in faults))


class InvariantBroken(SidecarError):
    def __init__(self, invariant: str, detail: str) -> None:
        self.invariant = invariant
        self.detail = detail
        super().__init__(f"{invariant}: {detail}")


class Fenced(SidecarError):
    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(detail)
