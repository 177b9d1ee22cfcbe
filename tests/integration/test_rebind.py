"""A group that moves between two real clusters, its store with it."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.benches.kafka import KafkaBroker
from tests.benches.topics import Outsider, Record
from tests.harness.world import World

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

REASON = ("--by", "on-call", "--why", "the cluster moved")


NOW_MS = int(time.time() * 1000)
"""Retention goes by the records' own timestamps."""


def orders(partition: int, count: int) -> list[Record]:
    """With timestamps, which a copy keeps."""
    return [
        Record(f"p{partition}-{i}".encode(), key=b"k", timestamp_ms=NOW_MS + i)
        for i in range(count)
    ]


def rebind(world: World, there: KafkaBroker, *arguments: str) -> tuple[int, dict[int, Any]]:
    settings = {"KAFKA__BOOTSTRAP_SERVERS": there.bootstrap}
    result = world.command("rebind", *REASON, *arguments, "-o", "json", **settings)
    assert result.stdout, result.stderr
    body = json.loads(result.stdout)
    return result.exit_code, {one["partition"]: one for one in body["partitions"]}


def test_a_group_moves_to_another_cluster_and_loses_nothing(
    world: World, kafka_broker: Callable[..., KafkaBroker]
) -> None:
    """Copied with other offsets: one partition's group offset came along, a little behind; one's
    did not, and is asked for; one was never read. Dry first. What can be done is done, the rest is
    named, running again finishes it. Then each goes on exactly behind the last applied record."""
    topic = world.topic(3)
    for partition, count in ((0, 60), (1, 30)):
        world.produce(topic, orders(partition, count), partition, noted=False)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 40) == 40
    assert world.apply(sidecar, topic, 10, 1) == 10
    sidecar.await_partition(topic, 2, state="delivering")
    sidecar.terminate()

    there = kafka_broker()
    outside = Outsider(there)
    outside.create(topic, 3)
    outside.produce(topic, orders(0, 60)[25:], 0)  # what retention had left
    outside.produce(topic, orders(1, 30), 1)
    outside.commit(world.group, topic, 0, 8)  # of 15
    outside.commit(world.group, topic, 2, 0)

    held = world.command("status", KAFKA__BOOTSTRAP_SERVERS=there.bootstrap)
    assert "foreign_checkpoint" in held.output
    before = [world.checkpoint(topic, partition) for partition in range(3)]
    code, planned = rebind(world, there)
    assert code == 1
    assert (planned[0]["prior"]["next"], planned[0]["new"]["next"]) == (40, 15)
    assert (planned[0]["new"]["baseline"], planned[0]["new"]["horizon"]) == (8, 35)
    assert f"--at {topic}/1=N" in planned[1]["cannot"]
    assert [world.checkpoint(topic, partition) for partition in range(3)] == before

    code, done = rebind(world, there, "--execute")
    assert (code, done[0]["cannot"], done[2]["cannot"]) == (1, None, None)
    assert world.checkpoint(topic, 0)["next"] == "15"
    assert world.checkpoint(topic, 1) == before[1]
    code, done = rebind(world, there, "--execute", "--at", f"{topic}/1=0")
    assert code == 0
    assert done[0]["detail"] == "is of this cluster already"
    assert done[1]["new"]["next"] == 10

    moved = world.sidecar(KAFKA__BOOTSTRAP_SERVERS=there.bootstrap)
    api = moved.api()
    for partition, first, values in (
        (0, 15, [record.value for record in orders(0, 60)[40:]]),
        (1, 10, [record.value for record in orders(1, 30)[10:]]),
    ):
        page = api.take(30.0, topic=topic, partition=partition)
        assert page is not None
        assert page.first == first
        assert [record.value for record in page.records] == values
        assert all(record.redelivered for record in page.records)
        api.applied(page, committed=True)
        assert moved.verdicts(topic, partition) == ["resume"]
    moved.await_partition(topic, 2, state="delivering", caught_up=True)
    assert api.gaps() == []
    explained = world.command(
        *("explain", topic, "0", "--audit", "50", "-o", "json"),
        KAFKA__BOOTSTRAP_SERVERS=there.bootstrap,
    )
    whole = json.loads(explained.output)
    (entry,) = [one for one in whole["audit"] if one["what"].startswith("rebound")]
    assert (entry["by"], entry["why"]) == ("on-call", "the cluster moved")
    refused = world.command(
        *("rebind", *REASON, "--execute"), KAFKA__BOOTSTRAP_SERVERS=there.bootstrap
    )
    assert (refused.exit_code, "1 member in" in refused.stderr) == (1, True)


def test_an_undecided_gap_does_not_get_lost_on_the_way(
    world: World, kafka_broker: Callable[..., KafkaBroker]
) -> None:
    """Refused by its name; accepted, it is resolved with who and why in the same write. And the
    group may move back: the first cluster is known again."""
    topic = world.topic()
    world.produce(topic, orders(0, 30), noted=False)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 10) == 10
    sidecar.terminate()
    world.outside.delete_records(topic, 0, 20)
    sidecar.start()
    gap = sidecar.await_gap(topic)
    sidecar.terminate()

    there = kafka_broker()
    outside = Outsider(there)
    outside.create(topic, 1)
    outside.produce(topic, orders(0, 30)[20:], 0)
    code, planned = rebind(world, there, "--at", f"{topic}/0=0")
    assert code == 1
    assert gap.id in planned[0]["cannot"]
    code, _ = rebind(world, there, "--at", f"{topic}/0=0", "--accept-open-gaps", "--execute")
    assert code == 0
    listed = world.command("gaps", "list", "--all", "-o", "json")
    (decided,) = json.loads(listed.output)["gaps"]
    assert (decided["id"], decided["state"]) == (gap.id, "resolved")
    assert decided["resolution"]["by"] == "on-call"

    code, back = rebind(world, world.kafka, "--at", f"{topic}/0=20", "--execute")
    assert (code, back[0]["cannot"]) == (0, None)
    sidecar.start()
    assert world.apply(sidecar, topic, 10) == 30
    assert sidecar.verdicts(topic)[0] in ("resume", "resume_at_boundary")
