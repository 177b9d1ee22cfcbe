"""Members come and go, freeze, and claim one another's identity."""

import re
import time

import pytest

from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.api import Refused
from tests.harness.sidecar import SidecarProcess
from tests.harness.world import Load, World

pytestmark = pytest.mark.kafka


@pytest.mark.timeout(120)
@pytest.mark.fault(
    row="members/join-and-leave-under-load", bench="K1", expected="delivering", cases=(21, 22)
)
def test_a_second_member_joins_and_leaves_under_load(world: World, row: Row) -> None:
    """Twice, once in order and once by `kill -9`: every record is applied, what is repeated is
    flagged, order holds in each partition, and no commit ran ahead of the store."""
    topic = world.topic(4)
    places = [(topic, partition) for partition in range(4)]
    load = Load(world, topic, 4)
    watch = world.watch_commits(*places)
    first = world.sidecar(KAFKA__COMMIT_INTERVAL_SECONDS=0.05)
    world.application(first, records_max=20)
    wait_until(lambda: world.ledger.count > 200, "records flow", timeout_seconds=30)
    second = world.sidecar(KAFKA__COMMIT_INTERVAL_SECONDS=0.05)
    world.application(second, records_max=20)
    _share(first, second, topic)
    seen = world.ledger.count
    wait_until(lambda: world.ledger.count > seen + 200, "records flow", timeout_seconds=30)
    assert second.terminate()[0] == 0
    wait_until(lambda: first.api().status().assigned == 4, "the first has all again")
    second.start()
    _share(first, second, topic)
    second.kill()
    row.inflicted()
    wait_until(
        lambda: first.api().status().assigned == 4, "the first has all again", timeout_seconds=20
    )
    row.judged("delivering", "delivering")
    load.stop()
    world.deliver_all(first, *places)
    for application in world.applications:
        application.stop()
    watch.check()
    assert first.api().gaps() == []
    account = row.account(world.account())
    assert account.applied == account.produced


def _share(first: SidecarProcess, second: SidecarProcess, topic: str) -> None:
    """Both have two partitions, and deliver them."""

    def shared() -> bool:
        states = [first.api().partitions(), second.api().partitions()]
        return all(len(s) == 2 and all(p.state == "delivering" for p in s) for s in states)

    wait_until(shared, f"{topic} is shared", timeout_seconds=30)


@pytest.mark.parametrize(
    "client",
    [
        '{"partition.assignment.strategy": "range"}',
        '{"partition.assignment.strategy": "cooperative-sticky"}',
        '{"group.protocol": "consumer"}',
    ],
    ids=["eager", "cooperative", "kip-848"],
)
@pytest.mark.fault(
    row="members/start-exactly-there", bench="K1", expected="delivering", cases=(19,)
)
def test_partitions_are_shared_under_every_group_protocol(
    world: World, client: str, row: Row
) -> None:
    """Delivery begins exactly where it should, and goes on exactly there at the other member."""
    topic = world.topic(4)
    for partition in range(4):
        world.produce(topic, 300, partition)
    first = world.sidecar(KAFKA__CLIENT=client)
    for partition in range(4):
        assert world.apply(first, topic, 100, partition) == 100
    second = world.sidecar(KAFKA__CLIENT=client)
    row.inflicted()
    _share(first, second, topic)
    row.judged("delivering", "delivering")
    applications = [world.application(member) for member in (first, second)]
    for state in (*first.api().partitions(), *second.api().partitions()):
        owner = first if first.api().partition(topic, state.partition) else second
        owner.await_partition(topic, state.partition, caught_up=True, next=300, committed=300)
    for application in applications:
        application.stop()
    account = row.account(world.account())
    assert (account.applied, account.repeated_flagged) == (1_200, 0)


@pytest.mark.timeout(90)
@pytest.mark.fault(
    row="members/frozen-past-its-session", bench="K1", expected="page-lost", cases=(11,)
)
def test_a_member_frozen_past_its_session_writes_nothing_when_it_wakes(
    world: World, row: Row
) -> None:
    """SIGSTOP, another member goes on, SIGCONT: the report of the page that was out is refused,
    and neither the store nor the commit goes back."""
    topic = world.topic()
    world.produce(topic, 100)
    first = world.sidecar(KAFKA__SESSION_TIMEOUT_SECONDS=2)
    page = first.api().take(30.0, records_max=10)
    assert page is not None
    world.ledger.write(page, "frozen")
    first.pause()
    second = world.sidecar(KAFKA__SESSION_TIMEOUT_SECONDS=2)
    application = world.application(second, records_max=10)
    world.deliver_all(second, (topic, 0))
    second.await_partition(topic, committed=100)
    application.stop()
    generation = world.checkpoint(topic)["generation"]
    first.resume()
    row.inflicted()
    api = first.api()
    try:
        api.applied(page)
    except Exception as error:
        assert "page-lost" in str(error) or "verification-pending" in str(error)  # noqa: PT017  # either refusal is right, and both are
    else:
        pytest.fail("a zombie's report was taken")
    first.await_event("partitions_lost", timeout_seconds=30)
    with pytest.raises(Refused) as lost:
        api.applied(page)
    row.judged(lost.value.kind)
    stored = world.checkpoint(topic)
    assert (stored["next"], stored["generation"]) == ("100", generation)
    assert world.committed(topic) == 100
    assert row.account(world.account()).repeated_flagged == 10


