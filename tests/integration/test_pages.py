"""Pages and reports as the contract has them, on a whole sidecar."""

import json
import os
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.benches.topics import Record
from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.api import Api, Page, Refused
from tests.harness.world import World, values
from tests.kafka.poison import produce_with_header_name

pytestmark = pytest.mark.kafka


def _take(api: Api, **options: Any) -> Page:
    page = api.take(30.0, **options)
    assert page is not None
    return page


def _first_page(world: World, records: int = 10, **settings: Any) -> tuple[str, Api, Page]:
    topic = world.topic()
    world.produce(topic, records)
    api = world.sidecar(**settings).api()
    return topic, api, _take(api)


def test_a_page_holds_what_was_produced_byte_for_byte(world: World) -> None:
    """Tombstones, empty values, keys that are not UTF-8, headers with duplicate names and nulls:
    each arrives as it was written, under a key of topic ID, lineage, partition and offset."""
    topic = world.topic()
    records = [
        Record(b"plain", key=b"k", timestamp_ms=1_764_495_600_000),
        Record(None, key=b"tombstone"),
        Record(b"", key=b""),
        Record(b"\x00\xff\xfe", key=b"\xc3\x28"),
        Record(b"h", headers=[("trace", b"\xff"), ("trace", None), ("", b"")]),
    ]
    world.produce(topic, records)
    api = world.sidecar().api()
    page = _take(api)
    while len(page.records) < len(records):  # the first fetch may have come between two of them
        api.applied(page)
        more = _take(api)
        page = msgspec.structs.replace(page, records=[*page.records, *more.records])
    seen = page.records
    assert [(r.key, r.value) for r in seen] == [(r.key, r.value) for r in records]
    assert seen[0].timestamp == 1_764_495_600_000
    assert seen[4].headers == [("trace", b"\xff"), ("trace", None), ("", b"")]
    identity = world.outside.topic_id(topic)
    assert [r.idempotency_key for r in seen] == [f"{identity}/0/0/{i}" for i in range(5)]
    assert not any(r.redelivered for r in seen)


@pytest.mark.fault(
    row="blocked-record/header-name", bench="K1", expected="blocked_record", within_seconds=2
)
def test_a_header_name_that_is_not_utf8_holds_at_its_offset_and_skips_nothing(
    world: World, row: Row
) -> None:
    """What the client cannot read is `blocked_record`, by name, at that offset: what lies before
    it is delivered and committed, what lies behind it is not."""
    topic = world.topic()
    good = values(5)
    world.produce(topic, good)
    sidecar = world.sidecar()
    application = world.application(sidecar)
    sidecar.await_partition(topic, next=5, caught_up=True)
    produce_with_header_name(world.kafka.bootstrap, topic, b"\xff\xfe", b"poison")
    row.inflicted()
    world.produce(topic, values(5, "behind"), noted=False)
    state = sidecar.await_partition(topic, state="held", next=5)
    row.judged(state.reason or "none", state.state)
    application.stop()
    assert "5" in state.detail
    (hold,) = sidecar.api().holds()
    assert (hold.topic, hold.verdict) == (topic, "blocked_record")
    wait_until(lambda: world.committed(topic) == 5, "what lies before it is committed")
    sidecar.terminate()
    sidecar.start()
    sidecar.await_partition(topic, state="held", reason="blocked_record", next=5)
    (again,) = sidecar.api().holds()
    wait_until(lambda: sidecar.api().holds() == [again], "the hold keeps its id")
    assert row.account(world.account()).applied == 5


def test_a_page_that_is_late_is_offered_again_and_its_report_taken_until_then(
    world: World,
) -> None:
    """After the deadline a report still counts, until a later page for the same records is out;
    then it is refused by name, and the later page's report counts."""
    topic, api, first = _first_page(world, DELIVERY__DEADLINE_SECONDS=1)
    second = _take(api)  # comes once the deadline has passed
    assert second.page != first.page
    assert (second.attempt, second.offsets) == (2, first.offsets)
    assert all(r.redelivered for r in second.records)
    with pytest.raises(Refused) as refused:
        api.applied(first)
    assert (refused.value.status, refused.value.kind) == (409, "page-superseded")
    assert world.checkpoint(topic)["next"] == "0"
    assert api.applied(second).next == 10


