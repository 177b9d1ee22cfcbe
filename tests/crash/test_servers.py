"""The broker and the store end, stand still, or have executed what nobody hears of, in mid flow.

The sidecar is never touched here: it has to find out what became of what it asked for. A reply that
is lost after the server has executed is the hardest of these, since the retry meets its own work.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.benches.kafka import KafkaBroker
from tests.benches.names import Names
from tests.benches.process import Process
from tests.benches.proxy import KafkaApi, Proxy
from tests.benches.redis import Valkey
from tests.benches.topics import Outsider
from tests.benches.waiting import wait_until
from tests.crash.test_random import SEED
from tests.faults.rows import Row
from tests.harness.application import Application
from tests.harness.sidecar import SidecarProcess
from tests.harness.world import CommitWatch, Load, World

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.faults_only,
    pytest.mark.timeout(600),
]

PARTITIONS = 2
ROUNDS = 4


class Flow:
    """Records flowing from a load through a sidecar to an application, watched from outside."""

    def __init__(self, world: World, **settings: Any) -> None:
        self.world = world
        self.topic = world.topic(PARTITIONS)
        self.load = Load(world, self.topic, PARTITIONS, batch=3)
        self.watch: CommitWatch = world.watch_commits(
            *((self.topic, index) for index in range(PARTITIONS))
        )
        self.sidecar: SidecarProcess = world.sidecar(
            KAFKA__COMMIT_INTERVAL_SECONDS=0.1, DELIVERY__DEADLINE_SECONDS=5, **settings
        )
        self.application: Application = world.application(self.sidecar, records_max=20)
        self.chance = random.Random(SEED)
        print(f"CRASH_SEED={SEED}")

    def goes_on(self, records: int = 60) -> None:
        """Until so many more records were reported and taken; then for a random moment more."""
        target = self.application.reported + records
        wait_until(
            lambda: self.application.reported >= target,
            f"{records} more records are applied",
            timeout_seconds=120,
        )
        self.application.rest(self.chance.uniform(0.0, 0.3))

    def ends_well(self, row: Row) -> None:
        """Everything is applied, flagged where repeated, and committed; nothing was given up."""
        self.load.stop()
        # A client that saw the broker end may answer with the epochs of before for a long time.
        outside = Outsider(self.world.kafka)
        for index in range(PARTITIONS):
            end = outside.bounds(self.topic, index).end
            self.sidecar.await_partition(
                self.topic, index, caught_up=True, next=end, committed=end, timeout_seconds=150
            )
        self.application.stop()
        self.watch.check()
        assert self.sidecar.api().gaps() == []
        assert self.sidecar.running
        row.observe("caught_up", "delivering")
        account = row.account(self.world.account())
        assert account.applied == account.produced
        print(account, f"{self.watch.looks} looks at commits")


Blow = Callable[[Process, Flow], None]


def killed(server: Process, flow: Flow) -> None:
    """SIGKILL, and back after a moment."""
    server.kill()
    flow.application.rest(flow.chance.uniform(0.0, 1.0))


def stopped(server: Process, flow: Flow) -> None:
    """SIGTERM, and back after a moment."""
    server.stop()
    flow.application.rest(flow.chance.uniform(0.0, 1.0))


def frozen(server: Process, flow: Flow) -> None:
    """SIGSTOP, sometimes for longer than a session, and SIGCONT."""
    server.pause()
    flow.application.rest(flow.chance.choice((0.5, 2.0, 8.0)))
    server.resume()


BLOWS = [killed, stopped, frozen]


@pytest.mark.fault(row="broker-ends-in-mid-flow", bench="K1+R1", expected="caught_up")
@pytest.mark.parametrize("blow", BLOWS, ids=lambda blow: blow.__name__)
def test_the_broker_goes_away_and_comes_back(own_servers: World, row: Row, blow: Blow) -> None:
    """Four times: every record is applied, and no commit was ahead of the store."""
    flow = Flow(own_servers)
    for _ in range(ROUNDS):
        flow.goes_on()
        blow(own_servers.kafka, flow)
        if not own_servers.kafka.running:
            own_servers.kafka.start()
    flow.goes_on()
    flow.ends_well(row)


@pytest.mark.fault(row="store-ends-in-mid-flow", bench="K1+R1", expected="caught_up")
@pytest.mark.parametrize("blow", BLOWS, ids=lambda blow: blow.__name__)
def test_the_store_goes_away_and_comes_back(own_servers: World, row: Row, blow: Blow) -> None:
    """Four times: what it had acknowledged it still has, and the rest is sent again."""
    flow = Flow(own_servers)
    for _ in range(ROUNDS):
        flow.goes_on()
        blow(own_servers.valkey, flow)
        if not own_servers.valkey.running:
            own_servers.valkey.start()
    flow.goes_on()
    flow.ends_well(row)


# --- the network between --------------------------------------------------------------------------


@pytest.fixture
def behind_proxies(
    proxied_kafka: Callable[..., tuple[KafkaBroker, Proxy]],
    valkey: Valkey,
    names: Names,
    tmp_path: Path,
) -> Iterator[tuple[World, Proxy, Proxy]]:
    """A world whose sidecars reach broker and store through a proxy each, and nobody else does."""
    broker, to_kafka = proxied_kafka()
    with Proxy(valkey.port) as to_store, World(broker, valkey, names, tmp_path) as world:
        yield world, to_kafka, to_store


@pytest.mark.fault(row="replies-lost/of-the-store", bench="K1+R1", expected="caught_up")
def test_replies_of_the_store_are_lost_after_it_has_executed(
    behind_proxies: tuple[World, Proxy, Proxy], row: Row
) -> None:
    """Thirty times, whatever script it was: the same write is sent again, meets itself, and counts
    once; nothing is repeated on account of it."""
    world, _, to_store = behind_proxies
    flow = Flow(world, REDIS__URL=to_store.url)
    flow.goes_on()
    for _ in range(30):
        to_store.lose_reply(lambda request: b"EVALSHA" in request).wait(30)
        flow.application.rest(flow.chance.uniform(0.0, 0.1))
    flow.goes_on()
    flow.ends_well(row)


@pytest.mark.fault(row="replies-lost/of-the-broker", bench="K1+R1", expected="caught_up")
def test_replies_of_the_broker_are_lost_after_it_has_executed(
    behind_proxies: tuple[World, Proxy, Proxy], row: Row
) -> None:
    """Of each request that a group member makes: a commit that was stored and not confirmed, a
    join, a heartbeat, a fetch, an offset list that nobody saw."""
    world, to_kafka, to_store = behind_proxies
    flow = Flow(world, REDIS__URL=to_store.url)
    live = (
        *(KafkaApi.OFFSET_COMMIT,) * 5,
        *(KafkaApi.FETCH,) * 3,
        *(KafkaApi.LIST_OFFSETS,) * 3,
        *(KafkaApi.HEARTBEAT, KafkaApi.METADATA),
    )
    for api in live:
        flow.goes_on(20)
        to_kafka.lose_reply(api.requested_by).wait(60, api.name)
    for api in (KafkaApi.JOIN_GROUP, KafkaApi.OFFSET_FETCH, KafkaApi.FIND_COORDINATOR):
        flow.goes_on(20)
        flow.sidecar.kill()  # first, or its own request may be the one that is waited for
        lost = to_kafka.lose_reply(api.requested_by)
        flow.sidecar.start()
        lost.wait(60, api.name)
    flow.goes_on()
    flow.ends_well(row)


@pytest.mark.fault(row="connections-broken", bench="K1+R1", expected="caught_up")
@pytest.mark.parametrize("side", ["to-broker", "to-store", "to-both"])
def test_connections_are_cut_delayed_and_swallowed(
    behind_proxies: tuple[World, Proxy, Proxy], row: Row, side: str
) -> None:
    """In turn, at random moments: reset, slow, refused, and kept open while nothing arrives."""
    world, to_kafka, to_store = behind_proxies
    flow = Flow(world, REDIS__URL=to_store.url)
    links = {"to-broker": [to_kafka], "to-store": [to_store], "to-both": [to_kafka, to_store]}[side]
    for _ in range(2):
        for link in links:
            flow.goes_on()
            link.cut()
            flow.goes_on(20)
            link.delay(0.15)
            flow.goes_on(20)
            link.heal()
        for link in links:
            link.refuse()
        flow.application.rest(flow.chance.uniform(0.5, 2.0))
        for link in links:
            link.heal()
        flow.goes_on()
        for link in links:
            link.blackhole()
        flow.application.rest(flow.chance.uniform(0.5, 4.0))
        for link in links:
            link.heal()
    flow.goes_on()
    flow.ends_well(row)
