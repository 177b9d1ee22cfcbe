"""The doctor, on real servers that are well, and on such that are not."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without __all__
    AclOperation,
    ResourceType,
)

from tests.benches.kafka import SecureKafka
from tests.benches.redis import Valkey
from tests.benches.topics import Outsider
from tests.benches.waiting import wait_until
from tests.harness.world import World

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

Checks = dict[str, list[dict[str, str]]]


def doctor(world: World, **settings: object) -> tuple[int, Checks]:
    """Exit code, and what was found, by the name of the check."""
    result = world.command("doctor", "--timeout", "3", "-o", "json", **settings)
    found: Checks = {}
    for one in json.loads(result.stdout)["checks"]:
        found.setdefault(one["check"], []).append(one)
    return result.exit_code, found


def bad(found: Checks) -> set[str]:
    return {name for name, all_ in found.items() for one in all_ if one["result"] == "failed"}


def test_all_is_well_and_said_in_one_line_each(world: World) -> None:
    """Exit 0; what the store may forget on a power cut is a warning all the same."""
    topic = world.topic(2)
    world.produce(topic, 10)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 4) == 4
    code, found = doctor(world)
    assert (code, bad(found)) == (0, set())
    for check in ("settings", "store", "kafka", "topic", "session", "group", "store size"):
        assert [one["result"] for one in found[check]] == ["ok"]
    assert "2 partitions" in found["state"][0]["detail"]
    assert [one["result"] for one in found["store keeps"]] == ["warning"]
    lines = world.command("doctor").output.splitlines()
    assert lines[0].split() == ["RESULT", "CHECK", "DETAIL"]
    assert len(lines) == 1 + sum(map(len, found.values()))


def test_a_topic_that_a_static_member_was_not_given_is_told(world: World) -> None:
    """It came back within its session with another topic, and keeps what it had; a member that
    joins has the group rebalanced, and then all is well."""
    first = world.topic()
    world.produce(first, 10)
    sidecar = world.sidecar(static=True, KAFKA__SESSION_TIMEOUT_SECONDS=60)
    assert world.apply(sidecar, first, 4) == 4
    sidecar.kill()
    second = world.topic()
    sidecar.start(KAFKA__TOPICS=f"{first},{second}")
    sidecar.await_partition(first, state="delivering", timeout_seconds=60)
    assert sidecar.api().partition(second) is None
    code, found = doctor(world)
    assert code == 0
    (told,) = found["assignment"]
    assert told["result"] == "warning"
    assert told["detail"].startswith(f"{second}: ")
    assert "KAFKA__INSTANCE_ID" in told["mended_by"]
    world.sidecar()
    wait_until(
        lambda: "assignment" not in doctor(world)[1] and len(_members_topics(world)) == 2,
        "both topics have a member",
        timeout_seconds=60,
    )


def _members_topics(world: World) -> set[str]:
    shown = json.loads(world.command("status", "-o", "json").stdout)["partitions"]
    return {one["topic"] for one in shown if one["consumer_id"] is not None}


def test_what_is_wrong_fails_with_what_mends_it(
    world: World, valkey_server: Callable[..., Valkey]
) -> None:
    """A session time-out that the brokers refuse, a topic that is not there, a store that evicts,
    no broker: each exit 1, under its name."""
    topic = world.topic()
    code, found = doctor(world, KAFKA__SESSION_TIMEOUT_SECONDS=3600)
    assert (code, bad(found)) == (1, {"session"})
    assert "KAFKA__SESSION_TIMEOUT_SECONDS" in found["session"][0]["mended_by"]
    code, found = doctor(world, KAFKA__TOPICS=f"{topic},{topic}-not-there")
    assert (code, "topic" in bad(found)) == (1, True)
    evicting = valkey_server(settings={"maxmemory-policy": "allkeys-lru"})
    code, found = doctor(world, REDIS__URL=evicting.url)
    assert (code, bad(found)) == (1, {"store"})
    assert "noeviction" in found["store"][0]["detail"]
    code, found = doctor(world, KAFKA__BOOTSTRAP_SERVERS="127.0.0.1:1")
    assert (code, bad(found)) == (1, {"kafka"})
    assert "KAFKA__BOOTSTRAP_SERVERS" in found["kafka"][0]["mended_by"]
    wrong = world.command("doctor", KAFKA__SESSION_TIMEOUT_SECONDS="soon")
    assert wrong.exit_code == 2


def test_rights_that_fail_in_silence_are_told(
    world: World, secure_kafka: Callable[..., SecureKafka]
) -> None:
    """DESCRIBE without READ: a consumer would simply get nothing. Granted, it is well."""
    kafka = secure_kafka()
    topic = world.names.topic()
    outside = Outsider(kafka)
    outside.create(topic)
    outside.commit(world.group, topic, 0, 0)  # a group that is there
    signed: dict[str, Any] = {
        name.replace(".", "_").upper(): value
        for name, value in kafka.client().items()
        if name != "bootstrap.servers"
    }
    settings: dict[str, object] = {
        "KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap,
        "KAFKA__TOPICS": topic,
        **{f"KAFKA__{name}": value for name, value in signed.items()},
    }
    kafka.grant(ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
    kafka.grant(ResourceType.GROUP, world.group, AclOperation.DESCRIBE)
    code, found = doctor(world, **settings)
    assert code == 1
    assert {"topic rights", "group rights"} <= bad(found)
    assert "grant READ" in found["topic rights"][0]["mended_by"]
    kafka.grant(ResourceType.TOPIC, topic, AclOperation.READ)
    kafka.grant(ResourceType.GROUP, world.group, AclOperation.READ)
    _, found = doctor(world, **settings)
    assert not {"topic rights", "group rights"} & bad(found)
    assert found["session"][0]["result"] == "ok"  # the brokers' settings may not be read
