"""What a soak runs on: a broker, a store with sentinels, two members that stay and one that comes
and goes.

The two that stay are never restarted, so that what they hold can be followed from beginning to end.
All that is violent happens to the third, to the store and to the log.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from tests.benches.kafka import KafkaBroker
from tests.benches.names import Names
from tests.benches.redis import Sentinels
from tests.benches.waiting import wait_until
from tests.harness.api import AWAY, GapSeen
from tests.harness.checker import Account
from tests.harness.sidecar import SidecarProcess
from tests.harness.world import CommitWatch, Load, World

PARTITIONS = 6
BATCH = 4
"""Records of each partition, each tenth of a second."""
RECEIPTS = 1_000
"""Retained for each partition: few, so that the store is as full as it gets within a minute."""
AWAY_SECONDS = 90.0


@dataclass(frozen=True)
class Told:
    """A gap as a sidecar's log told of it."""

    topic: str
    partition: int
    first: int
    end: int | None
    state: str


class Soak:
    def __init__(
        self, kafka: KafkaBroker, sentinels: Sentinels, directory: Path, chance: random.Random
    ) -> None:
        self.kafka = kafka
        self.sentinels = sentinels
        self.chance = chance
        self.done: dict[str, int] = {}
        """What was inflicted, and how often."""
        self.world = World(kafka, sentinels.servers[0], Names("soak"), directory)
        self.world.store = sentinels
        # Retention by age and size runs all the while, behind the cursors; loss is inflicted.
        self.topic = self.world.topic(
            PARTITIONS,
            **{"retention_ms": "20000", "segment_ms": "5000"},
        )
        self.places = [(self.topic, index) for index in range(PARTITIONS)]
        settings: dict[str, Any] = {
            "KAFKA__SESSION_TIMEOUT_SECONDS": 3,
            "KAFKA__CLIENT": '{"partition.assignment.strategy": "cooperative-sticky"}',
            "RECOVERY__RECEIPTS_RETAINED_MAX": RECEIPTS,
            "RECOVERY__ON_GAP": '{"retention_loss": "accept"}',
        }
        self.residents = [self.world.sidecar(**settings) for _ in range(2)]
        self.visitor: SidecarProcess = self.world.sidecar(start=False, **settings)
        for member in (*self.residents, self.visitor):
            self.world.application(member, records_max=50)
        self.load = Load(self.world, self.topic, PARTITIONS, batch=BATCH)
        self.watch: CommitWatch = self.world.watch_commits(*self.places)
        self._resting = threading.Event()

    # What happens

    def act(self, action: Callable[[Soak], None]) -> None:
        self.flows()
        action(self)
        name = action.__name__
        self.done[name] = self.done.get(name, 0) + 1

    def flows(self, records: int = 300) -> None:
        """Until so many more records were applied; then for a random moment more."""
        target = self.world.ledger.count + records
        wait_until(
            lambda: self.world.ledger.count >= target,
            f"{records} more records are applied",
            timeout_seconds=AWAY_SECONDS,
        )
        self.rest(self.chance.uniform(0.0, 2.0))

    def rest(self, seconds: float) -> None:
        self._resting.wait(seconds)

    def join(self) -> None:
        if not self.visitor.running:
            self.visitor.start()

    @contextlib.contextmanager
    def store_may_forget(self) -> Iterator[None]:
        """Commits are not held against a store that is being replaced by one that knows less. They
        are again once every partition's checkpoint has reached its commit."""
        with self.watch.suspended():
            yield
            wait_until(
                self._restored,
                "every checkpoint is at its commit, or beyond",
                timeout_seconds=AWAY_SECONDS,
                every_seconds=0.2,
                ignoring=(redis.RedisError,),
            )

    def _restored(self) -> bool:
        for place in self.places:
            committed = self.world.committed(*place)
            stored = int(self.world.checkpoint(*place).get("next", -1))
            if committed is not None and committed > stored:
                return False
        return True

    # What is seen

    def used(self) -> dict[str, float]:
        """What the store holds for the group: keys, and the memory of them. Not `used_memory`: the
        backlog for replicas is part of that, and grows by design until it is full."""
        store = self.world.store.client()
        keys = list(store.scan_iter(f"{self.world.prefix}:*", count=1000))
        pipe = store.pipeline(transaction=False)
        for key in keys:
            pipe.memory_usage(key, samples=0)
        held: list[Any] = pipe.execute()
        return {"redis_keys": len(keys), "redis_memory": sum(size or 0 for size in held) / 1e6}

    # The end

    def settle(self) -> tuple[Account, list[GapSeen], list[Told]]:
        """Everything at rest; what became of every record. A store that forgets may forget the
        entry of a gap that was decided meanwhile: such a gap is known by what was logged, and one
        that nobody decided is not accepted so."""
        if self.visitor.running:
            self.visitor.terminate()
        self.load.stop()
        ends = [self.world.outside.bounds(*place).end for place in self.places]

        def at_rest() -> bool:
            stored = [int(self.world.checkpoint(*place).get("next", -1)) for place in self.places]
            return ends == stored == [self.world.committed(*place) for place in self.places]

        wait_until(
            at_rest,
            "everything is applied and committed",
            timeout_seconds=AWAY_SECONDS,
            every_seconds=0.2,
            ignoring=(redis.RedisError,),
        )
        for application in self.world.applications:
            application.stop()
        gaps = self.residents[0].api().gaps()
        kept = {gap.id for gap in gaps}
        forgotten = [
            told
            for name, told in self._told().items()
            if name not in kept and told.state == "resolved"
        ]
        return self.world.account([*gaps, *forgotten]), gaps, forgotten

    def _told(self) -> dict[str, Told]:
        """By the gap's id, what was logged of it last."""
        told = [
            event
            for member in self.world.sidecars
            for name in ("gap_opened", "gap_changed")
            for event in member.events(name)
        ]
        return {
            event["gap"]: Told(
                *(event[field] for field in ("topic", "partition", "first", "end", "state"))
            )
            for event in sorted(told, key=lambda event: str(event["timestamp"]))
        }

    def close(self) -> None:
        with contextlib.suppress(AssertionError):  # said already, or of no matter any more
            self.load.stop(5)
        self.world.close()


