"""What people decide by command: beside a live owner, with nobody running, and for the next one."""

import json
import time
from typing import Any

import pytest

from tests.faults.rows import Row
from tests.harness.world import World, values
from tests.kafka.poison import produce_with_header_name

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

ASSENT = ("--by", "on-call", "--why", "a test")


def _gap(world: World) -> tuple[str, str]:
    """Applied up to 10 of 40, and the log begins at 20."""
    topic = world.topic()
    world.produce(topic, 40)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.terminate()
    world.outside.delete_records(topic, 0, 20)
    sidecar.start()
    return topic, sidecar.await_gap(topic).id


def _run(world: World, *arguments: str, **settings: object) -> Any:
    result = world.command(*arguments, "-o", "json", **settings)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_gap_is_acknowledged_and_resolved_beside_its_live_owner(world: World) -> None:
    """The owner hears of both within a second; without `--execute` nothing happens."""
    topic, gap = _gap(world)
    (sidecar,) = world.sidecars
    dry = world.command("gaps", "resolve", gap, "--resolution", "accepted", *ASSENT)
    assert "open → resolved" in dry.output
    assert "goes on at 20" in dry.output
    assert "Dry run" in dry.output
    mark = sidecar.mark()
    acked = _run(world, "gaps", "ack", gap, *ASSENT, "--execute")
    assert (acked["prior"]["state"], acked["new"]["state"]) == ("open", "acknowledged")
    heard = sidecar.await_event("gap_changed", after=mark, timeout_seconds=5)
    assert (heard["what"], heard["by"]) == ("acknowledged", "on-call")
    began = time.monotonic()
    resolved = _run(world, "gaps", "resolve", gap, "--resolution", "accepted", *ASSENT, "--execute")
    assert resolved["new"]["resolution"]["resume_at"] == 20
    assert resolved["new"]["resolution"]["by"] == "on-call"
    sidecar.await_partition(topic, state="delivering", next=20)
    assert time.monotonic() - began < 10
    settled = sidecar.await_event("request_settled", after=mark)
    assert (settled["kind"], settled["by"], settled["state"]) == ("resolve", "on-call", "done")
    assert world.apply(sidecar, topic, 20) == 40
    assert sidecar.api().gaps("open") == []


def test_a_refusal_of_the_owner_is_the_commands(world: World) -> None:
    """Exit 1 with its name, and the gap stands."""
    _, gap = _gap(world)
    refused = world.command(
        *("gaps", "resolve", gap, "--resolution", "ignored", *ASSENT, "--execute")
    )
    assert refused.exit_code == 1
    assert refused.stderr.startswith("resolution-impossible: ")
    assert _run(world, "gaps", "list")["gaps"][0]["state"] == "open"


def test_a_gap_is_decided_with_no_sidecar_running(world: World) -> None:
    """By comparison in the store; the next owner finds the commit behind, and commits."""
    topic, gap = _gap(world)
    (sidecar,) = world.sidecars
    sidecar.terminate()
    _run(world, "gaps", "ack", gap, *ASSENT, "--execute")
    done = _run(world, "gaps", "resolve", gap, "--resolution", "accepted", *ASSENT, "--execute")
    assert (done["prior"]["state"], done["new"]["state"]) == ("acknowledged", "resolved")
    again = world.command("gaps", "resolve", gap, "--resolution", "accepted", *ASSENT, "--execute")
    assert (again.exit_code, again.stderr.partition(":")[0]) == (1, "gap-changed")
    sidecar.start()
    sidecar.await_partition(topic, state="delivering", next=20, committed=20)
    assert sidecar.verdicts(topic)[-1] == "commit_behind"
    assert world.apply(sidecar, topic, 20) == 40


@pytest.mark.fault(row="requests/hold-answered", bench="K1", expected="start_refused")
def test_a_hold_is_answered_with_no_sidecar_running_and_executed_by_the_next_owner(
    world: World, row: Row
) -> None:
    """It has the id that the sidecar knew it by, and the answer counts for it alone."""
    topic = world.topic(2)
    world.produce(topic, 10)
    sidecar = world.sidecar(RECOVERY__START="refuse")
    state = sidecar.await_partition(topic, 0, state="held", reason="start_refused")
    row.observe(str(state.reason), state.state)
    known = {hold.partition: hold.id for hold in sidecar.api().holds()}
    sidecar.terminate()
    settings = {"RECOVERY__START": "refuse"}
    listed = _run(world, "holds", "list", **settings)["holds"]
    assert {hold["partition"]: hold["id"] for hold in listed} == known
    shown = world.command("holds", "show", known[0], **settings)
    assert "answer latest" in shown.output
    answered = ("holds", "answer", known[0], "--answer", "latest", *ASSENT)
    assert "Dry run" in world.command(*answered, **settings).output
    body = _run(world, *answered, "--execute", **settings)
    assert body["requests"][0]["state"] == "pending"
    sidecar.start()
    sidecar.await_partition(topic, 0, state="delivering", next=10)
    sidecar.await_partition(topic, 1, state="held", reason="start_refused")
    everything = ("holds", "answer", "--all", "--answer", "earliest", *ASSENT, "--execute")
    assert world.command(*everything, **settings).exit_code == 0
    sidecar.await_partition(topic, 1, state="delivering", next=0)