def test_a_late_report_is_taken_while_no_later_page_is_out(world: World) -> None:
    """Past the deadline, and nobody asked for a page since: the report is taken."""
    _, api, page = _first_page(world, DELIVERY__DEADLINE_SECONDS=0.2)
    wait_until(lambda: _past(page), "the deadline has passed")
    assert api.applied(page).next == 10
    assert api.take(0.3) is None


def _past(page: Page) -> bool:
    return datetime.now(UTC) > datetime.fromisoformat(page.deadline)


def test_the_same_report_twice_gets_the_same_answer(world: World) -> None:
    """And promotes once."""
    _, api, page = _first_page(world)
    first = api.applied(page, committed=True)
    again = api.applied(page, committed=True)
    assert (first.applied, first.next, first.committed) == (9, 10, 10)
    assert again == first


def test_a_report_waits_for_the_commit_when_it_is_asked_to(world: World) -> None:
    """`?wait=committed` answers once the group's commit is made, also with a long interval."""
    topic, api, page = _first_page(
        world, KAFKA__COMMIT_INTERVAL_SECONDS=5, KAFKA__SESSION_TIMEOUT_SECONDS=6
    )
    assert api.applied(page, committed=True).committed == 10
    assert world.committed(topic) == 10


def test_a_report_through_an_offset_promotes_up_to_it(world: World) -> None:
    """`through` resolves the first part of a page; the rest stays unresolved and can be reported
    later, in the same page."""
    _, api, page = _first_page(world)
    answer = api.applied(page, through=3)
    assert (answer.applied, answer.next) == (3, 4)
    assert answer.unresolved == [4, 5, 6, 7, 8, 9]
    assert api.applied(page).next == 10


def test_outcomes_out_of_order_promote_only_the_contiguous_head(world: World) -> None:
    """Receipts beyond an unresolved record wait for it; the first terminal outcome stands."""
    topic, api, page = _first_page(world)
    answer = api.each(page, {3: "applied", 5: "dropped", 0: "duplicate"})
    assert (answer.next, answer.unresolved) == (1, [1, 2, 4, 6, 7, 8, 9])
    answer = api.each(page, {2: "applied", 1: "dead_lettered", 3: "dropped"})
    assert (answer.next, answer.unresolved) == (4, [4, 6, 7, 8, 9])
    assert world.checkpoint(topic)["next"] == "4"
    assert api.applied(page).next == 10


def test_outcomes_beyond_an_unresolved_record_survive_a_kill(world: World) -> None:
    """What has a durable outcome behind the head is not offered again after a `kill -9`; the
    unresolved record is, flagged."""
    topic = world.topic()
    world.produce(topic, 6)
    sidecar = world.sidecar(static=True)
    page = _take(sidecar.api())
    sidecar.api().each(page, {0: "applied", 2: "applied", 3: "applied"})
    sidecar.kill()
    sidecar.start()
    again = _take(sidecar.api())
    assert again.offsets == [1, 4, 5]
    assert all(r.redelivered for r in again.records)
    assert sidecar.api().applied(again).next == 6
    assert world.checkpoint(topic)["next"] == "6"


def test_a_retried_record_comes_again_and_the_others_do_not(world: World) -> None:
    """`retry` is not terminal: the record is offered again under its key, flagged, in a page of
    another id; commits stop below it meanwhile."""
    topic, api, page = _first_page(world)
    outcomes = {offset: "retry" if offset == 4 else "applied" for offset in page.offsets}
    answer = api.each(page, outcomes)
    assert (answer.next, answer.unresolved) == (4, [4])
    again = _take(api)
    assert again.page != page.page
    assert (again.offsets, again.attempt) == ([4], 2)
    assert again.records[0].redelivered
    assert again.records[0].idempotency_key == page.records[4].idempotency_key
    committed = world.committed(topic)
    assert committed is not None
    assert committed <= 4
    assert api.applied(again, committed=True).committed == 10


def test_offsets_that_are_not_in_the_page_are_refused_and_nothing_is_recorded(
    world: World,
) -> None:
    """422, for one foreign offset among good ones too."""
    topic, api, page = _first_page(world)
    for body in (
        {"outcomes": [{"offset": 0, "outcome": "applied"}, {"offset": 10, "outcome": "applied"}]},
        {"outcome": "applied", "through": 10},
    ):
        with pytest.raises(Refused) as refused:
            api.report(page.page, body)
        assert (refused.value.status, refused.value.kind) == (422, "offsets-unknown")
    assert world.checkpoint(topic)["next"] == "0"
    with pytest.raises(Refused) as refused:
        api.report("no-such-page", {"outcome": "applied"})
    assert (refused.value.status, refused.value.kind) == (409, "page-lost")
    with pytest.raises(Refused) as refused:
        api.report(page.page, {"outcome": "done"})
    assert refused.value.status == 400
    assert api.applied(page).next == 10


