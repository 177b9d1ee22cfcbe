"""What a command decides where no sidecar runs, and what it leaves to the next one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

from sidecar.cli import decisions
from sidecar.core.evidence import Cue, Evidence
from sidecar.core.faults import Known
from sidecar.core.gap import Gap, GapState, Resolution
from sidecar.core.policy import Policy
from sidecar.core.request import RequestKind
from sidecar.core.types import Offset, Partition, PartitionState
from sidecar.core.views import ResolveRequest
from sidecar.kafka.group_members import GroupMembers
from sidecar.performer import look
from sidecar.standalone import Standalone
from tests.engine.driven import WALL, Driven
from tests.engine.process import GROUP, ORDERS, finished, known
from tests.fakes.kafka import FakeLog


class Desk:
    """Nobody is in the group."""

    def __init__(self, of: Driven) -> None:
        self.group, self.policy = GROUP, Policy(GROUP)
        self.store, self.log = of.store, FakeLog(of.kafka, GROUP)

    def now(self) -> float:
        return WALL + 1_000.0

    async def look(self, partitions: Collection[Partition]) -> Mapping[Partition, Evidence]:
        cues = dict.fromkeys(partitions, Cue.REQUESTED)
        return await look(self.policy, self.log, self.store, cues, asked_at=self.now())

    async def group_members(self) -> Known[GroupMembers]:
        return Known(GroupMembers("empty", ()))

    async def gaps(self) -> object:
        return await self.store.gaps(self.group)


def reset_and_left() -> tuple[Driven, Gap]:
    """Five records applied, offset 9 committed by somebody else, and the member gone."""
    one = Driven()
    one.produce(*[b"%d" % i for i in range(12)])
    one.run(1)
    one.apply(5)
    one.run(1)
    one.kafka.reset_offset(GROUP, ORDERS, 9)
    one.run(6)
    gap = one.engine.cursors[ORDERS].gap
    assert gap is not None
    one.kafka.leave(one.fetcher)
    return one, gap


def test_what_has_to_be_read_first_is_left_to_the_next_owner() -> None:
    """A foreign reset is ignored here and now, and followed by whoever verifies what is below."""
    one, gap = reset_and_left()
    desk = cast(Standalone, Desk(one))
    wanted = ResolveRequest(Resolution.ACCEPTED, "on-call", "known")
    dry, nothing = finished(decisions.resolve(desk, gap, wanted, execute=False))
    assert nothing is None
    assert dry.resolution is not None
    assert dry.resolution.resume_at == Offset(9)
    decided, pending = finished(decisions.resolve(desk, gap, wanted, execute=True))
    assert decided.state is GapState.OPEN
    (left,) = known(finished(one.store.requests(GROUP, [ORDERS]))[ORDERS])
    assert (left.kind, left.target, left.pending) == (RequestKind.RESOLVE, gap.id, True)
    assert pending == left
    other = Driven(one.kafka, one.store)
    other.run(3)
    assert (other.view().state, other.view().next) == (PartitionState.DELIVERING, 9)


def test_what_needs_no_reading_is_decided_at_once() -> None:
    one, gap = reset_and_left()
    wanted = ResolveRequest(Resolution.IGNORED, "on-call", "a mistake")
    desk = cast(Standalone, Desk(one))
    decided, pending = finished(decisions.resolve(desk, gap, wanted, execute=True))
    assert pending is None
    assert decided.state is GapState.RESOLVED
