"""Questions to Kafka, each asked of the brokers now, for all partitions at once, within a bound.

Why an admin client and not the fetching consumer: its answers come as futures, so the event loop
never waits for a broker and the consumer's own thread is never held up; and it asks the leader,
where the consumer's cached watermarks may be stale.

One question is *not* asked of the admin client: what the group committed, see `group_offsets`.
And one is asked of it only when it knows the leaders: offsets. While it does not, librdkafka (2.16)
looks for them on the asking thread, and on its own thread as soon as any metadata arrives. Where
both do so at once, with one object, it follows a null pointer, and the process is gone
(`rd_kafka_topic_partition_list_query_leaders_async`). So metadata is had first, by one for all who
ask, and again before the client forgets it (`metadata.max.age.ms`, 15 minutes) or when a leader did
not answer.

Each element of an answer is judged by itself: one partition that cannot be read takes nothing away
from the others. A client whose answers stay those of an old cluster state (it was seen to answer
`FENCED_LEADER_EPOCH` for 40 s and more after a broker's restart) is replaced by a new one.

Topic IDs: a cluster that names no controller (librdkafka's mock, and very old ones) cannot describe
its topics, so it offers no IDs; that is an answer, `topic_id=None`. A cluster that has one and does
not answer is `Unreadable`. A topic's settings (whether it is compacted, how large its batches may
be) are no facts about a cursor, so they alone are remembered for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
    Uuid,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without __all__
    AclOperation,
    AdminClient,
    ConfigResource,
    OffsetSpec,
)

from sidecar.core.evidence import Committed, LogEnd, TopicDescription
from sidecar.core.faults import ABSENT, Answer, Fault, FaultKind, Known, Reading, Unreadable
from sidecar.core.forecast import Retention, Stamp
from sidecar.core.types import ClusterId, LeaderEpoch, Offset, Partition, TopicId
from sidecar.kafka.client import (
    ClientLog,
    ClientSettings,
    LogLine,
    admin_config,
    group_config,
)
from sidecar.kafka.commits import chunks, topic_partitions
from sidecar.kafka.faults import (
    Suspicion,
    denied,
    fault_of,
    unavailable,
    unreadable_topic,
)
from sidecar.kafka.group_members import GroupMembers, group_members
from sidecar.kafka.group_offsets import Asker, Worker
from sidecar.kafka.stamps import read_stamps, stamp_config
from sidecar.ports import CommitRequest

T = TypeVar("T")
K = TypeVar("K")

GRACE_SECONDS = 1.0
"""How much longer than the request's own time-out we wait before giving it up ourselves."""
REFUSED_SECONDS = 1.0
"""How long a question is left open while the brokers refuse our credentials: one of several may
still take them."""
TOPIC_CONFIG_SECONDS = 60.0
LEADERS_SECONDS = 300.0
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
# Kafka's words for "this cluster gives its topics no IDs".
_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_AS_KAFKA_WRITES = str.maketrans("+/", "-_")
KEEPS_UUIDS = version("confluent-kafka") == "2.16.1"
_release = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_DecRef", ctypes.pythonapi))


def topic_id_of(text: str) -> TopicId | None:
    """The client writes a UUID in standard base64, Kafka and its tools in the URL-safe one. Theirs
    is the name people know; and a `/` would be one too many in an idempotency key."""
    return None if text == _NO_TOPIC_ID else TopicId(text.translate(_AS_KAFKA_WRITES))


def take_topic_id(description: Any) -> TopicId | None:
    """The ID, out of the client's description, which is without it afterwards.

    The binding counts one reference too many to the UUID of every description, so none is ever
    freed: 95 bytes an answer, and one is asked of each topic before each commit, which makes
    megabytes a day of every topic. Once it is taken out, nobody but us has it: a count above that
    of a UUID of our own is the one too many, and is given back. Only with the release in which this
    was seen: in another one the count may be somebody's who uses it, and a leak does less harm than
    memory that is freed under him.
    """
    theirs, ours = description.topic_id, Uuid(0, 0)
    del description.topic_id
    topic_id = topic_id_of(str(theirs))
    if KEEPS_UUIDS and sys.getrefcount(theirs) == sys.getrefcount(ours) + 1:
        _release(theirs)
    return topic_id


