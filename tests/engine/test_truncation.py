"""A log that is shorter than its cursor: judged when it stays so, and decided once."""

from __future__ import annotations

import pytest

from sidecar.core.checkpoint import Install
from sidecar.core.evidence import LogEnd
from sidecar.core.faults import Known
from sidecar.core.gap import GapState
from sidecar.core.policy import Policy
from sidecar.core.recovery import Phase
from sidecar.core.types import (
    GapReason,
    Instant,
    Interval,
    LeaderEpoch,
    Offset,
    PartitionState,
    Verdict,
)
from sidecar.engine import Engine
from sidecar.engine import messages as m
from sidecar.engine.cursor import Cursor
from sidecar.engine.recovery import SHORT_SECONDS
from tests.core import situations


@pytest.fixture
def engine() -> Engine:
    engine = Engine(Policy(situations.GROUP), name="n")
    partition = situations.PARTITION
    engine.cursors[partition] = Cursor(partition, since=0.0)
    return engine


def look(engine: Engine, end: int, at: float) -> list[m.Command]:
    """The answer to a look: the log ends there, which is below the position of 100."""
    cursor = engine.cursors[situations.PARTITION]
    if cursor.phase is not Phase.LOOKING:
        engine.step(m.Tick(), Instant(at, at))
    assert cursor.phase is Phase.LOOKING
    answered = situations.evidence(
        log_end=Known(LogEnd(Offset(end), Offset(end), LeaderEpoch(9))),
    )
    cursor.ask = engine.context.ask()
    return engine.step(m.Looked(cursor.ask, {situations.PARTITION: answered}), Instant(at, at))


def opened(commands: list[m.Command]) -> Install | None:
    return next((c.install for c in commands if isinstance(c, m.PerformInstall)), None)


def test_an_end_below_the_position_is_judged_when_it_was_named_twice(engine: Engine) -> None:
    """A leader that was just elected names an end far below its log's: asked again, and again
    while it moves; what it stays at is the gap's."""
    for at, end in enumerate((0, 60)):
        assert opened(look(engine, end, at * (SHORT_SECONDS + 0.1))) is None
        (view,) = engine.views()
        assert (view.state, view.reason) == (PartitionState.WAITING, Verdict.UNAVAILABLE)
    install = opened(look(engine, 60, 3 * SHORT_SECONDS))
    assert install is not None
    (gap,) = install.gaps
    assert (gap.reason, gap.interval) == (
        GapReason.LOG_TRUNCATED,
        Interval(Offset(60), Offset(100)),
    )
    assert gap.state is GapState.OPEN
