"""A desk for people: the store and Kafka's answers, with no sidecar running and no membership.

    async with standalone(settings) as desk:
        evidence = await desk.look([Partition("orders", 0)])

It opens, from the settings that the sidecar itself is given, the same adapters, and looks by the
same function (`performer.look`), so that a command's verdict cannot differ from the sidecar's. It
joins no group: it neither takes partitions from anybody nor starts a rebalance, and works the same
beside a live sidecar and without one. What it writes goes through the store's compare-and-swap,
like everybody's; the owner hears of it because it watches its checkpoints.

Nothing is connected on entry. Every question is bounded, an answer that cannot be had is a value,
and `mended_by` says what to look at.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

from sidecar.core.checkpoint import Audit, Registry
from sidecar.core.evidence import Cue, Evidence
from sidecar.core.faults import (
    Absent,
    Answer,
    Component,
    Fault,
    FaultKind,
    Known,
    Reading,
    Unreadable,
)
from sidecar.core.gap import Gap
from sidecar.core.types import Partition
from sidecar.errors import SettingFault, SettingsError
from sidecar.kafka.client import ClientSettings, unusable
from sidecar.kafka.group_members import GroupMembers
from sidecar.kafka.log import KafkaLog
from sidecar.kafka.search import RecordReader
from sidecar.performer import look
from sidecar.settings import PREFIX, Settings
from sidecar.store.connect import connect
from sidecar.store.redis import RedisStore

TIMEOUT_SECONDS = 5.0
CLOSE_SECONDS = 2.0


class Standalone:
    """What commands need of a group. `store` and `log` are the sidecar's own adapters."""

    def __init__(self, settings: Settings, *, timeout_seconds: float) -> None:
        self.settings = settings
        self.policy = settings.policy()
        self.group = self.policy.group
        self.store = open_store(settings)
        self.client = client_settings(settings)
        self.log = KafkaLog(self.client, request_timeout_seconds=timeout_seconds)

    async def look(self, partitions: Collection[Partition]) -> Mapping[Partition, Evidence]:
        """Evidence, asked now; `sidecar.core.verdict.judge` says what it means."""
        return await look(
            self.policy,
            self.log,
            self.store,
            dict.fromkeys(partitions, Cue.REQUESTED),
            asked_at=self.now(),
        )

    async def registry(self) -> Reading[Registry]:
        return await self.store.registry(self.group)

    async def registry_or_none(self) -> Answer[Registry | None]:
        match await self.registry():
            case Known(registry):
                return Known(registry)
            case Absent():
                return Known(None)
            case Unreadable() as unread:
                return unread

    async def gaps(self) -> Answer[Sequence[Gap]]:
        return await self.store.gaps(self.group)

    async def audit(self, partition: Partition) -> Answer[Sequence[Audit]]:
        return await self.store.audit(self.group, partition)

    async def group_members(self) -> Answer[GroupMembers]:
        """`GroupMembers.owner_of` says which member has a partition."""
        return await self.log.members()

    async def partitions(self) -> Answer[tuple[Partition, ...]]:
        """Every partition of the group: those the store knows, those of the topics that the
        settings name, and those that a member has. A pattern's topics are the store's to know."""
        registry = await self.registry()
        if isinstance(registry, Unreadable):
            return registry
        found: set[Partition] = set()
        counts: dict[str, int] = {}
        if isinstance(registry, Known):
            counts = {name: topic.partitions for name, topic in registry.value.topics.items()}
            found |= {*registry.value.baselines, *registry.value.started}
        named = {topic for topic in self.client.topics if not topic.startswith("^")}
        members, topics = await asyncio.gather(
            self.group_members(), self.log.topics(sorted(named | set(counts)))
        )
        for name, reading in topics.items():
            if isinstance(reading, Known):
                counts[name] = max(counts.get(name, 0), reading.value.partitions)
        found |= {Partition(name, index) for name, n in counts.items() for index in range(n)}
        if isinstance(members, Known):
            for member in members.value.members:
                found.update(member.partitions)
        return Known(tuple(sorted(found)))

    @contextmanager
    def reader(self, *, seconds_max: float) -> Iterator[RecordReader]:
        """Reads records to recognise them; `seconds_max` bounds each partition."""
        reader = RecordReader(self.client, seconds_max=seconds_max)
        try:
            yield reader
        finally:
            reader.end()

    @staticmethod
    def now() -> float:
        """Unix seconds."""
        return time.time()

    async def close(self) -> None:
        for closing in (self.store.close(), self.log.close()):
            with suppress(TimeoutError):
                await asyncio.wait_for(closing, CLOSE_SECONDS)


@asynccontextmanager
async def standalone(
    settings: Settings, *, timeout_seconds: float = TIMEOUT_SECONDS
) -> AsyncIterator[Standalone]:
    """`timeout_seconds` bounds each question to Kafka; the store has a bound of its own.

    `SettingsError` when librdkafka refuses a property: only it knows them all.
    """
    check_client(settings)
    desk = Standalone(settings, timeout_seconds=timeout_seconds)
    try:
        yield desk
    finally:
        await desk.close()


def client_settings(settings: Settings) -> ClientSettings:
    kafka = settings.kafka
    return ClientSettings(
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=settings.policy().group,
        topics=kafka.topics,
        isolation_level=kafka.isolation_level,
        security=kafka.security(),
        session_timeout_seconds=kafka.session_timeout_seconds,
        instance_id=kafka.instance_id,
        extra=kafka.extra(),
    )


def open_store(settings: Settings) -> RedisStore:
    return RedisStore(
        connect(settings.redis.url.get_secret_value()),
        settings.redis.key_prefix,
        replicas_ack=settings.redis.replicas_ack,
        receipts_retained_max=settings.recovery.receipts_retained_max,
        receipts_retained_min=settings.recovery.overlap_records,
    )


def check_client(settings: Settings) -> None:
    """`SettingsError` for what librdkafka does not take."""
    complaint = unusable(client_settings(settings))
    if complaint is not None:
        raise SettingsError(
            [SettingFault(f"{PREFIX}KAFKA__CLIENT", f"what librdkafka takes: {complaint}")]
        )


def mended_by(fault: Fault) -> str:
    """What a person looks at when a question was not answered."""
    kafka = fault.component is Component.KAFKA
    match fault.kind:
        case FaultKind.AUTHENTICATION:
            return (
                "KAFKA__SECURITY_PROTOCOL, KAFKA__SASL_*, KAFKA__SSL_*: what the brokers accept"
                if kafka
                else "REDIS__URL: a user and a password that the store accepts"
            )
        case FaultKind.AUTHORIZATION:
            return (
                "grant this principal READ on the group and READ and DESCRIBE on its topics"
                if kafka
                else "grant the user of REDIS__URL its commands on REDIS__KEY_PREFIX"
            )
        case FaultKind.TOPIC_UNKNOWN:
            return "KAFKA__TOPICS, or whether the topic was deleted"
        case FaultKind.FORMAT_UNKNOWN:
            return "use the release that wrote it, or a later one"
        case FaultKind.UNAVAILABLE | FaultKind.REFUSED | FaultKind.EPOCH_SUSPECT:
            return (
                "KAFKA__BOOTSTRAP_SERVERS, and whether the brokers are well"
                if kafka
                else "REDIS__URL, and whether the store is well"
            )
