"""The group member: one thread owns librdkafka's consumer, and everything else talks to the thread.

Why a thread of our own rather than the client's asyncio wrapper: the consumer must be polled
whatever the event loop, Redis or the application do, or the group expels the member; and every call
on one consumer belongs on one thread (a cached query beside `poll()` was seen to hang).

    engine, on the event loop                      the consumer's thread
    assign, release, pause, resume, commit  ──▶    commands, applied between two polls
    sink(events)                            ◀──    one call for each list of messages

*Callbacks translate, the engine decides.* An exception that left a callback would destroy the
record the client had just dequeued, so none does. In `on_assign` nothing is fetched: the engine
judges first and assigns each partition at an exact offset later. `on_revoke` is one bounded step:
tell the engine, wait for the offsets it wants committed, commit them, give the partitions up.
(Deferring it left two owners for a second under cooperative-sticky.)

*A session ends with its first `CursorFailed`.* The partition is unassigned and nothing of that
session follows, so a record that could not be read is never silently passed over.

Where to look: `consumer` is the thread, `translate` the loop that every record passes through,
`assignment` what is fetched and paused, `commits`, `health` and `statistics` what their names say,
`oversize` the search for a record that is too large. Here is what runs on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from sidecar.core.faults import Component, Fault, FaultKind, Known, Unreadable
from sidecar.core.types import LeaderEpoch, Offset, Partition, SessionId
from sidecar.kafka.client import ClientSettings, LogLine
from sidecar.kafka.commits import Answers, Commit, chunks, topic_partitions
from sidecar.kafka.consumer import (
    ALONE_SECONDS,
    Assign,
    ConsumerThread,
    Pause,
    Release,
    Renew,
    Sink,
    TopicsWell,
)
from sidecar.kafka.faults import unavailable
from sidecar.ports import CommitRequest, FetchEvent, Log, Revoked

OUTSTANDING_RECORDS_MAX = 8_000
"""Records handed to the event loop and not yet taken by the sink."""
PROBE_SECONDS = 2.0


class KafkaFetcher:
    """Implements `sidecar.ports.Fetcher`.

    `log` reads commits back where the client's answer does not tell, and asks whether a topic that
    was missing is there again, and whether it is the cluster that is away or the client.
    `revoke_seconds`: how long a revocation may wait for the engine; also while `close` leaves the
    group, so answer that one, too. `log_line` is called on the consumer's thread.
    """

    def __init__(
        self,
        settings: ClientSettings,
        log: Log,
        *,
        revoke_seconds: float = 5.0,
        commit_seconds: float = 10.0,
        log_line: LogLine | None = None,
        outstanding_records_max: int = OUTSTANDING_RECORDS_MAX,
    ) -> None:
        self._log = log
        self._commit_seconds = commit_seconds
        self._thread = ConsumerThread(
            settings,
            revoke_seconds=revoke_seconds,
            log_line=log_line,
            outstanding_records_max=outstanding_records_max,
            topics_missing=self._topics_missing,
            alone=self._alone,
        )
        self._one_commit = asyncio.Lock()
        self._committed: dict[Partition, Offset] = {}
        self._missing: set[str] = set()
        self._probing: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._sink: Sink | None = None

    async def start(self, sink: Sink) -> None:
        self._sink = sink
        self._thread.start(asyncio.get_running_loop(), self._take)

    def assign(
        self, partition: Partition, session: SessionId, at: Offset, epoch: LeaderEpoch | None
    ) -> None:
        self._thread.command(Assign(partition, session, at, epoch))

    def release(self, partition: Partition) -> None:
        self._thread.command(Release(partition))

    def pause(self, partition: Partition) -> None:
        self._thread.command(Pause(partition, True))

    def resume(self, partition: Partition) -> None:
        self._thread.command(Pause(partition, False))

    def throttle(self, full: bool) -> None:
        self._thread.throttle(full)

    def topics_well(self, topics: Collection[str]) -> None:
        self._missing.difference_update(topics)
        self._thread.command(TopicsWell(frozenset(topics)))

    async def commit(
        self, offsets: Mapping[Partition, CommitRequest]
    ) -> Mapping[Partition, Fault | None]:
        answers: Answers = {}
        async with self._one_commit:
            for chunk in chunks(offsets):
                answers |= await self._commit_chunk(chunk)
        return answers

    async def close(self, deadline_seconds: float) -> None:
        for task in (self._probing, self._looking):
            if task is not None:
                task.cancel()
        await self._thread.close(deadline_seconds)

    # --- inside -------------------------------------------------------------------------------

    def _take(self, events: Sequence[FetchEvent]) -> None:
        for event in events:
            if isinstance(event, Revoked):
                for partition in event.partitions:
                    self._committed.pop(partition, None)
        if self._sink is not None:
            self._sink(events)

    async def _commit_chunk(self, chunk: Mapping[Partition, CommitRequest]) -> Answers:
        answered: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        self._thread.command(Commit(topic_partitions(chunk), answered))
        try:
            answers = await asyncio.wait_for(answered, self._commit_seconds)
        except TimeoutError:
            slow = unavailable("_TIMED_OUT", "the commit was not answered in time")
            answers = dict.fromkeys(chunk, slow)
        doubtful = {
            partition: request
            for partition, request in chunk.items()
            if answers.get(partition) is not None
            or request.next < self._committed.get(partition, request.next)
        }
        if doubtful:
            # The client stamps one partition's error on all of them, the stored ones too.
            answers = {**answers, **await self._read_back(doubtful, answers)}
        for partition, request in chunk.items():
            if answers.get(partition) is None:
                self._committed[partition] = request.next
        return {partition: answers.get(partition) for partition in chunk}

    async def _read_back(
        self, requests: Mapping[Partition, CommitRequest], said: Answers
    ) -> Answers:
        """What stands there counts; what was said, only where that cannot be read."""
        readings = await self._log.committed(requests)
        judged: Answers = {}
        for partition, request in requests.items():
            reading = readings.get(partition)
            if isinstance(reading, Unreadable):
                judged[partition] = said.get(partition) or reading.fault
                continue
            if isinstance(reading, Known):
                stored = reading.value
                if stored.next == request.next and (stored.metadata or "") == request.metadata:
                    judged[partition] = None
                    continue
                found = f"committed is {stored.next}, not {request.next} as asked"
            else:
                found = f"nothing is committed, not {request.next} as asked"
            judged[partition] = said.get(partition) or Fault(
                Component.KAFKA, FaultKind.UNAVAILABLE, "COMMIT_NOT_FOUND", found
            )
        return judged

    def _topics_missing(self, topics: Collection[str]) -> None:
        """Ask until they are there, since the client says it only once."""
        self._missing |= set(topics)
        if self._probing is None or self._probing.done():
            self._probing = asyncio.get_running_loop().create_task(self._probe())

    def _alone(self) -> None:
        """The client reaches no broker: does anybody?"""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        if isinstance(await self._log.cluster_id(), Known):
            # An outage may have ended this moment: the client needs as long as it may be away.
            await asyncio.sleep(ALONE_SECONDS)
            self._thread.command(Renew())

    async def _probe(self) -> None:
        while self._missing:
            await asyncio.sleep(PROBE_SECONDS)
            readings = await self._log.topics(tuple(self._missing))
            well = frozenset(n for n, r in readings.items() if isinstance(r, Known))
            self._missing -= well
            if well:
                self._thread.command(TopicsWell(well))
