"""The group's commits: after the promotions they rest on, one in flight, newest offsets only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from sidecar.core.checkpoint import Audit, Checkpoint
from sidecar.core.evidence import Cue, TopicDescription
from sidecar.core.facts import (
    CommitEnded,
    FaultMet,
)
from sidecar.core.faults import Absent, FaultKind, Known, Reading, Unreadable
from sidecar.core.recovery import Phase, Step
from sidecar.core.types import (
    Condition,
    Offset,
    Partition,
)
from sidecar.core.witness import Ours, decode
from sidecar.engine import messages as m
from sidecar.engine.context import Context
from sidecar.engine.cursor import Cursor
from sidecar.engine.parts import Part
from sidecar.ports import (
    CommitRequest,
)

COMMIT_REFRESH_SECONDS = 600.0
IDENTITY_SECONDS = 1.0
READ_BACK_SECONDS = 5.0
"""How often what stands committed is read back, of all partitions in one question. A foreign commit
is seen if it stands then, or at a look; one that our next commit replaced before is not. Before
every commit was rejected: it would double what a commit costs, for a commit that only another
member of the group can make while it has members."""


@dataclass(slots=True)
class CommitInFlight:
    """`offsets` are what the topics' identity was asked for, and then what is committed; `asked`
    are the checkpoints they are of."""

    ask: m.Ask
    offsets: dict[Partition, CommitRequest]
    asked: Mapping[Partition, Checkpoint]
    confirmed: bool = False


class Commits(Part):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.dirty: set[Partition] = set()
        self.urgent = False
        self.in_flight: CommitInFlight | None = None
        self._sent_at = -1e9
        self._tried_at = -1e9
        """When nothing that waits could be committed. Apart from `_sent_at`: what comes and goes
        more often than the backoff is long would put a commit off for ever."""
        self._backoff_seconds = 0.0
        self._read_back: m.Ask | None = None
        self._read_back_at = -1e9
        self._identity: m.Ask | None = None
        self._identity_at = -1e9
        self._identity_of: Mapping[Partition, Checkpoint] = {}
        """What stood of each partition when its topic's identity was asked for."""
        self._denied: set[str] = set()
        """Topics of which the last such question was denied."""

    def pinned_topics(self, partitions: Iterable[Partition]) -> tuple[str, ...]:
        """The topics whose identity a commit has to confirm; those pinned by name have none."""
        pinned = set()
        for partition in partitions:
            checkpoint = self.context.cursors[partition].checkpoint
            if checkpoint is not None and checkpoint.identity.topic_id is not None:
                pinned.add(partition.topic)
        return tuple(sorted(pinned))

    def standing(self, partitions: Iterable[Partition]) -> dict[Partition, Checkpoint]:
        """What a question for their topics' identity, which leaves now, is about."""
        found = {partition: self.context.cursors[partition].checkpoint for partition in partitions}
        return {partition: one for partition, one in found.items() if one is not None}

    def refresh(self, cursor: Cursor) -> None:
        """A commit that would expire is made again: the same offset, a new date."""
        since = cursor.committed_at
        if since is not None and self.context.now.monotonic - since >= COMMIT_REFRESH_SECONDS:
            self.dirty.add(cursor.partition)

    def watch(self, partitions: tuple[Partition, ...]) -> None:
        """From time to time: is each topic still the one it was? Before every commit that is asked
        anyway; a partition that is idle, or whose application asks for nothing, has no commit,
        and the client reads a topic that was created again on in silence."""
        now = self.context.now.monotonic
        if self._identity is None and now - self._identity_at >= IDENTITY_SECONDS:
            self._identity_at = now
            named = self.pinned_topics(partitions)
            if named:
                self._identity = self.context.ask()
                self._identity_of = self.standing(self.context.cursors)
                self.context.do(m.AskTopics(self._identity, named))
        self.read_back()

    def read_back(self) -> None:
        """From time to time: is what stands committed still ours? With no commit on its way, and
        none is sent until it is answered, so that the answer is about one that stands."""
        now = self.context.now.monotonic
        if (
            self.in_flight is not None
            or self._read_back is not None
            or now - self._read_back_at < READ_BACK_SECONDS
        ):
            return
        self._read_back_at = now
        partitions = tuple(
            partition
            for partition, cursor in self.context.cursors.items()
            if cursor.phase is Phase.DELIVERING and not cursor.revoking
        )
        if partitions:
            self._read_back = self.context.ask()
            self.context.do(m.AskCommitted(self._read_back, partitions))

    def committed_answered(self, event: m.CommittedAnswered) -> None:
        if event.ask != self._read_back:
            return
        self._read_back = None
        for partition, reading in event.committed.items():
            cursor = self.context.cursors.get(partition)
            if cursor is None or cursor.revoking or cursor.phase is not Phase.DELIVERING:
                continue
            match reading:
                case Absent():
                    cursor.committed = None
                    self.dirty.add(partition)
                case Known(committed):
                    testimony = decode(
                        committed.metadata,
                        group=self.context.policy.group,
                        partition=partition,
                        committed=committed.next,
                    )
                    if isinstance(testimony, Ours):
                        if cursor.next is not None and committed.next < cursor.next:
                            # Not made yet; or an owner that was frozen slipped one in.
                            self.dirty.add(partition)
                        else:
                            # A look that was begun before may have missed it.
                            cursor.committed = committed.next
                        continue
                    cursor.committed = committed.next
                    checkpoint = cursor.checkpoint
                    noted = None if checkpoint is None else checkpoint.replay
                    if noted is not None and noted.first <= committed.next:
                        self.dirty.add(partition)  # written down already: ours may replace it
                    else:
                        self.context.look(cursor, Cue.COMMIT_DIFFERED)
                case Unreadable():
                    pass
                case _:
                    assert_never(reading)

    def write_replay(self, cursor: Cursor) -> None:
        """Writes down what a foreign commit asks for; commits wait for it."""
        asked, checkpoint = cursor.asked_replay, cursor.checkpoint
        if (
            asked is None
            or checkpoint is None
            or cursor.phase is not Phase.DELIVERING
            or cursor.install is not None
            or cursor.revoking
        ):
            return
        why = f"somebody committed {asked.first}, below the position, while this member ran"
        self.parts.writes.install(
            cursor,
            m.Purpose.REPLAY,
            checkpoint.expected,
            checkpoint.succeed(replay=asked),
            audit=(Audit(self.context.now.wall, f"replay requested: {asked}", "sidecar", why),),
        )

    def replay_written(self, cursor: Cursor) -> None:
        cursor.asked_replay = None
        self.dirty.add(cursor.partition)

    def advance_commit(self) -> None:
        if self.urgent:
            self._read_back = None  # its answer is late, then, and asked for again
        if (
            self._read_back is not None
            or self.in_flight is not None
            or not self.dirty
            or self.parts.membership.revocations
        ):
            return
        now = self.context.now.monotonic
        interval = 0.0 if self.urgent else self.context.policy.commit_interval_seconds
        if (
            now - self._sent_at < max(self._backoff_seconds, interval)
            or now - self._tried_at < interval
        ):
            return
        offsets = {
            partition: self.context.cursors[partition].commit_request(self.context.policy)
            for partition in sorted(self.dirty)
            if self.context.cursors[partition].may_commit()
        }
        if not offsets:
            self._tried_at = now
            self.urgent = False
            return
        self._sent_at = now
        self.urgent = False
        # From here on: what is promoted meanwhile needs a commit of its own.
        self.dirty.difference_update(offsets)
        named = self.pinned_topics(offsets)
        self.in_flight = CommitInFlight(self.context.ask(), offsets, self.standing(offsets))
        if named:
            # A commit covers only what a describe begun after its fetch confirmed.
            self.context.do(m.AskTopics(self.in_flight.ask, named))
        else:
            self.send_commit(self.in_flight)

    def send_commit(self, commit: CommitInFlight) -> None:
        # A partition that is given back has its last offset committed by the revocation, and this
        # one, which is older, must not come after it.
        commit.offsets = {
            partition: request
            for partition, request in commit.offsets.items()
            if partition in self.context.cursors and not self.context.cursors[partition].revoking
        }
        if not commit.offsets:
            self.in_flight = None
            return
        commit.confirmed = True
        self.context.do(m.Commit(commit.ask, commit.offsets))

    def topics_answered(self, event: m.TopicsAnswered) -> None:
        commit = self.in_flight
        if commit is not None and commit.ask == event.ask and not commit.confirmed:
            asked = set(commit.offsets)
            commit.offsets = self.confirmed(event, commit.offsets, commit.asked)
            self.dirty.update(
                p for p in asked.difference(commit.offsets) if p in self.context.cursors
            )
            if asked and not commit.offsets:
                self._backoff_seconds = min(2.0, max(0.25, self._backoff_seconds * 2))
            self.send_commit(commit)
            return
        if event.ask == self._identity:
            self._identity = None
            for partition, cursor in self.context.cursors.items():
                if partition.topic in event.topics and partition in self._identity_of:
                    reading = event.topics[partition.topic]
                    granted = partition.topic in self._denied
                    self.same_topic(cursor, reading, self._identity_of[partition], granted=granted)
            self._denied = {
                topic
                for topic, reading in event.topics.items()
                if isinstance(reading, Unreadable) and reading.fault.denied
            }
            return
        for revocation in list(self.parts.membership.revocations):
            if revocation.ask == event.ask:
                confirmed = self.confirmed(event, revocation.offsets, revocation.asked)
                self.parts.membership.finish(revocation, confirmed)

    def confirmed(
        self,
        event: m.TopicsAnswered,
        offsets: dict[Partition, CommitRequest],
        asked: Mapping[Partition, Checkpoint],
    ) -> dict[Partition, CommitRequest]:
        """Those whose topic is still the one they belong to."""
        for topic in {partition.topic for partition in offsets}:
            reading = event.topics.get(topic)
            if isinstance(reading, Unreadable):
                self.context.note(FaultMet(reading.fault, None))
        return {
            partition: request
            for partition, request in offsets.items()
            if (cursor := self.context.cursors.get(partition)) is not None
            and self.same_topic(cursor, event.topics.get(partition.topic), asked[partition])
        }

    def same_topic(
        self,
        cursor: Cursor,
        reading: Reading[TopicDescription] | None,
        asked: Checkpoint,
        *,
        granted: bool = False,
    ) -> bool:
        """Whether the topic is still the one it was; another ID, or none, is a prompt to look.

        `asked` is what stood when that was asked: what was promoted up to there is confirmed. What
        is promoted after, and never confirmed, a gap names in its evidence. Of a partition that
        went over to another topic or lineage meanwhile, the answer says nothing: neither that the
        old offset belongs to the new topic, nor that anything of the new one is confirmed.
        `granted`: the question before this one was denied.
        """
        if cursor.checkpoint is None or not asked.same_log(cursor.checkpoint):
            return False
        pinned = cursor.checkpoint.identity.topic_id
        if pinned is None:
            return True
        match reading:
            case Known(topic):
                if topic.topic_id == pinned:
                    before = cursor.confirmed
                    if (
                        before is None
                        or not before.same_log(asked)
                        or before.token.next < asked.token.next
                    ):
                        cursor.confirmed = asked
                    if granted and cursor.phase is Phase.WAITING:
                        self.context.look(cursor, Cue.RETRY)  # now, not seconds later
                    return True
                if (
                    topic.topic_id is not None
                    and not cursor.revoking
                    and cursor.phase
                    in (Phase.DELIVERING, Phase.REPLAYING, Phase.COMMITTING, Phase.GAP)
                ):
                    self.context.look(cursor, Cue.TOPIC_ID_DIFFERED)
            case Unreadable(fault):
                if cursor.phase not in (Phase.DELIVERING, Phase.REPLAYING, Phase.COMMITTING):
                    pass
                elif fault.kind is FaultKind.TOPIC_UNKNOWN:
                    self.context.look(cursor, Cue.TOPIC_ID_DIFFERED)
                elif fault.denied:
                    # The client may go on in silence, or with nothing, also in silence.
                    self.context.look(cursor, Cue.ACCESS_DENIED)
            case _:
                pass
        return False

    def commit_answered(self, event: m.Committed) -> None:
        commit = self.in_flight
        if commit is None or commit.ask != event.ask:
            return
        self.in_flight = None
        done: dict[Partition, Offset] = {}
        refused = {}
        for partition, fault in event.results.items():
            cursor = self.context.cursors.get(partition)
            request = commit.offsets.get(partition)
            if cursor is None or request is None:
                continue
            if fault is not None:
                refused[partition] = fault
                self.dirty.add(partition)
                self.context.condition(
                    cursor,
                    Condition.COMMIT_REFUSED,
                    fault.kind in (FaultKind.AUTHORIZATION, FaultKind.REFUSED),
                    fault.detail,
                )
                continue
            done[partition] = request.next
            cursor.committed = request.next
            cursor.committed_at = self.context.now.monotonic
            self.context.condition(cursor, Condition.COMMIT_REFUSED, False, "")
            self.commit_reached(cursor)
        self._backoff_seconds = min(5.0, max(0.25, self._backoff_seconds * 2)) if refused else 0.0
        self.context.note(CommitEnded(done, refused))

    def commit_reached(self, cursor: Cursor) -> None:
        if cursor.phase is Phase.COMMITTING:
            cursor.needs_commit = False
            if cursor.started:
                self.parts.recovery.delivering(cursor, Step.COMMITTED)
        committed = cursor.committed
        waiting, cursor.waiters = cursor.waiters, []
        for waiter in waiting:
            answer = cursor.answers.get(waiter.page)
            reached = waiter.until is not None and waiter.until >= 0
            if (
                reached
                and answer is not None
                and committed is not None
                and committed >= answer.next
            ):
                self.context.do(m.Reply(waiter.request, replace(answer, committed=committed)))
            else:
                cursor.waiters.append(waiter)