@dataclass(frozen=True, slots=True)
class _Failed:
    """What a question ended with, kept as it was raised until somebody gives it a meaning.

    `instead`: why nobody answers, where the client knows better than the time-out it raised.
    """

    error: BaseException
    instead: Fault | None = None

    @property
    def code(self) -> int | None:
        cause = self.error.args[0] if self.error.args else None
        return cause.code() if isinstance(cause, KafkaError) else None

    @property
    def fault(self) -> Fault:
        return self.instead or fault_of(self.error)


@dataclass(slots=True)
class _Client:
    """One admin client.

    `refusals`: of its credentials, as its callback noted them; questions then only time out.
    `leaders_until`: by topic, until when it surely knows them. `learning`: by topic, the question
    about them that is under way.
    """

    admin: AdminClient
    refusals: list[Fault]
    suspicion: Suspicion = field(default_factory=Suspicion)
    controller_seen: bool = False
    leaders_until: dict[str, float] = field(default_factory=dict)
    learning: dict[str, asyncio.Task[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _TopicConfig:
    """What matters of a topic's settings; None: they could not be read."""

    compacted: bool | None = None
    batch_bytes_max: int | None = None


_CLOSED = _Failed(RuntimeError("the connection to Kafka was closed"))
_COORDINATOR_MOVES = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
COORDINATOR_SECONDS = 0.1
CONTROLLER_ASKED = 3
CONTROLLER_SECONDS = 0.25
NO_CONTROLLER_SECONDS = 60.0


class KafkaLog:
    """Implements `sidecar.ports.Log` for one group."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        request_timeout_seconds: float = 5.0,
        log_line: LogLine | None = None,
        say: LogLine | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`log_line` takes the client's own lines, `say` what we have to say of the answers."""
        self._settings = settings
        self._timeout = request_timeout_seconds
        self._log = ClientLog(log_line, settings.secrets)
        self._say = say
        self._configs_denied: set[str] = set()
        self._clock = clock
        self._client: _Client | None = None
        self._no_controller_until = float("-inf")
        self._replacing = asyncio.Lock()
        self._too_large: dict[str, int] = {}
        self._configs: dict[tuple[str, TopicId | None], tuple[float, _TopicConfig]] = {}
        self._worker = Worker("kafka-metadata")
        self._asker: Asker | None = None
        self._closed = False

    # --- the questions ------------------------------------------------------------------------

    async def cluster_id(self) -> Answer[ClusterId]:
        metadata = await self._metadata(self._probe_topic())
        if isinstance(metadata, _Failed):
            return Unreadable(metadata.fault)
        if not metadata.cluster_id:
            return Unreadable(unavailable("NO_CLUSTER_ID", "the brokers named no cluster ID"))
        return Known(ClusterId(metadata.cluster_id))

    async def committed(
        self, partitions: Collection[Partition]
    ) -> Mapping[Partition, Reading[Committed]]:
        if not partitions:
            return {}
        answer = await self._committed([_topic_partition(p) for p in partitions])
        if isinstance(answer, _Failed):
            return dict.fromkeys(partitions, Unreadable(self._denied_group(answer.fault)))
        missing = Unreadable(unavailable("NO_ANSWER", "the coordinator left this partition out"))
        readings: dict[Partition, Reading[Committed]] = dict.fromkeys(partitions, missing)
        for element in answer:
            readings[Partition(element.topic, element.partition)] = self._read(element)
        return readings

    async def committed_in_group(self) -> Answer[Mapping[Partition, Committed]]:
        answer = await self._committed(None)
        if isinstance(answer, _Failed):
            return Unreadable(self._denied_group(answer.fault))
        found: dict[Partition, Committed] = {}
        for element in answer:
            reading = self._read(element)
            if isinstance(reading, Unreadable):
                return reading
            if isinstance(reading, Known):
                found[Partition(element.topic, element.partition)] = reading.value
        return Known(found)

    async def topics(self, names: Collection[str]) -> Mapping[str, Reading[TopicDescription]]:
        if not names:
            return {}
        describable = await self._can_describe()
        if isinstance(describable, _Failed):
            return dict.fromkeys(names, Unreadable(describable.fault))
        if not describable:
            return await self._topics_by_name(names)
        unique = list(dict.fromkeys(names))
        answers = await self._ask(
            lambda admin: admin.describe_topics(
                TopicCollection(unique),
                include_authorized_operations=True,
                request_timeout=self._timeout,
            ),
            unique,
        )
        readings: dict[str, Reading[TopicDescription]] = {}
        unsupported: list[str] = []
        for name, answer in answers.items():
            if isinstance(answer, _Failed):
                if answer.code in (KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION):
                    unsupported.append(name)
                readings[name] = Unreadable(denied(answer.fault, "DESCRIBE", topic=name))
                continue
            # Without an authorizer every right is there; a broker that tells none leaves it open.
            if answer.authorized_operations and AclOperation.READ not in (
                answer.authorized_operations
            ):
                readings[name] = Unreadable(unreadable_topic(name))
                continue
            topic_id = take_topic_id(answer)
            readings[name] = Known(TopicDescription(topic_id, len(answer.partitions), None))
        if unsupported:
            readings |= await self._topics_by_name(unsupported)
        return await self._with_configs(readings)

    async def log_ends(
        self, partitions: Collection[Partition]
    ) -> Mapping[Partition, Answer[LogEnd]]:
        stable, ends = await asyncio.gather(
            self._offsets(partitions, _LATEST, IsolationLevel.READ_COMMITTED),
            self._offsets(partitions, _LATEST, IsolationLevel.READ_UNCOMMITTED),
        )
        answers: dict[Partition, Answer[LogEnd]] = {}
        for partition, end in ends.items():
            last_stable = stable[partition]
            if isinstance(end, _Failed):
                answers[partition] = Unreadable(_described(end.fault, partition))
            elif isinstance(last_stable, _Failed):
                answers[partition] = Unreadable(_described(last_stable.fault, partition))
            else:
                answers[partition] = Known(
                    LogEnd(
                        high_watermark=Offset(end.offset),
                        # Asked at the same time, so the one may be a little newer than the other.
                        last_stable=Offset(min(last_stable.offset, end.offset)),
                        epoch=_epoch(end.leader_epoch),
                    )
                )
        return answers

    async def log_starts(
        self, partitions: Collection[Partition]
    ) -> Mapping[Partition, Answer[Offset]]:
        starts = await self._offsets(partitions, _EARLIEST, IsolationLevel.READ_UNCOMMITTED)
        return {
            partition: Unreadable(_described(start.fault, partition))
            if isinstance(start, _Failed)
            else Known(Offset(start.offset))
            for partition, start in starts.items()
        }

    async def retentions(self, names: Collection[str]) -> Mapping[str, Answer[Retention]]:
        asked = {ConfigResource(ConfigResource.Type.TOPIC, name): name for name in names}
        if not asked:
            return {}
        answers = await self._ask(
            lambda admin: admin.describe_configs(list(asked), request_timeout=self._timeout),
            list(asked),
        )
        return {
            asked[resource]: Unreadable(answer.fault)
            if isinstance(answer, _Failed)
            else _retention({name: entry.value for name, entry in answer.items()})
            for resource, answer in answers.items()
        }

    async def stamps(
        self, offsets: Mapping[Partition, Offset]
    ) -> Mapping[Partition, Reading[Stamp]]:
        if not offsets:
            return {}
        if self._closed:
            return dict.fromkeys(offsets, Unreadable(_CLOSED.fault))
        worker = Worker("kafka-stamps")  # of its own: it may wait for a broker as long as it likes
        config, wanted, timeout = stamp_config(self._settings), dict(offsets), self._timeout
        future = asyncio.wrap_future(worker.submit(lambda: read_stamps(config, wanted, timeout)))
        worker.end()
        future.add_done_callback(_retrieved)
        await asyncio.wait([future], timeout=timeout + GRACE_SECONDS)
        if not future.done():
            failed = _Failed(TimeoutError("the client did not answer in time"))
            return dict.fromkeys(offsets, Unreadable(failed.fault))
        if (raised := future.exception()) is not None:
            return dict.fromkeys(offsets, Unreadable(_Failed(raised).fault))
        found = future.result()
        silent = Unreadable(unavailable("NO_ANSWER", "no record came in time"))
        return {partition: found.get(partition, silent) for partition in offsets}

    # --- beside the port, for commands that work with no member of the group -------------------

    async def members(self) -> Answer[GroupMembers]:
        """Who is in the group now, and what each of them has. A group that is not there is empty:
        before its first member, and after its last one's offsets expired."""
        answer = await self._described_group(rights=False)
        if not isinstance(answer, _Failed):
            return Known(group_members(answer))
        if answer.code == KafkaError.GROUP_ID_NOT_FOUND:
            return Known(GroupMembers("dead", ()))
        return _unread(answer)

    async def group_rights(self) -> Answer[frozenset[str] | None]:
        """What this principal may do to the group, in Kafka's words. None: the broker does not
        say, as it does not of a group that is not there yet."""
        answer = await self._described_group(rights=True)
        if not isinstance(answer, _Failed):
            return Known(_operations(answer))
        return Known(None) if answer.code == KafkaError.GROUP_ID_NOT_FOUND else _unread(answer)

    async def _described_group(self, *, rights: bool) -> Any:
        """The description, or `_Failed`. Whoever asks a cluster's first question about a group
        makes its coordinator, and is told to ask again; so is everybody while one moves."""
        group: str = self._settings.group_id
        until = self._clock() + self._timeout
        while True:
            answers = await self._ask(
                lambda admin: admin.describe_consumer_groups(
                    [group], include_authorized_operations=rights, request_timeout=self._timeout
                ),
                [group],
            )
            answer = answers[group]
            asked_again = isinstance(answer, _Failed) and answer.code in _COORDINATOR_MOVES
            if not asked_again or self._clock() > until:
                return answer
            await asyncio.sleep(COORDINATOR_SECONDS)

    async def topic_rights(
        self, names: Collection[str]
    ) -> Mapping[str, Answer[frozenset[str] | None]]:
        """Likewise; none are known where topics cannot be described."""
        if not names or await self._can_describe() is False:
            return dict.fromkeys(names, Known(None))
        unique = list(dict.fromkeys(names))
        answers = await self._ask(
            lambda admin: admin.describe_topics(
                TopicCollection(unique),
                include_authorized_operations=True,
                request_timeout=self._timeout,
            ),
            unique,
        )
        return {
            name: _unread(answer) if isinstance(answer, _Failed) else Known(_operations(answer))
            for name, answer in answers.items()
        }

    async def broker_settings(self) -> Answer[Mapping[str, str]]:
        """Of one broker; they need the right to describe the cluster's configuration."""
        metadata = await self._metadata(self._probe_topic())
        if isinstance(metadata, _Failed):
            return _unread(metadata)
        broker = ConfigResource(ConfigResource.Type.BROKER, str(min(metadata.brokers, default=0)))
        answers = await self._ask(
            lambda admin: admin.describe_configs([broker], request_timeout=self._timeout), [broker]
        )
        answer = answers[broker]
        if isinstance(answer, _Failed):
            return _unread(answer)
        return Known({name: entry.value or "" for name, entry in answer.items()})

    async def commit(
        self, requests: Mapping[Partition, CommitRequest]
    ) -> Mapping[Partition, Fault | None]:
        """Commit for a group that has no members; Kafka refuses it while there are any."""
        answers: dict[Partition, Fault | None] = {}
        config = group_config(self._settings)
        for chunk in chunks(requests):
            asked = partial(Asker.commit, config=config, offsets=topic_partitions(chunk))
            answer = await self._asked(asked, 2 * self._timeout)
            if isinstance(answer, _Failed):
                answers |= dict.fromkeys(chunk, answer.fault)
                continue
            for element in answer:
                fault = None if element.error is None else fault_of(element.error)
                answers[Partition(element.topic, element.partition)] = fault
        return answers

    async def close(self) -> None:
        """Let the client go, without waiting for it: its end may take as long as a broker does."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            self._let_go(client)
        asker, self._asker = self._asker, None
        if asker is not None:
            asker.end()
        self._worker.end()

    def _denied_group(self, fault: Fault) -> Fault:
        return denied(fault, "DESCRIBE", group=self._settings.group_id)

    def _read(self, element: TopicPartition) -> Reading[Committed]:
        reading = _committed(element)
        if isinstance(reading, Unreadable):
            return Unreadable(
                denied(
                    reading.fault,
                    "DESCRIBE",
                    topic=element.topic,
                    group=self._settings.group_id,
                )
            )
        return reading

    # --- how they are asked -------------------------------------------------------------------

    async def _committed(
        self, partitions: list[TopicPartition] | None
    ) -> list[TopicPartition] | _Failed:
        """Of these partitions, or of all that the cluster has."""
        config = group_config(self._settings)
        if partitions is None:
            most = 4 * self._timeout
            return await self._asked(lambda asker: asker.all_committed(config, most), most)
        some, timeout = partitions, self._timeout
        return await self._asked(lambda asker: asker.committed(config, some, timeout), timeout)

    async def _asked(
        self, question: Callable[[Asker], list[TopicPartition]], timeout_seconds: float
    ) -> list[TopicPartition] | _Failed:
        """Of the group's coordinator, by the consumer that never joins."""
        if self._closed:
            return _Failed(RuntimeError("the connection to Kafka was closed"))
        if self._asker is None:
            self._asker = Asker(Worker("kafka-committed"))
        asker = self._asker
        future = asyncio.wrap_future(asker.worker.submit(lambda: question(asker)))
        await asyncio.wait([future], timeout=timeout_seconds + GRACE_SECONDS)
        if not future.done():
            # The client did not keep its own bound; it may never come back. The next question
            # is asked of another one.
            future.add_done_callback(_retrieved)
            if self._asker is asker:
                self._asker = None
                asker.end()
            return _Failed(TimeoutError("the client did not answer in time"))
        if (raised := future.exception()) is not None:
            failed = _Failed(raised)
            asker.suspicion.heard([raised], self._clock())
            if asker.suspicion.lasts(self._clock()) and self._asker is asker:
                self._asker = None
                asker.end()
            return failed if self._client is None else self._refused(self._client, failed)
        asker.suspicion.heard((), self._clock())
        answer: list[TopicPartition] = future.result()
        return answer

    async def _offsets(
        self, partitions: Collection[Partition], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[Partition, Any]:
        if not partitions:
            return {}
        failed = await self._learn_leaders({p.topic for p in partitions})
        if failed is not None:
            return dict.fromkeys(partitions, failed)
        asked = {_topic_partition(p): p for p in partitions}
        answers = await self._ask(
            lambda admin: admin.list_offsets(
                dict.fromkeys(asked, spec), isolation_level=isolation, request_timeout=self._timeout
            ),
            list(asked),
        )
        by_partition = {}
        for element, answer in answers.items():
            if not isinstance(answer, _Failed) and answer.offset < 0:
                answer = _Failed(TimeoutError("the leader gave no offset"))
            if isinstance(answer, _Failed) and self._client is not None:
                self._client.leaders_until.pop(element.topic, None)
            by_partition[asked[element]] = answer
        return by_partition

    async def _learn_leaders(self, topics: Collection[str]) -> _Failed | None:
        """So that the client knows them. Why it must is said at the top. What the brokers say of a
        topic itself is no matter here: whoever asks for its offsets is told."""
        client = await self._usable_client()
        if isinstance(client, _Failed):
            return client
        now = self._clock()
        unknown = {topic for topic in topics if client.leaders_until.get(topic, now) <= now}
        unasked = unknown.difference(client.learning)
        if unasked:
            task = asyncio.create_task(self._learn(client, unasked))
            client.learning.update(dict.fromkeys(unasked, task))
        learning = {client.learning[topic] for topic in unknown}
        if learning:
            await asyncio.wait(learning)
        return next((task.result() for task in learning if task.result() is not None), None)

    async def _learn(self, client: _Client, topics: Collection[str]) -> _Failed | None:
        """One request, however many topics: several are asked of with all that there are."""
        try:
            metadata = await self._metadata(next(iter(topics)) if len(topics) == 1 else None)
        finally:
            for topic in topics:
                del client.learning[topic]
        if isinstance(metadata, _Failed):
            return metadata
        until = self._clock() + LEADERS_SECONDS
        for topic in topics:
            found = metadata.topics.get(topic)
            if found is not None and all(one.leader >= 0 for one in found.partitions.values()):
                client.leaders_until[topic] = until
        return None

    async def _topics_by_name(self, names: Collection[str]) -> dict[str, Reading[TopicDescription]]:
        """From metadata, which has no IDs."""
        readings: dict[str, Reading[TopicDescription]] = {}
        for name in dict.fromkeys(names):
            metadata = await self._metadata(name)
            if isinstance(metadata, _Failed):
                readings[name] = Unreadable(metadata.fault)
                continue
            topic = metadata.topics.get(name)
            if topic is None:
                error: object = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            elif topic.error is not None:
                error = topic.error
            else:
                readings[name] = Known(TopicDescription(None, len(topic.partitions), None))
                continue
            readings[name] = Unreadable(denied(fault_of(error), "DESCRIBE", topic=name))
        return readings

    async def _with_configs(
        self, readings: dict[str, Reading[TopicDescription]]
    ) -> dict[str, Reading[TopicDescription]]:
        now = self._clock()
        known = {n: r.value for n, r in readings.items() if isinstance(r, Known)}
        wanted = [
            name
            for name, topic in known.items()
            if (name, topic.topic_id) not in self._configs
            or now - self._configs[name, topic.topic_id][0] > TOPIC_CONFIG_SECONDS
        ]
        if wanted:
            asked = {ConfigResource(ConfigResource.Type.TOPIC, name): name for name in wanted}
            answers = await self._ask(
                lambda admin: admin.describe_configs(list(asked), request_timeout=self._timeout),
                list(asked),
            )
            if len(self._configs) > 10_000:
                self._configs.clear()
            for resource, answer in answers.items():
                name = asked[resource]
                config = _TopicConfig()
                if not isinstance(answer, _Failed):
                    config = _topic_config({key: entry.value for key, entry in answer.items()})
                elif answer.fault.transient:
                    continue  # not remembered: asked again with the next look
                self._say_of_compaction(name, config.compacted)
                self._say_of_sizes(name, config.batch_bytes_max)
                self._configs[name, known[name].topic_id] = (now, config)
        configs = {
            name: self._configs.get((name, topic.topic_id), (0.0, _TopicConfig()))[1]
            for name, topic in known.items()
        }
        return readings | {
            name: Known(
                TopicDescription(
                    topic.topic_id,
                    topic.partitions,
                    configs[name].compacted,
                    configs[name].batch_bytes_max,
                )
            )
            for name, topic in known.items()
        }

    def _say_of_compaction(self, topic: str, compacted: bool | None) -> None:
        """Once: a topic whose settings cannot be read is taken for one that may be compacted."""
        if compacted is not None:
            self._configs_denied.discard(topic)
        elif topic not in self._configs_denied:
            self._configs_denied.add(topic)
            if self._say is not None:
                self._say(
                    logging.WARNING,
                    f"whether topic {topic} is compacted cannot be read, so a record that is "
                    "missing from an overlap proves nothing: grant this user DESCRIBE_CONFIGS "
                    f"there (kafka-acls --add --operation DescribeConfigs --topic {topic})",
                )

    def _say_of_sizes(self, topic: str, bytes_max: int | None) -> None:
        """Once for each size: before a record comes that stops its partition."""
        taken = self._settings.record_bytes_max
        if bytes_max is None or bytes_max <= taken:
            self._too_large.pop(topic, None)
        elif self._too_large.get(topic) != bytes_max:
            self._too_large[topic] = bytes_max
            if self._say is not None:
                self._say(
                    logging.WARNING,
                    f"topic {topic} may have batches of {bytes_max} bytes (max.message.bytes), and "
                    f"this client takes {taken}: one that is larger stops its partition as "
                    "blocked_record; set a greater receive.message.max.bytes in KAFKA__CLIENT",
                )

    async def _can_describe(self) -> bool | _Failed:
        """Whether there is a controller; without one, descriptions only time out.

        A cluster that has one may name none for a moment, and a topic must not be pinned by its
        name for that: "none" counts only when it is said several times, and not for ever.
        """
        client = self._client
        if client is not None and client.controller_seen:
            return True
        if self._clock() < self._no_controller_until:
            return False
        for asked in range(CONTROLLER_ASKED):
            if asked:
                await asyncio.sleep(CONTROLLER_SECONDS)
            metadata = await self._metadata(self._probe_topic() if asked % 2 == 0 else None)
            if isinstance(metadata, _Failed):
                return metadata
            controller = metadata.controller_id
            if controller in metadata.brokers:
                if (client := self._client) is not None:
                    client.controller_seen = True
                return True
            if controller >= 1:
                return _Failed(TimeoutError(f"the controller, broker {controller}, is not there"))
            # −1, or a 0 that was never filled in: none.
        self._no_controller_until = self._clock() + NO_CONTROLLER_SECONDS
        return False

    def _probe_topic(self) -> str | None:
        """One topic's metadata carries cluster and controller; a large cluster's would be large."""
        return next((name for name in self._settings.topics if not name.startswith("^")), None)

    async def _metadata(self, topic: str | None) -> Any:
        """ClusterMetadata, or `_Failed`. The call has no future, so it waits on a thread."""

        asked: list[Future[Any]] = []

        def call(admin: AdminClient) -> Mapping[str, Future[Any]]:
            asked.append(
                self._worker.submit(
                    lambda: (
                        admin.list_topics(topic, timeout=self._timeout)
                        if topic is not None
                        else admin.list_topics(timeout=self._timeout)
                    )
                )
            )
            return {"": asked[0]}

        answer = (await self._ask(call, [""]))[""]
        for future in asked:
            future.cancel()  # given up before its turn came: the next one need not wait for it
        return answer

    async def _ask(
        self, call: Callable[[AdminClient], Mapping[K, Future[Any]]], keys: Collection[K]
    ) -> dict[K, Any]:
        """Each key's answer or `_Failed`, none later than the bound."""
        client = await self._usable_client()
        if isinstance(client, _Failed):
            return dict.fromkeys(keys, client)
        try:
            client.admin.poll(0)  # its log lines wait there
            futures = call(client.admin)
        except (KafkaException, ValueError, TypeError, RuntimeError) as error:
            return dict.fromkeys(keys, _Failed(error))
        waiting = {key: asyncio.wrap_future(future) for key, future in futures.items()}
        for asked in waiting.values():
            asked.add_done_callback(_retrieved)
        await self._settled(client, set(waiting.values()))
        answers: dict[K, Any] = {}
        for key in keys:
            if (future := waiting.get(key)) is None:
                answers[key] = _Failed(TimeoutError("the client left this element out"))
            elif not future.done():
                answers[key] = _Failed(TimeoutError("the client did not answer in time"))
            elif future.cancelled():
                answers[key] = _Failed(TimeoutError("the question was dropped"))
            elif (raised := future.exception()) is not None:
                answers[key] = _Failed(raised)
            else:
                answers[key] = future.result()
        try:
            client.admin.poll(0)
        except (KafkaException, RuntimeError) as error:
            return dict.fromkeys(keys, _Failed(error))
        self._judge(client, answers.values())
        if client.refusals:
            answers = {key: self._refused(client, answer) for key, answer in answers.items()}
        return answers

    async def _settled(self, client: _Client, waiting: set[asyncio.Future[Any]]) -> None:
        """Until all are answered or the bound is reached; sooner when the brokers refuse our
        credentials: the client would go on asking them until the very end."""
        loop = asyncio.get_running_loop()
        asked, until = loop.time(), loop.time() + self._timeout + GRACE_SECONDS
        while waiting and (now := loop.time()) < until:
            if client.refusals and now - asked >= REFUSED_SECONDS:
                return
            _, waiting = await asyncio.wait(waiting, timeout=min(REFUSED_SECONDS / 4, until - now))
            if waiting:
                with contextlib.suppress(KafkaException, RuntimeError):  # asked again below
                    client.admin.poll(0)  # where a refusal is told

    @staticmethod
    def _refused(client: _Client, answer: Any) -> Any:
        """A time-out with its reason."""
        if (
            client.refusals
            and isinstance(answer, _Failed)
            and answer.fault.kind is FaultKind.UNAVAILABLE
        ):
            return _Failed(answer.error, client.refusals[-1])
        return answer

    # --- the client and its replacement -------------------------------------------------------

    def _judge(self, client: _Client, answers: Collection[Any]) -> None:
        failed = [a for a in answers if isinstance(a, _Failed)]
        if len(failed) < len(answers):
            client.refusals.clear()
        client.suspicion.heard([answer.error for answer in failed], self._clock())

    async def _usable_client(self) -> _Client | _Failed:
        if self._closed:
            return _Failed(RuntimeError("the connection to Kafka was closed"))
        client = self._client
        if client is not None and not client.suspicion.lasts(self._clock()):
            return client
        async with self._replacing:
            client = self._client
            if client is not None and not client.suspicion.lasts(self._clock()):
                return client
            refusals: list[Fault] = []
            config: dict[str, Any] = {
                **admin_config(self._settings),
                "error_cb": lambda error: _note_refusal(error, refusals),
            }
            try:
                # The constructor may read certificates: not on the event loop.
                admin = await asyncio.to_thread(AdminClient, config, logger=self._log)
            except (KafkaException, ValueError, TypeError, RuntimeError) as error:
                return _Failed(error)
            if client is not None:
                self._let_go(client)
            self._client = _Client(admin, refusals)
            return self._client

    @staticmethod
    def _let_go(client: _Client) -> None:
        """Its destructor waits for its threads: let that be where nobody else waits."""
        holder = [client]
        threading.Thread(target=holder.clear, name="kafka-log-end", daemon=True).start()


def _unread(failed: _Failed) -> Unreadable:
    return Unreadable(failed.fault)


def _operations(description: Any) -> frozenset[str] | None:
    operations = description.authorized_operations
    return frozenset(one.name for one in operations) if operations else None


def _topic_partition(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.index)


def _described(fault: Fault, partition: Partition) -> Fault:
    return denied(fault, "DESCRIBE", topic=partition.topic)


def _epoch(epoch: int | None) -> LeaderEpoch | None:
    return None if epoch is None or epoch < 0 else LeaderEpoch(epoch)


def _committed(element: TopicPartition) -> Reading[Committed]:
    if element.error is not None:
        return Unreadable(fault_of(element.error))
    if element.offset == OFFSET_INVALID:
        return ABSENT
    return Known(
        Committed(
            next=Offset(element.offset),
            epoch=_epoch(element.leader_epoch),
            metadata=element.metadata or None,
        )
    )


def _topic_config(config: Mapping[str, str | None]) -> _TopicConfig:
    policy, size = config.get("cleanup.policy"), config.get("max.message.bytes")
    return _TopicConfig(
        compacted=None if policy is None else "compact" in policy,
        batch_bytes_max=int(size) if size and size.isdigit() else None,
    )


def _retention(config: Mapping[str, str | None]) -> Answer[Retention]:
    """A topic that is only compacted loses no record that a reader of its last values needs."""
    policy, time_ms = config.get("cleanup.policy"), config.get("retention.ms")
    size = config.get("retention.bytes")
    if policy is None or time_ms is None or size is None:
        return Unreadable(unavailable("NO_ANSWER", "the broker left the retention settings out"))
    if "delete" not in policy:
        return Known(Retention(None, by_size=False))
    return Known(Retention(None if int(time_ms) < 0 else int(time_ms) / 1000, int(size) >= 0))


def _note_refusal(error: KafkaError, refusals: list[Fault]) -> None:
    """Called inside the client's `poll`: must not raise, and keeps the newest only."""
    fault = fault_of(error)
    if fault.kind is FaultKind.AUTHENTICATION:
        refusals[:] = [fault]


def _retrieved(future: asyncio.Future[Any]) -> None:
    """A late answer is nobody's, and no reason to complain of an exception never retrieved."""
    if not future.cancelled():
        future.exception()
