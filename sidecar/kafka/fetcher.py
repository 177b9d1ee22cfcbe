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

*How an assignment is changed outside a callback* depends on the protocol. Cooperative and KIP-848:
`incremental_unassign` + `incremental_assign`, other partitions do not notice. Eager: only `assign`
of the whole list is taken, so every other partition is named again where its session stands; what
was prefetched of them is fetched again, which is why changes are gathered and made at once.

*Nothing is unbounded.* Records handed to the loop and not yet taken are counted; while there are
too many, or the engine asks for it (`throttle`), the thread holds back what it has. For a moment it
only waits; after `HOLD_SECONDS` it pauses the partitions instead, because a rebalance queues behind
prefetched records: pausing purges those (they are fetched again), and polling can go on.

*An epoch is checked by `seek`.* librdkafka compares the leader epoch of a start offset with the
broker's in `seek`, and when metadata brings a newer epoch; not in `assign` once it knows the
leader, which is nearly always. So an assignment that carries an epoch is followed by a seek to the
very same place, and is paused until then; without it a truncated log would be read on in silence.

*A response that is larger than the client accepts* breaks the connection to its broker again and
again, and names no partition. So those that are not at their end are fetched one at a time; the one
that breaks it alone is the one whose record is too large.

*A session ends with its first `CursorFailed`.* The partition is unassigned and nothing of that
session follows, so a record that could not be read is never silently passed over.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sidecar.core.faults import Component, Fault, FaultKind, Known, Unreadable
from sidecar.core.types import LeaderEpoch, Offset, Partition, SessionId
from sidecar.kafka.client import ClientLog, ClientSettings, LogLine, consumer_config
from sidecar.kafka.faults import FATAL_CODES, fault_of, one_line, unavailable
from sidecar.kafka.statistics import LeaderWatch, decode
from sidecar.kafka.translate import Session, translate
from sidecar.ports import (
    Assigned,
    ClientFaulted,
    CommitRequest,
    CursorFailed,
    FetchEvent,
    LeaderChanged,
    Log,
    MemberChanged,
    Revoked,
)

BATCH_RECORDS = 1_000
OUTSTANDING_RECORDS_MAX = 8_000
"""Records handed to the event loop and not yet taken by the sink."""
POLL_SECONDS = 0.01
"""How long a command may wait for the thread while no records flow."""
HOLD_SECONDS = 0.3
"""How long records are merely held back before their partitions are paused."""
HOLD_STEP_SECONDS = 0.02
COMMIT_BYTES_MAX = 512 * 1024
"""Metadata of one commit call; 262 partitions of 4,000 characters were refused whole."""
FAULT_SECONDS_MIN = 0.5
"""Between two notices of the client's own state."""
PROBE_SECONDS = 2.0
TOO_LARGE_SECONDS = 2.0
"""How long a broker counts as well after a response that the client did not take."""
SUSPECT_SECONDS = 5.0
"""How long one partition alone is fetched to see whether its record is the one."""
SEEK_ATTEMPTS = 40
SEEK_STEP_SECONDS = 0.005

Sink: TypeAlias = Callable[[Sequence[FetchEvent]], None]
_Errors: TypeAlias = "dict[Partition, Fault | None]"


@dataclass(slots=True)
class _Commit:
    """One commit call. `answered` is filled on the event loop."""

    offsets: list[TopicPartition]
    answered: asyncio.Future[_Errors]


@dataclass(frozen=True, slots=True)
class _Assign:
    partition: Partition
    session: SessionId
    at: Offset
    epoch: LeaderEpoch | None


@dataclass(frozen=True, slots=True)
class _Release:
    partition: Partition


@dataclass(frozen=True, slots=True)
class _Pause:
    partition: Partition
    paused: bool


@dataclass(frozen=True, slots=True)
class _TopicsWell:
    topics: frozenset[str]


_Command: TypeAlias = _Assign | _Release | _Pause | _Commit | _TopicsWell


@dataclass(slots=True)
class _Faults:
    """What ails the client as a whole, by how it is cured."""

    connection: Fault | None = None
    """Until a broker is connected."""
    group: Fault | None = None
    """Until the group is joined."""
    fatal: Fault | None = None
    topics: dict[str, Fault] = field(default_factory=dict)
    """Until a question about the topic is answered."""
    shown: Fault | None = None
    shown_at: float = float("-inf")

    @property
    def gravest(self) -> Fault | None:
        for fault in (self.fatal, self.connection, self.group, *self.topics.values()):
            if fault is not None:
                return fault
        return None


