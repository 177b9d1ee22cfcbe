"""Reading records to recognise them, with no membership."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sidecar.core.faults import Answer, Known, Unreadable
from sidecar.core.types import Offset, Partition
from sidecar.kafka.client import ClientSettings, group_config
from sidecar.kafka.faults import fault_of
from sidecar.kafka.frames import digests
from sidecar.kafka.group_offsets import Worker

RECORDS_AT_ONCE = 500
SILENCE_SECONDS = 0.2
GRACE_SECONDS = 1.0

Take = Callable[[Sequence[int], Sequence[int]], bool]
"""Offsets and digests, in order; True: it is enough."""


class RecordReader:
    """One consumer for all partitions, one after another, on a thread of its own."""

    def __init__(self, settings: ClientSettings, *, seconds_max: float) -> None:
        self._config: dict[str, Any] = {
            **group_config(settings),
            "isolation.level": settings.isolation_level.value,
            "auto.offset.reset": "error",
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
        self._seconds_max = seconds_max
        self._worker = Worker("kafka-search")
        self._consumer: Consumer | None = None

    async def read(
        self, partition: Partition, at: Offset, until: Offset, records_max: int, take: Take
    ) -> Answer[None]:
        """Records of `[at, until)` go to `take`, until it has enough or a bound is reached."""
        future = asyncio.wrap_future(
            self._worker.submit(lambda: self._read(partition, at, until, records_max, take))
        )
        try:
            await asyncio.wait_for(future, self._seconds_max + GRACE_SECONDS)
        except (KafkaException, TimeoutError, UnicodeDecodeError) as error:
            return Unreadable(fault_of(error))
        return Known(None)

    def _read(
        self, partition: Partition, at: Offset, until: Offset, records_max: int, take: Take
    ) -> None:
        if self._consumer is None:
            self._consumer = Consumer(self._config)
        consumer, deadline, left = self._consumer, time.monotonic() + self._seconds_max, records_max
        consumer.assign([TopicPartition(partition.topic, partition.index, at)])
        try:
            while left > 0:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{partition} was not read within {self._seconds_max:g} s")
                messages = consumer.consume(min(left, RECORDS_AT_ONCE), SILENCE_SECONDS)
                records = [one for one in messages if one.error() is None]
                offsets = [_offset(one) for one in records]
                left -= len(records)
                if records and take(offsets, digests([_record(one) for one in records])):
                    return
                for error in filter(None, (one.error() for one in messages)):
                    if error.code() == KafkaError._PARTITION_EOF:
                        return
                    raise KafkaException(error)
                if offsets and offsets[-1] >= until - 1:
                    return
        finally:
            consumer.unassign()

    def end(self) -> None:
        def close() -> None:
            if self._consumer is not None:
                self._consumer.close()

        self._worker.submit(close)
        self._worker.end()


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _record(message: Message) -> tuple[int | None, bytes | None, bytes | None, Any]:
    _, stamp = message.timestamp()
    return None if stamp < 0 else stamp, message.key(), message.value(), message.headers()
