"""Offsets without a record: shown to hide no loss, counted, and never a gap."""

import re

import pytest

from tests.benches.topics import Record
from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.sidecar import SidecarProcess
from tests.harness.world import World, values

pytestmark = pytest.mark.kafka


@pytest.mark.fault(row="holes/transactions", bench="K1", expected="caught_up", cases=(5, 17))
def test_transactions_committed_and_aborted_leave_holes_and_no_gap(world: World, row: Row) -> None:
    """Control records and aborted ones are passed over: what is visible is delivered, and the end
    is reached although the last offset is a marker."""
    topic = world.topic()
    world.produce(topic, 5)
    _transaction(world, topic, 5, commit=True, tag="c")
    _transaction(world, topic, 5, commit=False, tag="a")
    world.produce(topic, 3, tag="w")
    _transaction(world, topic, 4, commit=True, tag="d")
    _transaction(world, topic, 4, commit=False, tag="e")
    end = world.outside.bounds(topic).end
    sidecar = world.sidecar()
    application = world.application(sidecar)
    state = sidecar.await_partition(topic, caught_up=True, next=end, lag_records=0)
    row.observe("caught_up", state.state)
    assert state.applied == end - 1
    sidecar.await_partition(topic, committed=end)
    application.stop()
    assert sidecar.api().gaps() == []
    assert row.account(world.account()).applied == 5 + 5 + 3 + 4
    _, metrics = sidecar.admin().text("/metrics")
    assert "cursor_sidecar_holes_total" in metrics
    sidecar.terminate()
    sidecar.start()
    sidecar.await_partition(topic, state="delivering", caught_up=True, next=end, lag_records=0)
    assert sidecar.api().gaps() == []


@pytest.mark.fault(
    row="holes/only-control-records-ahead", bench="K1", expected="caught_up", cases=(17,)
)
def test_only_control_records_above_the_cursor_is_caught_up(world: World, row: Row) -> None:
    """An aborted transaction after everything was applied: caught up, lag 0, without a page; down
    and live."""
    topic = world.topic()
    world.produce(topic, 5)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 5) == 5
    _transaction(world, topic, 3, commit=False, tag="a")
    end = world.outside.bounds(topic).end
    sidecar.await_partition(topic, caught_up=True, next=end, lag_records=0, committed=end)
    sidecar.terminate()
    _transaction(world, topic, 3, commit=False, tag="b")
    end = world.outside.bounds(topic).end
    sidecar.start()
    row.inflicted()
    state = sidecar.await_partition(topic, caught_up=True, next=end, lag_records=0, committed=end)
    row.judged("caught_up", state.state)
    assert sidecar.api().gaps() == []
    row.account(world.account())


def test_an_open_transaction_is_waited_for(world: World) -> None:
    """Between the last stable offset and the end there is nothing to deliver and nothing lost."""
    topic = world.topic()
    world.produce(topic, 5)
    open_id = f"{topic}-open"
    world.outside.hang_transaction(topic, 3, transactional_id=open_id)
    world.produce(topic, 2, tag="behind")
    sidecar = world.sidecar()
    application = world.application(sidecar)
    sidecar.await_partition(topic, state="delivering", next=5, lag_records=0)
    world.outside.terminate_transaction(open_id)
    end = world.outside.bounds(topic).end
    sidecar.await_partition(topic, caught_up=True, next=end)
    application.stop()
    assert world.account().check().applied == 7
    assert sidecar.api().gaps() == []


@pytest.mark.timeout(120)
@pytest.mark.fault(
    row="condition/hanging-transaction", bench="K1", expected="hanging_transaction", cases=(18,)
)
def test_a_transaction_that_hangs_is_told_and_nothing_is_skipped(world: World, row: Row) -> None:
    """Its producer is gone and its time-out is long: the condition stands beside the verdict with a
    metric of its own, what lies before it is delivered, and ending it clears everything. Of a
    topic whose transactions come and go nothing is said."""
    topic, busy = world.topic(), world.topic()
    world.produce(topic, 5)
    open_id = f"{topic}-open"
    world.outside.hang_transaction(topic, 3, transactional_id=open_id)
    world.produce(topic, 2, tag="behind")
    sidecar = world.sidecar(RECOVERY__HANGING_TRANSACTION_SECONDS=3)
    row.inflicted()
    application = world.application(sidecar)
    for number in range(8):
        _transaction(world, busy, 2, commit=True, tag=f"b{number}-")
        state = sidecar.api().partition(topic)
        if state is not None and state.conditions:
            break
    state = sidecar.await_partition(topic, conditions=["hanging_transaction"])
    row.judged(state.conditions[0], state.state)
    assert (state.state, state.next, state.lag_records) == ("delivering", 5, 0)
    other = sidecar.api().partition(busy)
    assert other is not None
    assert other.conditions == []
    assert _metric(sidecar, "hanging_transaction_seconds", topic) >= 3
    assert _metric(sidecar, "hanging_transaction_seconds", busy) == 0
    world.outside.terminate_transaction(open_id)
    row.cured()
    end = world.outside.bounds(topic).end
    sidecar.await_partition(topic, caught_up=True, next=end, conditions=[])
    row.delivering()
    world.deliver_all(sidecar, (busy, 0))
    application.stop()
    assert _metric(sidecar, "hanging_transaction_seconds", topic) == 0
    row.account(world.account())
    assert sidecar.events("condition_appeared", topic=busy) == []


