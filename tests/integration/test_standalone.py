"""A desk for people, on real servers: beside a sidecar and without one."""

import pytest

from sidecar.core.faults import FaultKind, Known, Unreadable
from sidecar.core.types import Offset, Partition, Verdict
from sidecar.core.verdict import Go, judge
from sidecar.ports import CommitRequest
from sidecar.settings import load
from sidecar.standalone import mended_by, standalone
from tests.harness.world import World


@pytest.mark.kafka
async def test_a_desk_sees_what_the_sidecar_sees_beside_it_and_without_it(world: World) -> None:
    """The same evidence and verdict while a member lives and after it has gone; it joins nothing,
    and says which member has a partition."""
    topic = world.topic(2)
    world.produce(topic, 10)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 4) == 4
    sidecar.await_partition(topic, 1, state="delivering")
    first, second = Partition(topic, 0), Partition(topic, 1)
    async with standalone(load(environ=world.environ())) as desk:
        assert await desk.partitions() == Known((first, second))
        members = await desk.group_members()
        assert isinstance(members, Known)
        assert members.value.state == "stable"
        (member,) = members.value.members
        assert members.value.owner_of(first) is member
        assert member.partitions == (first, second)
        beside = judge((await desk.look([first]))[first], desk.policy)
        sidecar.terminate()
        left = await desk.group_members()
        assert isinstance(left, Known)
        assert left.value.members == ()
        alone = judge((await desk.look([first]))[first], desk.policy)
        for judged in (beside, alone):
            assert isinstance(judged, Go)
            assert (judged.verdict, judged.base.token.next) == (Verdict.RESUME, 4)
        audit = await desk.audit(first)
        assert isinstance(audit, Known)
        assert audit.value


@pytest.mark.kafka
async def test_a_group_without_members_takes_a_commit_and_one_with_members_does_not(
    world: World,
) -> None:
    """So that what a command commits can never go behind a member's back."""
    topic = world.topic()
    world.produce(topic, 10)
    partition = Partition(topic, 0)
    async with standalone(load(environ=world.environ())) as desk:
        empty = await desk.group_members()
        assert isinstance(empty, Known)
        assert empty.value.members == ()
        request = {partition: CommitRequest(Offset(3), None, "by hand")}
        assert await desk.log.commit(request) == {partition: None}
        assert world.committed(topic) == 3
        sidecar = world.sidecar()
        sidecar.await_partition(topic, state="delivering")
        refused = (await desk.log.commit(request))[partition]
        assert refused is not None
        assert world.committed(topic) == 3


async def test_nobody_there_is_an_answer_that_says_what_to_look_at() -> None:
    """Bounded, typed, with the setting's name; never an exception."""
    environ = {
        "CURSOR_SIDECAR_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "CURSOR_SIDECAR_KAFKA__GROUP_ID": "g",
        "CURSOR_SIDECAR_KAFKA__TOPICS": "t",
        "CURSOR_SIDECAR_REDIS__URL": "redis://127.0.0.1:1",
    }
    async with standalone(load(environ=environ), timeout_seconds=0.3) as desk:
        for answer, setting in (
            (await desk.partitions(), "REDIS__URL"),
            (await desk.group_members(), "KAFKA__BOOTSTRAP_SERVERS"),
        ):
            assert isinstance(answer, Unreadable)
            assert answer.fault.kind is FaultKind.UNAVAILABLE
            assert setting in mended_by(answer.fault)
        evidence = (await desk.look([Partition("t", 0)]))[Partition("t", 0)]
        assert isinstance(evidence.cluster_id, Unreadable)
