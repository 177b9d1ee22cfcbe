"""What people run, on real servers: with no sidecar, and beside a live one."""

import json
from typing import Any

import pytest
import yaml

from tests.harness.world import World, values

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


def test_status_of_a_whole_group_beside_its_members_and_without_any(world: World) -> None:
    """Every partition, also those of other members and those that nobody has; who has it as Kafka
    says; the same fields as a sidecar's own, in JSON and YAML."""
    topic = world.topic(2)
    world.produce(topic, 10)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 4) == 4
    sidecar.await_partition(topic, 1, state="delivering", committed=0)
    member = sidecar.api().status().member
    body = json.loads(world.command("status", "-o", "json").stdout)
    first, second = body["partitions"]
    known = {"topic": topic, "partition": 0, "state": "delivering", "verdict": "resume"}
    numbers = {"applied": 3, "next": 4, "committed": 4, "log_end": 10, "lag_records": 6}
    assert first.items() >= {**known, **numbers, "caught_up": False, "gap": None}.items()
    assert (second["partition"], second["caught_up"]) == (1, True)
    assert {one["consumer_id"] for one in body["partitions"]} == {member}
    assert body["status"]["assigned"] == 2
    its_own = world.command("status", "-o", "json", "--url", sidecar.admin_address)
    assert set(json.loads(its_own.stdout)["partitions"][0]) <= set(first)
    sidecar.terminate()
    header, line, _ = world.command("status").output.splitlines()
    columns = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    assert header.split()[:8] == [*columns, "CONSUMER-ID", "HOST"]
    shown = dict(zip(header.split(), line.split(maxsplit=len(header.split()) - 1), strict=True))
    assert shown["STATE"] == "waiting"
    assert (shown["CONSUMER-ID"], shown["VERDICT"], shown["APPLIED"]) == ("-", "resume", "3")
    assert yaml.safe_load(world.command("status", "-o", "yaml").output)["status"]["ready"]


def test_a_gap_is_listed_and_shown_with_no_sidecar(world: World) -> None:
    """From the store alone; and a loss that no sidecar has seen yet is told by `status`."""
    topic = world.topic(2)
    for partition in range(2):
        world.produce(topic, 30, partition)
    sidecar = world.sidecar()
    for partition in range(2):
        assert world.apply(sidecar, topic, 10, partition) == 10
    sidecar.terminate()
    world.outside.delete_records(topic, 0, 20)
    sidecar.start()
    gap = sidecar.await_gap(topic)
    sidecar.terminate()
    world.outside.delete_records(topic, 1, 15)
    (listed,) = json.loads(world.command("gaps", "list", "-o", "json").output)["gaps"]
    assert (listed["id"], listed["first"], listed["end"]) == (gap.id, 10, 20)
    shown = world.command("gaps", "show", gap.id)
    assert "[10, 20)" in shown.output
    unknown = world.command("gaps", "show", "nothing")
    assert (unknown.exit_code, unknown.stderr.partition(":")[0]) == (1, "gap-unknown")
    first, second = json.loads(world.command("status", "-o", "json").output)["partitions"]
    assert (first["state"], first["reason"], first["gap"]) == ("gap", "retention_loss", gap.id)
    assert (second["state"], second["reason"], second["gap"]) == ("gap", "retention_loss", None)
    assert "[10, 20)" in first["detail"]
    assert "5 offsets from 10 on are gone" in second["detail"]


def explained(world: World, topic: str, partition: int = 0, **settings: object) -> dict[str, Any]:
    shown = world.command("explain", topic, str(partition), "-o", "json", **settings)
    assert shown.exit_code == 0
    answer: dict[str, Any] = json.loads(shown.output)
    return answer


def marks(answer: dict[str, Any], line: int = 0) -> dict[str, int]:
    found = answer["lines"][line]["marks"]
    return {name: mark["offset"] for mark in found for name in mark["names"]}


