"""What people run, on real servers: with no sidecar, and beside a live one."""

import json

import pytest
import yaml

from tests.harness.world import World

pytestmark = pytest.mark.kafka


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
