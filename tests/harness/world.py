"""A broker, a store and the sidecars of one group on them, with everything a test does to them.

The world notes what it produces and what is committed, so that at the end one call says whether
every record is accounted for.
"""

import contextlib
import itertools
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import redis
from click.testing import CliRunner, Result
from confluent_kafka import KafkaError, KafkaException, Message

from sidecar.cli import main
from tests.benches.kafka import KafkaBroker
from tests.benches.names import Names
from tests.benches.redis import Valkey
from tests.benches.topics import Outsider, Record
from tests.harness.application import Application, Ledger
from tests.harness.checker import Account, Declared, Place, Produced, account
from tests.harness.sidecar import SidecarProcess

__all__ = ["Load", "World", "values"]

LOOK_SECONDS = 0.01
"""How long a watch rests between two looks, so that it does not eat what it looks at."""


def values(count: int, tag: str = "v", first: int = 0, size: int = 0) -> list[Record]:
    """Records that can be told apart by their value and have a key each."""
    return [
        Record(f"{tag}{i}".encode().ljust(size, b"."), key=f"k{i % 7}".encode())
        for i in range(first, first + count)
    ]


class Store(Protocol):
    """One server, Sentinels or a cluster."""

    @property
    def url(self) -> str: ...
    def client(self) -> Any: ...