class KafkaFetcher:
    """Implements `sidecar.ports.Fetcher`.

    `log` reads commits back where the client's answer does not tell, and asks whether a topic that
    was missing is there again. `revoke_seconds`: how long a revocation may wait for the engine.
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
        self._settings = settings
        self._log = log
        self._commit_seconds = commit_seconds
        self._thread = _ConsumerThread(
            settings,
            revoke_seconds=revoke_seconds,
            log_line=log_line,
            outstanding_records_max=outstanding_records_max,
            topics_missing=self._topics_missing,
        )
        self._one_commit = asyncio.Lock()
        self._committed: dict[Partition, Offset] = {}
        self._missing: set[str] = set()
        self._probing: asyncio.Task[None] | None = None
        self._sink: Sink | None = None

    async def start(self, sink: Sink) -> None:
        self._sink = sink
        self._thread.start(asyncio.get_running_loop(), self._taken)

    def assign(
        self, partition: Partition, session: SessionId, at: Offset, epoch: LeaderEpoch | None
    ) -> None:
        self._thread.command(_Assign(partition, session, at, epoch))

    def release(self, partition: Partition) -> None:
        self._thread.command(_Release(partition))

    def pause(self, partition: Partition) -> None:
        self._thread.command(_Pause(partition, True))

    def resume(self, partition: Partition) -> None:
        self._thread.command(_Pause(partition, False))

    def throttle(self, full: bool) -> None:
        self._thread.throttle(full)

    async def commit(
        self, offsets: Mapping[Partition, CommitRequest]
    ) -> Mapping[Partition, Fault | None]:
        results: _Errors = {}
        async with self._one_commit:
            for chunk in _chunks(offsets):
                results |= await self._commit_chunk(chunk)
        return results

    async def close(self, deadline_seconds: float) -> None:
        if self._probing is not None:
            self._probing.cancel()
        await self._thread.close(deadline_seconds)

    # --- on the event loop --------------------------------------------------------------------

    def _taken(self, events: Sequence[FetchEvent]) -> None:
        for event in events:
            if isinstance(event, Revoked):
                for partition in event.partitions:
                    self._committed.pop(partition, None)
        if self._sink is not None:
            self._sink(events)

    async def _commit_chunk(self, chunk: Mapping[Partition, CommitRequest]) -> _Errors:
        answered: asyncio.Future[_Errors] = asyncio.get_running_loop().create_future()
        self._thread.command(_Commit(_topic_partitions(chunk), answered))
        try:
            answer = await asyncio.wait_for(answered, self._commit_seconds)
        except TimeoutError:
            slow = unavailable("_TIMED_OUT", "the commit was not answered in time")
            answer = dict.fromkeys(chunk, slow)
        doubtful = {
            partition
            for partition, request in chunk.items()
            if answer.get(partition) is not None
            or request.next < self._committed.get(partition, request.next)
        }
        if doubtful:
            # The client stamps one partition's error on all of them, the stored ones too.
            answer = {**answer, **await self._read_back({p: chunk[p] for p in doubtful}, answer)}
        for partition, request in chunk.items():
            if answer.get(partition) is None:
                self._committed[partition] = request.next
        return {partition: answer.get(partition) for partition in chunk}

    async def _read_back(
        self, requests: Mapping[Partition, CommitRequest], answer: _Errors
    ) -> _Errors:
        readings = await self._log.committed(requests)
        judged: _Errors = {}
        for partition, request in requests.items():
            reading = readings.get(partition)
            said = answer.get(partition)
            if isinstance(reading, Known):
                stored = reading.value
                if stored.next == request.next and (stored.metadata or "") == request.metadata:
                    judged[partition] = None
                    continue
                found = f"committed is {stored.next}, not {request.next} as asked"
            elif isinstance(reading, Unreadable):
                judged[partition] = said or reading.fault
                continue
            else:
                found = f"nothing is committed, not {request.next} as asked"
            judged[partition] = said or Fault(
                Component.KAFKA, FaultKind.UNAVAILABLE, "COMMIT_NOT_FOUND", found
            )
        return judged

    def _topics_missing(self, topics: Collection[str]) -> None:
        """On the event loop: ask until they are there, since the client says it only once."""
        self._missing |= set(topics)
        if self._probing is None or self._probing.done():
            self._probing = asyncio.get_running_loop().create_task(self._probe())

    async def _probe(self) -> None:
        while self._missing:
            await asyncio.sleep(PROBE_SECONDS)
            readings = await self._log.topics(tuple(self._missing))
            well = frozenset(n for n, r in readings.items() if isinstance(r, Known))
            if well:
                self._missing -= well
                self._thread.command(_TopicsWell(well))


class _ConsumerThread:
    """Everything below runs on the thread, except where it says otherwise."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        revoke_seconds: float,
        log_line: LogLine | None,
        outstanding_records_max: int,
        topics_missing: Callable[[Collection[str]], None],
    ) -> None:
        self._settings = settings
        self._cooperative = settings.cooperative
        self._revoke_seconds = revoke_seconds
        self._line = log_line
        self._topics_missing = topics_missing
        self._outstanding_max = outstanding_records_max
        # Shared with the event loop; each is safe by itself.
        self._commands: deque[_Command] = deque()
        self._full = False
        self._closing = threading.Event()
        self._ended = threading.Event()
        self._awake = threading.Event()  # there is room again, or something to do
        self._taken = 0  # written by the event loop only
        self._closed: asyncio.Event | None = None
        self._close_by = float("inf")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sink: Sink | None = None
        self._thread: threading.Thread | None = None
        # The thread's own.
        self._handed = 0
        self._held: list[FetchEvent] = []
        self._held_records = 0
        self._holding_since: float | None = None
        self._paused_to_hold = False
        self._owned: set[Partition] = set()
        self._sessions: dict[str, dict[int, Session]] = {}
        self._fetched: set[Partition] = set()
        self._leaders = LeaderWatch()
        self._faults = _Faults()
        self._transport_text = ""
        self._member: str | None = None
        self._fenced: str | None = None
        self._in_flight: _Commit | None = None
        self._too_large: str | None = None  # the client's words for a response it did not take
        self._too_large_at = float("-inf")
        self._suspects: deque[Partition] = deque()  # the first of them is fetched alone
        self._suspect_next = 0
        self._suspect_since = 0.0

    # --- called on the event loop -------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop, sink: Sink) -> None:
        self._loop = loop
        self._sink = sink
        self._closed = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-consumer", daemon=True)
        self._thread.start()

    def command(self, command: _Command) -> None:
        self._commands.append(command)
        self._awake.set()
        if self._ended.is_set():
            self._refuse_commits()

    def throttle(self, full: bool) -> None:
        self._full = full
        if not full:
            self._awake.set()

    async def close(self, deadline_seconds: float) -> None:
        self._close_by = time.monotonic() + deadline_seconds
        self._closing.set()
        self._awake.set()
        if self._thread is None or self._closed is None:
            return
        try:
            await asyncio.wait_for(self._closed.wait(), deadline_seconds)
        except TimeoutError:
            # The client waits for a broker. Its thread is a daemon: the process may end around it.
            self._say(logging.WARNING, "the consumer did not close within its deadline")

    def _deliver(self, events: Sequence[FetchEvent], records: int) -> None:
        if self._sink is not None:
            self._sink(events)
        self._taken += records
        self._awake.set()

    # --- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._consume()
        except Exception as error:  # the thread must end with a word, and never in silence
            self._say(logging.ERROR, f"the consumer's thread ended: {error!r}")
            self._faults.fatal = fault_of(error)
            self._show_fault()
        finally:
            self._ended.set()
            self._refuse_commits()
            if self._closed is not None:
                self._on_loop(self._closed.set)

    def _consume(self) -> None:
        try:
            consumer = Consumer(
                {
                    **consumer_config(self._settings),
                    "error_cb": self._guarded(self._on_error),
                    "stats_cb": self._guarded(self._on_statistics),
                    "on_commit": self._guarded(self._on_commit),
                },
                logger=ClientLog(self._line, self._settings.secrets),
            )
            self._consumer = consumer
            consumer.subscribe(
                list(self._settings.topics),
                on_assign=self._guarded(self._on_assign),
                on_revoke=self._guarded(self._on_revoke),
                on_lost=self._guarded(self._on_lost),
            )
        except (KafkaException, ValueError, TypeError) as error:
            self._faults.fatal = fault_of(error)
            self._show_fault()
            self._closing.wait()
            return
        while not self._closing.is_set():
            try:
                self._turn()
            except Exception as error:
                # Whatever had been dequeued is gone, so no session may go on behind it.
                self._say(logging.ERROR, f"records were lost on the way, reading again: {error!r}")
                self._fail_all(fault_of(error))
                self._closing.wait(0.1)
        self._apply_commands()
        try:
            consumer.close()
        except (KafkaException, RuntimeError) as error:
            self._say(logging.WARNING, f"closing the consumer failed: {error}")

    def _turn(self) -> None:
        if self._commands:
            self._apply_commands()
        if self._faults.shown != self._faults.gravest:
            self._show_fault()
        if self._full or self._handed - self._taken > self._outstanding_max:
            self._hold_back()
            return
        if self._holding_since is not None:
            self._let_go()
        if self._suspects or self._too_large is not None:
            self._find_too_large()
        first = self._consumer.poll(POLL_SECONDS)
        if first is None:
            return
        messages = self._consumer.consume(BATCH_RECORDS - 1, 0)
        messages.insert(0, first)
        events, records = self._translated(messages)
        if events:
            self._post(events, records)

    def _translated(self, messages: Sequence[Message]) -> tuple[list[FetchEvent], int]:
        done = translate(messages, self._sessions, self._position)
        for message in done.others:
            self._other_error(message)
        for session in done.failed:
            self._drop_session(session.partition)
        if done.failed or done.reread:
            self._reassign((), [*done.reread], [s.partition for s in done.failed])
        return done.events, done.records

    def _position(self, partition: Partition) -> int | None:
        try:
            found = self._consumer.position([TopicPartition(partition.topic, partition.index)])
        except (KafkaException, RuntimeError):
            return None
        return found[0].offset if found and found[0].offset >= 0 else None

    # --- holding back -------------------------------------------------------------------------

    def _hold_back(self) -> None:
        now = time.monotonic()
        if self._holding_since is None:
            self._holding_since = now
        if not self._paused_to_hold and now - self._holding_since > HOLD_SECONDS:
            self._paused_to_hold = True
            self._sync_pauses(self._fetched)
        self._awake.clear()
        if self._full or self._handed - self._taken > self._outstanding_max:
            self._awake.wait(HOLD_STEP_SECONDS)
        if not self._paused_to_hold:
            return  # a moment only: not worth a message that would have to be kept
        message = self._consumer.poll(0)
        if message is not None:
            events, records = self._translated([message])
            self._held += events
            self._held_records += records

    def _let_go(self) -> None:
        self._holding_since = None
        held, records = self._held, self._held_records
        self._held, self._held_records = [], 0
        if held:
            self._post(held, records)
        if self._paused_to_hold:
            self._paused_to_hold = False
            self._sync_pauses(self._fetched)

    def _sync_pauses(self, partitions: Collection[Partition]) -> None:
        """Pause what the engine wants paused and what we hold back ourselves; resume the rest."""
        paused = {p for p in partitions if self._is_paused(p)}
        self._set_paused(paused, True)
        self._set_paused([p for p in partitions if p not in paused], False)

    def _is_paused(self, partition: Partition) -> bool:
        session = self._session(partition)
        return (
            session is None
            or session.paused
            or self._paused_to_hold
            or (bool(self._suspects) and partition != self._suspects[0])
        )

    def _set_paused(self, partitions: Iterable[Partition], paused: bool) -> None:
        changed = [TopicPartition(p.topic, p.index) for p in partitions]
        if not changed:
            return
        try:
            if paused:
                self._consumer.pause(changed)
            else:
                self._consumer.resume(changed)
        except KafkaException as error:
            self._say(logging.WARNING, f"pausing or resuming failed: {error}")

    # --- a response that is too large ---------------------------------------------------------

    def _find_too_large(self) -> None:
        """Between two polls, while there is one: fetch one suspect after the other alone."""
        text, self._too_large = self._too_large, None
        if text is None:
            self._next_suspect()
        elif self._suspects:  # it happened while this one was fetched alone
            culprit = self._session(self._suspects[0])
            self._suspects.clear()
            self._sync_pauses(self._fetched)
            if culprit is not None:
                self._fail_too_large(culprit, text)
        else:
            sessions = (self._session(p) for p in sorted(self._fetched))
            self._suspects.extend(s.partition for s in sessions if s and not (s.paused or s.at_end))
            self._begin_suspect()

    def _next_suspect(self) -> None:
        session = self._session(self._suspects[0])
        innocent = session is None or session.at_end or session.next > self._suspect_next
        if innocent or time.monotonic() - self._suspect_since > SUSPECT_SECONDS:
            self._suspects.popleft()
            self._begin_suspect()

    def _begin_suspect(self) -> None:
        while self._suspects and (session := self._session(self._suspects[0])) is not None:
            self._suspect_next = session.next
            self._suspect_since = time.monotonic()
            break
        else:
            self._suspects.clear()
        self._sync_pauses(self._fetched)

    def _fail_too_large(self, session: Session, text: str) -> None:
        detail = f"the record at offset {session.next}, or its batch, is too large: {text}"
        fault = Fault(Component.KAFKA, FaultKind.REFUSED, "MSG_SIZE_TOO_LARGE", one_line(detail))
        at = Offset(session.next)
        self._reassign((), (), [session.partition])
        failed = CursorFailed(session.partition, session.id, fault, truncation=False, blocked_at=at)
        self._post([failed], 0)

    # --- commands -----------------------------------------------------------------------------

    def _apply_commands(self) -> None:
        """All that wait, in order; changes of the assignment are gathered and made at once."""
        starts: dict[Partition, _Assign] = {}
        stops: dict[Partition, None] = {}
        pauses: dict[Partition, bool] = {}
        while self._commands:
            command = self._commands.popleft()
            match command:
                case _Assign(partition=partition):
                    stops.pop(partition, None)
                    pauses.pop(partition, None)
                    starts[partition] = command
                case _Release(partition=partition):
                    starts.pop(partition, None)
                    pauses.pop(partition, None)
                    stops[partition] = None
                case _Pause(partition=partition, paused=paused):
                    pauses[partition] = paused
                case _Commit():
                    self._commit(command)
                case _TopicsWell(topics=topics):
                    for topic in topics:
                        self._faults.topics.pop(topic, None)
        started = [
            Session(start.partition, start.session, start.at, start.epoch)
            for start in starts.values()
            if start.partition in self._owned
        ]
        if started or stops:
            self._reassign(started, (), stops)
        changed = [p for p, paused in pauses.items() if self._pause(p, paused)]
        if changed:
            self._sync_pauses(changed)

    def _pause(self, partition: Partition, paused: bool) -> bool:
        """Whether that is a change."""
        session = self._session(partition)
        if session is None or session.paused is paused:
            return False
        session.paused = paused
        return True

    def _reassign(
        self,
        started: Collection[Session],
        again: Collection[Session],
        stopped: Iterable[Partition],
    ) -> None:
        """Begin sessions, fetch `again` from where they stand, give up `stopped`."""
        for session in started:
            self._sessions.setdefault(session.partition.topic, {})[session.partition.index] = (
                session
            )
            self._leaders.begin(session.partition)
        for partition in stopped:
            self._drop_session(partition)
        fresh = [*started, *again]
        wanted = {p for p in self._fetched if self._session(p)} | {s.partition for s in fresh}
        if not self._cooperative:  # all of them begin anew
            fresh = [self._sessions[p.topic][p.index] for p in wanted]
        self._hold_still([s.partition for s in fresh if s.epoch is not None])
        try:
            if self._cooperative:
                out = (self._fetched - wanted) | {
                    s.partition for s in fresh if s.partition in self._fetched
                }
                if out:
                    self._consumer.incremental_unassign(
                        [TopicPartition(p.topic, p.index) for p in out]
                    )
                    self._fetched -= out
                if fresh:
                    self._consumer.incremental_assign([_start_of(s) for s in fresh])
            else:
                self._consumer.assign([_start_of(s) for s in fresh])
            self._fetched = wanted
        except KafkaException as error:
            # In the midst of a rebalance, for example. The engine will ask again.
            self._fetched = self._really_assigned()
            fault = fault_of(error)
            for session in fresh:
                self._drop_session(session.partition)
            self._post([_failed(session, fault) for session in fresh], 0)
            return
        self._validate(fresh)
        # A new session begins unpaused, also where the client remembers a pause of the last one.
        self._sync_pauses([s.partition for s in fresh if self._session(s.partition) is s])

    def _hold_still(self, partitions: Collection[Partition]) -> None:
        """Pause what is about to be assigned, so that nothing is fetched before the epoch was
        compared: "out of range" would come first, where the truth is "truncated". A partition can
        be paused once the client knows of it, and asking for its cached watermarks makes it so."""
        for partition in partitions:
            try:
                self._consumer.get_watermark_offsets(
                    TopicPartition(partition.topic, partition.index), cached=True
                )
            except (KafkaException, RuntimeError):
                continue
        self._set_paused(partitions, True)

    def _validate(self, fresh: Collection[Session]) -> None:
        """Have the broker compare the epochs of those that have one."""
        failed: list[tuple[Session, Fault]] = []
        for session in fresh:
            fault = self._seek(_start_of(session)) if session.epoch is not None else None
            if fault is not None:
                failed.append((session, fault))
        if failed:
            for session, _ in failed:
                self._drop_session(session.partition)
            self._reassign((), (), ())
            self._post([_failed(session, fault) for session, fault in failed], 0)

    def _seek(self, start: TopicPartition) -> Fault | None:
        """Refused with `_STATE` until the assignment took effect, a moment later."""
        fault: Fault | None = None
        for _ in range(SEEK_ATTEMPTS):
            try:
                self._consumer.seek(start)
                return None
            except KafkaException as error:
                fault = fault_of(error)
                if fault.code != "_STATE":
                    break
            time.sleep(SEEK_STEP_SECONDS)
        return fault

    def _really_assigned(self) -> set[Partition]:
        try:
            return {Partition(p.topic, p.partition) for p in self._consumer.assignment()}
        except (KafkaException, RuntimeError):
            return set()

    def _session(self, partition: Partition) -> Session | None:
        return self._sessions.get(partition.topic, {}).get(partition.index)

    def _drop_session(self, partition: Partition) -> None:
        self._sessions.get(partition.topic, {}).pop(partition.index, None)
        self._leaders.forget(partition)

    def _fail_all(self, fault: Fault) -> None:
        sessions = [s for of_topic in self._sessions.values() for s in of_topic.values()]
        events: list[FetchEvent] = [_failed(session, fault) for session in sessions]
        self._held, self._held_records = [], 0
        for session in sessions:
            self._drop_session(session.partition)
        self._reassign((), (), ())
        if events:
            self._post(events, 0)

    # --- commits ------------------------------------------------------------------------------

    def _commit(self, commit: _Commit) -> None:
        if self._fenced is not None:
            self._refuse(commit, self._fenced)
            return
        self._in_flight = commit
        try:
            self._consumer.commit(offsets=commit.offsets, asynchronous=True)
        except KafkaException as error:
            self._in_flight = None
            self._answer(commit, dict.fromkeys(_partitions(commit), fault_of(error)))

    def _refuse(self, commit: _Commit, why: str) -> None:
        self._answer(commit, dict.fromkeys(_partitions(commit), unavailable("_STATE", why)))

    def _refuse_commits(self) -> None:
        """The thread has ended (this may run on either): nobody else answers them."""
        while self._commands:
            command = self._commands.popleft()
            if isinstance(command, _Commit):
                self._refuse(command, "the consumer is closed")

    def _on_commit(self, error: KafkaError | None, elements: list[TopicPartition]) -> None:
        commit = self._in_flight
        if commit is None or {_asked(e) for e in elements} != {_asked(e) for e in commit.offsets}:
            if error is not None:  # of a commit that was given up, or one made on a revocation
                self._say(logging.WARNING, f"a commit that nobody waits for failed: {error}")
            return
        self._in_flight = None
        answer: _Errors = {}
        for element in elements:
            wrong = element.error or error
            answer[Partition(element.topic, element.partition)] = (
                None if wrong is None else fault_of(wrong)
            )
        self._answer(commit, answer)

    def _answer(self, commit: _Commit, answer: _Errors) -> None:
        def resolve() -> None:
            if not commit.answered.done():
                commit.answered.set_result(answer)

        self._on_loop(resolve)

    # --- the group's callbacks, inside poll() and consume() -----------------------------------

    def _on_assign(self, consumer: Consumer, elements: list[TopicPartition]) -> None:
        partitions = tuple(Partition(e.topic, e.partition) for e in elements)
        if self._cooperative:
            self._owned |= set(partitions)
            consumer.incremental_assign([])
        else:
            self._owned = set(partitions)
            self._sessions.clear()
            self._fetched.clear()
            consumer.assign([])
        self._faults.group = None
        for partition in partitions:
            self._faults.topics.pop(partition.topic, None)
        self._joined(consumer)
        if partitions:
            self._post([Assigned(partitions)], 0)

    def _on_revoke(self, consumer: Consumer, elements: list[TopicPartition]) -> None:
        partitions = self._give_up(elements)
        if partitions:
            requests = self._last_wishes(partitions)
            if requests and self._fenced is None:
                self._commit_now(consumer, requests)
        self._unassign(consumer, partitions)

    def _on_lost(self, consumer: Consumer, elements: list[TopicPartition]) -> None:
        partitions = self._give_up(elements)
        events: list[FetchEvent] = []
        if self._member is not None:
            self._member = None
            events.append(MemberChanged(None))
        if partitions:
            events.append(Revoked(partitions, lost=True, answer=lambda _: None))
        if events:
            self._post(events, 0)
        self._unassign(consumer, partitions)

    def _give_up(self, elements: list[TopicPartition]) -> tuple[Partition, ...]:
        """From here on nothing of these is handed out, whatever is in the queue or held back."""
        partitions = tuple(
            p for p in (Partition(e.topic, e.partition) for e in elements) if p in self._owned
        )
        self._owned -= set(partitions)
        for partition in partitions:
            self._drop_session(partition)
        self._held = [e for e in self._held if getattr(e, "partition", None) not in partitions]
        return partitions

    def _unassign(self, consumer: Consumer, partitions: Collection[Partition]) -> None:
        if self._cooperative:
            fetched = self._fetched & set(partitions)
            self._fetched -= fetched
            consumer.incremental_unassign([TopicPartition(p.topic, p.index) for p in fetched])
        else:
            self._fetched.clear()
            consumer.unassign()

    def _last_wishes(self, partitions: tuple[Partition, ...]) -> Mapping[Partition, CommitRequest]:
        """Ask the engine what to commit. It has `revoke_seconds`, less while closing."""
        answered = threading.Event()
        wishes: dict[Partition, CommitRequest] = {}

        def answer(requests: Mapping[Partition, CommitRequest]) -> None:
            if not answered.is_set():
                wishes.update({p: r for p, r in requests.items() if p in partitions})
                answered.set()

        if not self._post([Revoked(partitions, lost=False, answer=answer)], 0):
            return {}
        wait = self._bounded(self._revoke_seconds)
        if not answered.wait(wait):
            answered.set()  # too late now
            self._say(logging.WARNING, f"no answer to a revocation within {wait:.1f} s")
            return {}
        return wishes

    def _bounded(self, seconds: float) -> float:
        """A part of what is left until the deadline of `close`, if that is less."""
        return max(0.05, min(seconds, (self._close_by - time.monotonic()) / 2))

    def _commit_now(self, consumer: Consumer, requests: Mapping[Partition, CommitRequest]) -> None:
        """Sent before the partitions are given up, on the same connection, so the coordinator has
        it before it lets another member have them; the client ends an unassignment, and itself,
        only after its outstanding commits.

        Not the synchronous call: it would wait for a coordinator that is away, far beyond any
        bound of ours. (On a helper thread it would not even begin: the binding lets no other
        thread in while a callback runs.) If this commit is lost, the next owner finds the store
        ahead of it, and commits again.
        """
        for chunk in _chunks(requests):
            try:
                consumer.commit(offsets=_topic_partitions(chunk), asynchronous=True)
            except (KafkaException, RuntimeError) as error:
                self._say(logging.WARNING, f"the commit on a revocation failed: {error}")

    def _joined(self, consumer: Consumer) -> None:
        member = consumer.memberid() or None
        if member != self._member:
            self._member = member
            self._post([MemberChanged(member)], 0)

    # --- the client's other callbacks ---------------------------------------------------------

    def _on_error(self, error: KafkaError) -> None:
        code = error.code()
        if error.fatal() or code in FATAL_CODES:
            self._fatal(error)
        elif code == KafkaError._TRANSPORT:
            self._transport_text = error.str()  # one broker's; another one may be well
        elif code == KafkaError._BAD_MSG and "receive.message.max.bytes" in error.str():
            self._too_large = error.str()
            self._too_large_at = time.monotonic()
        elif code in (KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE):
            if time.monotonic() - self._too_large_at < TOO_LARGE_SECONDS:
                return  # the connection was broken by us, and is made again
            if self._faults.connection is None:
                detail = f"{error.str()}; {self._transport_text}" if self._transport_text else ""
                self._faults.connection = (
                    unavailable(error.name(), detail) if detail else fault_of(error)
                )
        elif code in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            self._faults.connection = fault_of(error)

    def _fatal(self, error: KafkaError) -> None:
        """The client does nothing any more once this happened, and says it again and again."""
        if self._faults.fatal is not None or self._fenced is not None:
            return
        text = one_line(error.str(), self._settings.secrets)
        partitions = tuple(self._owned)
        self._give_up([TopicPartition(p.topic, p.index) for p in partitions])
        events: list[FetchEvent] = []
        if partitions:
            events.append(Revoked(partitions, lost=True, answer=lambda _: None))
        self._member = None
        if _means_fenced(error):
            self._fenced = text
            events.append(MemberChanged(None, fenced=text))
        else:
            self._faults.fatal = Fault(Component.KAFKA, FaultKind.REFUSED, error.name(), text)
            events.append(MemberChanged(None))
        self._post(events, 0)

    def _other_error(self, message: Message) -> None:
        """An error that belongs to no session: of the group, of a topic, or of a partition that is
        not fetched (any more)."""
        error = message.error()
        if error is None:
            return
        topic, index = message.topic(), message.partition()
        if error.fatal() or error.code() in FATAL_CODES:
            self._fatal(error)
        elif topic is not None and (index is None or index < 0):
            fault = fault_of(error)
            self._faults.topics[topic] = Fault(
                fault.component, fault.kind, fault.code, one_line(f"{topic}: {fault.detail}")
            )
            self._on_loop(lambda: self._topics_missing([topic]))
        elif topic is None:
            self._faults.group = fault_of(error)

    def _on_statistics(self, text: str) -> None:
        statistics = decode(text)
        if statistics is None:
            return
        if statistics.connected:
            self._faults.connection = None
        if statistics.joined:
            self._faults.group = None
            if self._fenced is None and self._faults.fatal is None:
                self._joined(self._consumer)
        changed = self._leaders.observe(statistics, self._fetched)
        if changed:
            self._post([LeaderChanged(tuple(changed))], 0)

    def _show_fault(self) -> None:
        now = time.monotonic()
        fault = self._faults.gravest
        if fault == self._faults.shown or now - self._faults.shown_at < FAULT_SECONDS_MIN:
            return
        self._faults.shown = fault
        self._faults.shown_at = now
        if fault is not None:
            detail = one_line(fault.detail, self._settings.secrets)
            fault = Fault(fault.component, fault.kind, fault.code, detail)
        self._post([ClientFaulted(fault)], 0)

    # --- to the event loop --------------------------------------------------------------------

    def _post(self, events: Sequence[FetchEvent], records: int) -> bool:
        """Whether the event loop is still there to take them."""
        self._handed += records
        return self._on_loop(lambda: self._deliver(events, records))

    def _on_loop(self, call: Callable[[], object]) -> bool:
        if self._loop is None:
            return False
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # it was closed without us: leave the group, nobody listens any more
            self._closing.set()
            return False
        return True

    def _guarded(self, callback: Callable[..., None]) -> Callable[..., None]:
        """The callback, which now never raises."""

        def call(*args: object) -> None:
            try:
                callback(*args)
            except Exception as error:
                self._say(logging.ERROR, f"{callback.__name__} failed: {error!r}")

        return call

    def _say(self, level: int, text: str) -> None:
        if self._line is not None:
            self._line(level, one_line(text, self._settings.secrets))


