"""From the client's statistics: when a leader is not what it was."""

import json

from sidecar.core.types import Partition
from sidecar.kafka.statistics import LeaderWatch, Statistics, decode

P = Partition("t", 0)


def _statistics(
    leader: int = 1,
    epoch: int = 0,
    connects: int = 1,
    *,
    state: str = "UP",
    broker: int = -1,
    ts: int = 0,
    stateage: int = 0,
) -> Statistics:
    text = json.dumps(
        {
            "name": "rdkafka#consumer-1",
            "ts": ts,
            "brokers": {
                "one": {
                    "nodeid": 1,
                    "state": state,
                    "connects": connects,
                    "stateage": stateage,
                },
                "two": {"nodeid": 2, "state": "UP", "connects": 1, "stateage": stateage},
                "GroupCoordinator": {"nodeid": -1, "state": "UP", "connects": 1},
            },
            "topics": {
                "t": {
                    "partitions": {
                        "0": {"broker": broker, "leader": leader, "leader_epoch": epoch},
                        "-1": {"leader": -1},
                    }
                }
            },
            "cgrp": {"state": "up", "join_state": "steady", "rebalance_cnt": 1},
        }
    )
    statistics = decode(text)
    assert statistics is not None
    return statistics


def _watched(*before: Statistics) -> LeaderWatch:
    watch = LeaderWatch()
    watch.begin(P)
    for statistics in before:
        watch.observe(statistics, [P])
    return watch


def test_the_first_sight_is_no_change() -> None:
    watch = _watched()
    assert watch.observe(_statistics(), [P]) == []
    assert watch.observe(_statistics(), [P]) == []


def test_leader_epoch_and_connection_each_count() -> None:
    for change in (_statistics(leader=2), _statistics(epoch=1), _statistics(connects=2)):
        watch = _watched(_statistics())
        assert watch.observe(change, [P]) == [P]
        assert watch.observe(change, [P]) == []


def test_nothing_is_said_until_there_is_a_leader_again() -> None:
    """While it is away there is nothing to look at; once it is back there is."""
    watch = _watched(_statistics())
    assert watch.observe(_statistics(leader=-1), [P]) == []
    assert watch.observe(_statistics(state="CONNECT", connects=7), [P]) == []
    assert watch.observe(_statistics(connects=7), [P]) == [P]


def test_a_reconnect_before_the_first_sight_counts() -> None:
    """A session rests on evidence of before it began."""
    watch = _watched(_statistics())
    watch.begin(P)
    assert watch.observe(_statistics(connects=2), [P]) == [P]


def test_a_reconnect_counts_also_when_the_client_counts_from_one_again() -> None:
    """A client that lost its only broker forgets it, and makes its first connection once more."""
    watch = _watched(_statistics(ts=5_000, stateage=4_000))
    assert watch.observe(_statistics(ts=9_000, stateage=8_000), [P]) == []
    assert watch.observe(_statistics(state="INIT", connects=0), [P]) == []
    assert watch.observe(_statistics(ts=30_000, stateage=1_000), [P]) == [P]
    assert watch.observe(_statistics(ts=31_000, stateage=2_000), [P]) == []


def test_a_follower_s_connection_is_the_one_that_counts() -> None:
    watch = _watched(_statistics(broker=2))
    assert watch.observe(_statistics(broker=2, connects=9), [P]) == []
    assert watch.observe(_statistics(broker=1, connects=9), [P]) == [P]


def test_a_partition_that_is_not_fetched_is_not_watched() -> None:
    watch = _watched(_statistics())
    watch.forget(P)
    assert watch.observe(_statistics(epoch=3), []) == []


def test_what_is_not_statistics_is_ignored() -> None:
    assert decode("not json") is None
    assert decode('{"brokers": 3}') is None


def test_joined_and_connected_are_read_too() -> None:
    statistics = _statistics()
    assert statistics.joined
    assert statistics.connected
    nothing = decode("{}")
    assert nothing is not None
    assert not nothing.joined
    assert not nothing.connected
