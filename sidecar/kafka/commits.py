"""Commits as the consumer's thread makes them: one in flight, answered by the client's callback.

The client's asynchronous commit, because the synchronous one waits for a coordinator that is away
far beyond any bound of ours. Its callback is served by `poll()`; it names offsets, not a request,
so an answer is taken for the commit in flight only if it names the same. When one of several
partitions is refused the client stamps that error on all, so an error is a reason to read back
(`sidecar.kafka.fetcher` does), not the truth about each.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sidecar.core.faults import Fault
from sidecar.core.types import Partition
from sidecar.kafka.client import LogLine
from sidecar.kafka.faults import denied, fault_of, unavailable
from sidecar.ports import CommitRequest

COMMIT_BYTES_MAX = 512 * 1024
"""Metadata of one commit call; 262 partitions of 4,000 characters were refused whole."""

Answers: TypeAlias = "dict[Partition, Fault | None]"


@dataclass(slots=True)
class Commit:
    """One commit call. `answered` is settled on the event loop."""

    offsets: list[TopicPartition]
    answered: asyncio.Future[Answers]


class Commits:
    """On the consumer's thread. `on_loop` runs a call on the event loop."""

    def __init__(
        self, on_loop: Callable[[Callable[[], object]], object], say: LogLine, group: str
    ) -> None:
        self._group = group
        self._on_loop = on_loop
        self._say = say
        self._in_flight: Commit | None = None

    def make(self, consumer: Consumer, commit: Commit) -> None:
        self._in_flight = commit
        try:
            consumer.commit(offsets=commit.offsets, asynchronous=True)
        except (KafkaException, RuntimeError) as error:
            self._in_flight = None
            self._answer(commit, dict.fromkeys(_partitions(commit), fault_of(error)))

    def make_last(self, consumer: Consumer, requests: Mapping[Partition, CommitRequest]) -> None:
        """Before partitions are given up, in the callback of a revocation; nobody waits for it.

        It is sent on the same connection as the news that they are given up, so the coordinator
        has it before it lets another member have them; and the client ends an unassignment, and
        itself, only after its outstanding commits. Not synchronously: see above. (On a helper
        thread it would not even begin: the binding lets no other thread in while a callback runs.)
        If it is lost, the next owner finds the store ahead of it, and commits again.
        """
        for chunk in chunks(requests):
            try:
                consumer.commit(offsets=topic_partitions(chunk), asynchronous=True)
            except (KafkaException, RuntimeError) as error:
                self._say(logging.WARNING, f"the commit on a revocation failed: {error}")

    def refuse(self, commit: Commit, why: str) -> None:
        self._answer(commit, dict.fromkeys(_partitions(commit), unavailable("_STATE", why)))

    def give_up(self) -> None:
        """The client that was asked is gone."""
        commit, self._in_flight = self._in_flight, None
        if commit is not None:
            self.refuse(commit, "the client was replaced")

    def on_commit(self, error: KafkaError | None, elements: list[TopicPartition]) -> None:
        """The client's callback."""
        commit = self._in_flight
        if commit is None or {_asked(e) for e in elements} != {_asked(e) for e in commit.offsets}:
            if error is not None:  # of a commit that was given up, or one made on a revocation
                self._say(logging.WARNING, f"a commit that nobody waits for failed: {error}")
            return
        self._in_flight = None
        answers: Answers = {}
        for element in elements:
            wrong = element.error or error
            answers[Partition(element.topic, element.partition)] = (
                None
                if wrong is None
                else denied(fault_of(wrong), "READ", topic=element.topic, group=self._group)
            )
        self._answer(commit, answers)

    def _answer(self, commit: Commit, answers: Answers) -> None:
        def settle() -> None:
            if not commit.answered.done():
                commit.answered.set_result(answers)

        self._on_loop(settle)


def chunks(
    requests: Mapping[Partition, CommitRequest],
) -> Iterator[dict[Partition, CommitRequest]]:
    """Split by size of the metadata; a single one that is larger goes by itself."""
    chunk: dict[Partition, CommitRequest] = {}
    size = 0
    for partition, request in requests.items():
        size_of = len(request.metadata.encode())
        if chunk and size + size_of > COMMIT_BYTES_MAX:
            yield chunk
            chunk, size = {}, 0
        chunk[partition] = request
        size += size_of
    if chunk:
        yield chunk


def topic_partitions(requests: Mapping[Partition, CommitRequest]) -> list[TopicPartition]:
    return [
        TopicPartition(p.topic, p.index, r.next, r.metadata)
        if r.epoch is None
        else TopicPartition(p.topic, p.index, r.next, r.metadata, r.epoch)
        for p, r in requests.items()
    ]


def _partitions(commit: Commit) -> list[Partition]:
    return [Partition(e.topic, e.partition) for e in commit.offsets]


def _asked(element: TopicPartition) -> tuple[str, int, int]:
    return element.topic, element.partition, element.offset
