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
