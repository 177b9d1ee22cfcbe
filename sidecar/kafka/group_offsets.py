"""What the group committed, asked of a consumer that never joins, on a thread of its own.

Why not of the admin client: in librdkafka (2.16, and every release since 2.0)
`list_consumer_group_offsets` follows a null pointer when the coordinator answers that it is not
the one, and the process is gone (librdkafka #5040); a coordinator moves whenever a broker restarts.
A consumer has what that code looks for. Its `committed()` gives −1001 both for "none" and for an
error; the element's own `error` tells them apart. And it only waits, so it has a thread.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sidecar.core.faults import FaultKind
from sidecar.kafka.faults import Suspicion, fault_of

COMMITTED_PARTITIONS_MAX = 2_000
"""Of one question about committed offsets."""


class Worker:
    """A thread for the calls that wait in the client's own code, one after another.

    A daemon, so that a client that waits for a broker cannot keep the process from ending.
    """

    def __init__(self, name: str) -> None:
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = (
            queue.SimpleQueue()
        )
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._work.put((future, call))
        return future

    def end(self) -> None:
        self._work.put(None)

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            future, call = item
            if not future.set_running_or_notify_cancel():
                continue  # nobody waits for it any more
            try:
                future.set_result(call())
            except BaseException as error:  # it is the asker's, whatever it is
                future.set_exception(error)
            del future, call, item


@dataclass(slots=True)
class Asker:
    """The consumer that is asked for committed offsets, and its thread.

    `denied`: without the right to find the coordinator a question only times out; the client says
    why once, to whoever polls, and so it is kept until a question is answered.
    """

    worker: Worker
    consumer: Consumer | None = None
    denied: KafkaError | None = None
    suspicion: Suspicion = field(default_factory=Suspicion)

    def committed(
        self, config: Mapping[str, Any], partitions: list[TopicPartition], timeout: float
    ) -> list[TopicPartition]:
        """On the thread."""
        if self.consumer is None:
            self.consumer = Consumer(dict(config))
        try:
            answer = self.consumer.committed(partitions, timeout=timeout)
        except KafkaException as error:
            self.denied = _said(self.consumer) or self.denied
            if self.denied is not None and fault_of(error).kind is FaultKind.UNAVAILABLE:
                raise KafkaException(self.denied) from error
            raise
        self.denied = None
        return answer

    def all_committed(self, config: Mapping[str, Any], timeout: float) -> list[TopicPartition]:
        """On the thread. With a consumer of its own, which goes with all it learnt of topics."""
        until = time.monotonic() + timeout
        consumer = Consumer(dict(config))
        found: list[TopicPartition] = []
        try:
            topics = consumer.list_topics(timeout=timeout).topics
            asked = [TopicPartition(n, i) for n, t in topics.items() for i in t.partitions]
            for at in range(0, len(asked), COMMITTED_PARTITIONS_MAX):
                left = max(0.1, until - time.monotonic())
                found += consumer.committed(asked[at : at + COMMITTED_PARTITIONS_MAX], timeout=left)
        finally:
            consumer.close()
        return found

    def commit(
        self, config: Mapping[str, Any], offsets: list[TopicPartition]
    ) -> list[TopicPartition]:
        """On the thread. The client waits for a coordinator as long as it likes; the asker of the
        thread does not."""
        if self.consumer is None:
            self.consumer = Consumer(dict(config))
        answer: list[TopicPartition] = self.consumer.commit(offsets=offsets, asynchronous=False)
        return answer

    def end(self) -> None:
        def close() -> None:
            if self.consumer is not None:
                self.consumer.close()

        self.worker.submit(close)
        self.worker.end()


def _said(consumer: Consumer) -> KafkaError | None:
    """The newest right that this consumer was told it lacks."""
    denied: KafkaError | None = None
    for _ in range(100):
        message = consumer.poll(0)
        if message is None:
            break
        error = message.error()
        if error is not None and fault_of(error).kind is FaultKind.AUTHORIZATION:
            denied = error
    return denied
