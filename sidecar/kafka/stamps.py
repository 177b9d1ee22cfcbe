"""The timestamp of the record at an offset, read with a consumer that never joins, on a thread.

Kafka answers "which offset has this time" and not the other way round, so the record itself is
read: the first one at or above the offset, for all partitions at once, and nothing of it is kept
but its timestamp. Asked seldom, so the consumer lives for one question.

Uncommitted records count: behind a transaction that hangs there is nothing else, and a record that
is never shown goes with its segment as the others do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from sidecar.core.faults import ABSENT, Known, Reading, Unreadable
from sidecar.core.forecast import Stamp
from sidecar.core.types import Offset, Partition
from sidecar.kafka.client import ClientSettings, group_config
from sidecar.kafka.faults import fault_of

RECORDS_AT_ONCE = 500
POLL_SECONDS = 0.1
FETCH_BYTES = 4_096
"""A broker sends a whole batch anyway; of small ones it need not send a thousand."""


def stamp_config(settings: ClientSettings) -> dict[str, Any]:
    return {
        **group_config(settings),
        "isolation.level": IsolationLevel.READ_UNCOMMITTED.name.lower(),
        "auto.offset.reset": "error",
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "queued.min.messages": 1,
        "fetch.message.max.bytes": FETCH_BYTES,
        "fetch.wait.max.ms": 100,
    }


def read_stamps(
    config: Mapping[str, Any], wanted: Mapping[Partition, Offset], timeout_seconds: float
) -> dict[Partition, Reading[Stamp]]:
    """On a thread. Absent: nothing stands there. A partition that did not answer in time is left
    out. Raises what creating the client raises."""
    until = time.monotonic() + timeout_seconds
    consumer = Consumer(dict(config))
    found: dict[Partition, Reading[Stamp]] = {}
    try:
        consumer.assign([TopicPartition(p.topic, p.index, o) for p, o in wanted.items()])
        while len(found) < len(wanted) and time.monotonic() < until:
            answered = []
            for message in consumer.consume(RECORDS_AT_ONCE, timeout=POLL_SECONDS):
                topic, index, offset = message.topic(), message.partition(), message.offset()
                if topic is None or index is None:
                    continue
                partition = Partition(topic, index)
                if partition not in wanted or partition in found:
                    continue
                error = message.error()
                if error is not None:
                    end = error.code() == KafkaError._PARTITION_EOF
                    found[partition] = ABSENT if end else Unreadable(fault_of(error))
                elif offset is not None:
                    kind, stamp = message.timestamp()
                    none = kind == TIMESTAMP_NOT_AVAILABLE
                    found[partition] = Known(
                        Stamp(Offset(wanted[partition]), None if none else stamp)
                    )
                answered.append(TopicPartition(topic, index))
            if answered:
                consumer.incremental_unassign(answered)
    except KafkaException as error:
        failed = Unreadable(fault_of(error))
        return {partition: found.get(partition, failed) for partition in wanted}
    finally:
        consumer.close()
    return found