@pytest.mark.fault(
    row="members/one-instance-id-twice", bench="K1", expected="fenced (exit 3)", cases=(11, 29)
)
def test_two_members_of_one_instance_id_end_with_exit_code_3(world: World, row: Row) -> None:
    """The one that is fenced says so and exits 3, without a commit; the other one works on."""
    topic = world.topic()
    world.produce(topic, 20)
    first = world.sidecar(KAFKA__INSTANCE_ID="twin", KAFKA__COMMIT_INTERVAL_SECONDS=5)
    page = first.api().take(30.0, records_max=5)
    assert page is not None
    second = world.sidecar(KAFKA__INSTANCE_ID="twin")
    row.inflicted()
    code = first.ended(30)
    row.judged(f"fenced (exit {code})")
    assert first.last("member_fenced") is not None
    second.await_partition(topic, state="delivering", next=0)
    row.cured()
    assert world.apply(second, topic, 20) == 20
    row.delivering()
    row.account(world.account())


@pytest.mark.timeout(120)
def test_a_thousand_partitions_are_looked_at_in_batches(world: World) -> None:
    """One question for all, not one each: all are delivering soon after the start, and again after
    a restart."""
    topic = world.topic(200)
    sidecar = world.sidecar()
    for _ in range(2):
        began = time.monotonic()
        sidecar.await_event("partitions_assigned", timeout_seconds=30)
        wait_until(
            lambda: [p.state for p in sidecar.api().partitions()] == ["delivering"] * 200,
            f"all of {topic} are delivering",
            timeout_seconds=40,
            every_seconds=0.2,
        )
        assert time.monotonic() - began < 20
        sidecar.terminate()
        sidecar.start()


@pytest.mark.timeout(90)
@pytest.mark.fault(row="members/gauges-move", bench="K1", expected="retention_loss", cases=(32,))
def test_gauges_go_with_their_partition_and_an_open_gap_s_series_stays(
    world: World, row: Row
) -> None:
    """A partition moves to another member: its gauges are told by its owner alone, and its open
    gap by every member of the group."""
    topic = world.topic(2)
    for partition in range(2):
        world.produce(topic, 40, partition)
    first = world.sidecar()
    for partition in range(2):
        assert world.apply(first, topic, 10, partition) == 10
    first.terminate()
    for partition in range(2):
        world.outside.delete_records(topic, partition, 25)
    first.start()
    row.inflicted()
    gaps = [first.await_gap(topic, partition) for partition in range(2)]
    row.judged(gaps[0].reason, "gap")
    second = world.sidecar()
    wait_until(
        lambda: [m.api().status().assigned for m in (first, second)] == [1, 1],
        "each has one",
        timeout_seconds=30,
    )
    for member in (first, second):
        (mine,) = [p.partition for p in member.api().partitions()]
        member.await_partition(topic, mine, state="gap")
        wait_until(
            lambda: _told(member, "applied_offset", topic) == {mine},  # noqa: B023  # called at once
            "only its own position",
        )
        wait_until(
            lambda: _told(member, "gap_info", topic) == {0, 1},  # noqa: B023  # likewise
            "every open gap",
        )
    row.cured()
    for gap in gaps:
        owner = first if first.api().partition(topic, gap.partition) else second
        owner.api().resolve(gap.id, "accepted")
    for partition in range(2):
        owner = first if first.api().partition(topic, partition) else second
        assert world.apply(owner, topic, 15, partition) == 40
        row.delivering()
    row.account(world.account(first.api().gaps()))


def _told(member: SidecarProcess, name: str, topic: str) -> set[int]:
    """The partitions of which a series of this name is shown."""
    _, metrics = member.admin().text("/metrics")
    series = (x for x in metrics.splitlines() if x.startswith(f"cursor_sidecar_{name}{{"))
    mine = (x for x in series if f'topic="{topic}"' in x)
    return {int(found[1]) for x in mine if (found := re.search(r'partition="(\d+)"', x))}
