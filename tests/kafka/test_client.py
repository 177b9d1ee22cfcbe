"""What the client is configured with, and what nobody may change."""

import logging
from dataclasses import replace

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from sidecar import settings as the_settings
from sidecar.core.types import GroupId, IsolationLevel
from sidecar.kafka.client import (
    RESERVED,
    ClientLog,
    ClientSettings,
    admin_config,
    consumer_config,
    group_config,
    refused,
)

SETTINGS = ClientSettings("127.0.0.1:1", GroupId("g"), ("t",))
MUST: dict[str, object] = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "allow.auto.create.topics": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "check.crcs": True,
}


def _with(**changes: object) -> ClientSettings:
    return replace(SETTINGS, **changes)  # type: ignore[arg-type]  # checked by the tests themselves


@pytest.mark.parametrize("name", MUST)
def test_what_proofs_rest_on_cannot_be_overridden(name: str) -> None:
    """Refused with a reason; and should it get here all the same, it is ignored."""
    wrong = {name: "whatever", f"topic.{name}": "whatever"}
    assert set(refused(wrong)) == set(wrong)
    assert consumer_config(_with(extra=wrong))[name] == MUST[name]


def test_the_settings_refuse_what_is_reserved_here() -> None:
    assert set(RESERVED) <= set(the_settings.RESERVED)


def test_other_properties_replace_a_default() -> None:
    extra = {"fetch.queue.backoff.ms": "7", "client.id": "mine"}
    assert refused(extra) == {}
    config = consumer_config(_with(extra=extra))
    assert (config["fetch.queue.backoff.ms"], config["client.id"]) == ("7", "mine")


@pytest.mark.parametrize(
    ("extra", "cooperative"),
    [
        ({}, True),
        ({"partition.assignment.strategy": "range,roundrobin"}, False),
        ({"partition.assignment.strategy": "cooperative-sticky"}, True),
        ({"group.protocol": "consumer"}, True),
    ],
)
def test_the_client_takes_each_configuration(extra: dict[str, str], cooperative: bool) -> None:
    """Under every group protocol; none of these objects reaches for a broker that is there."""
    settings = _with(extra=extra, session_timeout_seconds=2, instance_id="one")
    assert settings.cooperative is cooperative
    Consumer(dict(consumer_config(settings))).close()
    Consumer(dict(group_config(settings))).close()
    AdminClient(admin_config(settings))


def test_isolation_and_identity_come_from_their_own_settings() -> None:
    settings = _with(isolation_level=IsolationLevel.READ_UNCOMMITTED, session_timeout_seconds=3)
    config = consumer_config(settings)
    assert config["isolation.level"] == "read_uncommitted"
    assert (config["session.timeout.ms"], config["heartbeat.interval.ms"]) == (3000, 1000)
    assert "group.instance.id" not in config
    assert consumer_config(_with(instance_id="a"))["group.instance.id"] == "a"


def test_commits_are_read_stable_whatever_is_fetched() -> None:
    settings = _with(isolation_level=IsolationLevel.READ_UNCOMMITTED, instance_id="a")
    config = group_config(settings)
    assert config["isolation.level"] == "read_committed"
    assert "group.instance.id" not in config


def test_the_client_s_log_is_bounded_and_knows_no_secrets() -> None:
    lines: list[tuple[int, str]] = []
    now = 0.0
    log = ClientLog(lambda *line: lines.append(line), ("hunter2",), clock=lambda: now)
    for _ in range(1000):
        log.log(logging.WARNING, "%s [%s] %s", "FAIL", "rdkafka#consumer-1", "with hunter2\nfailed")
    log.log(logging.WARNING, "%s [%s] %s", "OTHER", "rdkafka#consumer-1", "else")
    assert [text for _, text in lines] == [
        "FAIL [rdkafka#consumer-1] with *** failed",
        "OTHER [rdkafka#consumer-1] else",
    ]
    now = 11.0
    log.log(logging.WARNING, "%s [%s] %s", "FAIL", "rdkafka#consumer-1", "again")
    assert lines[-1][1].endswith("again (999 like it left out)")


def test_the_client_s_log_never_raises() -> None:
    """It is called from inside `poll()`, where an exception destroys a record."""

    def broken(level: int, text: str) -> None:
        raise ValueError(text)

    ClientLog(broken).log(logging.WARNING, "%s", "FAIL")
    ClientLog(None).log(logging.WARNING, "%d", "not a number")


def test_secrets_are_recognised_by_the_names_of_their_properties() -> None:
    settings = _with(
        security={"sasl.password": "p1", "sasl.username": "u", "ssl.key.password": "p22"},
        extra={"sasl.oauthbearer.client.secret": "s"},
    )
    assert settings.secrets == ("p22", "p1", "s")
