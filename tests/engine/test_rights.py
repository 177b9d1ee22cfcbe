"""A right that is missing is told, whoever says so, and never makes the engine spin."""

from __future__ import annotations

import pytest

from sidecar.core.checkpoint import Installed, NotInstalled
from sidecar.core.facts import StateChanged
from sidecar.core.faults import Component, Fault, FaultKind
from sidecar.core.policy import Policy
from sidecar.core.recovery import Phase
from sidecar.core.types import GroupId, Instant, Offset, Partition, PartitionState, Verdict
from sidecar.engine import Engine
from sidecar.engine import messages as m
from sidecar.engine.cursor import Cursor
from sidecar.engine.hand import Hand
from sidecar.engine.recovery import FAILURES_AT_ONCE
from sidecar.ports import CursorFailed, EndReached
from tests.store.values import checkpoint, promotion

POLICY = Policy(GroupId("g"))
PARTITION = Partition("t", 0)
DENIED = Fault(Component.KAFKA, FaultKind.AUTHORIZATION, "TOPIC_AUTHORIZATION_FAILED", "grant it")
NOPERM = Fault(Component.REDIS, FaultKind.AUTHORIZATION, "NOPERM", "no right to XADD")


@pytest.fixture
def engine() -> Engine:
    engine = Engine(POLICY, name="n")
    cursor = Cursor(PARTITION, since=0.0, phase=Phase.DELIVERING, live=True)
    cursor.checkpoint = checkpoint(POLICY.group, partition=PARTITION)
    engine.cursors[PARTITION] = cursor
    return engine


def fail(engine: Engine, at: float) -> list[m.Command]:
    cursor = engine.cursors[PARTITION]
    failed = CursorFailed(PARTITION, cursor.session, DENIED, truncation=False, blocked_at=None)
    return engine.step(failed, Instant(at, at))


def looked_and_found_nothing(engine: Engine) -> None:
    """Evidence is read without that right, so the engine fetches again."""
    engine.cursors[PARTITION].phase = Phase.DELIVERING


def test_a_fetch_that_is_refused_again_and_again_is_waited_for(engine: Engine) -> None:
    """Evidence may find nothing wrong, since nothing of it needs that right: looked at at once a
    few times, then held by its name, and tried ever less often."""
    for attempt in range(FAILURES_AT_ONCE):
        assert any(isinstance(c, m.Look) for c in fail(engine, attempt / 100))
        looked_and_found_nothing(engine)
    commands = fail(engine, 1.0)
    assert not any(isinstance(c, m.Look) for c in commands)
    (view,) = engine.views()
    assert (view.state, view.reason) == (PartitionState.HELD, Verdict.AUTHORIZATION)
    assert view.detail == "grant it"
    cursor = engine.cursors[PARTITION]
    waits = []
    for _ in range(3):
        looked_and_found_nothing(engine)
        fail(engine, 2.0)
        assert cursor.look_at is not None
        waits.append(cursor.look_at - 2.0)
    assert waits == sorted(waits)
    assert waits[0] < waits[-1] <= 5.0


def test_whatever_is_read_ends_the_count_of_failures(engine: Engine) -> None:
    """A fetch that fails now and then is looked at at once each time."""
    for attempt in range(2 * FAILURES_AT_ONCE):
        assert any(isinstance(c, m.Look) for c in fail(engine, attempt))
        looked_and_found_nothing(engine)
        cursor = engine.cursors[PARTITION]
        cursor.fetching = True
        cursor.hand = Hand(Offset(0), Offset(0))
        engine.step(EndReached(PARTITION, cursor.session, Offset(0)), Instant(attempt, attempt))


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        (FaultKind.AUTHORIZATION, Verdict.AUTHORIZATION),
        (FaultKind.AUTHENTICATION, Verdict.AUTHENTICATION),
    ],
)
def test_a_write_that_the_store_denies_holds_its_partition_until_it_is_taken(
    engine: Engine, kind: FaultKind, verdict: Verdict
) -> None:
    """The write is the probe: it is sent again, the partition says what is missing meanwhile, once,
    and is as it was when the store takes it."""
    cursor = engine.cursors[PARTITION]
    assert cursor.checkpoint is not None
    cursor.install = install = promotion(cursor.checkpoint, 5)
    cursor.purpose = m.Purpose.HORIZON
    fault = Fault(Component.REDIS, kind, NOPERM.code, NOPERM.detail)
    seen = []
    for at in range(3):
        answer = m.InstallAnswered(install, NotInstalled(fault), float(at))
        commands = engine.step(answer, Instant(at, at))
        assert any(isinstance(c, m.PerformInstall) for c in commands)
        seen += [c.fact for c in commands if isinstance(c, m.Note)]
    told = [fact for fact in seen if isinstance(fact, StateChanged)]
    assert [(fact.state, fact.reason) for fact in told] == [(PartitionState.HELD, verdict)]
    (view,) = engine.views()
    assert (view.state, view.reason) == (PartitionState.HELD, verdict)
    assert "XADD" in view.detail
    engine.step(m.InstallAnswered(install, Installed(), 3.0), Instant(3, 3))
    (view,) = engine.views()
    assert (view.state, view.reason) == (PartitionState.DELIVERING, None)
