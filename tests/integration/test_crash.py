"""Killed at any moment: every record is accounted for by what the application itself wrote down."""

import os
import random
import signal
import threading

import pytest

from tests.benches.waiting import wait_until
from tests.harness.api import Page
from tests.harness.application import Died
from tests.harness.world import Load, World

pytestmark = pytest.mark.kafka

KILLS = 20


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_twenty_kills_at_random_moments_under_load_lose_nothing(world: World) -> None:
    """`kill -9`, twenty times under load, the last time between an effect and its report: every
    record is applied, each repetition is flagged, order holds, and no commit ever exceeded what the
    store had acknowledged."""
    topic = world.topic(3)
    places = [(topic, partition) for partition in range(3)]
    load = Load(world, topic, 3)
    sidecar = world.sidecar(static=True)
    watch = world.watch_commits(*places)
    due, struck = threading.Event(), threading.Event()

    def strike(_: Page) -> None:
        if due.is_set() and not struck.is_set():
            sidecar.kill()
            struck.set()

    application = world.application(sidecar, records_max=25, before_report=strike)
    chance = random.Random(20)
    for _ in range(KILLS - 1):
        seen = world.ledger.count
        # Some kills hit the recovery itself, most hit delivery.
        early = chance.random() < 0.3
        if not early:
            wait_until(lambda: world.ledger.count > seen, "records flow", timeout_seconds=30)  # noqa: B023  # called before the next round
        threading.Event().wait(chance.uniform(0.0, 0.7))
        sidecar.kill()
        sidecar.start()
    due.set()
    assert struck.wait(30)
    sidecar.start()
    load.stop()
    world.deliver_all(sidecar, *places)
    application.stop()
    watch.check()
    assert sidecar.api().gaps() == []
    account = world.account().check()
    assert account.applied == account.produced > 1_000
    assert account.repeated_flagged > 0
    assert len(sidecar.events("sidecar_started")) == KILLS + 1
    for partition in range(3):
        end = world.outside.bounds(topic, partition).end
        sidecar.await_partition(topic, partition, next=end, committed=end)


def test_an_application_that_dies_before_it_reports_gets_the_page_again_flagged(
    world: World,
) -> None:
    """The effect was made and never reported: after the deadline the same records come again in a
    page of another id, flagged, under the same idempotency keys."""
    topic = world.topic()
    world.produce(topic, 30)
    sidecar = world.sidecar(DELIVERY__DEADLINE_SECONDS=1)

    def die(page: Page) -> None:
        raise Died(page.page)

    world.application(sidecar, before_report=die).await_death()
    first = world.ledger.effects()
    application = world.application(sidecar)
    world.deliver_all(sidecar, (topic, 0))
    application.stop()
    account = world.account().check()
    assert account.applied == 30
    assert account.repeated_flagged == len(first) > 0


def test_a_kill_in_the_middle_of_a_page_is_recovered_with_the_overlap_verified(
    world: World,
) -> None:
    """Killed while a page is out: the next life verifies 64 receipts of overlap, then offers the
    page's records again, flagged; those above the horizon never were."""
    topic = world.topic()
    world.produce(topic, 200)
    sidecar = world.sidecar(static=True)
    assert world.apply(sidecar, topic, 100) == 100
    page = sidecar.api().take(30.0, records_max=50)
    assert page is not None
    world.ledger.write(page, "test")
    sidecar.kill()
    sidecar.start()
    sidecar.await_partition(topic, state="delivering")
    ended = sidecar.last("recovery_ended", this_life=True)
    assert ended is not None
    assert (ended["result"], ended["matched"], ended["mismatched"]) == ("verified", 64, 0)
    again = sidecar.api().take(30.0, records_max=50)
    assert again is not None
    assert again.offsets == page.offsets
    assert all(record.redelivered for record in again.records)
    assert [r.idempotency_key for r in again.records] == [r.idempotency_key for r in page.records]
    world.ledger.write(again, "test")
    sidecar.api().applied(again)
    assert world.apply(sidecar, topic, 50) == 200
    assert world.account().check().repeated_flagged == 50


def test_a_clean_restart_flags_nothing_and_holds_nothing(world: World) -> None:
    """SIGTERM and start: the overlap is verified and nothing that was never handed out is
    flagged, since a clean end lowers the horizon."""
    topic = world.topic()
    world.produce(topic, 100)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 60) == 60
    code, _ = sidecar.terminate()
    assert code == 0
    assert world.committed(topic) == 60
    sidecar.start()
    sidecar.await_partition(topic, state="delivering", next=60)
    assert sidecar.verdicts(topic) == ["resume"]
    page = sidecar.api().take(30.0)
    assert page is not None
    assert not any(record.redelivered for record in page.records)
    assert page.first == 60


def test_a_client_that_falls_over_says_what_every_thread_was_doing(world: World) -> None:
    """It is native code: nothing else is left to be told of."""
    world.topic()
    sidecar = world.sidecar()
    os.kill(sidecar.pid, signal.SIGSEGV)
    assert sidecar.ended() == -signal.SIGSEGV
    words = sidecar.log_tail(200)
    assert "Fatal Python error: Segmentation fault" in words
    assert "sidecar/app.py" in words  # the thread that all begins with, and so is there