def _metric(sidecar: SidecarProcess, name: str, topic: str) -> float:
    _, text = sidecar.admin().text("/metrics")
    (value,) = re.findall(rf'^cursor_sidecar_{name}{{[^}}]*topic="{topic}".*}} (\S+)$', text, re.M)
    return float(value)


@pytest.mark.fault(row="holes/compaction", bench="K1", expected="caught_up", cases=(5,))
def test_a_compacted_topic_has_holes_and_no_gap(world: World, row: Row) -> None:
    """Compaction removed records, receipts' own ones among them: the overlap is inconclusive
    there, verified by what is left, and everything visible is delivered."""
    topic = world.topic(
        cleanup_policy="compact",
        segment_bytes="1048576",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.001",
        max_compaction_lag_ms="100",
        delete_retention_ms="0",
    )
    first = values(200, "old", size=50)
    world.produce(topic, first, noted=False)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 200) == 200
    sidecar.terminate()
    world.produce(topic, values(200, "new", size=50), noted=False)
    # A segment is compacted once it is not the active one.
    world.produce(topic, values(1, "roll"), noted=False)
    wait_until(lambda: _rolled(world, topic) < 300, "the cleaner has run", timeout_seconds=40)
    left = _left(world, topic)
    for offset in range(200):  # these were applied before
        world.produced.note(topic, 0, [offset], [first[offset].value])
    end = world.outside.bounds(topic).end
    sidecar.start()
    application = world.application(sidecar)
    state = sidecar.await_partition(topic, caught_up=True, next=end)
    row.observe("caught_up", state.state)
    application.stop()
    assert sidecar.api().gaps() == []
    # The cleaner goes on: what it took after it was read here nobody is owed.
    owed = _left(world, topic).keys() | {effect.offset for effect in world.ledger.effects()}
    for offset in left.keys() & owed:
        world.produced.note(topic, 0, [offset], [left[offset]])
    row.account(world.account())


@pytest.mark.fault(row="holes/trailing-tombstone", bench="K1", expected="caught_up", cases=(17,))
@pytest.mark.parametrize("stood", ["before", "behind"])
def test_a_trailing_tombstone_that_was_compacted_away_is_caught_up(
    world: World, row: Row, stood: str
) -> None:
    """Nothing is left between the cursor and the end but a marker, and no page will ever say so:
    caught up, lag 0 and committed all the same; also where the tombstones were the last ones
    applied, so that the overlap has nothing to compare any more."""
    topic = world.topic(
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.001",
        max_compaction_lag_ms="100",
        delete_retention_ms="0",
    )
    tombstones = [Record(None, key=f"k{number}".encode()) for number in range(7)]
    sidecar = world.sidecar()
    world.produce(topic, values(7))
    assert world.apply(sidecar, topic, 7) == 7
    if stood == "behind":
        world.produce(topic, tombstones)
        assert world.apply(sidecar, topic, 7) == 14
        sidecar.terminate()
    else:
        sidecar.terminate()
        world.produce(topic, tombstones, noted=False)

    def swept() -> bool:
        """The active segment is never cleaned; what makes it roll here is aborted."""
        _transaction(world, topic, 1, commit=False, tag="roll")
        return not world.outside.read(topic, start=0, committed=True)

    wait_until(swept, "no record and no tombstone is left", timeout_seconds=60)
    end = world.outside.bounds(topic).end
    assert end > 14
    sidecar.start()
    row.inflicted()
    state = sidecar.await_partition(topic, caught_up=True, next=end, lag_records=0, committed=end)
    row.judged("caught_up", state.state)
    assert sidecar.api().take(0.5) is None
    assert sidecar.api().gaps() == []
    row.account(world.account())
    world.produce(topic, values(3, "new"))
    assert world.apply(sidecar, topic, 3) == end + 3


def _rolled(world: World, topic: str) -> int:
    """Records left; one more each time, so that there is always a new active segment."""
    world.produce(topic, values(1, "roll"), noted=False)
    return len(_left(world, topic))


def _left(world: World, topic: str) -> dict[int, bytes | None]:
    """What compaction has left so far."""
    found = world.outside.read(topic, start=0)
    return {offset: m.value() for m in found if (offset := m.offset()) is not None}


@pytest.mark.fault(
    row="retention-loss/among-holes",
    bench="K1",
    expected="retention_loss",
    cases=(5,),
    within_seconds=2,
)
def test_holes_and_a_real_loss_in_one_run_are_told_apart(world: World, row: Row) -> None:
    """Transactions and one real `delete-records`: one gap, with the exact range."""
    topic = world.topic()
    world.produce(topic, 10)
    _transaction(world, topic, 5, commit=False, tag="a")
    world.produce(topic, 10, tag="mid")
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 15) == 21
    sidecar.terminate()
    _transaction(world, topic, 5, commit=True, tag="c")
    world.produce(topic, 10, tag="end")
    world.outside.delete_records(topic, 0, 28)
    sidecar.start()
    row.inflicted()
    application = world.application(sidecar)
    gap = sidecar.await_gap(topic)
    row.judged(gap.reason, "gap")
    assert (gap.reason, gap.first, gap.end) == ("retention_loss", 21, 28)
    sidecar.api().resolve(gap.id, "accepted")
    row.cured()
    sidecar.await_partition(topic, caught_up=True)
    row.delivering()
    application.stop()
    row.account(world.account(sidecar.api().gaps()))


def _transaction(world: World, topic: str, count: int, *, commit: bool, tag: str) -> None:
    batch = values(count, tag)
    offsets = world.outside.transaction(topic, batch, commit=commit)
    if commit:
        world.note(topic, 0, offsets, batch)
