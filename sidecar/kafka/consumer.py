"""The thread that owns librdkafka's consumer.

Between two polls it applies what the event loop asked for; in each turn it takes one list of
messages, translates it and hands the events over with one call. It polls with a short bound (10 ms)
for the first message and takes the rest without waiting, so a record waits for nobody while few
flow, and lists are long while many do.

*Nothing is unbounded.* Records handed to the loop and not yet taken are counted; while there are
too many, or the engine asks for it (`throttle`), the thread holds back what it has. For a moment it
only waits; after `HOLD_SECONDS` it pauses the partitions instead, because a rebalance queues behind
prefetched records: pausing purges those (they are fetched again), and polling can go on.

*A client that is lost is replaced.* librdkafka forgets the brokers that a metadata answer leaves
out, and where all of them were fenced for a moment that may be every one it knew: it then asks
nobody any more, for ever (librdkafka #5301). From outside this looks like an outage, except that
others reach the cluster. So the thread says when it has been alone for long, and does what it is
told.

*Order.* Events of sessions leave in the order in which they came about, also those that were held
back. News of the group and of the client overtake them: a revocation cannot wait, and from it on
nothing of its partitions is handed out.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sidecar.core.types import LeaderEpoch, Offset, Partition, SessionId
from sidecar.kafka.assignment import Assignment
from sidecar.kafka.client import ClientLog, ClientSettings, LogLine, consumer_config
from sidecar.kafka.commits import Commit, Commits
from sidecar.kafka.faults import FATAL_CODES, fault_of, one_line
from sidecar.kafka.health import Health
from sidecar.kafka.oversize import OversizeSearch
from sidecar.kafka.statistics import decode
from sidecar.kafka.translate import Session, translate
from sidecar.ports import (
    Assigned,
    ClientFaulted,
    CommitRequest,
    FetchEvent,
    LeaderChanged,
    MemberChanged,
    Revoked,
)

BATCH_RECORDS = 1_000
POLL_SECONDS = 0.01
"""How long a command may wait for the thread while no records flow."""
HOLD_SECONDS = 0.3
"""How long records are merely held back before their partitions are paused."""
HOLD_STEP_SECONDS = 0.02
METADATA_SECONDS = 2.0
ALONE_SECONDS = 3.0
"""How long no broker may be connected before somebody else is asked whether there is one."""

Sink: TypeAlias = Callable[[Sequence[FetchEvent]], None]


@dataclass(frozen=True, slots=True)
class Assign:
    partition: Partition
    session: SessionId
    at: Offset
    epoch: LeaderEpoch | None


@dataclass(frozen=True, slots=True)
class Release:
    partition: Partition


@dataclass(frozen=True, slots=True)
class Pause:
    partition: Partition
    paused: bool


@dataclass(frozen=True, slots=True)
class TopicsWell:
    """A question about them was answered."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Renew:
    """Others reach the cluster: if the client still does not, another takes its place."""


Command: TypeAlias = Assign | Release | Pause | Commit | TopicsWell | Renew