def test_pages_over_a_unix_socket(world: World, tmp_path: Path) -> None:
    """`API__LISTEN=unix:…` serves the same API."""
    topic = world.topic()
    world.produce(topic, 10)
    sidecar = world.sidecar(static=True, API__LISTEN=f"unix:{tmp_path}/api")
    assert sidecar.address.startswith("unix:")
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.kill()
    sidecar.start()  # the socket that the killed process left is no obstacle
    assert sidecar.api().status().group == world.group


def test_a_drain_finishes_what_is_out_and_flags_nothing_that_was_not(world: World) -> None:
    """`/v1/drain`: no more pages, the membership stays, the outcome of the page that is out is
    taken and committed; the next life flags nothing."""
    topic = world.topic()
    world.produce(topic, 20)
    sidecar = world.sidecar(KAFKA__COMMIT_INTERVAL_SECONDS=5)
    api = sidecar.api()
    page = _take(api, records_max=10)
    draining = threading.Thread(target=sidecar.api().drain)
    draining.start()
    wait_until(lambda: _refuses_pages(sidecar.api()), "pages are refused")
    assert api.applied(page).next == 10
    draining.join(15)
    assert not draining.is_alive()
    assert world.committed(topic) == 10
    assert world.outside.members(world.group) == 1
    sidecar.terminate()
    sidecar.start()
    again = _take(sidecar.api())
    assert again.first == 10
    assert not any(r.redelivered for r in again.records)


def _refuses_pages(api: Api) -> bool:
    try:
        return api.take(0.05) is not None
    except Refused as refused:
        return refused.kind == "draining"


@pytest.mark.fault(
    row="application/one-page-never-reported", bench="K1", expected="delivering", cases=(26, 27, 28)
)
def test_a_slow_application_holds_nobody_up_but_itself(world: World, row: Row) -> None:
    """One page of one partition is never reported: the other partition is delivered to its end,
    and commits of the first stop at its head."""
    topic = world.topic(2)
    for partition in range(2):
        world.produce(topic, 1_200, partition)
    sidecar = world.sidecar()
    stuck = sidecar.api().take(30.0, topic=topic, partition=0)
    assert stuck is not None
    application = world.application(sidecar)
    world.deliver_all(sidecar, (topic, 1))
    application.stop()
    state = sidecar.await_partition(topic, 0, state="delivering")
    assert state.next == 0
    assert not state.caught_up
    assert world.committed(topic, 0) in (None, 0)
    row.observe(state.state, state.state)
    _, metrics = sidecar.admin().text("/metrics")
    oldest = "cursor_sidecar_oldest_unresolved_timestamp_seconds{"
    (head,) = [line for line in metrics.splitlines() if line.startswith(oldest)]
    assert 'partition="0"' in head
    row.account(world.account(unfinished_from={(topic, 0): 0}))


def test_sigterm_waits_for_the_outcome_of_the_page_that_is_out(world: World) -> None:
    """Within the deadline the report is taken, promoted and committed; then it leaves, exit 0."""
    topic, api, page = _first_page(world)
    (sidecar,) = world.sidecars
    os.kill(sidecar.pid, signal.SIGTERM)
    sidecar.await_event("sidecar_stopping")
    assert api.applied(page).next == 10
    assert sidecar.ended(15) == 0
    assert world.committed(topic) == 10
    assert world.outside.members(world.group) == 0


def test_sigterm_does_not_wait_forever_for_an_outcome(world: World) -> None:
    """Nobody reports: the deadline ends it, and what was not reported stays uncommitted."""
    topic, _, _ = _first_page(world, SHUTDOWN__DEADLINE_SECONDS=2)
    (sidecar,) = world.sidecars
    code, seconds = sidecar.terminate()
    assert code == 0
    assert seconds < 4
    assert world.committed(topic) in (None, 0)


