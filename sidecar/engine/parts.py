"""How the engine's parts know one another: each has the shared context, and its peers by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sidecar.engine.context import Context

if TYPE_CHECKING:
    from sidecar.engine.commits import Commits
    from sidecar.engine.conditions import Conditions
    from sidecar.engine.delivery import Delivery
    from sidecar.engine.enrolling import Enrolling
    from sidecar.engine.forecasts import Forecasts
    from sidecar.engine.gaps import Gaps
    from sidecar.engine.membership import Membership
    from sidecar.engine.reading import Reading
    from sidecar.engine.recovery import Recovery
    from sidecar.engine.replays import Replays
    from sidecar.engine.requests import Requests
    from sidecar.engine.writes import Writes


class Part:
    parts: Parts

    def __init__(self, context: Context) -> None:
        self.context = context


@dataclass(frozen=True, slots=True)
class Parts:
    membership: Membership
    enrolling: Enrolling
    recovery: Recovery
    writes: Writes
    reading: Reading
    delivery: Delivery
    commits: Commits
    gaps: Gaps
    conditions: Conditions
    forecasts: Forecasts
    requests: Requests
    replays: Replays

    def introduce(self) -> None:
        """Lets each part know the others."""
        for part in (
            self.membership,
            self.enrolling,
            self.recovery,
            self.writes,
            self.reading,
            self.delivery,
            self.commits,
            self.gaps,
            self.conditions,
            self.forecasts,
            self.requests,
            self.replays,
        ):
            part.parts = self
