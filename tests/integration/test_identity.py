"""Another topic under the same name, another log at the same offsets, a group that forgot."""

import pytest

from tests.faults.rows import Row
from tests.harness.world import World, values

pytestmark = pytest.mark.kafka

BEFORE = 40


def _applied(world: World, *, restarts: int = 0) -> str:
    """A topic of 60 records of which 40 are applied and committed, and a sidecar on it."""
    topic = world.topic()
    for _ in range(restarts):
        world.kafka.restart()
    world.produce(topic, 60)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, BEFORE) == BEFORE
    return topic


def _recreate(world: World, topic: str, records: int) -> None:
    world.outside.recreate(topic)
    world.produce(topic, records, tag="new", noted=False)


def _stands_still(world: World, topic: str, row: Row) -> None:
    """The gap of a topic that was created again: `next` kept, and no commit in the new log."""
    (sidecar,) = world.sidecars
    gap = sidecar.await_gap(topic)
    row.judged(gap.reason, "gap")
    assert (gap.reason, gap.first, gap.end) == ("topic_recreated", BEFORE, None)
    assert "retention_loss" not in sidecar.verdicts(topic, after=0)
    assert sidecar.api().take(0.5) is None
    assert world.committed(topic) is None
    account = row.account(world.account(unfinished_from={(topic, 0): BEFORE}))
    assert account.applied == BEFORE


@pytest.mark.parametrize("records", [10, 100], ids=["shorter", "longer"])
@pytest.mark.fault(
    row="topic-recreated/while-down",
    bench="K1",
    expected="topic_recreated",
    cases=(2,),
    within_seconds=2,
)
def test_a_topic_created_again_while_down_is_a_gap_of_its_own(
    world: World, records: int, row: Row
) -> None:
    """The new log is shorter or longer than the cursor: `topic_recreated` before any seek or
    commit, never the out-of-range path."""
    topic = _applied(world)
    (sidecar,) = world.sidecars
    sidecar.terminate()
    _recreate(world, topic, records)
    sidecar.start()
    row.inflicted()
    _stands_still(world, topic, row)


@pytest.mark.parametrize("records", [10, 100], ids=["shorter", "longer"])
@pytest.mark.fault(
    row="topic-recreated/idle", bench="K1", expected="topic_recreated", cases=(2,), within_seconds=2
)
def test_a_topic_created_again_under_an_idle_consumer_is_noticed(
    world: World, records: int, row: Row
) -> None:
    """Live, and nobody asks for pages: the new topic is noticed all the same, nothing of it is
    promoted or committed."""
    topic = world.topic()
    world.produce(topic, BEFORE)
    sidecar = world.sidecar()
    application = world.application(sidecar)
    world.deliver_all(sidecar, (topic, 0))
    sidecar.await_partition(topic, committed=BEFORE)
    application.stop()
    _recreate(world, topic, records)
    row.inflicted()
    _stands_still(world, topic, row)


@pytest.mark.fault(
    row="topic-recreated/busy", bench="K1", expected="topic_recreated", cases=(2,), within_seconds=2
)
def test_a_topic_created_again_longer_under_a_busy_consumer_is_not_read_on(
    world: World, row: Row
) -> None:
    """Live, with an application that takes pages all the while: whatever of the new topic slipped
    through before it was noticed lies at or beyond the gap's first offset less one look; nothing
    of it is ever committed, and reading stops."""
    topic = world.topic()
    world.produce(topic, BEFORE)
    sidecar = world.sidecar()
    application = world.application(sidecar, records_max=10)
    world.deliver_all(sidecar, (topic, 0))
    sidecar.await_partition(topic, committed=BEFORE)
    world.outside.recreate(topic)
    fresh = values(3_000, "new")
    offsets = world.produce(topic, fresh, noted=False)
    world.note(topic, 0, offsets[BEFORE:], fresh[BEFORE:])
    row.inflicted()
    gap = sidecar.await_gap(topic)
    row.judged(gap.reason, "gap")
    assert gap.reason == "topic_recreated"
    assert gap.first >= BEFORE
    assert world.committed(topic) is None
    count = world.ledger.count
    assert sidecar.api().take(1.0) is None
    application.stop()
    assert world.ledger.count == count < 3_000
    row.account(world.account(unfinished_from={(topic, 0): BEFORE}))


