"""One vocabulary for two clusters: the model in memory and a real broker.

A contract test says what happens to the cluster (`world.produce`, `world.delete_records`) and what
a member of a group then sees (`member.until(...)`), and knows no more. On the fake, waiting means
to pump until nothing more comes; on the real one, to let the event loop run until a deadline.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without __all__
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from sidecar.core.evidence import Committed
from sidecar.core.faults import Known
from sidecar.core.forecast import Retention
from sidecar.core.types import GroupId, IsolationLevel, LeaderEpoch, Offset, Partition, SessionId
from sidecar.kafka.client import ClientSettings
from sidecar.kafka.fetcher import KafkaFetcher
from sidecar.kafka.log import KafkaLog
from sidecar.ports import (
    Assigned,
    CommitRequest,
    CursorFailed,
    EndReached,
    Fetched,
    Fetcher,
    FetchEvent,
    LeaderChanged,
    Log,
    MemberChanged,
    Revoked,
)
from tests.benches.kafka import KafkaBroker
from tests.benches.names import Names
from tests.benches.topics import Outsider, Record
from tests.fakes.kafka import FakeFetcher, FakeKafka, FakeLog

DEADLINE_SECONDS = 20.0
T = TypeVar("T")
Answer = Callable[[Sequence[Partition]], Mapping[Partition, CommitRequest]]


class World(Protocol):
    names: Names

    async def create(
        self, partitions: int = 1, *, compacted: bool = False, retention_ms: int = -1
    ) -> str: ...

    async def recreate(self, topic: str) -> None: ...

    async def delete(self, topic: str) -> None: ...

    async def produce(
        self, topic: str, records: int | Sequence[Record], index: int = 0
    ) -> list[int]: ...

    async def transaction(self, topic: str, values: int, *, commit: bool) -> None: ...

    async def hang(self, topic: str, values: int) -> None:
        """A transaction that nobody ends."""
        ...

    async def delete_records(self, topic: str, index: int, before: int) -> None: ...

    async def commit_as_stranger(self, group: GroupId, partition: Partition, at: int) -> None: ...

    def log(self, group: GroupId, *topics: str) -> Log: ...

    def member(
        self,
        group: GroupId,
        *topics: str,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
        extra: Mapping[str, str] | None = None,
    ) -> Member: ...

    async def close(self) -> None: ...


class Member:
    """A member of a group under test, and what it was told so far."""

    def __init__(self, fetcher: Fetcher) -> None:
        self.fetcher = fetcher
        self.events: list[FetchEvent] = []
        self.last_wishes: Answer | None = lambda _: {}
        """What to answer a revocation with; None: do not answer."""
        self._sessions = 0

    async def start(self) -> None:
        await self.fetcher.start(self._sink)

    def assign(self, partition: Partition, at: int, epoch: int | None = None) -> SessionId:
        self._sessions += 1
        session = SessionId(self._sessions)
        self.fetcher.assign(
            partition, session, Offset(at), None if epoch is None else LeaderEpoch(epoch)
        )
        return session

    async def until(self, condition: Callable[[], T | None], what: str = "") -> T:
        """The first truthy answer of `condition`."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        idle = 0
        while True:
            value = condition()
            if value is not None and value:
                return value
            if isinstance(self.fetcher, FakeFetcher):
                idle = 0 if self.fetcher.pump() else idle + 1
                assert idle < 5, f"nothing more will happen: {what}\n{self.story()}"
                await asyncio.sleep(0)
            else:
                assert time.monotonic() < deadline, f"not in time: {what}\n{self.story()}"
                await asyncio.sleep(0.005)

    async def settled(self, turns: int = 3, seconds: float = 0.4) -> None:
        """Long enough for something to arrive that should not."""
        if isinstance(self.fetcher, FakeFetcher):
            for _ in range(turns):
                self.fetcher.pump()
                await asyncio.sleep(0)
        else:
            await asyncio.sleep(seconds)

    async def until_assigned(self, *partitions: Partition) -> None:
        wanted = set(partitions)
        await self.until(lambda: wanted <= self.owned, f"assigned {partitions}")

    @property
    def owned(self) -> set[Partition]:
        owned: set[Partition] = set()
        for event in self.events:
            if isinstance(event, Assigned):
                owned |= set(event.partitions)
            elif isinstance(event, Revoked):
                owned -= set(event.partitions)
        return owned

    def fetched(self, session: SessionId) -> list[Fetched]:
        return [e for e in self.events if isinstance(e, Fetched) and e.session == session]

    def offsets(self, session: SessionId) -> list[int]:
        return [offset for e in self.fetched(session) for offset in e.batch.offsets]

    def digests(self, session: SessionId) -> list[int]:
        return [digest for e in self.fetched(session) for digest in e.batch.digests]

    def ends(self, session: SessionId) -> list[int]:
        return [
            e.position for e in self.events if isinstance(e, EndReached) and e.session == session
        ]

    def failure(self, session: SessionId) -> CursorFailed | None:
        found = [e for e in self.events if isinstance(e, CursorFailed) and e.session == session]
        assert len(found) <= 1, "a session fails once"
        return found[0] if found else None

    def changed_leaders(self) -> set[Partition]:
        return {p for e in self.events if isinstance(e, LeaderChanged) for p in e.partitions}

    def revocations(self) -> list[Revoked]:
        return [e for e in self.events if isinstance(e, Revoked)]

    @property
    def member_id(self) -> str | None:
        changes = [e for e in self.events if isinstance(e, MemberChanged)]
        return changes[-1].member if changes else None

    async def read_to(self, session: SessionId, end: int) -> list[int]:
        """The offsets of this session once its end was reported at `end`."""
        await self.until(lambda: end in self.ends(session), f"session {session} at end {end}")
        return self.offsets(session)

    def story(self) -> str:
        return "\n".join(
            f"{type(e).__name__} {e.partition} session {e.session}: {list(e.batch.offsets)[:5]}…"
            if isinstance(e, Fetched)
            else str(e)
            for e in self.events[-30:]
        )

    def _sink(self, events: Sequence[FetchEvent]) -> None:
        for event in events:
            self.events.append(event)
            if isinstance(event, Revoked) and self.last_wishes is not None:
                event.answer(self.last_wishes(event.partitions))


