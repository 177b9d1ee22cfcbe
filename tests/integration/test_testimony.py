"""Who says where to go on: commits that others made, groups that were there before."""

import pytest

from tests.harness.world import World

pytestmark = pytest.mark.kafka


def test_an_existing_group_is_adopted_where_it_stood(world: World) -> None:
    """Day one of an existing group: its offset is taken on trust, everything from there on is
    delivered, flagged, since what was done before is not known; our own commit stands before the
    first page."""
    topic = world.topic()
    world.produce(topic, 30)
    world.outside.commit(world.group, topic, 0, 12)
    sidecar = world.sidecar()
    sidecar.await_partition(topic, state="delivering", verdict="adopted", next=12)
    found = world.outside.committed(world.group, topic)
    assert found is not None
    assert found.offset == 12
    assert (found.metadata or "").startswith("csw")
    page = sidecar.api().take(10.0)
    assert page is not None
    assert page.first == 12
    assert all(record.redelivered for record in page.records)
    world.ledger.write(page, "test")
    sidecar.api().applied(page)
    assert world.account(starts={(topic, 0): 12}).check().applied == 18


def test_an_adopted_offset_below_the_log_start_is_a_gap_from_there(world: World) -> None:
    """What the group had committed is gone from the log: exactly that range is lost."""
    topic = world.topic()
    world.produce(topic, 30)
    world.outside.commit(world.group, topic, 0, 5)
    world.outside.delete_records(topic, 0, 11)
    gap = world.sidecar().await_gap(topic)
    assert (gap.reason, gap.first, gap.end) == ("retention_loss", 5, 11)
    assert world.committed(topic) == 5


def test_an_adoption_that_a_setting_asks_about_waits_for_its_answer(world: World) -> None:
    """`RECOVERY__ADOPT=hold`: held with its evidence, and delivered once a person says so."""
    topic = world.topic()
    world.produce(topic, 10)
    world.outside.commit(world.group, topic, 0, 4)
    sidecar = world.sidecar(RECOVERY__ADOPT="hold")
    sidecar.await_partition(topic, state="held", reason="adopted")
    api = sidecar.api()
    (hold,) = api.holds()
    assert hold.answers == ["commit"]
    api.answer(hold.id, "commit")
    sidecar.await_partition(topic, state="delivering", next=4)


def test_a_foreign_commit_far_beyond_the_end_on_day_one_is_not_reset(world: World) -> None:
    """Committed 999999 while the log ends at 20: `cursor_ahead`, and the offset is reset in
    neither direction."""
    topic = world.topic()
    world.produce(topic, 20)
    world.outside.commit(world.group, topic, 0, 999_999)
    sidecar = world.sidecar()
    gap = sidecar.await_gap(topic)
    assert (gap.reason, gap.first) == ("cursor_ahead", 999_999)
    assert sidecar.api().take(0.5) is None
    assert world.committed(topic) == 999_999


def test_a_foreign_commit_ahead_while_down_is_a_gap(world: World) -> None:
    """Somebody moved the group forward: `external_reset` over exactly what would be skipped; the
    foreign offset stands in the gap, and our own is committed again, with the witness."""
    topic = world.topic()
    world.produce(topic, 40)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.terminate()
    world.outside.commit(world.group, topic, 0, 30)
    sidecar.start()
    gap = sidecar.await_gap(topic)
    assert (gap.reason, gap.first, gap.end) == ("external_reset", 10, 30)
    sidecar.await_partition(topic, state="gap", committed=10)
    found = world.outside.committed(world.group, topic)
    assert found is not None
    assert (found.offset, (found.metadata or "").startswith("csw")) == (10, True)
    sidecar.kill()
    sidecar.start()
    assert sidecar.await_gap(topic).id == gap.id


def test_a_foreign_commit_behind_while_down_is_a_request_and_moves_nothing(world: World) -> None:
    """Somebody asked for a replay: applied does not move, the request is shown until it is
    answered, delivery goes on."""
    topic = world.topic()
    world.produce(topic, 40)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 20) == 20
    sidecar.terminate()
    world.outside.commit(world.group, topic, 0, 7)
    sidecar.start()
    state = sidecar.await_partition(topic, state="delivering", next=20, committed=20)
    assert state.conditions == ["replay_requested"]
    page = sidecar.api().take(10.0)
    assert page is not None
    assert page.first == 20
    sidecar.kill()
    sidecar.start()
    state = sidecar.await_partition(topic, state="delivering", next=20)
    assert state.conditions == ["replay_requested"]


def test_a_foreign_commit_at_the_same_offset_changes_nothing(world: World) -> None:
    """Metadata erased by somebody's tool, the offset the same: go on, commit again."""
    topic = world.topic()
    world.produce(topic, 20)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.terminate()
    world.outside.commit(world.group, topic, 0, 10)
    sidecar.start()
    sidecar.await_partition(topic, state="delivering", next=10)
    assert world.apply(sidecar, topic, 10) == 20
    assert sidecar.api().gaps() == []
    assert world.account().check().repeated_flagged == 0


def test_latest_on_an_empty_partition_begins_at_a_number(world: World) -> None:
    """`RECOVERY__START=latest`: the fence is a number, durable before the first fetch, also where
    the partition is empty; nothing that was produced after it is missed, across a kill."""
    topic = world.topic(2)
    world.produce(topic, 10, 1)
    sidecar = world.sidecar(static=True, RECOVERY__START="latest")
    sidecar.await_partition(topic, 0, state="delivering", next=0, verdict="new_group")
    sidecar.await_partition(topic, 1, state="delivering", next=10)
    sidecar.kill()
    world.produce(topic, 5, 0)
    world.produce(topic, 5, 1, tag="later")
    sidecar.start()
    assert world.apply(sidecar, topic, 5, 0) == 5
    assert world.apply(sidecar, topic, 5, 1) == 15
    assert world.account(starts={(topic, 1): 10}).check().applied == 10


def test_a_partition_added_later_is_read_from_its_log_start_whatever_the_start_rule(
    world: World,
) -> None:
    """`new_partition`: `latest` was asked of the group's first day only."""
    topic = world.topic()
    sidecar = world.sidecar(
        RECOVERY__START="latest",
        KAFKA__CLIENT='{"topic.metadata.refresh.interval.ms": 500}',
    )
    sidecar.await_partition(topic, state="delivering")
    world.outside.add_partitions(topic, 2)
    world.produce(topic, 5, 1)
    assert world.apply(sidecar, topic, 5, 1) == 5
    assert "new_partition" in sidecar.verdicts(topic, 1)
