"""A Kafka cluster in memory, with the answers and events of the real adapter and none of its time.

What it is for: the engine's tests and the simulator need a cluster that loses retention, cuts its
log, re-creates topics, forgets commits and moves partitions exactly when told to, some ten thousand
times a second, and the same way each time. So there are no threads, no clock and no chance: nothing
happens but by a call, and a fetcher hands out events only in `pump()`. The methods that are `async`
because the ports are never suspend (`FakeFetcher.close` may, and only while nobody answers it).

What is modelled is what `benches.md` saw: a log is columns of visible records between a start and
an end, with holes where control records, aborted or compacted ones were; a leader epoch cache that
lets a client notice truncation if it knows an epoch, and only then; a topic that is re-created
longer is read on in silence; a commit is validated by nobody but for the membership; commits of a
deleted topic go with it. `tests/contracts` holds it against a real broker.

    kafka = FakeKafka(); kafka.create_topic("orders", 2)
    kafka.produce("orders", 0, b"one"); kafka.delete_records("orders", 0, before=1)
    kafka.truncate("orders", 0, to=0); kafka.recreate_topic("orders")
    kafka.fail("log_ends", fault, times=1); kafka.down = True
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sidecar.core.evidence import Committed, LogEnd, TopicDescription
from sidecar.core.faults import (
    ABSENT,
    Answer,
    Component,
    Fault,
    FaultKind,
    Known,
    Reading,
    Unreadable,
)
from sidecar.core.forecast import Retention, Stamp
from sidecar.core.types import (
    ClusterId,
    GroupId,
    Headers,
    IsolationLevel,
    LeaderEpoch,
    Offset,
    Partition,
    Record,
    SessionId,
    TopicId,
)
from sidecar.kafka.frames import digests, sizes
from sidecar.ports import (
    Assigned,
    Batch,
    ClientFaulted,
    CommitRequest,
    CursorFailed,
    EndReached,
    Fetched,
    FetchEvent,
    LeaderChanged,
    MemberChanged,
    Revoked,
)

METADATA_CHARACTERS_MAX = 4095
CLOSE_TURNS_MAX = 1000


def fault(kind: FaultKind, code: str, detail: str = "") -> Fault:
    return Fault(Component.KAFKA, kind, code, detail or code)


DOWN: Final = fault(FaultKind.UNAVAILABLE, "_ALL_BROKERS_DOWN")
TIMED_OUT: Final = fault(FaultKind.UNAVAILABLE, "_TIMED_OUT")
UNKNOWN_TOPIC: Final = fault(FaultKind.TOPIC_UNKNOWN, "UNKNOWN_TOPIC_OR_PART")
TOPIC_DENIED: Final = fault(FaultKind.AUTHORIZATION, "TOPIC_AUTHORIZATION_FAILED")
GROUP_DENIED: Final = fault(FaultKind.AUTHORIZATION, "GROUP_AUTHORIZATION_FAILED")
NOT_A_MEMBER: Final = fault(FaultKind.UNAVAILABLE, "UNKNOWN_MEMBER_ID")
METADATA_TOO_LARGE: Final = fault(FaultKind.REFUSED, "OFFSET_METADATA_TOO_LARGE")
OUT_OF_RANGE: Final = fault(FaultKind.REFUSED, "_AUTO_OFFSET_RESET", "Offset out of range")
TRUNCATED: Final = fault(
    FaultKind.EPOCH_SUSPECT, "_AUTO_OFFSET_RESET", "Partition log truncation detected"
)
EPOCH_UNKNOWN: Final = fault(FaultKind.EPOCH_SUSPECT, "_AUTO_OFFSET_RESET", "No epoch found")
BAD_RECORD: Final = fault(FaultKind.REFUSED, "_BAD_MSG")


# --- the cluster ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Transaction:
    """Records of one partition that nobody with `read_committed` sees until it is committed."""

    log: FakePartitionLog
    first: int
    offsets: list[int] = field(default_factory=list)

    def commit(self) -> None:
        self.log.open_transactions.remove(self)
        self.log.skip(1)  # the control record

    def abort(self) -> None:
        self.log.open_transactions.remove(self)
        self.log.aborted.update(self.offsets)
        self.log.skip(1)


class FakePartitionLog:
    """One partition's log. Columns, so that a page is a slice."""

    __slots__ = (
        *("aborted", "digests", "end", "epochs", "leader", "offsets", "open_transactions"),
        *("poisoned", "record_epochs", "records", "sizes", "start"),
    )

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self.offsets: list[int] = []
        self.records: list[Record] = []
        self.digests: list[int] = []
        self.sizes: list[int] = []
        self.record_epochs: list[int] = []
        self.epochs: list[tuple[int, int]] = [(0, 0)]  # (epoch, its first offset), rising
        self.leader = 0  # grows with every change of leader, epoch or connection
        self.open_transactions: list[Transaction] = []
        self.aborted: set[int] = set()
        self.poisoned: set[int] = set()

    @property
    def epoch(self) -> int:
        return self.epochs[-1][0]

    @property
    def last_stable(self) -> int:
        return min((t.first for t in self.open_transactions), default=self.end)

    def append(self, record: Record) -> int:
        offset = self.end
        self.offsets.append(offset)
        self.records.append(record)
        self.digests += digests((record,))
        self.sizes += sizes((record,))
        self.record_epochs.append(self.epoch)
        self.end = offset + 1
        return offset

    def skip(self, count: int) -> None:
        """Offsets that no reader sees: control records."""
        self.end += count

    def keep(self, low: int, high: int) -> None:
        """Only the records with indexes in `[low, high)` stay."""
        for column in (self.offsets, self.records, self.digests, self.sizes, self.record_epochs):
            del column[high:]
            del column[:low]

    def remove(self, index: int) -> None:
        for column in (self.offsets, self.records, self.digests, self.sizes, self.record_epochs):
            del column[index]

    def end_of_epoch(self, epoch: int) -> int | None:
        """Where the largest epoch at or below `epoch` ends; None: there is none, or it is ahead."""
        if epoch > self.epoch:
            return None
        ends = [*(first for _, first in self.epochs[1:]), self.end]
        known = [end for (e, _), end in zip(self.epochs, ends, strict=True) if e <= epoch]
        return known[-1] if known else None