# --- what is inflicted ----------------------------------------------------------------------------


def a_member_joins(soak: Soak) -> None:
    soak.join()


def a_member_leaves(soak: Soak) -> None:
    soak.join()
    soak.flows(100)
    soak.visitor.terminate()


def a_member_is_killed(soak: Soak) -> None:
    soak.join()
    soak.flows(100)
    soak.visitor.kill()


def records_are_deleted(soak: Soak) -> None:
    """Those of a partition whose owner was just killed, and that nobody has read yet."""
    soak.join()
    api = soak.visitor.api(5.0)
    with contextlib.suppress(TimeoutError):
        wait_until(
            lambda: [p for p in api.partitions() if p.state == "delivering"],
            "the visitor delivers",
            timeout_seconds=20,
            ignoring=AWAY,
        )
    owned = [state.partition for state in api.partitions() if state.state == "delivering"]
    soak.visitor.kill()
    soak.rest(1.5)
    for index in owned[:1]:
        end = soak.world.outside.bounds(soak.topic, index).end
        soak.world.outside.delete_records(soak.topic, index, end - 5)


def the_store_is_handed_over(soak: Soak) -> None:
    """As an operator does it: nothing is lost."""
    with soak.store_may_forget():
        soak.sentinels.fail_over()


def the_store_is_killed(soak: Soak) -> None:
    """The replica, which may lag a little, is promoted; the old one comes back and follows."""
    with soak.store_may_forget():
        old = soak.sentinels.master
        soak.sentinels.fail_over_by_kill()
        old.start()
        soak.sentinels.await_following(old)


def the_store_forgets(soak: Soak) -> None:
    """A replica that had heard nothing for a while is promoted: acknowledged writes are gone."""
    with soak.store_may_forget():
        old = soak.sentinels.master
        soak.sentinels.cut_replica()
        soak.flows(100)
        soak.sentinels.fail_over_by_kill()
        old.start()
        soak.sentinels.await_following(old)


ACTIONS: tuple[Callable[[Soak], None], ...] = (
    a_member_joins,
    a_member_leaves,
    a_member_is_killed,
    records_are_deleted,
    the_store_is_handed_over,
    the_store_is_killed,
    the_store_forgets,
)
