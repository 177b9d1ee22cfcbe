"""What can be inflicted on the fake store, beyond what every store does."""

import asyncio
import time

import pytest

from sidecar.core.checkpoint import Ambiguous, Installed, Lost, NotInstalled
from sidecar.core.faults import ABSENT, Component, Fault, FaultKind, Known, Unreadable
from sidecar.core.types import GroupId
from tests.fakes.store import FakeStore, Mishap
from tests.store.values import STORE, T0, checkpoint, first, known, promotion, registry

G = GroupId("group")


async def test_a_lost_reply_was_done_and_a_lost_request_was_not() -> None:
    """Both are ambiguous; sending again settles both."""
    store = FakeStore()
    at = checkpoint(G)
    store.fail(Mishap.REQUEST_LOST, Mishap.REPLY_LOST)
    assert isinstance(await store.install(first(at)), Ambiguous)
    assert (await store.read(G, [T0]))[T0] == ABSENT
    assert isinstance(await store.install(first(at)), Ambiguous)
    assert isinstance((await store.read(G, [T0]))[T0], Known)
    assert await store.install(first(at)) == Installed()


async def test_a_delayed_install_arrives_after_others() -> None:
    """A write that timed out on a frozen server was seen to be applied when it thawed."""
    store = FakeStore()
    at = checkpoint(G)
    await store.install(first(at))
    store.fail(Mishap.DELAYED, Mishap.DELAYED)
    mine = promotion(at, 3, attempt="mine")
    assert isinstance(await store.install(mine), Ambiguous)
    assert isinstance(await store.install(mine), Ambiguous)
    assert store.deliver_delayed() == [Installed(), Installed()]
    assert known((await store.watch(G, [T0]))[T0]).generation == 2
    store.fail(Mishap.DELAYED)
    assert isinstance(await store.install(promotion(mine.checkpoint, 1)), Ambiguous)
    await store.install(promotion(mine.checkpoint, 2, attempt="theirs"))
    (late,) = store.deliver_delayed()
    assert isinstance(late, Lost)


async def test_a_refusal_is_certain() -> None:
    full = Fault(Component.REDIS, FaultKind.REFUSED, "OOM", "full")
    store = FakeStore()
    store.fail(full)
    assert await store.install(first(checkpoint(G))) == NotInstalled(full)
    assert await store.install(first(checkpoint(G))) == Installed()


async def test_a_store_that_is_away_answers_no_question() -> None:
    """Unreadable everywhere, absent nowhere; and it comes back as it was."""
    store = FakeStore()
    await store.install(first(checkpoint(G)))
    store.away()
    answers = [
        (await store.read(G, [T0]))[T0],
        (await store.watch(G, [T0]))[T0],
        await store.registry(G),
        await store.create_registry(registry(G)),
        await store.register(G, STORE, {}, {}, seen={}),
        await store.memory(G, T0, 1),
        await store.gaps(G),
        await store.groups(),
        await store.audit(G, T0),
        await store.health(),
        await store.life(),
    ]
    assert all(isinstance(answer, Unreadable) for answer in answers)
    assert await store.mark_started(G, STORE, [T0]) is not None
    assert isinstance(await store.install(first(checkpoint(G))), NotInstalled)
    store.away(None)
    assert isinstance((await store.read(G, [T0]))[T0], Known)
    assert await store.registry(G) == ABSENT


async def test_an_older_state_comes_back_in_another_life() -> None:
    """A snapshot is not touched by what happens after it, nor by being restored."""
    store = FakeStore()
    at = checkpoint(G)
    await store.install(first(at))
    await store.create_registry(registry(G))
    older, life = store.snapshot(), known(await store.life())
    newer = promotion(at, 3)
    await store.install(newer)
    for _ in range(2):
        store.restore(older)
        assert known(await store.life()) != life
        assert known((await store.read(G, [T0]))[T0]).checkpoint == at
        assert known(await store.memory(G, T0, 9)).receipts == []
        assert await store.install(newer) == Installed()
    store.flush()
    assert (await store.read(G, [T0]))[T0] == ABSENT
    assert await store.registry(G) == ABSENT


def test_nothing_ever_suspends() -> None:
    """So that a simulator may drive it without an event loop."""
    coroutine = FakeStore().install(first(checkpoint(G)))
    with pytest.raises(StopIteration) as done:
        coroutine.send(None)
    assert done.value.value == Installed()


def test_it_is_quick_enough_for_a_simulator() -> None:
    """50,000 installs a second on a quiet machine; the best of some tries, with room."""

    async def installs() -> float:
        store = FakeStore()
        at = checkpoint(G)
        work = [first(at)]
        for _ in range(2_000):
            work.append(promotion(at, 1))
            at = work[-1].checkpoint
        began = time.perf_counter()
        for install in work:
            await store.install(install)
        return len(work) / (time.perf_counter() - began)

    assert max(asyncio.run(installs()) for _ in range(3)) > 20_000
