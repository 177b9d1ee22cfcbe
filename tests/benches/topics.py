"""What happens to topics and groups from outside: an operator, other producers, other tools.

`Outsider` is one admin client and what tests need of it, each call bounded in time, over a broker
or a trio of them, always by the direct way (past proxies and passwords).
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.benches.kafka import ADMIN_TIMEOUT_SECONDS, KafkaBroker, KafkaTrio
from tests.benches.waiting import wait_until

__all__ = ["Committed", "Outsider", "Record", "wait_until"]

_GROUP_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_TRANSACTIONS_TOOL = "org.apache.kafka.tools.TransactionsCommand"
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_NO_LEADER_YET = (
    KafkaError._NOENT,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
_UNKNOWN_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


@dataclass(frozen=True, slots=True)
class Record:
    """A record to produce; a value of None is a tombstone."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset (the next to read) as the broker stores it."""

    offset: int
    metadata: str | None
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Log start, high watermark and last stable offset of a partition."""

    start: int
    end: int
    stable: int


def numbered(count: int, tag: str = "v", size_bytes: int = 0) -> list[Record]:
    """Records with the values tag0, tag1, ..., padded to a size."""
    return [Record(f"{tag}{i}".encode().ljust(size_bytes, b".")) for i in range(count)]


class Outsider:
    """Anybody but the consumer under test."""

    def __init__(self, kafka: KafkaBroker | KafkaTrio) -> None:
        self._kafka = kafka
        # The default back-off grows to 10 s, too long beside a broker that is being restarted.
        self._settings: dict[str, Any] = {
            "bootstrap.servers": kafka.direct,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.propagation.max.ms": 1000,
            "log_level": 0,
        }

    @functools.cached_property
    def admin(self) -> AdminClient:
        """For what has no method here; pass `request_timeout=ADMIN_TIMEOUT_SECONDS`."""
        return AdminClient(self._settings)

    # --- topics ---

    def create(
        self,
        topic: str,
        partitions: int = 1,
        *,
        config: Mapping[str, str] | None = None,
        replicas: list[list[int]] | None = None,
    ) -> str:
        """Create a topic (`replicas`: the nodes of each partition) and return its id."""
        placed: dict[str, Any] = (
            {"replica_assignment": replicas} if replicas else {"replication_factor": 1}
        )
        new = NewTopic(topic, num_partitions=partitions, config=dict(config or {}), **placed)
        _done(self.admin.create_topics([new], request_timeout=ADMIN_TIMEOUT_SECONDS))
        wait_until(
            lambda: all(self.leader(topic, p) is not None for p in range(partitions)),
            f"{topic} has its leaders",
            ignoring=(KafkaException, KeyError),
        )
        return wait_until(lambda: self.topic_id(topic), f"{topic} has an id")

    def delete(self, topic: str) -> None:
        """Delete a topic, and with it what all groups committed of it; wait until it is gone."""
        _done(self.admin.delete_topics([topic], request_timeout=ADMIN_TIMEOUT_SECONDS))
        wait_until(lambda: self.topic_id(topic) is None, f"{topic} is gone")

    def recreate(
        self, topic: str, partitions: int = 1, *, config: Mapping[str, str] | None = None
    ) -> str:
        """Delete a topic and create another of the same name; returns the new id."""
        self.delete(topic)
        return self.create(topic, partitions, config=config)

    def topic_id(self, topic: str) -> str | None:
        """The topic's id, or None when there is no such topic."""
        futures = self.admin.describe_topics(
            TopicCollection([topic]), request_timeout=ADMIN_TIMEOUT_SECONDS
        )
        try:
            # As Kafka's own tools write it; the client uses the other alphabet.
            return str(_only(futures).topic_id).replace("+", "-").replace("/", "_")
        except KafkaException as error:
            if error.args[0].code() in _UNKNOWN_TOPIC:
                return None
            raise

    def add_partitions(self, topic: str, total: int) -> None:
        new = NewPartitions(topic, total)
        _done(self.admin.create_partitions([new], request_timeout=ADMIN_TIMEOUT_SECONDS))

    def configure(self, topic: str, **config: object) -> None:
        """Set topic configuration; dots are written as underscores."""
        entries = [
            ConfigEntry(
                name.replace("_", "."), str(value), incremental_operation=AlterConfigOpType.SET
            )
            for name, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        futures = self.admin.incremental_alter_configs(
            [resource], request_timeout=ADMIN_TIMEOUT_SECONDS
        )
        _done(futures)

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """The leading node, or None while there is none."""
        leader = self._partition(topic, partition).leader
        return leader if leader >= 0 else None

    def in_sync(self, topic: str, partition: int = 0) -> set[int]:
        """The nodes in the ISR."""
        return set(self._partition(topic, partition).isrs)

    # --- records ---

    def produce(
        self,
        topic: str,
        records: int | Iterable[Record],
        partition: int = 0,
        *,
        tag: str = "v",
        conf: Mapping[str, object] | None = None,
    ) -> list[int]:
        """Produce records, or so many numbered ones, in order; returns their offsets."""
        producer = Producer({**self._settings, "linger.ms": 0, **(conf or {})})
        return self._send(producer, topic, records, partition, tag)

    def patient_producer(self) -> Producer:
        """One that writes each record once, in order, however often it has to try."""
        return Producer({**self._settings, "linger.ms": 5, "enable.idempotence": True})

    def read(
        self, topic: str, partition: int = 0, start: int | None = None, *, committed: bool = False
    ) -> list[Message]:
        """Everything from `start` (else the log start) to the end, as an outsider sees it."""
        bounds = self.bounds(topic, partition)
        settings = {
            **self._settings,
            "group.id": "outsider",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,  # how long the broker ponders before it says "end"
            "auto.offset.reset": "error",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
        seen: list[Message] = []

        def at_end(consumer: Consumer) -> bool:
            for message in consumer.consume(500, 0.1):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return True
                if error is not None:
                    raise KafkaException(error)
                seen.append(message)
            return False

        consumer = Consumer(settings)
        try:
            first = bounds.start if start is None else start
            consumer.assign([TopicPartition(topic, partition, first)])
            wait_until(lambda: at_end(consumer), f"the end of {topic}[{partition}]")
        finally:
            consumer.close()
        return seen

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete everything before an offset; returns the new log start."""
        where = TopicPartition(topic, partition, before)
        futures = self.admin.delete_records([where], request_timeout=ADMIN_TIMEOUT_SECONDS)
        return int(_only(futures).low_watermark)

    def bounds(self, topic: str, partition: int = 0) -> Bounds:
        """Log start, end and last stable offset."""
        committed = IsolationLevel.READ_COMMITTED
        return Bounds(
            start=self.offset(topic, partition, _EARLIEST),
            end=self.offset(topic, partition, _LATEST),
            stable=self.offset(topic, partition, _LATEST, isolation_level=committed),
        )

    def offset(self, topic: str, partition: int, spec: OffsetSpec, **options: Any) -> int:
        """The answer to one list-offsets request, asked again while no leader is known.

        librdkafka looks leaders up in its metadata cache and does not refresh it by itself; and
        a broker shows a new partition a moment before it leads it.
        """
        wanted = {TopicPartition(topic, partition): spec}
        options = {"request_timeout": ADMIN_TIMEOUT_SECONDS, **options}

        def ask() -> Any:
            try:
                return _only(self.admin.list_offsets(wanted, **options))
            except KafkaException as error:
                if error.args[0].code() not in _NO_LEADER_YET:
                    raise
                self._partition(topic, partition)
                return None

        return int(wait_until(ask, f"leader of {topic}[{partition}]", ignoring=(KeyError,)).offset)

    # --- groups ---

    def committed(self, group: str, topic: str, partition: int = 0) -> Committed | None:
        """What a group has committed, or None."""
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])
        futures = self.admin.list_consumer_group_offsets(
            [wanted], request_timeout=ADMIN_TIMEOUT_SECONDS
        )
        found = _only(futures).topic_partitions[0]
        if found.error is not None:
            raise KafkaException(found.error)
        if found.offset < 0:
            return None
        return Committed(found.offset, found.metadata, found.leader_epoch)

    def offsets_reader(self, group: str) -> Consumer:
        """For `committed_all`, one for each thread that asks.

        Not the admin client: asked for a group's offsets while its coordinator dies, librdkafka
        2.16 was seen to abort the process (`rd_kafka_enq_once_del_source_return`).
        """
        return Consumer({**self._settings, "group.id": group, "enable.auto.commit": False})

    @staticmethod
    def committed_all(
        reader: Consumer, places: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        """What a group has committed of these partitions, in one answer; without those of which
        there is no commit."""
        found: dict[tuple[str, int], int] = {}
        for one in reader.committed([TopicPartition(*place) for place in places], timeout=5):
            if one.error is not None:
                raise KafkaException(one.error)
            if one.offset >= 0:
                found[one.topic, one.partition] = one.offset
        return found

    def commit(
        self,
        group: str,
        topic: str,
        partition: int,
        offset: int,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        """Commit without being a member; the broker allows it while the group has none."""
        consumer = Consumer({**self._settings, "group.id": group, "enable.auto.commit": False})
        options = {"metadata": metadata, "leader_epoch": leader_epoch}
        given: Any = {name: value for name, value in options.items() if value is not None}
        where = TopicPartition(topic, partition, offset, **given)
        try:
            for done in consumer.commit(offsets=[where], asynchronous=False) or []:
                if done.error is not None:
                    raise KafkaException(done.error)
        finally:
            consumer.close()

    def members(self, group: str) -> int:
        """How many live members a group has (0 when there is no such group)."""
        futures = self.admin.describe_consumer_groups(
            [group], request_timeout=ADMIN_TIMEOUT_SECONDS
        )
        try:
            return len(_only(futures).members)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return 0
            raise

    def coordinator(self, topic: str) -> int:
        """The node that coordinates every group, since their offsets have one partition here.
        Somebody else commits on a topic, so that it is there."""
        self.commit("somebody-else", topic, 0, 0)
        return wait_until(
            lambda: self.leader("__consumer_offsets"),
            "the groups have a coordinator",
            ignoring=(KafkaException, KeyError),
        )

    def delete_group(self, group: str) -> None:
        """Delete a group without live members, and all that it committed."""
        futures = self.admin.delete_consumer_groups([group], request_timeout=ADMIN_TIMEOUT_SECONDS)
        _done(futures)

    def delete_offsets(self, group: str, topic: str) -> None:
        """Delete what a group committed of one topic, with Kafka's own tool (about 1 s)."""
        self._tool(_GROUP_TOOL, "--delete-offsets", "--group", group, "--topic", topic)

    def reset_offsets(self, group: str, topic: str, *how: str) -> str:
        """`kafka-consumer-groups --reset-offsets`, e.g. with "--to-offset", "7".

        Refused, with exit code 0, while the group has members; else it wipes the metadata.
        """
        return self._tool(
            _GROUP_TOOL, "--reset-offsets", "--group", group, "--topic", topic, *how, "--execute"
        )

    # --- transactions ---

    def transaction(
        self,
        topic: str,
        records: int | Iterable[Record],
        partition: int = 0,
        *,
        commit: bool,
        tag: str = "t",
        transactional_id: str | None = None,
    ) -> list[int]:
        """Produce in a transaction and end it; returns the offsets when the marker is written."""
        producer = self._transactional(transactional_id or f"{topic}-tx")
        offsets = self._send(producer, topic, records, partition, tag)
        if commit:
            producer.commit_transaction(ADMIN_TIMEOUT_SECONDS)
        else:
            producer.abort_transaction(ADMIN_TIMEOUT_SECONDS)
        wait_until(
            lambda: self.bounds(topic, partition).stable > offsets[-1] + 1, "the marker is written"
        )
        return offsets

    def hang_transaction(
        self,
        topic: str,
        records: int | Iterable[Record],
        partition: int = 0,
        *,
        transactional_id: str,
        timeout_seconds: float = 600,
        tag: str = "open",
    ) -> list[int]:
        """Produce in a transaction and vanish without ending it; returns the offsets."""
        producer = self._transactional(transactional_id, timeout_seconds)
        return self._send(producer, topic, records, partition, tag)

    def terminate_transaction(self, transactional_id: str) -> None:
        """Abort a hanging transaction with Kafka's own tool (about 1 s)."""
        self._tool(
            _TRANSACTIONS_TOOL, "forceTerminateTransaction", "--transactionalId", transactional_id
        )

    # --- inside ---

    def _transactional(self, transactional_id: str, timeout_seconds: float = 60) -> Producer:
        producer = Producer(
            {
                **self._settings,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": int(timeout_seconds * 1000),
            }
        )
        producer.init_transactions(ADMIN_TIMEOUT_SECONDS)
        producer.begin_transaction()
        return producer

    def _send(
        self,
        producer: Producer,
        topic: str,
        records: int | Iterable[Record],
        partition: int,
        tag: str,
    ) -> list[int]:
        outcomes: list[int | KafkaError | None] = []

        def settle(error: KafkaError | None, message: Message) -> None:
            outcomes.append(error or message.offset())

        batch = numbered(records, tag) if isinstance(records, int) else list(records)
        for record in batch:
            # librdkafka takes 0 for "now", and reads headers only when there are some.
            options: dict[str, Any] = {"headers": list(record.headers)} if record.headers else {}
            if record.timestamp_ms is not None:
                options["timestamp"] = record.timestamp_ms
            producer.produce(
                topic, record.value, record.key, partition, on_delivery=settle, **options
            )
            producer.poll(0)
        unsent = producer.flush(ADMIN_TIMEOUT_SECONDS)
        offsets = [outcome for outcome in outcomes if isinstance(outcome, int)]
        if unsent or len(offsets) != len(batch):
            failures = {str(o) for o in outcomes if not isinstance(o, int)}
            raise AssertionError(f"{len(offsets)} of {len(batch)} records produced: {failures}")
        return offsets

    def _partition(self, topic: str, partition: int) -> Any:
        return self.admin.list_topics(topic, timeout=2).topics[topic].partitions[partition]

    def _tool(self, main: str, *args: str) -> str:
        kafka = self._kafka
        broker = kafka if isinstance(kafka, KafkaBroker) else next(iter(kafka.nodes.values()))
        return broker.tool(main, *args)


def _done(futures: Mapping[Any, "Future[Any]"]) -> list[Any]:
    # Twice the request's own limit: a bare TimeoutError here means that the client is stuck.
    return [future.result(2 * ADMIN_TIMEOUT_SECONDS) for future in futures.values()]


def _only(futures: Mapping[Any, "Future[Any]"]) -> Any:
    (result,) = _done(futures)
    return result