@dataclass(slots=True)
class FakeTopic:
    id: TopicId
    logs: list[FakePartitionLog]
    compacted: bool
    retention: Retention = field(default_factory=lambda: Retention(604_800.0, by_size=False))


@dataclass(slots=True)
class _Injected:
    """A fault of a whole question, or of one element of it."""

    fault: Fault
    times: int | None
    partition: Partition | None
    topic: str | None

    def concerns(self, partition: Partition | None, topic: str | None) -> bool:
        if self.partition is not None:
            return partition == self.partition
        if self.topic is not None:
            return topic == self.topic
        return topic is None


@dataclass(slots=True)
class FakeGroup:
    commits: dict[Partition, Committed] = field(default_factory=dict)
    members: list[FakeFetcher] = field(default_factory=list)
    owner: dict[Partition, FakeFetcher] = field(default_factory=dict)
    target: dict[Partition, FakeFetcher] = field(default_factory=dict)


class FakeKafka:
    """`topic_ids=False`: a cluster that offers none. `down`: nobody answers."""

    def __init__(self, *, cluster_id: str = "fake-cluster", topic_ids: bool = True) -> None:
        self.cluster_id = ClusterId(cluster_id)
        self.topic_ids = topic_ids
        self.down = False
        self.topics: dict[str, FakeTopic] = {}
        self.groups: dict[GroupId, FakeGroup] = {}
        self.denied: set[str] = set()
        """Names of topics and groups whose reading is not allowed."""
        self.calls: dict[str, int] = {}
        """How often each question was asked."""
        self._injected: dict[str, list[_Injected]] = {}
        self._made = 0
        self._joins = 0

    # --- topics and records -----------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, *, compacted: bool = False) -> TopicId:
        assert name not in self.topics, f"{name} exists"
        self._made += 1
        topic_id = TopicId(f"id-{name}-{self._made}")
        self.topics[name] = FakeTopic(
            topic_id, [FakePartitionLog() for _ in range(partitions)], compacted
        )
        self._rebalance_all()
        return topic_id

    def delete_topic(self, name: str) -> None:
        """Its commits, in all groups, go with it."""
        del self.topics[name]
        for group in self.groups.values():
            for partition in [p for p in group.commits if p.topic == name]:
                del group.commits[partition]
        self._rebalance_all()

    def recreate_topic(self, name: str, partitions: int | None = None) -> TopicId:
        """Deleted and created again so quickly that no member notices."""
        old = self.topics[name]
        for group in self.groups.values():
            for partition in [p for p in group.commits if p.topic == name]:
                del group.commits[partition]
        self._made += 1
        topic_id = TopicId(f"id-{name}-{self._made}")
        count = len(old.logs) if partitions is None else partitions
        self.topics[name] = FakeTopic(
            topic_id, [FakePartitionLog() for _ in range(count)], old.compacted
        )
        if count != len(old.logs):
            self._rebalance_all()
        return topic_id

    def add_partitions(self, name: str, count: int) -> None:
        logs = self.topics[name].logs
        logs += [FakePartitionLog() for _ in range(count - len(logs))]
        self._rebalance_all()

    def log(self, topic: str, index: int) -> FakePartitionLog:
        return self.topics[topic].logs[index]

    def produce(
        self,
        topic: str,
        index: int,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp: int | None = 1_764_495_600_000,
    ) -> Offset:
        return Offset(self.log(topic, index).append((timestamp, key, value, headers)))

    def begin(self, topic: str, index: int, values: Iterable[bytes]) -> Transaction:
        """A transaction with these records, left open: `commit()` or `abort()` it."""
        log = self.log(topic, index)
        transaction = Transaction(log, log.end)
        log.open_transactions.append(transaction)
        transaction.offsets = [log.append((1_764_495_600_000, None, v, None)) for v in values]
        return transaction

    def skip(self, topic: str, index: int, count: int = 1) -> None:
        """Control records: offsets that nobody sees."""
        self.log(topic, index).skip(count)

    def compact(self, topic: str, index: int, offsets: Collection[int]) -> None:
        log = self.log(topic, index)
        for offset in offsets:
            at = bisect_left(log.offsets, offset)
            if at < len(log.offsets) and log.offsets[at] == offset:
                log.remove(at)

    def delete_records(self, topic: str, index: int, before: int) -> None:
        """Retention, or DeleteRecords: the log start moves up to `before`."""
        log = self.log(topic, index)
        before = min(before, log.end)
        if before > log.start:
            log.start = before
            log.keep(bisect_left(log.offsets, before), len(log.offsets))

    def poison(self, topic: str, index: int, offset: int) -> None:
        """This record cannot be read by the client."""
        self.log(topic, index).poisoned.add(offset)

    def elect(self, topic: str, index: int) -> None:
        """A clean change of leader: the epoch rises, nothing is lost."""
        log = self.log(topic, index)
        log.leader += 1
        log.epochs.append((log.epoch + 1, log.end))

    def reconnect(self, topic: str, index: int) -> None:
        """The connection to the leader was lost and made again."""
        self.log(topic, index).leader += 1

    def truncate(self, topic: str, index: int, to: int) -> None:
        """An unclean election: what lies at or above `to` is gone, and the epoch rises."""
        log = self.log(topic, index)
        self._cut(log, to)
        log.leader += 1
        log.epochs = [(e, first) for e, first in log.epochs if first < to or e == 0]
        log.epochs.append((log.epoch + 1, to))

    def rewind(self, topic: str, index: int, to: int) -> None:
        """A restored log directory: what lies at or above `to` is gone, and the epoch is the same,
        so that nobody but a digest notices once the log has grown again."""
        log = self.log(topic, index)
        self._cut(log, to)
        log.leader += 1

    @staticmethod
    def _cut(log: FakePartitionLog, to: int) -> None:
        log.keep(0, bisect_left(log.offsets, to))
        log.end = to
        log.start = min(log.start, to)
        log.open_transactions = [t for t in log.open_transactions if t.first < to]
        for transaction in log.open_transactions:
            transaction.offsets = [offset for offset in transaction.offsets if offset < to]
        log.aborted = {offset for offset in log.aborted if offset < to}

    # --- groups -----------------------------------------------------------------------------

    def group(self, group: GroupId) -> FakeGroup:
        known = self.groups.get(group)
        if known is None:
            known = self.groups[group] = FakeGroup()
        return known

    def reset_offset(
        self, group: GroupId, partition: Partition, to: int, *, metadata: str | None = None
    ) -> None:
        """Somebody else's commit: no metadata, no epoch, validated by nobody."""
        self.group(group).commits[partition] = Committed(Offset(to), None, metadata)

    def expire_commits(self, group: GroupId, *partitions: Partition) -> None:
        """The offsets' retention passed; without `partitions`, for all."""
        commits = self.group(group).commits
        for partition in partitions or tuple(commits):
            commits.pop(partition, None)

    def delete_group(self, group: GroupId) -> None:
        assert not self.group(group).members, "the group is not empty"
        del self.groups[group]

    def expel(self, member: FakeFetcher) -> None:
        """Its session ended, for the coordinator: others get its partitions at once. It learns so
        with its next `pump`."""
        group = self.group(member.group)
        group.members.remove(member)
        for partition in [p for p, owner in group.owner.items() if owner is member]:
            del group.owner[partition]
        member.expelled = True
        self._rebalance(group)

    def join(self, member: FakeFetcher) -> str:
        """Its new member ID. Who has the same instance ID is fenced."""
        self._joins += 1
        group = self.group(member.group)
        if member.instance_id is not None:
            for other in tuple(group.members):
                if other.instance_id == member.instance_id:
                    self.expel(other)
                    other.fenced = True
        group.members.append(member)
        self._rebalance(group)
        return f"member-{self._joins}"

    def leave(self, member: FakeFetcher) -> None:
        group = self.group(member.group)
        if member in group.members:
            group.members.remove(member)
        for partition in [p for p, owner in group.owner.items() if owner is member]:
            del group.owner[partition]
        self._rebalance(group)

    def _rebalance_all(self) -> None:
        for group in self.groups.values():
            if group.members:
                self._rebalance(group)

    def _rebalance(self, group: FakeGroup) -> None:
        """Partitions in order, dealt to the members in order of joining; who has one that may stay
        keeps it."""
        names = sorted({name for member in group.members for name in member.topics})
        partitions = [
            Partition(name, index)
            for name in names
            if name in self.topics
            for index in range(len(self.topics[name].logs))
        ]
        group.target = {}
        if not group.members:
            return
        share = -(-len(partitions) // len(group.members))
        load = [0] * len(group.members)
        at = {id(member): number for number, member in enumerate(group.members)}
        for partition in partitions:
            owner = group.owner.get(partition)
            number = at.get(id(owner))
            if owner is not None and number is not None and load[number] < share:
                group.target[partition] = owner
                load[number] += 1
        for partition in partitions:
            if partition not in group.target:
                number = load.index(min(load))
                group.target[partition] = group.members[number]
                load[number] += 1

    # --- faults -----------------------------------------------------------------------------

    def fail(
        self,
        call: str,
        with_fault: Fault = TIMED_OUT,
        *,
        times: int | None = 1,
        partition: Partition | None = None,
        topic: str | None = None,
    ) -> None:
        """The next `times` (None: until `heal`) answers to `call` are this fault.

        `call` is a method's name of the ports (`committed`, `topics`, `log_ends`, `commit`, …) or
        `fetch`; narrowed to a partition or a topic if one is given.
        """
        self._injected.setdefault(call, []).append(_Injected(with_fault, times, partition, topic))

    def heal(self, call: str | None = None) -> None:
        if call is None:
            self._injected.clear()
        else:
            self._injected.pop(call, None)

    def ask(self, call: str) -> Fault | None:
        """What the question as a whole ends with. Counts it."""
        self.calls[call] = self.calls.get(call, 0) + 1
        return DOWN if self.down else self._use(call, None, None)

    def ask_element(self, call: str, partition: Partition | None, topic: str) -> Fault | None:
        return self._use(call, partition, topic)

    def _use(self, call: str, partition: Partition | None, topic: str | None) -> Fault | None:
        if not self._injected:
            return None
        for injected in self._injected.get(call, ()):
            if injected.concerns(partition, topic):
                if injected.times is not None:
                    injected.times -= 1
                    if injected.times <= 0:
                        self._injected[call].remove(injected)
                return injected.fault
        return None


# --- the ports ------------------------------------------------------------------------------------


class FakeLog:
    """`sidecar.ports.Log` over the model."""

    def __init__(self, kafka: FakeKafka, group: GroupId) -> None:
        self._kafka = kafka
        self._group = group

    async def cluster_id(self) -> Answer[ClusterId]:
        wrong = self._kafka.ask("cluster_id")
        return Known(self._kafka.cluster_id) if wrong is None else Unreadable(wrong)

    async def committed(
        self, partitions: Collection[Partition]
    ) -> Mapping[Partition, Reading[Committed]]:
        wrong = self._kafka.ask("committed") or self._denied(self._group, GROUP_DENIED)
        return {p: self._committed(p, wrong) for p in partitions}

    async def committed_in_group(self) -> Answer[Mapping[Partition, Committed]]:
        wrong = self._kafka.ask("committed_in_group") or self._denied(self._group, GROUP_DENIED)
        if wrong is not None:
            return Unreadable(wrong)
        group = self._kafka.groups.get(self._group)
        return Known(dict(group.commits) if group is not None else {})

    async def topics(self, names: Collection[str]) -> Mapping[str, Reading[TopicDescription]]:
        wrong = self._kafka.ask("topics")
        return {name: self._topic(name, wrong) for name in names}

    async def log_ends(
        self, partitions: Collection[Partition]
    ) -> Mapping[Partition, Answer[LogEnd]]:
        wrong = self._kafka.ask("log_ends")
        answers: dict[Partition, Answer[LogEnd]] = {}
        for partition in partitions:
            log = self._log(partition, "log_ends", wrong)
            answers[partition] = (
                Unreadable(log)
                if isinstance(log, Fault)
                else Known(LogEnd(Offset(log.end), Offset(log.last_stable), LeaderEpoch(log.epoch)))
            )
        return answers

    async def log_starts(
        self, partitions: Collection[Partition]
    ) -> Mapping[Partition, Answer[Offset]]:
        wrong = self._kafka.ask("log_starts")
        answers: dict[Partition, Answer[Offset]] = {}
        for partition in partitions:
            log = self._log(partition, "log_starts", wrong)
            answers[partition] = (
                Unreadable(log) if isinstance(log, Fault) else Known(Offset(log.start))
            )
        return answers

    async def retentions(self, names: Collection[str]) -> Mapping[str, Answer[Retention]]:
        wrong = self._kafka.ask("retentions")
        return {name: self._retention(name, wrong) for name in names}

    async def stamps(
        self, offsets: Mapping[Partition, Offset]
    ) -> Mapping[Partition, Reading[Stamp]]:
        wrong = self._kafka.ask("stamps")
        return {p: self._stamp(p, offset, wrong) for p, offset in offsets.items()}

    def _retention(self, name: str, wrong: Fault | None) -> Answer[Retention]:
        wrong = wrong or self._kafka.ask_element("retentions", None, name)
        wrong = wrong or self._denied(name, TOPIC_DENIED)
        if wrong is None and name not in self._kafka.topics:
            wrong = UNKNOWN_TOPIC
        if wrong is not None:
            return Unreadable(wrong)
        topic = self._kafka.topics[name]
        return Known(Retention(None, by_size=False) if topic.compacted else topic.retention)

    def _stamp(self, partition: Partition, offset: Offset, wrong: Fault | None) -> Reading[Stamp]:
        log = self._log(partition, "stamps", wrong)
        if isinstance(log, Fault):
            return Unreadable(log)
        if not log.start <= offset <= log.end:
            return Unreadable(OUT_OF_RANGE)
        at = bisect_left(log.offsets, offset)
        if at == len(log.offsets):
            return ABSENT
        return Known(Stamp(offset, log.records[at][0]))

    def _committed(self, partition: Partition, wrong: Fault | None) -> Reading[Committed]:
        wrong = wrong or self._kafka.ask_element("committed", partition, partition.topic)
        wrong = wrong or self._denied(partition.topic, TOPIC_DENIED)
        if wrong is not None:
            return Unreadable(wrong)
        group = self._kafka.groups.get(self._group)
        committed = group.commits.get(partition) if group is not None else None
        return ABSENT if committed is None else Known(committed)

    def _topic(self, name: str, wrong: Fault | None) -> Reading[TopicDescription]:
        wrong = wrong or self._kafka.ask_element("topics", None, name)
        wrong = wrong or self._denied(name, TOPIC_DENIED)
        if wrong is not None:
            return Unreadable(wrong)
        topic = self._kafka.topics.get(name)
        if topic is None:
            return Unreadable(UNKNOWN_TOPIC)
        if not self._kafka.topic_ids:
            return Known(TopicDescription(None, len(topic.logs), None))
        return Known(TopicDescription(topic.id, len(topic.logs), topic.compacted))

    def _log(
        self, partition: Partition, call: str, wrong: Fault | None
    ) -> FakePartitionLog | Fault:
        wrong = wrong or self._kafka.ask_element(call, partition, partition.topic)
        wrong = wrong or self._denied(partition.topic, TOPIC_DENIED)
        if wrong is not None:
            return wrong
        topic = self._kafka.topics.get(partition.topic)
        if topic is None or partition.index >= len(topic.logs):
            return UNKNOWN_TOPIC
        return topic.logs[partition.index]

    def _denied(self, name: str, wrong: Fault) -> Fault | None:
        return wrong if name in self._kafka.denied else None


@dataclass(slots=True)
class _Session:
    id: SessionId
    next: int
    epoch: int | None
    checked: bool = False  # epoch and range, since the session began or the leader changed
    paused: bool = False
    ended_at: int | None = None
    leader: int = -1


class FakeFetcher:
    """`sidecar.ports.Fetcher` over the model. Everything happens in `pump()`."""

    def __init__(
        self,
        kafka: FakeKafka,
        group: GroupId,
        topics: Sequence[str],
        *,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
        instance_id: str | None = None,
        records_max: int = 1000,
    ) -> None:
        self.group = group
        self.topics = tuple(topics)
        self.instance_id = instance_id
        self.expelled = False
        self.fenced = False
        self.throttled = False
        self.closed = False
        self.records_max = records_max
        self._kafka = kafka
        self._isolation = isolation
        self._sink: Callable[[Sequence[FetchEvent]], None] | None = None
        self._sessions: dict[Partition, _Session] = {}
        self._revoking: dict[Partition, bool] = {}  # whether it was answered
        self._member: str | None = None
        self._assigned: set[Partition] = set()  # as far as this member knows
        self._fault_shown: Fault | None = None

    # --- the port ---------------------------------------------------------------------------

    async def start(self, sink: Callable[[Sequence[FetchEvent]], None]) -> None:
        self._sink = sink

    def assign(
        self, partition: Partition, session: SessionId, at: Offset, epoch: LeaderEpoch | None
    ) -> None:
        if self._owns(partition):
            self._sessions[partition] = _Session(session, at, epoch)

    def release(self, partition: Partition) -> None:
        self._sessions.pop(partition, None)

    def pause(self, partition: Partition) -> None:
        if (session := self._sessions.get(partition)) is not None:
            session.paused = True

    def resume(self, partition: Partition) -> None:
        if (session := self._sessions.get(partition)) is not None:
            session.paused = False

    def throttle(self, full: bool) -> None:
        self.throttled = full

    def topics_well(self, topics: Collection[str]) -> None:
        """Here they are found when the group is asked, which is always."""

    async def commit(
        self, offsets: Mapping[Partition, CommitRequest]
    ) -> Mapping[Partition, Fault | None]:
        return self._commit(offsets)

    async def close(self, deadline_seconds: float) -> None:
        if self._member is not None and not self.expelled:
            self._begin_revoking(list(self.owned()))
            for _ in range(CLOSE_TURNS_MAX):
                if all(self._revoking.values()):
                    break
                await asyncio.sleep(0)
            self._revoking.clear()
        self._sessions.clear()
        self._kafka.leave(self)
        self._member = None
        self.closed = True

    # --- what a test does -------------------------------------------------------------------

    def owned(self) -> Iterator[Partition]:
        owner = self._kafka.group(self.group).owner
        return iter(sorted(p for p, member in owner.items() if member is self))

    def pump(self) -> int:
        """Poll once: the group's news first, then at most one batch of each partition. Returns
        how many events were handed to the sink."""
        if self._sink is None or self.closed:
            return 0
        events: list[FetchEvent] = []
        wrong = self._client_fault()
        if wrong != self._fault_shown:
            self._fault_shown = wrong
            events.append(ClientFaulted(wrong))
        if not self._kafka.down and (self.expelled or not self.fenced):
            events += self._group_events()
            events += self._leader_events()
            if not self.throttled:
                for partition in tuple(self._sessions):
                    events += self._fetch(partition)
        if events:
            self._sink(events)
        return len(events)

    def give_up_waiting(self) -> None:
        """The bounded wait for the answer to a revocation has passed."""
        for partition in self._revoking:
            self._revoking[partition] = True

    # --- inside -----------------------------------------------------------------------------

    def _owns(self, partition: Partition) -> bool:
        return (
            not self.expelled
            and partition not in self._revoking
            and self._kafka.group(self.group).owner.get(partition) is self
        )

    def _client_fault(self) -> Fault | None:
        if self._kafka.down:
            return DOWN
        if self._member is None and self.group in self._kafka.denied:
            return GROUP_DENIED
        return None

    def _group_events(self) -> list[FetchEvent]:
        events: list[FetchEvent] = []
        if self.expelled:
            lost = tuple(sorted(self._assigned))
            self._sessions.clear()
            self._revoking.clear()
            self._assigned.clear()
            self._member = None
            if lost:
                events.append(Revoked(lost, lost=True, answer=lambda _: None))
            events.append(MemberChanged(None, "fenced" if self.fenced else None))
            self.expelled = False
            if self.fenced:
                return events
        if self._member is None:
            if self.group in self._kafka.denied:
                return events
            self._member = self._kafka.join(self)
            events.append(MemberChanged(self._member))
        group = self._kafka.group(self.group)
        owner, target = group.owner, group.target
        leaving = [
            p
            for p, member in owner.items()
            if member is self and target.get(p) is not self and p not in self._revoking
        ]
        if leaving:
            if events and self._sink is not None:
                self._sink(events)  # in order
                events = []
            self._begin_revoking(sorted(leaving))
        if self._revoking:
            for partition in [p for p, answered in self._revoking.items() if answered]:
                del self._revoking[partition]
                self._assigned.discard(partition)
                if owner.get(partition) is self:
                    del owner[partition]
            target = group.target  # the news may have been acted upon
        coming = [p for p, member in target.items() if member is self and p not in owner]
        if coming:
            coming.sort()
            for partition in coming:
                group.owner[partition] = self
                self._assigned.add(partition)
            events.append(Assigned(tuple(coming)))
        return events

    def _begin_revoking(self, partitions: Sequence[Partition]) -> None:
        if not partitions or self._sink is None:
            return
        self._revoking.update(dict.fromkeys(partitions, False))
        for partition in partitions:
            self._sessions.pop(partition, None)

        def answer(requests: Mapping[Partition, CommitRequest]) -> None:
            if not any(self._revoking.get(p) is False for p in partitions):
                return  # too late
            self._commit({p: r for p, r in requests.items() if p in partitions})
            self._revoking.update(dict.fromkeys(partitions, True))

        self._sink([Revoked(tuple(partitions), lost=False, answer=answer)])

    def _leader_events(self) -> list[FetchEvent]:
        changed = []
        for partition, session in self._sessions.items():
            log = self._log(partition)
            if log is None or log.leader == session.leader:
                continue
            if session.leader >= 0:
                changed.append(partition)
            session.leader = log.leader
            session.checked = False
        return [LeaderChanged(tuple(changed))] if changed else []

    def _log(self, partition: Partition) -> FakePartitionLog | None:
        topic = self._kafka.topics.get(partition.topic)
        if topic is None or partition.index >= len(topic.logs):
            return None
        return topic.logs[partition.index]

    def _fetch(self, partition: Partition) -> list[FetchEvent]:
        session = self._sessions[partition]
        log = self._log(partition)
        if session.paused or log is None:
            return []
        wrong = self._kafka.ask_element("fetch", partition, partition.topic)
        if wrong is None and partition.topic in self._kafka.denied:
            wrong = TOPIC_DENIED
        if wrong is None and not session.checked and session.epoch is not None:
            end = log.end_of_epoch(session.epoch)
            if end is None:
                wrong = EPOCH_UNKNOWN
            elif end < session.next:
                wrong = TRUNCATED
        session.checked = True
        if wrong is None and not log.start <= session.next <= log.end:
            wrong = OUT_OF_RANGE
        if wrong is not None:
            return [self._failed(partition, session, wrong)]
        committed = self._isolation is IsolationLevel.READ_COMMITTED
        limit = log.last_stable if committed else log.end
        if session.next > limit:
            return []  # between the last stable offset and the end: it waits
        low = bisect_left(log.offsets, session.next)
        high = bisect_left(log.offsets, limit, low)
        more = high > low + self.records_max
        high = min(high, low + self.records_max)
        blocked: Offset | None = None
        if log.poisoned:
            for at in range(low, high):
                if log.offsets[at] in log.poisoned:
                    blocked, high, more = Offset(log.offsets[at]), at, True
                    break
        events: list[FetchEvent] = []
        if high > low:
            batch = self._batch(log, low, high, hide=log.aborted if committed else set())
            session.next = log.offsets[high - 1] + 1
            session.epoch = log.record_epochs[high - 1]
            if batch is not None:
                events.append(Fetched(partition, session.id, batch))
        if blocked is not None:
            events.append(self._failed(partition, session, BAD_RECORD, blocked))
        elif not more:
            if limit > session.next:
                session.epoch = log.epoch  # control records carry their leader's, too
            session.next = limit
            if session.ended_at != limit:
                session.ended_at = limit
                events.append(EndReached(partition, session.id, Offset(limit)))
        return events

    @staticmethod
    def _batch(log: FakePartitionLog, low: int, high: int, hide: set[int]) -> Batch | None:
        rows = slice(low, high)
        offsets = log.offsets[rows]
        record_digests, record_sizes = log.digests[rows], log.sizes[rows]
        records, record_epochs = log.records[rows], log.record_epochs[rows]
        if hide and any(offset in hide for offset in offsets):
            shown = [at for at, offset in enumerate(offsets) if offset not in hide]
            if not shown:
                return None
            offsets = [offsets[at] for at in shown]
            record_digests = [record_digests[at] for at in shown]
            record_sizes = [record_sizes[at] for at in shown]
            records = [records[at] for at in shown]
            record_epochs = [record_epochs[at] for at in shown]
        runs: list[tuple[Offset, LeaderEpoch | None]] = [
            (Offset(offsets[0]), LeaderEpoch(record_epochs[0]))
        ]
        if record_epochs[0] != record_epochs[-1]:
            for offset, epoch in zip(offsets, record_epochs, strict=True):
                if runs[-1][1] != epoch:
                    runs.append((Offset(offset), LeaderEpoch(epoch)))
        return Batch(offsets, record_digests, record_sizes, records, runs)

    def _failed(
        self,
        partition: Partition,
        session: _Session,
        wrong: Fault,
        blocked_at: Offset | None = None,
    ) -> CursorFailed:
        del self._sessions[partition]
        return CursorFailed(partition, session.id, wrong, wrong is TRUNCATED, blocked_at)

    def _commit(self, offsets: Mapping[Partition, CommitRequest]) -> dict[Partition, Fault | None]:
        group = self._kafka.group(self.group)
        wrong = self._kafka.ask("commit")
        if wrong is None and self.group in self._kafka.denied:
            wrong = GROUP_DENIED
        if wrong is None and (self.expelled or (group.members and self not in group.members)):
            wrong = NOT_A_MEMBER
        results: dict[Partition, Fault | None] = {}
        for partition, request in offsets.items():
            said = wrong or self._kafka.ask_element("commit", partition, partition.topic)
            if said is None and partition.topic not in self._kafka.topics:
                said = UNKNOWN_TOPIC
            if said is None and partition.topic in self._kafka.denied:
                said = TOPIC_DENIED
            if said is None and len(request.metadata) > METADATA_CHARACTERS_MAX:
                said = METADATA_TOO_LARGE
            if said is None:
                group.commits[partition] = Committed(
                    request.next, request.epoch, request.metadata or None
                )
            results[partition] = said
        return results
