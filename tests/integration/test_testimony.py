"""Who says where to go on: commits that others made, groups that were there before."""

import pytest

from tests.faults.rows import Row
from tests.harness.sidecar import SidecarProcess
from tests.harness.world import World

pytestmark = pytest.mark.kafka


@pytest.mark.fault(row="first-day/group-with-a-commit", bench="K1", expected="adopted")
def test_an_existing_group_is_adopted_where_it_stood(world: World, row: Row) -> None:
    """Day one of an existing group: its offset is taken on trust, everything from there on is
    delivered, flagged, since what was done before is not known; our own commit stands before the
    first page."""
    topic = world.topic()
    world.produce(topic, 30)
    world.outside.commit(world.group, topic, 0, 12)
    sidecar = world.sidecar()
    row.inflicted()
    state = sidecar.await_partition(topic, state="delivering", next=12)
    row.judged(state.verdict or "none", state.state)
    found = world.outside.committed(world.group, topic)
    assert found is not None
    assert found.offset == 12
    assert (found.metadata or "").startswith("csw")
    page = sidecar.api().take(30.0)
    assert page is not None
    assert page.first == 12
    assert all(record.redelivered for record in page.records)
    world.ledger.write(page, "test")
    sidecar.api().applied(page)
    assert row.account(world.account(starts={(topic, 0): 12})).applied == 18


@pytest.mark.fault(
    row="first-day/commit-below-the-log-start", bench="K1", expected="retention_loss"
)
def test_an_adopted_offset_below_the_log_start_is_a_gap_from_there(world: World, row: Row) -> None:
    """What the group had committed is gone from the log: exactly that range is lost."""
    topic = world.topic()
    world.produce(topic, 30)
    world.outside.commit(world.group, topic, 0, 5)
    world.outside.delete_records(topic, 0, 11)
    sidecar = world.sidecar()
    row.inflicted()
    gap = sidecar.await_gap(topic)
    row.judged(gap.reason, "gap")
    assert (gap.reason, gap.first, gap.end) == ("retention_loss", 5, 11)
    assert world.committed(topic) == 5
    sidecar.api().resolve(gap.id, "accepted")
    row.cured()
    assert world.apply(sidecar, topic, 19) == 30
    row.delivering()
    row.account(world.account(sidecar.api().gaps(), starts={(topic, 0): 5}))


@pytest.mark.fault(row="first-day/adoption-held", bench="K1", expected="adopted")
def test_an_adoption_that_a_setting_asks_about_waits_for_its_answer(world: World, row: Row) -> None:
    """`RECOVERY__ADOPT=hold`: held with its evidence, and delivered once a person says so."""
    topic = world.topic()
    world.produce(topic, 10)
    world.outside.commit(world.group, topic, 0, 4)
    sidecar = world.sidecar(RECOVERY__ADOPT="hold")
    row.inflicted()
    state = sidecar.await_partition(topic, state="held")
    row.judged(state.reason or "none", state.state)
    api = sidecar.api()
    (hold,) = api.holds()
    assert hold.answers == ["commit"]
    api.answer(hold.id, "commit")
    row.cured()
    sidecar.await_partition(topic, state="delivering", next=4)
    assert world.apply(sidecar, topic, 6) == 10
    row.delivering()
    row.account(world.account(starts={(topic, 0): 4}))


@pytest.mark.fault(
    row="cursor-ahead/commit-beyond-the-end",
    bench="K1",
    expected="cursor_ahead",
    cases=(6,),
    within_seconds=2,
)
def test_a_foreign_commit_far_beyond_the_end_on_day_one_is_not_reset(
    world: World, row: Row
) -> None:
    """Committed 999999 while the log ends at 20: `cursor_ahead`, and the offset is reset in
    neither direction."""
    topic = world.topic()
    world.produce(topic, 20)
    world.outside.commit(world.group, topic, 0, 999_999)
    sidecar = world.sidecar()
    row.inflicted()
    gap = sidecar.await_gap(topic)
    row.judged(gap.reason, "gap")
    assert (gap.reason, gap.first) == ("cursor_ahead", 999_999)
    assert sidecar.api().take(0.5) is None
    assert world.committed(topic) == 999_999
    sidecar.api().resolve(gap.id, "accepted", resume_at=8)
    row.cured()
    assert world.apply(sidecar, topic, 12) == 20
    row.delivering()
    row.account(world.account(starts={(topic, 0): 8}))


def moved_forward(world: World) -> tuple[str, SidecarProcess]:
    """Forty records, ten of them applied; while nobody ran, somebody committed 30."""
    topic = world.topic()
    world.produce(topic, 40)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.terminate()
    world.outside.commit(world.group, topic, 0, 30)
    sidecar.start()
    return topic, sidecar


@pytest.mark.fault(
    row="external-reset/forward", bench="K1", expected="external_reset", within_seconds=2
)
def test_a_foreign_commit_ahead_while_down_is_a_gap(world: World, row: Row) -> None:
    """Somebody moved the group forward: `external_reset` over exactly what would be skipped; the
    foreign offset stands in the gap, and our own is committed again, with the witness."""
    topic, sidecar = moved_forward(world)
    row.inflicted()
    gap = sidecar.await_gap(topic)
    row.judged(gap.reason, "gap")
    assert (gap.reason, gap.first, gap.end) == ("external_reset", 10, 30)
    sidecar.await_partition(topic, state="gap", committed=10)
    found = world.outside.committed(world.group, topic)
    assert found is not None
    assert (found.offset, (found.metadata or "").startswith("csw")) == (10, True)
    sidecar.kill()
    sidecar.start()
    assert sidecar.await_gap(topic).id == gap.id
    sidecar.api().resolve(gap.id, "ignored")
    row.cured()
    assert world.apply(sidecar, topic, 30) == 40
    row.delivering()
    assert row.account(world.account()).applied == 40


