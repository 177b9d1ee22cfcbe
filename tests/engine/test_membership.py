"""Partitions that come, go, and come back."""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.core.checkpoint import Install
from sidecar.core.policy import Policy
from sidecar.core.types import AttemptId, GroupId, Instant, Partition
from sidecar.engine import Engine
from sidecar.engine import messages as m
from sidecar.ports import Assigned, CommitRequest, Revoked
from tests.core.situations import checkpoint
from tests.engine.stand import Stand

PARTITION = Partition("orders", 0)
NOW = Instant(10.0, 1000.0)


def test_a_partition_that_comes_back_before_it_was_settled_is_looked_at_anew() -> None:
    """The client gives up waiting for the last offsets; the group may give it back at once."""
    engine = Engine(Policy(group=GroupId("g")), name="e")
    answers: list[Mapping[Partition, CommitRequest]] = []
    engine.step(Assigned((PARTITION,)), NOW)
    engine.cursors[PARTITION].install = Install(None, checkpoint(), AttemptId("unanswered"))
    engine.step(Revoked((PARTITION,), lost=False, answer=answers.append), NOW)
    assert answers == []
    commands = engine.step(Assigned((PARTITION,)), NOW)
    finished = [c for c in commands if isinstance(c, m.FinishRevoke)]
    assert [dict(c.offsets) for c in finished] == [{}]
    assert any(isinstance(c, m.Look) and PARTITION in c.cues for c in commands)
    assert not engine.cursors[PARTITION].revoking


def test_who_stood_still_for_long_hands_nothing_out_before_it_can_have_heard_of_it() -> None:
    """It may be out of the group, and its mark in the store only not replaced yet. The client hears
    so with the next heartbeat; half a session later it hands out again."""
    stand = Stand(records=8, session_timeout_seconds=4.0)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "delivering")
    stand.run(1.0)
    stand.seconds += 2.0
    assert stand.take(life, 1.8) is None
    page = stand.take(life, 0.5)
    assert page is not None
    assert page.offsets == [0, 1, 2, 3]


def test_a_moment_of_standstill_holds_nothing_back() -> None:
    stand = Stand(records=8, session_timeout_seconds=4.0)
    life = stand.start()
    stand.until(lambda: stand.view(life).state == "delivering")
    stand.run(1.0)
    stand.seconds += 1.8
    assert stand.take(life, 0.5) is not None