def test_a_healthy_partition_is_explained_beside_its_sidecar_and_without_it(world: World) -> None:
    """The line in order with its numbers, the verdict, nothing to do while somebody has it; and
    what to start when nobody has."""
    topic = world.topic()
    world.produce(topic, 100)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 80) == 80
    beside = explained(world, topic)
    assert (beside["verdict"], beside["next"]) == ("resume", [])
    assert beside["member"]["id"] == sidecar.api().status().member
    sidecar.terminate()
    alone = explained(world, topic)
    line = {"log_start": 0, "anchor": 16, "applied": 79, "next": 80, "committed": 80}
    assert marks(alone) == {**line, "baseline": 0, "log_end": 100}
    offsets = [mark["offset"] for mark in alone["lines"][0]["marks"]]
    assert offsets == sorted(offsets)
    assert (alone["verdict"], alone["member"]) == ("resume", None)
    (step,) = alone["next"]
    assert step["command"] == "cursor-sidecar run"
    assert alone["audit"][-1]["what"].startswith("claimed")
    in_yaml = yaml.safe_load(world.command("explain", topic, "0", "-o", "yaml").output)
    for name in ("verdict", "lines", "evidence", "next", "audit"):
        assert in_yaml[name] == alone[name]
    shown = world.command("explain", topic, "0").output
    for text in ("16 ┼ anchor", "80 ┼ next, committed", "not yet applied: 20", "resume"):
        assert text in shown


def test_a_gap_is_explained_with_what_may_be_done_about_it(world: World) -> None:
    """Before a sidecar saw it, open, and acknowledged: the interval on the line, and only those
    resolutions that would be taken now, with the offset they lead to."""
    topic = world.topic()
    world.produce(topic, 50)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.terminate()
    world.outside.delete_records(topic, 0, 30)
    unseen = explained(world, topic)
    assert (unseen["verdict"], unseen["gap"]) == ("retention_loss", None)
    assert marks(unseen).items() >= {"gap_first": 10, "gap_end": 30, "log_start": 30}.items()
    assert [step["command"] for step in unseen["next"]] == ["cursor-sidecar run"]
    sidecar.start()
    gap = sidecar.await_gap(topic)
    seen = explained(world, topic)
    assert seen["gap"]["id"] == gap.id
    (stretch,) = [m for m in seen["lines"][0]["marks"] if m["then"] == "gap"]
    assert stretch["offset"] == 10
    typed = {step["command"]: step["leads_to"] for step in seen["next"]}
    who = "--by WHO --why TEXT --execute"
    accept = f"cursor-sidecar gaps resolve {gap.id} --resolution accepted {who}"
    assert typed[accept] == "reading goes on at 30"
    backfill = f"gaps resolve {gap.id} --resolution backfilled --resume-at 30 {who}"
    assert f"cursor-sidecar {backfill}" in typed
    assert not any("retracted" in one or "ignored" in one for one in typed)
    sidecar.api().acknowledge(gap.id)
    assert not any("gaps ack" in step["command"] for step in explained(world, topic)["next"])
    resolved = sidecar.api().resolve(gap.id, "accepted")
    assert resolved.state == "resolved"
    sidecar.await_partition(topic, state="delivering")
    assert explained(world, topic)["verdict"] in ("resume", "resume_at_boundary", "commit_behind")
    assert "not known to be covered: 20" not in world.command("explain", topic, "0").output


def test_a_hold_is_explained_with_its_answers(world: World) -> None:
    """A checkpoint of another scope: why, and the answer that lets it pass. And a topic that was
    created again: the earlier offsets and the new log are never on one line."""
    topic = world.topic()
    world.produce(topic, 20)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.terminate()
    held = explained(world, topic, KAFKA__ISOLATION_LEVEL="read_uncommitted")
    assert (held["partition"]["state"], held["verdict"]) == ("held", "scope_changed")
    assert "read_committed" in held["why"]
    (step,) = held["next"]
    answer = f"cursor-sidecar holds answer {held['partition']['hold']} --answer accept "
    assert step["command"].startswith(answer)
    world.outside.delete(topic)
    world.outside.create(topic, 1)
    world.outside.produce(topic, values(5))
    again = explained(world, topic)
    assert again["verdict"] == "topic_recreated"
    assert "log_end" not in marks(again)
    assert marks(again, 1).items() >= {"log_start": 0, "log_end": 5}.items()


