"""The runtime as the desk: what it answers, and when it stops answering."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from sidecar.core.facts import CaughtUp, Fact
from sidecar.core.policy import Policy
from sidecar.core.types import GroupId, Instant, Offset, Partition, StoreId
from sidecar.core.views import PageRequest, Refusal
from sidecar.engine import Engine
from sidecar.engine import messages as m
from sidecar.errors import InvariantBroken
from sidecar.ports import CommitRequest, Revoked
from sidecar.runtime import Runtime
from tests.fakes.kafka import FakeFetcher, FakeKafka, FakeLog
from tests.fakes.store import FakeStore

GROUP = GroupId("g")
PARTITION = Partition("orders", 0)


class Clock:
    def now(self) -> Instant:
        return Instant(10.0, 1000.0)


class Quiet:
    def record(self, fact: Fact) -> None:
        pass


@pytest.fixture
async def runtime() -> Runtime:
    kafka = FakeKafka()
    kafka.create_topic("orders")
    return Runtime(
        Policy(group=GROUP),
        engine=Engine(Policy(group=GROUP), name="life"),
        store_name=StoreId("store"),
        log=FakeLog(kafka, GROUP),
        fetcher=FakeFetcher(kafka, GROUP, ["orders"]),
        store=FakeStore(),
        recorder=Quiet(),
        clock=Clock(),
    )


async def test_an_event_id_of_an_earlier_process_gets_all_that_is_kept(runtime: Runtime) -> None:
    """A client that reconnects after a restart sends the id it had; nothing may spin on it."""
    runtime.tell(CaughtUp(PARTITION, Offset(7)))
    notices = runtime.notices(500)
    first = await asyncio.wait_for(anext(notices), 5)
    assert (first.id, first.name) == (1, "caught_up")
    waiting = asyncio.ensure_future(anext(notices))
    await asyncio.sleep(0)
    assert not waiting.done()
    runtime.tell(CaughtUp(PARTITION, Offset(8)))
    assert (await asyncio.wait_for(waiting, 5)).id == 2


async def test_nothing_is_decided_after_a_broken_invariant(runtime: Runtime) -> None:
    """Fail-stop: no step, no commit on the way out, and whoever asks is told."""
    runtime.fail(InvariantBroken("applied_monotone", "shown in a test"))
    answers: list[Mapping[Partition, CommitRequest]] = []
    runtime.post(Revoked((PARTITION,), lost=False, answer=answers.append))
    runtime.post(m.Tick())
    assert answers == [{}]
    refused = await asyncio.wait_for(runtime.take_page(PageRequest(1, 1), 1.0), 5)
    assert isinstance(refused, Refusal)