@pytest.mark.parametrize("live", [False, True], ids=["down", "live"])
@pytest.mark.fault(
    row="topic-recreated/epoch-fell",
    bench="K1",
    expected="topic_recreated",
    cases=(2,),
    covers=("epoch_suspect",),
)
def test_a_topic_created_again_after_its_leader_epoch_had_risen(
    own_broker: World, live: bool, row: Row
) -> None:
    """Restarts raise the leader epoch, and the new topic begins at zero again: still told by its
    ID, not by an epoch that fell."""
    topic = _applied(own_broker, restarts=1)
    (sidecar,) = own_broker.sidecars
    if live:
        _recreate(own_broker, topic, 100)
    else:
        sidecar.terminate()
        _recreate(own_broker, topic, 100)
        sidecar.start()
    row.inflicted()
    _stands_still(own_broker, topic, row)


@pytest.mark.fault(
    row="topic-recreated/fewer-partitions",
    bench="K1",
    expected="topic_recreated",
    cases=(2,),
    within_seconds=2,
)
def test_fewer_partitions_than_before_is_a_topic_created_again(world: World, row: Row) -> None:
    """Created again with one partition of two: the one that is left has its gap."""
    topic = world.topic(2)
    world.produce(topic, 20)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 20) == 20
    sidecar.terminate()
    world.outside.recreate(topic, 1)
    sidecar.start()
    row.inflicted()
    row.judged(sidecar.await_gap(topic).reason, "gap")
    row.account(world.account())


@pytest.mark.parametrize("live", [False, True], ids=["down", "live"])
@pytest.mark.fault(row="broker/restarts", bench="K1", expected="resume", cases=(23,))
def test_a_broker_that_restarts_is_no_topic_created_again(
    own_broker: World, live: bool, row: Row
) -> None:
    """A clean restart of the broker changes nothing: no gap, no hold, nothing repeated; the
    overlap is verified again."""
    topic = _applied(own_broker)
    (sidecar,) = own_broker.sidecars
    mark = sidecar.mark()
    if not live:
        sidecar.terminate()
    own_broker.kafka.restart()
    if not live:
        sidecar.start()
    # A live attempt shows the verdict it was claimed with; what the restart was judged to be is
    # said with the overlap.
    ended = sidecar.await_event("recovery_ended", after=mark, result="verified")
    row.cured()
    state = sidecar.await_partition(topic, state="delivering", next=BEFORE, timeout_seconds=30)
    row.observe(ended["verdict"], state.state)
    assert own_broker.apply(sidecar, topic, 20) == 60
    row.delivering()
    assert sidecar.api().gaps() == []
    assert not sidecar.since(mark, "state_changed", state="held")
    account = row.account(own_broker.account())
    assert (account.applied, account.repeated_flagged) == (60, 0)


@pytest.mark.fault(
    row="commit-expired/group-deleted",
    bench="K1",
    expected="commit_expired",
    cases=(9,),
    within_seconds=2,
)
def test_a_deleted_group_is_recovered_from_the_checkpoint(world: World, row: Row) -> None:
    """Kafka forgot the group: `commit_expired`, the overlap verified by digest, committed again
    where it was, and nothing repeated."""
    topic = _applied(world)
    (sidecar,) = world.sidecars
    sidecar.terminate()
    world.outside.delete_group(world.group)
    assert world.committed(topic) is None
    sidecar.start()
    row.inflicted()
    sidecar.await_partition(topic, state="delivering", next=BEFORE, committed=BEFORE)
    (verdict,) = sidecar.verdicts(topic)
    row.judged(verdict, "delivering")
    ended = sidecar.last("recovery_ended", this_life=True)
    assert ended is not None
    assert (ended["result"], ended["matched"]) == ("verified", BEFORE)
    status, metrics = sidecar.admin().text("/metrics")
    assert status == 200
    assert _series(metrics, "overlap_records_total", result="match") == BEFORE
    assert _series(metrics, "recoveries_total", verdict="commit_expired", result="verified") == 1
    assert world.apply(sidecar, topic, 20) == 60
    assert row.account(world.account()).repeated_flagged == 0


@pytest.mark.fault(
    row="retention-loss/group-deleted-too",
    bench="K1",
    expected="retention_loss",
    cases=(9,),
    within_seconds=2,
)
def test_a_group_deleted_with_records_lost_meanwhile_is_a_gap_from_the_checkpoint(
    world: World, row: Row
) -> None:
    """No commit and a log start past the checkpoint: the gap begins at the checkpoint, not at
    earliest nor at latest."""
    topic = _applied(world)
    (sidecar,) = world.sidecars
    sidecar.terminate()
    world.outside.delete_group(world.group)
    world.outside.delete_records(topic, 0, 50)
    sidecar.start()
    row.inflicted()
    gap = sidecar.await_gap(topic)
    row.judged(gap.reason, "gap")
    assert (gap.reason, gap.first, gap.end) == ("retention_loss", BEFORE, 50)
    row.account(world.account([gap], unfinished_from={(topic, 0): 50}))


