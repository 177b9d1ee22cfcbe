"""Whoever acts beside the sidecar: a person who asks for things, and somebody else's tool.

A person's requests go into the store as the commands leave them, and are remembered here. Whatever
was killed meanwhile, each must be answered in the end, and only once; a replay that was done must
have delivered its whole interval again, and a record that was skipped counts as declared.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from sidecar.cli.options import load_settings
from sidecar.core.faults import Known
from sidecar.core.request import Request, RequestId, RequestKind, RequestState
from sidecar.core.types import Fields, GroupId, Partition
from sidecar.standalone import open_store
from sidecar.store.redis import RedisStore
from tests.benches.waiting import wait_until
from tests.harness.application import Effect
from tests.harness.checker import Place
from tests.harness.sidecar import SidecarProcess
from tests.harness.world import World

T = TypeVar("T")

ANSWER_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that a person let pass, as the checker reads what was declared."""

    topic: str
    partition: int
    first: int
    state: str = "resolved"

    @property
    def end(self) -> int:
        return self.first + 1


class Person:
    """`sidecar`: whose end a person does not wait beyond."""

    def __init__(self, world: World, sidecar: SidecarProcess) -> None:
        self._world = world
        self._sidecar = sidecar
        self._numbers = itertools.count(1)
        self._settings = load_settings(
            None,
            {
                "KAFKA__BOOTSTRAP_SERVERS": world.kafka.bootstrap,
                "KAFKA__GROUP_ID": world.group,
                "KAFKA__TOPICS": ",".join(world.topics),
                "REDIS__URL": world.store.url,
                "REDIS__KEY_PREFIX": world.prefix,
            },
            {},
        )
        self._left: list[Request] = []

    def ask(
        self,
        place: Place,
        kind: RequestKind,
        target: str = "",
        arguments: Fields | None = None,
    ) -> None:
        """And wait until it is answered, or the sidecar has ended."""
        request = Request(
            RequestId(f"r-{next(self._numbers)}"),
            GroupId(self._world.group),
            Partition(*place),
            kind,
            target,
            "on-call",
            "a test",
            time.time(),
            arguments or {},
        )
        left = self._at_the_store(lambda store: store.leave(request))
        assert isinstance(left, Known), left
        self._left.append(request)
        self.await_answers([request], or_death=True)

    def await_answers(
        self, requests: Sequence[Request] | None = None, *, or_death: bool = False
    ) -> None:
        wanted = {one.id for one in (self._left if requests is None else requests)}
        wait_until(
            lambda: (
                (or_death and not self._sidecar.running)
                or not wanted.intersection(one.id for one in self._kept() if one.pending)
            ),
            "what was asked is answered",
            timeout_seconds=ANSWER_SECONDS,
            every_seconds=0.1,
        )

    def account(self, effects: Sequence[Effect]) -> list[Skipped]:
        """What was skipped. Raises unless each request was answered, and once, and each replay that
        was done is in the ledger."""
        self.await_answers()
        asked = {one.id for one in self._left}
        kept = [one for one in self._kept() if one.id in asked]
        told = Counter(str(event["request"]) for event in self._sidecar.events("request_settled"))
        twice = {name: times for name, times in told.items() if times > 1}
        assert not twice, f"answered more than once: {twice}"
        done = [one for one in kept if one.state is RequestState.DONE]
        skipped = [
            Skipped(*_place(one), int(str(one.arguments["offset"])))
            for one in done
            if one.kind is RequestKind.SKIP
        ]
        # What was skipped was not applied the first time; a replay delivers it all the same.
        handed = Counter((one.topic, one.partition, one.offset) for one in effects)
        handed.update((one.topic, one.partition, one.first) for one in skipped)
        for one in done:
            if one.kind is RequestKind.REPLAY:
                again = range(int(str(one.arguments["from"])), int(str(one.arguments["to"])))
                missing = [at for at in again if handed[(*_place(one), at)] < 2]
                assert not missing, f"{one.id} is done, and {missing} were not delivered again"
        return skipped

    def _kept(self) -> list[Request]:
        places = {one.partition for one in self._left}
        group = GroupId(self._world.group)
        answers = self._at_the_store(lambda store: store.requests(group, places))
        found: list[Request] = []
        for answer in answers.values():
            assert isinstance(answer, Known), answer
            found += answer.value
        return found

    def _at_the_store(self, work: Callable[[RedisStore], Awaitable[T]]) -> T:
        async def run() -> T:
            store = open_store(self._settings)
            try:
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(run())


def _place(request: Request) -> Place:
    return request.partition.topic, request.partition.index


class OtherTool:
    """Another member of the group, with a topic of its own, that commits what it has no business
    with: a broker takes any partition's offset from any member. All of it on one thread: librdkafka
    was seen to hang where one polls and another asks."""

    def __init__(self, world: World) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": world.kafka.bootstrap,
                "group.id": world.group,
                "group.instance.id": f"{world.group}-other",
                "session.timeout.ms": 6_000,
                "partition.assignment.strategy": "cooperative-sticky",
                "enable.auto.commit": False,
            }
        )
        self._topic = world.names.topic()
        world.outside.create(self._topic)

    def __enter__(self) -> Self:
        self._consumer.subscribe([self._topic])
        wait_until(self.takes_part, "the other tool is a member", timeout_seconds=60)
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def takes_part(self) -> bool:
        """As often as a rebalance should not wait for it."""
        self._consumer.poll(0.1)
        return bool(self._consumer.assignment())

    def commit(self, place: Place, offset: int) -> None:
        with contextlib.suppress(KafkaException):  # refused while the group rebalances
            self._consumer.commit(offsets=[TopicPartition(*place, offset)], asynchronous=False)