class FakeWorld:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.kafka = FakeKafka()
        self._members: list[Member] = []

    async def create(
        self, partitions: int = 1, *, compacted: bool = False, retention_ms: int = -1
    ) -> str:
        topic = self.names.topic()
        self.kafka.create_topic(topic, partitions, compacted=compacted)
        seconds = None if retention_ms < 0 else retention_ms / 1000
        self.kafka.topics[topic].retention = Retention(seconds, by_size=False)
        return topic

    async def recreate(self, topic: str) -> None:
        self.kafka.recreate_topic(topic)

    async def delete(self, topic: str) -> None:
        self.kafka.delete_topic(topic)

    async def produce(
        self, topic: str, records: int | Sequence[Record], index: int = 0
    ) -> list[int]:
        return [
            self.kafka.produce(
                topic,
                index,
                r.value,
                key=r.key,
                headers=list(r.headers) or None,
                timestamp=1_764_495_600_000 if r.timestamp_ms is None else r.timestamp_ms,
            )
            for r in _records(records)
        ]

    async def transaction(self, topic: str, values: int, *, commit: bool) -> None:
        transaction = self.kafka.begin(topic, 0, [b"t%d" % n for n in range(values)])
        transaction.commit() if commit else transaction.abort()

    async def hang(self, topic: str, values: int) -> None:
        self.kafka.begin(topic, 0, [b"open%d" % n for n in range(values)])

    async def delete_records(self, topic: str, index: int, before: int) -> None:
        self.kafka.delete_records(topic, index, before)

    async def commit_as_stranger(self, group: GroupId, partition: Partition, at: int) -> None:
        self.kafka.reset_offset(group, partition, at)

    def log(self, group: GroupId, *topics: str) -> Log:
        return FakeLog(self.kafka, group)

    def member(
        self,
        group: GroupId,
        *topics: str,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
        extra: Mapping[str, str] | None = None,
    ) -> Member:
        member = Member(FakeFetcher(self.kafka, group, topics, isolation=isolation))
        self._members.append(member)
        return member

    async def close(self) -> None:
        for member in self._members:
            await member.fetcher.close(1)