@pytest.mark.fault(row="condition/paused", bench="K1", expected="paused")
def test_a_partition_is_paused_and_continued_by_command(world: World, row: Row) -> None:
    """Across a restart; the other one goes on."""
    topic = world.topic(2)
    for partition in range(2):
        world.produce(topic, 10, partition)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 4) == 4
    paused = _run(world, "pause", topic, "0", *ASSENT, "--execute")
    assert (paused["prior"], paused["new"]) == ("delivered", "paused by on-call: a test")
    assert paused["request"]["state"] == "done"
    assert sidecar.api().take(0.5, topic=topic, partition=0) is None
    assert world.apply(sidecar, topic, 4, 1) == 4
    sidecar.terminate()
    sidecar.start()
    state = sidecar.await_partition(topic, 0, state="delivering", next=4)
    (condition,) = state.conditions
    row.observe(condition, state.state)
    assert sidecar.api().take(0.5, topic=topic, partition=0) is None
    _run(world, "continue", topic, "0", *ASSENT, "--execute")
    row.cured()
    assert world.apply(sidecar, topic, 6) == 10
    row.delivering()
    sidecar.await_partition(topic, 0, conditions=[])
    assert world.apply(sidecar, topic, 6, 1) == 10
    row.account(world.account())


@pytest.mark.fault(
    row="requests/skip", bench="K1", expected="blocked_record", covers=("coverage_unknown",)
)
def test_a_record_that_cannot_be_read_is_skipped_by_command(world: World, row: Row) -> None:
    """Refused for another offset; kept as a gap that was accepted, with who and why; what lies
    behind it is delivered, also after a restart."""
    topic = world.topic()
    world.produce(topic, values(5))
    produce_with_header_name(world.kafka.bootstrap, topic, b"\xff\xfe", b"poison")
    world.produce(topic, values(5, "behind"))
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 5) == 5
    state = sidecar.await_partition(topic, state="held", reason="blocked_record", next=5)
    row.observe(str(state.reason), state.state)
    other = world.command("skip", topic, "0", "7", *ASSENT, "--execute")
    assert (other.exit_code, other.stderr.partition(":")[0]) == (1, "request-refused")
    body = _run(world, "skip", topic, "0", "5", *ASSENT, "--execute")
    assert body["request"]["state"] == "done"
    row.cured()
    assert world.apply(sidecar, topic, 5) == 11
    row.delivering()
    (gap,) = _run(world, "gaps", "list", "--all")["gaps"]
    assert (gap["first"], gap["end"], gap["state"]) == (5, 6, "resolved")
    assert gap["reason"] == "coverage_unknown"
    assert (gap["resolution"]["by"], gap["resolution"]["why"]) == ("on-call", "a test")
    sidecar.terminate()
    sidecar.start()
    sidecar.await_partition(topic, state="delivering", next=11)


@pytest.mark.fault(row="condition/replaying", bench="K1", expected="replaying")
def test_an_interval_is_delivered_again_by_command(world: World, row: Row) -> None:
    """Flagged, under the keys of old, before anything new; `next` and the commit do not move, and
    its progress survives a restart."""
    topic = world.topic()
    world.produce(topic, 30)
    sidecar = world.sidecar()
    api = sidecar.api()
    keys: dict[int, str] = {}
    while len(keys) < 20:
        page = api.take(30.0, records_max=20 - len(keys), topic=topic, partition=0)
        assert page is not None
        keys |= {record.offset: record.idempotency_key for record in page.records}
        world.ledger.write(page, "test")
        api.applied(page, committed=True)
    refused = world.command("replay", topic, "0", "--from", "5", "--to", "21", *ASSENT)
    assert (refused.exit_code, refused.stderr.partition(":")[0]) == (1, "request-refused")
    body = _run(world, "replay", topic, "0", "--from", "5", "--to", "15", *ASSENT, "--execute")
    assert (body["prior"], body["new"]) == ("next 20", "[5, 15) delivered again")
    assert body["request"]["detail"] == "it has begun; `status` shows how far it is"
    page = api.take(30.0, records_max=4, topic=topic, partition=0)
    assert page is not None
    assert page.offsets == [5, 6, 7, 8]
    assert all(record.redelivered for record in page.records)
    assert [record.idempotency_key for record in page.records] == [keys[o] for o in page.offsets]
    assert api.applied(page).next == 20
    state = sidecar.await_partition(topic, next=20, committed=20)
    (condition,) = state.conditions
    row.observe(condition, state.state)
    assert not state.caught_up
    sidecar.terminate()
    sidecar.start()
    api = sidecar.api()
    again: list[int] = []
    while not again or again[-1] < 14:
        page = api.take(30.0, topic=topic, partition=0)
        assert page is not None
        again += page.offsets
        assert all(record.redelivered for record in page.records)
        api.applied(page)
    assert again == list(range(9, 15))
    assert world.apply(sidecar, topic, 10) == 30
    assert sidecar.await_partition(topic, next=30, caught_up=True).conditions == []