class ConsumerThread:
    """`start`, `command`, `throttle` and `close` are called on the event loop; the rest runs on
    the thread. `topics_missing` and `alone` are called on the loop."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        revoke_seconds: float,
        log_line: LogLine | None,
        outstanding_records_max: int,
        topics_missing: Callable[[Collection[str]], None],
        alone: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._revoke_seconds = revoke_seconds
        self._line = log_line
        self._topics_missing = topics_missing
        self._alone = alone
        self._outstanding_max = outstanding_records_max
        # Shared with the event loop; each is safe by itself.
        self._commands: deque[Command] = deque()
        self._full = False
        self._closing = threading.Event()
        self._ended = threading.Event()
        self._awake = threading.Event()  # there is room again, or something to do
        self._taken = 0  # written by the event loop only
        self._close_by = float("inf")
        self._closed: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sink: Sink | None = None
        # The thread's own.
        self._consumer: Consumer
        self._assignment: Assignment
        self._oversize: OversizeSearch
        self._commits = Commits(self._on_loop, self._say, settings.group_id)
        self._health = Health(settings.secrets, settings.group_id)
        self._owned: set[Partition] = set()
        self._member: str | None = None
        self._fenced: str | None = None
        self._clients = 0
        self._alone_since: float | None = None
        self._handed = 0
        self._holding_since: float | None = None
        self._held: list[FetchEvent] = []
        self._held_records = 0

    # --- called on the event loop -------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop, sink: Sink) -> None:
        self._loop = loop
        self._sink = sink
        self._closed = asyncio.Event()
        threading.Thread(target=self._run, name="kafka-consumer", daemon=True).start()

    def command(self, command: Command) -> None:
        self._commands.append(command)
        self._awake.set()
        if self._ended.is_set():
            self._refuse_commits()

    def throttle(self, full: bool) -> None:
        self._full = full
        self._awake.set()

    async def close(self, deadline_seconds: float) -> None:
        self._close_by = time.monotonic() + deadline_seconds
        self._closing.set()
        self._awake.set()
        if self._closed is None:  # never started
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
            self._live()
        except Exception as error:  # the thread must end with a word, and never in silence
            self._say(logging.ERROR, f"the consumer's thread ended: {error!r}")
            self._health.fatal_error(error)
            self._show_health()
        finally:
            self._ended.set()
            self._refuse_commits()
            if self._closed is not None:
                self._on_loop(self._closed.set)

    def _live(self) -> None:
        try:
            self._join()
        except (KafkaException, ValueError, TypeError) as error:
            self._health.fatal_error(error.args[0] if error.args else error)
            self._show_health()
            self._closing.wait()
            return
        while not self._closing.is_set():
            try:
                self._turn()
            except Exception as error:
                # Whatever had been dequeued is gone, so no session may go on behind it.
                self._say(logging.ERROR, f"records were lost on the way, reading again: {error!r}")
                self._assignment.fail_all(fault_of(error))
                self._closing.wait(0.1)
        self._apply_commands()
        self._end(self._consumer)

    def _end(self, consumer: Consumer) -> None:
        try:
            consumer.close()
        except (KafkaException, RuntimeError) as error:
            self._say(logging.WARNING, f"closing the consumer failed: {error}")

    def _join(self) -> None:
        self._clients += 1
        self._consumer = Consumer(
            {
                **consumer_config(self._settings),
                "error_cb": self._guarded(self._on_error),
                "stats_cb": self._guarded(self._on_statistics),
                "on_commit": self._guarded(self._commits.on_commit),
            },
            logger=ClientLog(self._line, self._settings.secrets),
        )
        self._assignment = Assignment(
            self._consumer,
            cooperative=self._settings.cooperative,
            hand=lambda events: self._hand(events, 0),
            say=self._say,
        )
        self._oversize = OversizeSearch(self._assignment)
        self._consumer.subscribe(
            list(self._settings.topics),
            on_assign=self._guarded(self._on_assign),
            on_revoke=self._guarded(self._on_revoke),
            on_lost=self._guarded(self._on_lost),
        )

    def _renew(self) -> None:
        ending = self._fenced is not None or self._closing.is_set()
        if self._alone_since is None or ending:
            return
        before = self._consumer
        try:
            self._join()
        except (KafkaException, RuntimeError) as error:
            # No descriptor or no thread is left, for example. The one there is stays, and says
            # that it is alone for as long as it is.
            self._clients -= 1
            self._say(
                logging.WARNING, f"a client that lost its brokers cannot be replaced: {error}"
            )
            return
        self._alone_since = None
        self._tell_lost(self._disown(tuple(self._owned)))
        self._tell_member(None)
        self._commits.give_up()
        self._say(
            logging.WARNING,
            "the client reaches no broker while others do: a new one takes its place",
        )
        # A client that lost its brokers may not come to an end.
        threading.Thread(target=self._end, args=(before,), name="kafka-end", daemon=True).start()

    def _turn(self) -> None:
        if self._commands:
            self._apply_commands()
        if self._health.changed:
            self._show_health()
        if self._oversize.running:
            found = self._oversize.go_on(time.monotonic())
            if found is not None:
                self._hand([found], 0)
        if self._is_full():
            self._hold_back()
            return
        if self._holding_since is not None:
            self._let_go()
        first = self._consumer.poll(POLL_SECONDS)
        if first is not None:
            messages = self._consumer.consume(BATCH_RECORDS - 1, 0)
            messages.insert(0, first)
            self._take(messages)

    def _take(self, messages: Sequence[Message]) -> None:
        done = translate(messages, self._assignment.sessions, self._assignment.position)
        if done.events:
            self._hand(done.events, done.records)
        for message in done.others:
            self._other_error(message)
        if done.failed or done.reread:
            self._assignment.change(
                again=done.reread, stopped=[session.partition for session in done.failed]
            )

    def _apply_commands(self) -> None:
        """All that wait, in order; changes of the assignment are gathered and made at once."""
        starts: dict[Partition, Assign] = {}
        stops: dict[Partition, None] = {}
        pauses: dict[Partition, bool] = {}
        while self._commands:
            command = self._commands.popleft()
            match command:
                case Assign(partition=partition):
                    stops.pop(partition, None)
                    pauses.pop(partition, None)
                    starts[partition] = command
                case Release(partition=partition):
                    starts.pop(partition, None)
                    pauses.pop(partition, None)
                    stops[partition] = None
                case Pause(partition=partition, paused=paused):
                    pauses[partition] = paused
                case Commit() if self._fenced is not None:
                    self._commits.refuse(command, self._fenced)
                case Commit() if not self._holds_all_of(command):
                    # Its last offset was committed when it was given back: an older one must not
                    # come after that. What is still ours is committed again.
                    self._commits.refuse(command, "a partition of it was given back")
                case Commit():
                    self._commits.make(self._consumer, command)
                case Renew():
                    self._renew()
                case TopicsWell(topics=topics):
                    self._health.topics_well(topics)
                    if topics.isdisjoint(partition.topic for partition in self._owned):
                        self._refresh_metadata()
        started = [
            Session(start.partition, start.session, start.at, start.epoch)
            for start in starts.values()
            if start.partition in self._owned
        ]
        if started or stops:
            self._assignment.change(started=started, stopped=stops)
        changed = [p for p, paused in pauses.items() if self._assignment.pause(p, paused)]
        self._assignment.sync_pauses(changed)

    def _refresh_metadata(self) -> None:
        """By itself the client looks for a topic that it subscribed to once a minute. It takes an
        answer of all topics for news of its subscription, and no other."""
        try:
            self._consumer.list_topics(timeout=METADATA_SECONDS)
        except (KafkaException, RuntimeError) as error:
            self._say(logging.INFO, f"asking for the topics again failed: {error}")

    def _holds_all_of(self, commit: Commit) -> bool:
        return all(Partition(o.topic, o.partition) in self._owned for o in commit.offsets)

    def _refuse_commits(self) -> None:
        """The thread has ended (this may run on either): nobody else answers them."""
        while self._commands:
            command = self._commands.popleft()
            if isinstance(command, Commit):
                self._commits.refuse(command, "the consumer is closed")

    # --- holding back -------------------------------------------------------------------------

    def _is_full(self) -> bool:
        return self._full or self._handed - self._taken > self._outstanding_max

    def _hold_back(self) -> None:
        now = time.monotonic()
        if self._holding_since is None:
            self._holding_since = now
        self._awake.clear()
        if self._is_full():
            self._awake.wait(HOLD_STEP_SECONDS)
        if now - self._holding_since > HOLD_SECONDS:
            self._assignment.hold(True)
            message = self._consumer.poll(0)
            if message is not None:
                self._take([message])

    def _let_go(self) -> None:
        self._holding_since = None
        held, records = self._held, self._held_records
        self._held, self._held_records = [], 0
        if held:
            self._post(held, records)
        self._assignment.hold(False)

    # --- the group's callbacks, inside poll() and consume() -----------------------------------

    def _on_assign(self, consumer: Consumer, elements: list[TopicPartition]) -> None:
        partitions = _partitions(elements)
        if not self._settings.cooperative:
            self._owned.clear()
        self._owned |= set(partitions)
        self._assignment.receive_none()
        self._health.assigned(frozenset(p.topic for p in partitions))
        self._tell_member(consumer.memberid() or None)
        if partitions:
            self._post([Assigned(partitions)], 0)

    def _on_revoke(self, consumer: Consumer, elements: list[TopicPartition]) -> None:
        partitions = self._disown(_partitions(elements))
        if partitions:
            requests = self._last_wishes(partitions)
            if requests and self._fenced is None:
                self._commits.make_last(consumer, requests)
        self._assignment.give_back(partitions)

    def _on_lost(self, consumer: Consumer, elements: list[TopicPartition]) -> None:
        partitions = self._disown(_partitions(elements))
        self._tell_lost(partitions)
        self._tell_member(None)
        self._assignment.give_back(partitions)

    def _disown(self, partitions: Collection[Partition]) -> tuple[Partition, ...]:
        """From here on nothing of these is handed out, whatever is in the queue or held back."""
        ours = tuple(p for p in partitions if p in self._owned)
        self._owned -= set(ours)
        for partition in ours:
            self._assignment.drop(partition)
        self._held = [e for e in self._held if getattr(e, "partition", None) not in ours]
        return ours

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
        left = (self._close_by - time.monotonic()) / 2
        seconds = max(0.05, min(self._revoke_seconds, left))
        if not answered.wait(seconds):
            answered.set()  # too late from now on
            self._say(logging.WARNING, f"no answer to a revocation within {seconds:.1f} s")
            return {}
        return wishes

    def _tell_lost(self, partitions: tuple[Partition, ...]) -> None:
        if partitions:
            self._post([Revoked(partitions, lost=True, answer=lambda _: None)], 0)

    def _tell_member(self, member: str | None, fenced: str | None = None) -> None:
        if member != self._member or fenced is not None:
            self._member = member
            self._post([MemberChanged(member, fenced)], 0)

    # --- the client's other callbacks, and errors of no session -------------------------------

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal() or error.code() in FATAL_CODES:
            self._fatal(error)
        elif error.code() == KafkaError._BAD_MSG and "receive.message.max.bytes" in error.str():
            self._oversize.noted(error.str())
            self._health.response_too_large(time.monotonic())
        else:
            self._health.connection_error(error, time.monotonic())

    def _other_error(self, message: Message) -> None:
        """Of the group, of a topic, or of a partition that is not fetched (any more)."""
        error = message.error()
        topic, index = message.topic(), message.partition()
        if error is None:
            return
        if error.fatal() or error.code() in FATAL_CODES:
            self._fatal(error)
        elif topic is not None and (index is None or index < 0):
            self._health.topic_error(topic, error)
            self._on_loop(lambda: self._topics_missing([topic]))
        elif topic is None:
            self._health.group_error(error)

    def _fatal(self, error: KafkaError) -> None:
        """The client does nothing any more once this happened, and says it again and again."""
        if self._fenced is not None:
            return
        self._tell_lost(self._disown(tuple(self._owned)))
        if _means_fenced(error):
            self._fenced = one_line(error.str(), self._settings.secrets)
        else:
            self._health.fatal_error(error)
        self._tell_member(None, self._fenced)

    def _on_statistics(self, text: str) -> None:
        statistics = decode(text)
        if statistics is None:
            return
        self._health.seen(statistics)
        self._note_alone(statistics.connected, time.monotonic())
        if statistics.joined and self._fenced is None:
            self._tell_member(self._consumer.memberid() or None)
        changed = self._assignment.leaders.observe(statistics, self._assignment.fetched)
        if changed:
            self._post([LeaderChanged(tuple(changed))], 0)

    def _note_alone(self, connected: bool, now: float) -> None:
        if connected:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since >= ALONE_SECONDS:
            self._on_loop(self._alone)

    def _show_health(self) -> None:
        news = self._health.to_show(time.monotonic())
        if news is not None:
            self._post([ClientFaulted(news[0])], 0)

    # --- to the event loop --------------------------------------------------------------------

    def _hand(self, events: Sequence[FetchEvent], records: int) -> None:
        """Events of sessions: behind those that are held back."""
        if self._holding_since is None:
            self._post(events, records)
        else:
            self._held += events
            self._held_records += records

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
        """The callback, which now never raises: the record just dequeued would be lost with it.
        What a client says that was replaced is nobody's."""
        client = self._clients

        def call(*args: object) -> None:
            if client != self._clients:
                return
            try:
                callback(*args)
            except Exception as error:
                self._say(logging.ERROR, f"{callback.__name__} failed: {error!r}")

        return call

    def _say(self, level: int, text: str) -> None:
        if self._line is not None:
            self._line(level, one_line(text, self._settings.secrets))


def _partitions(elements: Sequence[TopicPartition]) -> tuple[Partition, ...]:
    return tuple(Partition(e.topic, e.partition) for e in elements)


def _means_fenced(error: KafkaError) -> bool:
    """Whether another member has this identity; a fatal error carries its cause in its text."""
    text = error.str().lower()
    return error.code() != KafkaError._FATAL or "fenced" in text or "instance id" in text