def test_a_gap_that_is_none_any_more_is_retracted_though_our_commit_names_it(world: World) -> None:
    """Somebody moved the group forward, and the commit of ours in its place carries the gap."""
    topic, sidecar = moved_forward(world)
    gap = sidecar.await_gap(topic)
    sidecar.await_partition(topic, state="gap", committed=10)
    sidecar.api().resolve(gap.id, "retracted")
    assert world.apply(sidecar, topic, 30) == 40
    account = world.account()
    assert (account.applied, account.in_gaps) == (40, 0)


@pytest.mark.fault(
    row="external-reset/backward",
    bench="K1",
    expected="replay_requested",
    covers=("commit_behind",),
    within_seconds=2,
)
def test_a_foreign_commit_behind_while_down_is_a_request_and_moves_nothing(
    world: World, row: Row
) -> None:
    """Somebody asked for a replay: applied does not move, the request is shown until it is
    answered, delivery goes on."""
    topic = world.topic()
    world.produce(topic, 40)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 20) == 20
    sidecar.terminate()
    world.outside.commit(world.group, topic, 0, 7)
    sidecar.start()
    row.inflicted()
    state = sidecar.await_partition(topic, state="delivering", next=20, committed=20)
    (condition,) = state.conditions
    row.judged(condition, state.state)
    page = sidecar.api().take(30.0)
    assert page is not None
    assert page.first == 20
    world.ledger.write(page, "test")
    sidecar.kill()
    sidecar.start()
    state = sidecar.await_partition(topic, state="delivering", next=20)
    assert state.conditions == ["replay_requested"]
    assert world.apply(sidecar, topic, 20) == 40
    assert row.account(world.account()).applied == 40


@pytest.mark.fault(row="external-reset/same-offset", bench="K1", expected="resume")
def test_a_foreign_commit_at_the_same_offset_changes_nothing(world: World, row: Row) -> None:
    """Metadata erased by somebody's tool, the offset the same: go on, commit again."""
    topic = world.topic()
    world.produce(topic, 20)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.terminate()
    world.outside.commit(world.group, topic, 0, 10)
    sidecar.start()
    row.inflicted()
    state = sidecar.await_partition(topic, state="delivering", next=10)
    row.judged(state.verdict or "none", state.state)
    assert world.apply(sidecar, topic, 10) == 20
    assert sidecar.api().gaps() == []
    assert row.account(world.account()).repeated_flagged == 0


@pytest.mark.fault(
    row="commit-expired/offsets-deleted",
    bench="K1",
    expected="commit_expired",
    cases=(3,),
    within_seconds=2,
)
def test_offsets_deleted_with_kafkas_own_tool_are_recovered(world: World, row: Row) -> None:
    """`--delete-offsets`: the same error code as a retention loss, and another verdict."""
    topic = world.topic()
    world.produce(topic, 20)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.terminate()
    world.outside.delete_offsets(world.group, topic)
    assert world.committed(topic) is None
    sidecar.start()
    row.inflicted()
    state = sidecar.await_partition(topic, state="delivering", next=10, committed=10)
    row.judged(state.verdict or "none", state.state)
    assert world.apply(sidecar, topic, 10) == 20
    assert row.account(world.account()).repeated_flagged == 0


@pytest.mark.fault(row="first-day/latest-on-an-empty-partition", bench="K1", expected="new_group")
def test_latest_on_an_empty_partition_begins_at_a_number(world: World, row: Row) -> None:
    """`RECOVERY__START=latest`: the fence is a number, durable before the first fetch, also where
    the partition is empty; nothing that was produced after it is missed, across a kill."""
    topic = world.topic(2)
    world.produce(topic, 10, 1)
    sidecar = world.sidecar(static=True, RECOVERY__START="latest")
    row.inflicted()
    state = sidecar.await_partition(topic, 0, state="delivering", next=0)
    row.judged(state.verdict or "none", state.state)
    sidecar.await_partition(topic, 1, state="delivering", next=10)
    sidecar.kill()
    world.produce(topic, 5, 0)
    world.produce(topic, 5, 1, tag="later")
    sidecar.start()
    assert world.apply(sidecar, topic, 5, 0) == 5
    assert world.apply(sidecar, topic, 5, 1) == 15
    assert row.account(world.account(starts={(topic, 1): 10})).applied == 10


@pytest.mark.fault(row="first-day/partition-added-later", bench="K1", expected="new_partition")
def test_a_partition_added_later_is_read_from_its_log_start_whatever_the_start_rule(
    world: World, row: Row
) -> None:
    """`new_partition`: `latest` was asked of the group's first day only."""
    topic = world.topic()
    sidecar = world.sidecar(
        RECOVERY__START="latest",
        KAFKA__CLIENT='{"topic.metadata.refresh.interval.ms": 500}',
    )
    sidecar.await_partition(topic, state="delivering")
    world.outside.add_partitions(topic, 2)
    row.inflicted()
    world.produce(topic, 5, 1)
    assert world.apply(sidecar, topic, 5, 1) == 5
    (verdict,) = sidecar.verdicts(topic, 1)
    row.judged(verdict, "delivering")
    row.account(world.account())