def _failed(session: Session, fault: Fault) -> CursorFailed:
    return CursorFailed(session.partition, session.id, fault, truncation=False, blocked_at=None)


def _means_fenced(error: KafkaError) -> bool:
    """Whether another member has this identity; a fatal error carries its cause in its text."""
    text = error.str().lower()
    return error.code() != KafkaError._FATAL or "fenced" in text or "instance id" in text


def _start_of(session: Session) -> TopicPartition:
    partition = session.partition
    if session.epoch is None:
        return TopicPartition(partition.topic, partition.index, session.next)
    return TopicPartition(
        partition.topic, partition.index, session.next, leader_epoch=session.epoch
    )


def _topic_partitions(requests: Mapping[Partition, CommitRequest]) -> list[TopicPartition]:
    return [
        TopicPartition(p.topic, p.index, r.next, r.metadata)
        if r.epoch is None
        else TopicPartition(p.topic, p.index, r.next, r.metadata, r.epoch)
        for p, r in requests.items()
    ]


def _partitions(commit: _Commit) -> list[Partition]:
    return [Partition(e.topic, e.partition) for e in commit.offsets]


def _asked(element: TopicPartition) -> tuple[str, int, int]:
    return element.topic, element.partition, element.offset


def _chunks(
    requests: Mapping[Partition, CommitRequest],
) -> Iterable[dict[Partition, CommitRequest]]:
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