def test_what_cannot_be_asked_is_explained_too(world: World) -> None:
    """No broker: unavailable, what the store knows, and what to look at."""
    topic = world.topic()
    world.produce(topic, 20)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.terminate()
    shown = world.command(
        *("explain", topic, "0", "--timeout", "0.5"), KAFKA__BOOTSTRAP_SERVERS="127.0.0.1:1"
    )
    assert shown.exit_code == 0
    for text in ("unavailable", "KAFKA__BOOTSTRAP_SERVERS", "┼ next"):
        assert text in shown.output


REASON = ("--by", "on-call", "--why", "retired")


def test_a_retired_topic_is_forgotten_and_nothing_else(world: World) -> None:
    """Refused while a member has it, and for an undecided gap; a dry run changes nothing; executed,
    no key of the topic is left, the other topic goes on, and the group's audit says who and why."""
    retired, kept = world.topic(2), world.topic()
    world.produce(retired, 30)
    world.produce(kept, 30)
    sidecar = world.sidecar()
    assert world.apply(sidecar, retired, 10) == 10
    assert world.apply(sidecar, kept, 10) == 10
    sidecar.terminate()
    world.outside.delete_records(retired, 0, 20)
    sidecar.start()
    gap = sidecar.await_gap(retired)
    forget = ("forget", "--topic", retired, *REASON)
    held = world.command(*forget, "--even-with-open-gaps", "--execute")
    assert (held.exit_code, "1 member of the group" in held.stderr) == (1, True)
    sidecar.terminate()
    refused = world.command(*forget, "--execute")
    assert (refused.exit_code, gap.id in refused.stderr) == (1, True)
    store: Any = world.valkey.client()
    before = sorted(store.keys(f"{world.prefix}:*"))
    dry = world.command(*forget, "--even-with-open-gaps")
    assert f"{retired}/0: applied 9, generation" in dry.output
    assert "Dry run" in dry.output
    assert sorted(store.keys(f"{world.prefix}:*")) == before
    done = world.command(*forget, "--even-with-open-gaps", "--execute", "-o", "json")
    assert done.exit_code == 0
    body = json.loads(done.output)
    assert (body["executed"], [one["id"] for one in body["gaps"]]) == (True, [gap.id])
    left = store.keys(f"{world.prefix}:*")
    assert not any(retired in key for key in left)
    registry = store.hgetall(f"{world.prefix}:{{{world.group}}}:registry")
    assert not any(retired in field for field in registry)
    assert f"topic:{kept}" in registry
    ((_, entry),) = store.xrange(f"{world.prefix}:{{{world.group}}}:audit")
    assert json.loads(entry["j"])["by"] == "on-call"
    again = world.command(*forget, "--execute")
    assert (again.exit_code, "keeps nothing" in again.output) == (0, True)
    sidecar = world.sidecar([kept])
    assert world.apply(sidecar, kept, 20) == 30


def test_a_retired_group_is_forgotten_whole(world: World) -> None:
    """Refused while it has members; then nothing of it is left, and running again is done."""
    topic = world.topic(2)
    world.produce(topic, 10)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 10) == 10
    forget = ("forget", "--whole-group", *REASON, "--execute")
    assert world.command(*forget).exit_code == 1
    sidecar.terminate()
    assert world.command(*forget).exit_code == 0
    store: Any = world.valkey.client()
    assert store.keys(f"{world.prefix}:*") == []
    assert world.command(*forget).exit_code == 0
    assert world.command("forget", *REASON).exit_code == 2