@pytest.mark.parametrize("how", ["shutdown", "rebalance"])
@pytest.mark.fault(row="application/retry", bench="K1", expected="delivering", cases=(39,))
def test_a_record_that_is_being_retried_is_not_handled_by_an_end(
    world: World, how: str, row: Row
) -> None:
    """Told to end, or rebalanced, while records are being retried: they are neither dropped nor
    dead-lettered, stay uncommitted, and come again, flagged, to whoever has the partition."""
    topic = world.topic()
    world.produce(topic, 10)
    sidecar = world.sidecar()
    page = _take(sidecar.api())
    outcomes = {offset: "applied" if offset < 4 else "retry" for offset in page.offsets}
    assert sidecar.api().each(page, outcomes).unresolved == [4, 5, 6, 7, 8, 9]
    row.inflicted()
    if how == "shutdown":
        assert sidecar.terminate()[0] == 0
        owner = sidecar
        owner.start()
    else:
        owner = world.sidecar()
        assert sidecar.terminate()[0] == 0
    again = _take(owner.api())
    row.judged("delivering", "delivering")
    assert again.offsets == [4, 5, 6, 7, 8, 9]
    assert all(record.redelivered for record in again.records)
    assert world.committed(topic) == 4
    # The ledger holds what was really done: nothing of what was to be retried.
    world.ledger.write(msgspec.structs.replace(page, records=page.records[:4]), "before")
    world.ledger.write(again, "after")
    assert owner.api().applied(again, committed=True).committed == 10
    assert row.account(world.account()).applied == 10


@pytest.mark.fault(
    row="blocked-record/too-large",
    bench="K1",
    expected="blocked_record",
    cases=(30,),
)
def test_a_record_larger_than_the_client_takes_holds_there(world: World, row: Row) -> None:
    """It is named with its offset, what lies before it is delivered and committed, the other
    partition goes on, and nothing is skipped; taken by a client that may, it is delivered. That it
    could come was said at the start, and by the doctor, with the topic and the setting."""
    topic = world.topic(2)
    for partition in range(2):
        world.produce(topic, 20, partition)
    world.produce(topic, values(1, "large", size=500_000), 1)
    for partition in range(2):
        world.produce(topic, 20, partition, tag="behind")
    small = {
        "receive.message.max.bytes": "20000",
        "fetch.max.bytes": "10000",
        "message.max.bytes": "1000",
        "max.partition.fetch.bytes": "1000",
    }
    assert _record_size(world) is None
    warned = _record_size(world, KAFKA__CLIENT=json.dumps(small))
    assert warned is not None
    sidecar = world.sidecar(KAFKA__CLIENT=json.dumps(small))
    row.inflicted()
    application = world.application(sidecar)
    said = str(sidecar.await_event("kafka_client_spoke", level="warning")["text"])
    for words in (warned, said):
        for word in (topic, "max.message.bytes", "receive.message.max.bytes", "19488"):
            assert word in words
    state = sidecar.await_partition(topic, 1, state="held", timeout_seconds=40)
    row.judged(state.reason or "none", state.state)
    assert "20" in state.detail
    sidecar.await_partition(topic, 1, state="held", next=20, committed=20)
    world.deliver_all(sidecar, (topic, 0))
    sidecar.terminate()
    sidecar.start(KAFKA__CLIENT="{}")
    row.cured()
    world.deliver_all(sidecar, (topic, 1))
    row.delivering()
    application.stop()
    assert row.account(world.account()).applied == 81


def _record_size(world: World, **settings: object) -> str | None:
    """What the doctor says of the topic's sizes."""
    checks = json.loads(world.command("doctor", "-o", "json", **settings).stdout)["checks"]
    (topic,) = world.topics
    for one in checks:
        if one["check"] == "record size" and topic in one["detail"]:
            return f"{one['detail']}; {one['mended_by']}"
    return None


@pytest.mark.fault(row="records/timestamps", bench="K1", expected="no forecast", cases=(31,))
def test_timestamps_that_are_none_are_no_ages(world: World, row: Row) -> None:
    """5, and seconds in place of milliseconds: delivered as they are, and no time until records
    are lost is computed from them."""
    topic = world.topic(retention_ms="600000000000000")
    stamps = (5, 1_764_495_600)
    batch = [Record(f"v{n}".encode(), timestamp_ms=stamp) for n, stamp in enumerate(stamps)]
    world.produce(topic, batch)
    sidecar = world.sidecar()
    page = _take(sidecar.api())
    assert [r.timestamp for r in page.records] == list(stamps)
    _, metrics = sidecar.admin().text("/metrics")
    forecasts = [x for x in metrics.splitlines() if x.startswith("cursor_sidecar_seconds_to_loss{")]
    row.observe("no forecast" if not forecasts else "forecast", "delivering")
    world.ledger.write(page, "test")
    sidecar.api().applied(page)
    row.account(world.account())
