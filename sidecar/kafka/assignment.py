"""What is fetched, from where, and what is paused: our sessions and the client's assignment.

*How an assignment is changed outside a callback* depends on the protocol. Cooperative and KIP-848:
`incremental_unassign` + `incremental_assign`, other partitions do not notice. Eager: only `assign`
of the whole list is taken, so every other partition is named again where its session stands; what
was prefetched of them is fetched again, which is why changes are gathered and made at once.

*An epoch is checked by `seek`.* librdkafka compares the leader epoch of a start offset with the
broker's in `seek`, and when metadata brings a newer epoch; not in `assign` once it knows the
leader, which is nearly always. So an assignment that carries an epoch is followed by a seek to the
very same place, and is paused until then; without it a truncated log would be read on in silence.

*Pausing* purges what the client had prefetched. Three parties ask for it: the engine, partition by
partition; the thread, for all, while it holds records back for long; and the search for a record
that is too large, for all but one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from sidecar.core.faults import Fault
from sidecar.core.types import Partition
from sidecar.kafka.client import LogLine
from sidecar.kafka.faults import fault_of
from sidecar.kafka.statistics import LeaderWatch
from sidecar.kafka.translate import Session
from sidecar.ports import CursorFailed, FetchEvent

SEEK_ATTEMPTS = 40
SEEK_STEP_SECONDS = 0.005


class Assignment:
    """On the consumer's thread. `hand` takes the events of sessions that could not begin."""

    def __init__(
        self,
        consumer: Consumer,
        *,
        cooperative: bool,
        hand: Callable[[Sequence[FetchEvent]], None],
        say: LogLine,
    ) -> None:
        self.sessions: dict[str, dict[int, Session]] = {}
        self.fetched: set[Partition] = set()
        """What the client has assigned, to our knowledge."""
        self.leaders = LeaderWatch()
        self.alone: Partition | None = None
        """While set, only this one is fetched."""
        self._consumer = consumer
        self._cooperative = cooperative
        self._hand = hand
        self._say = say
        self._held = False

    def session(self, partition: Partition) -> Session | None:
        return self.sessions.get(partition.topic, {}).get(partition.index)

    def position(self, partition: Partition) -> int | None:
        """The client's own: the next offset to come; None until it knows."""
        try:
            found = self._consumer.position([TopicPartition(partition.topic, partition.index)])
        except (KafkaException, RuntimeError):
            return None
        return found[0].offset if found and found[0].offset >= 0 else None

    # --- beginning and ending -----------------------------------------------------------------

    def change(
        self,
        *,
        started: Collection[Session] = (),
        again: Collection[Session] = (),
        stopped: Iterable[Partition] = (),
    ) -> None:
        """Begin sessions, fetch `again` from where they stand, give up `stopped`."""
        for session in started:
            partition = session.partition
            self.sessions.setdefault(partition.topic, {})[partition.index] = session
            self.leaders.begin(partition)
        for partition in stopped:
            self.drop(partition)
        fresh = [*started, *again]
        wanted = {p for p in self.fetched if self.session(p)} | {s.partition for s in fresh}
        if not self._cooperative:  # all of them begin anew
            fresh = [self.sessions[p.topic][p.index] for p in sorted(wanted)]
        self._hold_still([s.partition for s in fresh if s.epoch is not None])
        try:
            self._apply(fresh, wanted)
        except KafkaException as error:
            # In the midst of a rebalance, for example. The engine will ask again.
            self.fetched = self._really_assigned()
            self._fail([(session, fault_of(error)) for session in fresh])
            return
        self._validate(fresh)
        # A new session begins unpaused, also where the client remembers a pause of the last one.
        self.sync_pauses([s.partition for s in fresh if self.session(s.partition) is s])

    def drop(self, partition: Partition) -> None:
        """Nothing of this session is handed out any more. The client is told by `change`."""
        self.sessions.get(partition.topic, {}).pop(partition.index, None)
        self.leaders.forget(partition)

    def fail_all(self, fault: Fault) -> None:
        """Records were lost on their way: every session has to be fetched again by the engine."""
        sessions = [s for of_topic in self.sessions.values() for s in of_topic.values()]
        self._fail([(session, fault) for session in sessions])
        self.change()

    # --- inside the group's callbacks, where the client wants exactly one of these calls --------

    def receive_none(self) -> None:
        """New partitions are ours: nothing is fetched of them until a session begins."""
        if self._cooperative:
            self._consumer.incremental_assign([])
        else:
            for partition in tuple(self.fetched):
                self.drop(partition)
            self.fetched.clear()
            self._consumer.assign([])

    def give_back(self, partitions: Collection[Partition]) -> None:
        """Partitions are taken away; an eager protocol takes all."""
        if self._cooperative:
            fetched = self.fetched & set(partitions)
            self.fetched -= fetched
            self._consumer.incremental_unassign(_elements(fetched))
        else:
            self.fetched.clear()
            self._consumer.unassign()

    # --- pausing ------------------------------------------------------------------------------

    def pause(self, partition: Partition, paused: bool) -> bool:
        """What the engine asks for. Whether that is a change; `sync_pauses` makes it."""
        session = self.session(partition)
        if session is None or session.paused is paused:
            return False
        session.paused = paused
        return True

    def hold(self, held: bool) -> None:
        """Pause all that is fetched, whatever the engine wants; or no longer."""
        if held is not self._held:
            self._held = held
            self.sync_pauses(self.fetched)
            if held:
                for of_topic in self.sessions.values():
                    for session in of_topic.values():
                        session.held = True

    def sync_pauses(self, partitions: Collection[Partition]) -> None:
        paused = {p for p in partitions if self._is_paused(p)}
        self._set_paused(paused, True)
        self._set_paused([p for p in partitions if p not in paused], False)

    def _is_paused(self, partition: Partition) -> bool:
        session = self.session(partition)
        return (
            session is None
            or session.paused
            or self._held
            or (self.alone is not None and partition != self.alone)
        )

    def _set_paused(self, partitions: Collection[Partition], paused: bool) -> None:
        if not partitions:
            return
        try:
            if paused:
                self._consumer.pause(_elements(partitions))
            else:
                self._consumer.resume(_elements(partitions))
        except KafkaException as error:
            self._say(logging.WARNING, f"pausing or resuming failed: {error}")

    # --- the client's side --------------------------------------------------------------------

    def _apply(self, fresh: Sequence[Session], wanted: set[Partition]) -> None:
        if self._cooperative:
            again = {s.partition for s in fresh if s.partition in self.fetched}
            if out := (self.fetched - wanted) | again:
                self._consumer.incremental_unassign(_elements(out))
                self.fetched -= out
            if fresh:
                self._consumer.incremental_assign([_start_of(s) for s in fresh])
        else:
            self._consumer.assign([_start_of(s) for s in fresh])
        self.fetched = wanted

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

    def _validate(self, fresh: Iterable[Session]) -> None:
        """Have the broker compare the epochs of those that have one."""
        failed: list[tuple[Session, Fault]] = []
        for session in fresh:
            fault = self._seek(_start_of(session)) if session.epoch is not None else None
            if fault is not None:
                failed.append((session, fault))
        if failed:
            self._fail(failed)
            self.change()

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

    def _fail(self, sessions: Iterable[tuple[Session, Fault]]) -> None:
        events: list[FetchEvent] = []
        for session, fault in sessions:
            self.drop(session.partition)
            events.append(
                CursorFailed(
                    session.partition, session.id, fault, truncation=False, blocked_at=None
                )
            )
        if events:
            self._hand(events)


def _elements(partitions: Iterable[Partition]) -> list[TopicPartition]:
    return [TopicPartition(p.topic, p.index) for p in partitions]


def _start_of(session: Session) -> TopicPartition:
    partition = session.partition
    if session.epoch is None:
        return TopicPartition(partition.topic, partition.index, session.next)
    return TopicPartition(
        partition.topic, partition.index, session.next, leader_epoch=session.epoch
    )