class World:
    def __init__(
        self,
        kafka: KafkaBroker,
        valkey: Valkey,
        names: Names,
        directory: Path,
        *,
        store: Store | None = None,
    ) -> None:
        """`store`: what the sidecars are given, where it is more than the one server."""
        self.kafka = kafka
        self.valkey = valkey
        self.store: Store = store or valkey
        self.outside = Outsider(kafka)
        self.group = names.group()
        self.prefix = names.prefix
        self.names = names
        self.produced = Produced()
        self.ledger = Ledger(directory / "ledger")
        self.sidecars: list[SidecarProcess] = []
        self.topics: list[str] = []
        self.applications: list[Application] = []
        self._watches: list[CommitWatch] = []
        self._numbers = itertools.count(1)

    # Topics and records

    def topic(self, partitions: int = 1, **config: str) -> str:
        topic = self.names.topic()
        settings = {name.replace("_", "."): value for name, value in config.items()}
        self.outside.create(topic, partitions, config=settings)
        self.topics.append(topic)
        return topic

    def produce(
        self,
        topic: str,
        records: int | Sequence[Record],
        partition: int = 0,
        *,
        tag: str = "v",
        noted: bool = True,
        **options: Any,
    ) -> list[int]:
        batch = values(records, tag) if isinstance(records, int) else list(records)
        offsets = self.outside.produce(topic, batch, partition, **options)
        if noted:
            self.note(topic, partition, offsets, batch)
        return offsets

    def note(
        self, topic: str, partition: int, offsets: Sequence[int], batch: Iterable[Record]
    ) -> None:
        self.produced.note(topic, partition, offsets, [record.value for record in batch])

    # The sidecar and its application

    def sidecar(
        self,
        topics: Sequence[str] = (),
        *,
        start: bool = True,
        static: bool = False,
        **settings: object,
    ) -> SidecarProcess:
        """A member of the group.

        `static`: it has its partitions again at once after a `kill -9`, rather than after a
        session; but it stays a member while it is down, so that nobody else can touch the group.
        """
        number = next(self._numbers)
        given: dict[str, object] = {
            "KAFKA__BOOTSTRAP_SERVERS": self.kafka.bootstrap,
            "KAFKA__GROUP_ID": self.group,
            "KAFKA__TOPICS": ",".join(topics or self.topics),
            "KAFKA__SESSION_TIMEOUT_SECONDS": 6,
            "KAFKA__INSTANCE_ID": f"{self.group}-{number}" if static else None,
            "REDIS__URL": self.store.url,
            "REDIS__KEY_PREFIX": self.prefix,
            "SHUTDOWN__DEADLINE_SECONDS": 10,
            **settings,
        }
        sidecar = SidecarProcess(given, name=f"sidecar{number}")
        self.sidecars.append(sidecar)
        if start:
            sidecar.start()
        return sidecar

    def application(self, sidecar: SidecarProcess, **options: Any) -> Application:
        """Started; it ends with the world."""
        number = len(self.applications) + 1
        application = Application(
            lambda: sidecar.address, self.ledger, name=f"app{number}", **options
        )
        self.applications.append(application)
        return application.start()

    def deliver_all(self, sidecar: SidecarProcess, *places: Place, timeout: float = 45.0) -> None:
        """Until these partitions are caught up; an application must be running."""
        for topic, partition in places:
            sidecar.await_partition(topic, partition, caught_up=True, timeout_seconds=timeout)

    def apply(
        self, sidecar: SidecarProcess, topic: str, count: int, partition: int = 0, **options: Any
    ) -> int:
        """Take exactly `count` records of a partition, in pages as they come, and apply them.
        Returns `next`. No application may be running."""
        api = sidecar.api()
        left, next_ = count, 0
        while left:
            page = api.take(30.0, records_max=left, topic=topic, partition=partition, **options)
            assert page is not None, f"{left} of {count} records did not come"
            self.ledger.write(page, "test")
            next_ = api.applied(page, committed=True).next
            left -= len(page.records)
        return next_

    # People

    def environ(self, **settings: object) -> dict[str, str]:
        """What a person's shell has, who runs the command beside this group's sidecars."""
        given: dict[str, object] = {
            "KAFKA__BOOTSTRAP_SERVERS": self.kafka.bootstrap,
            "KAFKA__GROUP_ID": self.group,
            "KAFKA__TOPICS": ",".join(self.topics),
            "REDIS__URL": self.valkey.url,
            "REDIS__KEY_PREFIX": self.prefix,
            **settings,
        }
        return {f"CURSOR_SIDECAR_{name}": str(value) for name, value in given.items()}

    def command(self, *arguments: str, **settings: object) -> Result:
        """The command line, in this process."""
        env = self.environ(**settings)
        return CliRunner().invoke(main, arguments, env=env, catch_exceptions=False)

    # What is recorded of it

    def committed(self, topic: str, partition: int = 0) -> int | None:
        found = self.outside.committed(self.group, topic, partition)
        return None if found is None else found.offset

    def checkpoint_key(self, topic: str, partition: int = 0) -> str:
        return f"{self.prefix}:{{{self.group}/{topic}/{partition}}}:checkpoint"

    def checkpoint(self, topic: str, partition: int = 0) -> dict[str, str]:
        """The stored fields, empty when there is none."""
        key = self.checkpoint_key(topic, partition)
        with self.store.client() as client:
            found: Any = client.hgetall(key)
        return dict(found)

    def audit(self, topic: str, partition: int = 0) -> list[str]:
        """What was done to a partition, the oldest first."""
        key = self.checkpoint_key(topic, partition).removesuffix("checkpoint") + "audit"
        with self.store.client() as client:
            entries: Any = client.xrange(key)
        return [json.loads(fields["j"])["what"] for _, fields in entries]

    def watch_commits(self, *places: Place) -> "CommitWatch":
        watch = CommitWatch(self, places)
        self._watches.append(watch)
        return watch.start()

    def account(self, gaps: Sequence[Declared] = (), **options: Any) -> Account:
        return account(self.produced, self.ledger.effects(), gaps, **options)

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self.ledger.close)
            for sidecar in self.sidecars:
                stack.callback(sidecar.close)
            for application in self.applications:
                stack.callback(application.stop)
            for watch in self._watches:
                stack.callback(watch.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class CommitWatch:
    """Looks again and again: the commits first, then the checkpoints. Since a checkpoint's `next`
    only rises, a commit beyond the one read after it was made before it was acknowledged; read the
    other way round, a commit that rightly followed a promotion in between would look like one.

    That `next` only rises is looked at too, which holds while neither the store loses what it had
    nor a resolution goes back.
    """

    def __init__(self, world: World, places: Sequence[Place]) -> None:
        self._world = world
        self._places = tuple(places)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="commit-watch", daemon=True)
        self._store = world.store.client()
        self._offsets = world.outside.offsets_reader(world.group)
        self._next: dict[Place, int] = {}
        self._judging = threading.Lock()
        self.faults: list[str] = []
        self.looks = 0

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Looks at nothing meanwhile, and begins anew: the store may lose what it had."""
        with self._judging:
            yield
            self._next.clear()

    def start(self) -> Self:
        self._thread.start()
        return self

    def add(self, *places: Place) -> None:
        self._places += places

    def stop(self) -> None:
        if not self._stopping.is_set():
            self._stopping.set()
            self._thread.join(30)
            self._offsets.close()

    def check(self) -> None:
        """Ends the watch; raises what it found."""
        self.stop()
        assert self.looks, "the commits were never looked at"
        assert not self.faults, "\n".join(self.faults[:10])

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            with (
                contextlib.suppress(KafkaException, redis.RedisError, TimeoutError),
                self._judging,
            ):
                self._look()

    def _look(self) -> None:
        world, places = self._world, self._places
        committed = world.outside.committed_all(self._offsets, places)
        pipe = self._store.pipeline(transaction=False)
        for place in places:
            pipe.hget(world.checkpoint_key(*place), "next")
        stored: list[Any] = pipe.execute()
        for place, found in zip(places, stored, strict=True):
            next_ = None if found is None else int(found)
            at = committed.get(place)
            self.looks += at is not None
            if at is not None and (next_ is None or at > next_):
                self.faults.append(
                    f"commit_behind_checkpoint: {place[0]}/{place[1]} committed {at}, "
                    f"the store holds {next_}"
                )
            if next_ is not None and next_ < self._next.get(place, 0):
                self.faults.append(
                    f"applied_monotone: {place[0]}/{place[1]} went back from "
                    f"{self._next[place]} to {next_}"
                )
            if next_ is not None:
                self._next[place] = next_


class Load:
    """Produces to all partitions of a topic, `batch` records each a tenth of a second, until it is
    stopped. A broker that is away is waited for: each record is in the log once, and is noted with
    the offset that the broker answered."""

    def __init__(self, world: World, topic: str, partitions: int, batch: int = 12) -> None:
        self._world = world
        self._topic = topic
        self._partitions = partitions
        self._batch = batch
        self._stopping = threading.Event()
        self._faults: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        producer = self._world.outside.patient_producer()
        first = 0
        while not self._stopping.wait(0.1):
            for partition in range(self._partitions):
                for record in values(self._batch, f"p{partition}-", first):
                    producer.produce(
                        self._topic, record.value, record.key, partition, on_delivery=self._settle
                    )
            producer.poll(0)
            first += self._batch
        while producer.flush(1):
            pass

    def _settle(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._faults.append(str(error))
            return
        offset, value = message.offset(), message.value()
        assert offset is not None
        self._world.produced.note(self._topic, message.partition() or 0, [offset], [value])

    def stop(self, timeout_seconds: float = 60.0) -> None:
        self._stopping.set()
        self._thread.join(timeout_seconds)
        assert not self._thread.is_alive(), "what was produced last did not reach the broker"
        assert not self._faults, self._faults[:3]