class RealWorld:
    def __init__(self, names: Names, broker: KafkaBroker) -> None:
        self.names = names
        self.broker = broker
        self.outsider = Outsider(broker)
        self._logs: list[KafkaLog] = []
        self._members: list[Member] = []
        self.lines: list[str] = []

    async def create(
        self, partitions: int = 1, *, compacted: bool = False, retention_ms: int = -1
    ) -> str:
        topic = self.names.topic()
        # Records of 1970 and 2025 are to stay until a test takes them away.
        config = {"retention.ms": str(retention_ms)} | (
            {"cleanup.policy": "compact"} if compacted else {}
        )
        await asyncio.to_thread(self.outsider.create, topic, partitions, config=config)
        return topic

    async def recreate(self, topic: str) -> None:
        await asyncio.to_thread(self.outsider.recreate, topic)

    async def delete(self, topic: str) -> None:
        await asyncio.to_thread(self.outsider.delete, topic)

    async def produce(
        self, topic: str, records: int | Sequence[Record], index: int = 0
    ) -> list[int]:
        return await asyncio.to_thread(self.outsider.produce, topic, _records(records), index)

    async def transaction(self, topic: str, values: int, *, commit: bool) -> None:
        await asyncio.to_thread(self.outsider.transaction, topic, values, commit=commit)

    async def hang(self, topic: str, values: int) -> None:
        name = self.names.group()
        await asyncio.to_thread(
            self.outsider.hang_transaction, topic, values, transactional_id=name
        )

    async def delete_records(self, topic: str, index: int, before: int) -> None:
        await asyncio.to_thread(self.outsider.delete_records, topic, index, before)

    async def commit_as_stranger(self, group: GroupId, partition: Partition, at: int) -> None:
        await asyncio.to_thread(self.outsider.commit, group, partition.topic, partition.index, at)

    async def quicken(self, group: GroupId) -> None:
        """Heartbeats of the new group protocol, which the broker decides, every 0.5 s."""
        often = ConfigEntry(
            "consumer.heartbeat.interval.ms",
            "500",
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[often])
        futures = self.outsider.admin.incremental_alter_configs([resource], request_timeout=10)
        await asyncio.wait_for(asyncio.wrap_future(futures[resource]), 15)

    def settings(
        self,
        group: GroupId,
        *topics: str,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
        extra: Mapping[str, str] | None = None,
    ) -> ClientSettings:
        return ClientSettings(
            bootstrap_servers=self.broker.bootstrap,
            group_id=group,
            topics=topics,
            isolation_level=isolation,
            session_timeout_seconds=6,
            extra=dict(extra or {}),
        )

    def log(self, group: GroupId, *topics: str) -> KafkaLog:
        log = KafkaLog(self.settings(group, *topics))
        self._logs.append(log)
        return log

    def member(
        self,
        group: GroupId,
        *topics: str,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
        extra: Mapping[str, str] | None = None,
    ) -> Member:
        settings = self.settings(group, *topics, isolation=isolation, extra=extra)
        return self.member_with(settings)

    def member_with(self, settings: ClientSettings, *, revoke_seconds: float = 3.0) -> Member:
        log = KafkaLog(settings)
        self._logs.append(log)
        member = Member(
            KafkaFetcher(
                settings,
                log,
                revoke_seconds=revoke_seconds,
                log_line=lambda level, text: self.lines.append(f"{level} {text}"),
            )
        )
        self._members.append(member)
        return member

    async def close(self) -> None:
        await asyncio.gather(*(member.fetcher.close(10) for member in self._members))
        for log in self._logs:
            await log.close()


async def eventually(ask: Callable[[], Awaitable[T]], done: Callable[[T], bool]) -> T:
    """Ask until the answer is the one that is coming: metadata takes a moment to spread."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        answer = await ask()
        if done(answer):
            return answer
        assert time.monotonic() < deadline, f"last answer: {answer}"
        await asyncio.sleep(0.02)


def make_world(request: pytest.FixtureRequest, names: Names) -> FakeWorld | RealWorld:
    """For a fixture with the parameters `WORLDS`."""
    if request.param == "fake":
        return FakeWorld(names)
    return RealWorld(names, request.getfixturevalue("kafka"))


WORLDS = ("fake", pytest.param("real", marks=pytest.mark.kafka))


def known_commit(reading: object) -> Committed:
    assert isinstance(reading, Known), reading
    committed = reading.value
    assert isinstance(committed, Committed)
    return committed


def _records(records: int | Sequence[Record]) -> list[Record]:
    if isinstance(records, int):
        return [Record(b"v%d" % n) for n in range(records)]
    return list(records)
