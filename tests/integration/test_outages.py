"""Outages of several lengths change no cursor, no gap, and no generation but by a claim.

The partition is idle meanwhile, so that whatever moved was moved by the outage. Beside that, while
one fault lasts: at most one log line a second, and no busy loop.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaException

from tests.benches.process import Process
from tests.benches.topics import Outsider
from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.sidecar import SidecarProcess
from tests.harness.world import World

pytestmark = pytest.mark.kafka

APPLIED, RECORDS = 20, 40
NOTICED_SECONDS = 5.0
"""An outage of this length is noticed, whatever ended the connections."""


@dataclass(frozen=True)
class Stands:
    """What an outage may not move."""

    next: str
    gap: str | None
    committed: int
    generation: int
    claims: int

    @classmethod
    def of(cls, world: World, topic: str) -> "Stands":
        found = world.checkpoint(topic)
        # Of a broker that has just come back only a new client is sure to hear.
        committed = wait_until(
            lambda: Outsider(world.kafka).committed(world.group, topic),
            "the commit",
            timeout_seconds=30,
            ignoring=(KafkaException,),
        )
        claims = sum(what.startswith("claimed") for what in world.audit(topic))
        generation = int(found["generation"])
        return cls(found["next"], found.get("gap"), committed.offset, generation, claims)


def _killed(server: Process, world: World) -> Iterator[None]:
    server.kill()
    yield
    (world.kafka if server is world.kafka else world.valkey).start()


def _frozen(server: Process, world: World) -> Iterator[None]:
    server.pause()
    yield
    server.resume()


HOW: dict[str, Callable[[Process, World], Iterator[None]]] = {"killed": _killed, "frozen": _frozen}


def _outages() -> Iterator[object]:
    for who, bench in (("kafka", "K1"), ("redis", "R1")):
        for how in HOW:
            for seconds in (1, 8, 45):
                # A frozen broker says nothing: the client waits for its answers for some time, and
                # while nothing is asked of a server, nothing is noticed.
                noticed = seconds > NOTICED_SECONDS and (who, how) != ("kafka", "frozen")
                expected = "unavailable" if noticed else "delivering"
                fault = pytest.mark.fault(row="outage", bench=bench, expected=expected)
                marks = [fault, pytest.mark.faults_only] if seconds > 1 else [fault]
                yield pytest.param(who, how, seconds, id=f"{who}-{how}-{seconds}s", marks=marks)


def _lasts(sidecar: SidecarProcess, seconds: float) -> None:
    """For so long; then few lines were written, and little was computed."""
    mark, cpu, ends = sidecar.mark(), sidecar.cpu_seconds, time.monotonic() + seconds
    admin = sidecar.admin()
    while time.monotonic() < ends:
        assert admin.text("/livez")[0] == 200
        time.sleep(0.5)  # that time passes is the matter here
    lines = sidecar.since(mark)
    assert len(lines) <= seconds + 4, [line["event"] for line in lines]
    assert sidecar.cpu_seconds - cpu < 0.3 * seconds + 0.5


@pytest.mark.timeout(150)
@pytest.mark.parametrize(("who", "how", "seconds"), list(_outages()))
def test_an_outage_moves_nothing(
    own_servers: World, who: str, how: str, seconds: float, row: Row
) -> None:
    """Killed and started again, or frozen and thawed; then what is left is delivered, once."""
    world = own_servers
    topic = world.topic()
    world.produce(topic, RECORDS)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, APPLIED) == APPLIED
    before, mark = Stands.of(world, topic), sidecar.mark()
    server: Process = world.kafka if who == "kafka" else world.valkey
    outage = HOW[how](server, world)
    next(outage)
    row.inflicted()
    _lasts(sidecar, seconds)
    lost = sidecar.since(mark, "dependency_lost", component=who)
    next(outage, None)
    row.cured()
    sidecar.await_up()
    state = sidecar.await_partition(
        topic, state="delivering", next=APPLIED, committed=APPLIED, timeout_seconds=60
    )
    after = Stands.of(world, topic)
    assert (after.next, after.gap, after.committed) == (before.next, before.gap, before.committed)
    # Also a claim whose attempt ended before its overlap was read.
    assert after.generation - before.generation <= after.claims - before.claims
    assert after.generation >= before.generation
    assert sidecar.api().gaps() == []
    if row.declared.expected == "unavailable":
        row.observe(lost[0]["reason"] if lost else "nothing", "delivering")
    else:
        row.observe(state.state, state.state)
    assert world.apply(sidecar, topic, RECORDS - APPLIED) == RECORDS
    row.delivering()
    assert row.account(world.account()).applied == RECORDS
