"""The log of the story: librdkafka's mock cluster in this process, or a real broker.

Both write orders, say what the log still holds, and can be made to lose their oldest records. The
mock has no DeleteRecords; it drops a partition's oldest batches once the partition is larger than
5 MB, as retention by size does, so it is filled until that happens. What was lost is never assumed:
the log start is asked for afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without __all__
    AdminClient,
    NewTopic,
    OffsetSpec,
)

from sidecar.demo.ledger import Place

TIMEOUT_SECONDS = 10.0
FIRST_ANSWER_SECONDS = 5.0
REAL_PARTITIONS = 3
LARGE_BYTES = 40_000
LARGE_BATCH = 10
LARGE_BATCHES_MAX = 40
"""Some three times of what makes the mock forget."""
QUIET = {"log_level": 0}
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class ClusterFailed(Exception):
    """The log could not do what the story asks of it; the message is for people."""


class Cluster(Protocol):
    bootstrap: str
    topic: str
    partitions: int
    produced: dict[Place, int]
    """Order number of every record that the log acknowledged."""
    what: str
    how_it_forgets: str
    knows_members: bool
    """A member with a static identity is known again at once when it comes back."""

    def write(self, partition: int, count: int, *, unpaid: int | None = None) -> range:
        """Writes orders, as one batch; `unpaid` is the one (of `count`) that waits for its
        payment. The offsets they got."""
        ...

    def lose_oldest(self, partition: int, cursor: int) -> None:
        """Makes the log forget what lies past the cursor, and leaves something behind that."""
        ...

    def bounds(self, partition: int) -> tuple[int, int]:
        """Log start and log end, asked of the broker now."""
        ...

    def close(self) -> None:
        """Take away what the story left on the cluster."""
        ...


class _Cluster:
    def __init__(self, topic: str, partitions: int, bootstrap: str, producer: Producer) -> None:
        self.topic, self.partitions, self.bootstrap = topic, partitions, bootstrap
        self.produced: dict[Place, int] = {}
        self._producer = producer
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})

    def write(
        self, partition: int, count: int, *, unpaid: int | None = None, padding: int = 0
    ) -> range:
        offsets: list[int] = []
        refused: list[KafkaError] = []

        def acknowledged(order: int) -> Callable[[KafkaError | None, Message], None]:
            def on_delivery(error: KafkaError | None, message: Message) -> None:
                offset = message.offset()
                if error is not None or offset is None:
                    refused.append(error or KafkaError(KafkaError._FAIL))
                    return
                self.produced[partition, offset] = order
                offsets.append(offset)

            return on_delivery

        first = len(self.produced)
        for nth in range(count):
            order: dict[str, Any] = {"order": first + nth, "customer": f"customer-{nth % 7}"}
            if nth == unpaid:
                order["unpaid"] = True
            if padding:
                order["note"] = "x" * padding
            self._producer.produce(
                self.topic,
                key=str(order["customer"]),
                value=json.dumps(order),
                partition=partition,
                on_delivery=acknowledged(first + nth),
            )
        left = self._producer.flush(TIMEOUT_SECONDS)
        if left or refused or len(offsets) != count:
            why = refused[0].str() if refused else f"no answer in {TIMEOUT_SECONDS:g} s"
            raise ClusterFailed(f"The orders could not be written: {why}")
        return range(min(offsets), max(offsets) + 1)

    def bounds(self, partition: int) -> tuple[int, int]:
        where = TopicPartition(self.topic, partition)
        return self._offset(where, _EARLIEST), self._offset(where, _LATEST)

    def _offset(self, where: TopicPartition, spec: OffsetSpec) -> int:
        asked = self._admin.list_offsets({where: spec}, request_timeout=TIMEOUT_SECONDS)
        return int(asked[where].result(TIMEOUT_SECONDS).offset)


class MockCluster(_Cluster):
    """Lives and dies with this object. It creates a topic when it is first asked for one, and it
    alone decides how many partitions that has (4)."""

    how_it_forgets = "The partition is filled until the log drops its oldest batches (past 5 MB)."
    knows_members = False

    def __init__(self, topic: str) -> None:
        producer = Producer({"test.mock.num.brokers": 1, "linger.ms": 200, **QUIET})
        broker = next(iter(producer.list_topics(timeout=TIMEOUT_SECONDS).brokers.values()))
        partitions = len(producer.list_topics(topic, TIMEOUT_SECONDS).topics[topic].partitions)
        super().__init__(topic, partitions, f"{broker.host}:{broker.port}", producer)
        self.what = "librdkafka's mock cluster, in this process"

    def lose_oldest(self, partition: int, cursor: int) -> None:
        for _ in range(LARGE_BATCHES_MAX):
            self.write(partition, LARGE_BATCH, padding=LARGE_BYTES)
            if self.bounds(partition)[0] > cursor:
                return
        raise ClusterFailed("The mock cluster forgot nothing.")

    def close(self) -> None:
        """It keeps nothing."""


class RealCluster(_Cluster):
    """A topic of its own on somebody's cluster, deleted afterwards."""

    how_it_forgets = "DeleteRecords takes away the oldest ones, as retention would."
    knows_members = True

    def __init__(self, bootstrap: str, topic: str) -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 200,
                "acks": "all",
                "message.timeout.ms": round(TIMEOUT_SECONDS * 1000),
                **QUIET,
            }
        )
        try:
            producer.list_topics(timeout=FIRST_ANSWER_SECONDS)
        except KafkaException as error:
            raise ClusterFailed(f"No broker answers at {bootstrap}: {_words(error)}") from error
        super().__init__(topic, REAL_PARTITIONS, bootstrap, producer)
        created = self._admin.create_topics(
            [NewTopic(topic, REAL_PARTITIONS)], request_timeout=TIMEOUT_SECONDS
        )
        try:
            created[topic].result(TIMEOUT_SECONDS)
        except KafkaException as error:
            raise ClusterFailed(f"Topic {topic} was not created: {_words(error)}") from error
        self.what = f"Kafka at {bootstrap}"

    def lose_oldest(self, partition: int, cursor: int) -> None:
        end = self.bounds(partition)[1]
        before = cursor + (end - cursor) * 3 // 4
        where = TopicPartition(self.topic, partition, before)
        deleted = self._admin.delete_records([where], request_timeout=TIMEOUT_SECONDS)
        try:
            deleted[where].result(TIMEOUT_SECONDS)
        except KafkaException as error:
            raise ClusterFailed(f"DeleteRecords was refused: {_words(error)}") from error

    def close(self) -> None:
        """The topic, and with it the group's commits. The group itself counts its dead member for
        a session more, so it cannot be deleted now; brokers drop an empty one by themselves."""
        deleted = self._admin.delete_topics([self.topic], request_timeout=TIMEOUT_SECONDS)
        deleted[self.topic].result(TIMEOUT_SECONDS)


def _words(error: KafkaException) -> str:
    cause = error.args[0] if error.args else None
    return cause.str() if isinstance(cause, KafkaError) else str(error)
