"""What librdkafka's statistics tell that no event does: that a partition's leader, its epoch or the
connection to it changed.

A new leader may have another log, and after a reconnect the same leader may have (a restored disk);
the engine then looks again. The statistics come every half second, so the notice is at most that
late. They are decoded in part only: of a few kilobytes a partition, two numbers are wanted.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sidecar.core.types import Partition


class BrokerStatistics(msgspec.Struct):
    """`stateage`: microseconds since the state is what it is."""

    nodeid: int = -1
    state: str = ""
    connects: int = 0
    stateage: int = 0


class PartitionStatistics(msgspec.Struct):
    broker: int = -1
    leader: int = -1
    leader_epoch: int = -1


class TopicStatistics(msgspec.Struct):
    partitions: dict[str, PartitionStatistics] = {}


class GroupStatistics(msgspec.Struct):
    state: str = ""
    join_state: str = ""


class Statistics(msgspec.Struct):
    """`ts`: microseconds on the client's monotonic clock."""

    ts: int = 0
    brokers: dict[str, BrokerStatistics] = {}
    topics: dict[str, TopicStatistics] = {}
    cgrp: GroupStatistics = msgspec.field(default_factory=GroupStatistics)

    @property
    def connected(self) -> bool:
        return any(broker.state == "UP" for broker in self.brokers.values())

    @property
    def joined(self) -> bool:
        return self.cgrp.state == "up" and self.cgrp.join_state == "steady"


_decoder = msgspec.json.Decoder(Statistics)


def decode(text: str) -> Statistics | None:
    """None if this client's statistics are not what we know."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return None


_Connection = tuple[int, int]
"""Which one it is: how many were made before it, and since when it is up. The count alone will not
do: a client that lost every broker forgets them, and counts from one again."""


class LeaderWatch:
    """Remembers, for each fetched partition, the leader as it was last seen."""

    def __init__(self) -> None:
        # The connections that are up, by broker; replaced, never changed.
        self._connections: dict[int, _Connection] = {}
        self._before: dict[Partition, dict[int, _Connection]] = {}
        self._seen: dict[Partition, tuple[int, int, int, _Connection]] = {}

    def begin(self, partition: Partition) -> None:
        """A session begins: what was known of connections until now is what it rests on."""
        self._seen.pop(partition, None)
        self._before[partition] = self._connections

    def forget(self, partition: Partition) -> None:
        self._seen.pop(partition, None)
        self._before.pop(partition, None)

    def observe(self, statistics: Statistics, partitions: Iterable[Partition]) -> list[Partition]:
        """Those of `partitions` whose leader is not what it was."""
        up = {
            broker.nodeid: (broker.connects, statistics.ts - broker.stateage)
            for broker in statistics.brokers.values()
            if broker.state == "UP" and broker.nodeid >= 0
        }
        changed: list[Partition] = []
        for partition in partitions:
            topic = statistics.topics.get(partition.topic)
            now = None if topic is None else topic.partitions.get(str(partition.index))
            if now is None or now.leader < 0:
                continue  # not known, or no leader now: the next one will differ or be the same
            broker = now.broker if now.broker >= 0 else now.leader
            connection = up.get(broker)
            if connection is None:
                continue  # not connected: the connection that comes will be another one
            seen = (now.leader, now.leader_epoch, broker, connection)
            was = self._seen.get(partition)
            if was is None:
                before = self._before.get(partition, {}).get(broker)
                if before is not None and before != connection:
                    changed.append(partition)
            elif was != seen:
                changed.append(partition)
            self._seen[partition] = seen
        self._connections = up
        return changed