@pytest.mark.fault(
    row="log-diverged/log-restored",
    bench="K1",
    expected="log_diverged",
    cases=(7, 10),
    within_seconds=5,
)
@pytest.mark.timeout(120)
def test_a_log_that_went_back_and_grew_other_records_has_diverged(
    own_broker: World, row: Row
) -> None:
    """The same offsets, other bytes, perhaps the same epoch: digests tell, naming the last offset
    that matches and the first that does not. Nothing is delivered."""
    world = own_broker
    topic = world.topic()
    world.produce(topic, 20)
    world.kafka.stop()
    saved = world.kafka.save_data()
    world.kafka.start()
    world.produce(topic, 20, tag="first")
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 40) == 40
    sidecar.terminate()
    world.kafka.kill()
    world.kafka.restore_data(saved)
    world.kafka.start()
    world.produce(topic, 40, tag="other", noted=False)
    sidecar.start()
    row.inflicted()
    gap = sidecar.await_gap(topic)
    row.judged(gap.reason, "gap")
    assert (gap.reason, gap.first) == ("log_diverged", 20)
    assert gap.evidence["last_matching"] == 19
    assert gap.evidence["first_differing"] == 20
    api = sidecar.api()
    assert api.take(0.5) is None
    resolved = api.resolve(gap.id, "accepted")
    row.cured()
    assert resolved.resolution is not None
    assert resolved.resolution["resume_at"] == 20
    # The group goes back, by a commit of a lower offset that is read back before anything comes.
    sidecar.await_partition(topic, state="delivering", next=20, committed=20)
    page = api.take(30.0)
    row.delivering()
    assert page is not None
    assert (page.first, page.records[0].value) == (20, b"other0")
    assert page.records[0].idempotency_key.split("/")[1] == "1"  # other bytes, another key
    assert api.applied(page, committed=True).committed == 60
    row.account(world.account())


@pytest.mark.fault(
    row="log-diverged/before-the-anchor", bench="K1", expected="log_diverged", cases=(7,)
)
@pytest.mark.timeout(120)
def test_a_divergence_older_than_the_anchor_is_found_by_reading_further_back(
    own_broker: World, row: Row
) -> None:
    """The anchor itself differs: older receipts are read for the last one that matches."""
    world = own_broker
    topic = world.topic()
    world.produce(topic, 20)
    world.kafka.stop()
    saved = world.kafka.save_data()
    world.kafka.start()
    world.produce(topic, 100, tag="first")
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 120) == 120
    sidecar.terminate()
    world.kafka.kill()
    world.kafka.restore_data(saved)
    world.kafka.start()
    world.produce(topic, 150, tag="other", noted=False)
    sidecar.start()
    row.inflicted()
    gap = sidecar.await_gap(topic)
    row.judged(gap.reason, "gap")
    assert (gap.reason, gap.first) == ("log_diverged", 20)
    assert gap.evidence["last_matching"] == 19
    row.account(world.account())


@pytest.mark.fault(
    row="log-truncated/log-restored", bench="K1", expected="cursor_ahead", cases=(3,)
)
@pytest.mark.timeout(120)
def test_a_log_that_is_shorter_than_the_cursor_is_not_reset(own_broker: World, row: Row) -> None:
    """The log went back below the cursor: `cursor_ahead` or `log_truncated`, held, and no offset
    moved in either direction."""
    world = own_broker
    topic = world.topic()
    world.produce(topic, 20)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 20) == 20
    sidecar.terminate()
    world.kafka.stop()
    saved = world.kafka.save_data()
    world.kafka.start()
    world.produce(topic, 20, tag="first")
    sidecar.start()
    assert world.apply(sidecar, topic, 20) == 40
    sidecar.kill()
    world.kafka.kill()
    world.kafka.restore_data(saved)
    world.kafka.start()
    sidecar.start()
    row.inflicted()
    gap = sidecar.await_gap(topic, timeout_seconds=30)
    row.judged(gap.reason, "gap")
    assert gap.reason in ("cursor_ahead", "log_truncated")
    sidecar.await_partition(topic, state="gap", next=40)
    row.account(world.account())


def _series(metrics: str, name: str, **labels: str) -> float:
    for line in metrics.splitlines():
        if line.startswith(f"cursor_sidecar_{name}{{") and all(
            f'{label}="{value}"' in line for label, value in labels.items()
        ):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no series {name} {labels}")
