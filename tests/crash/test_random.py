"""Killed at random moments, under load, while members come and go and applications die.

One seed decides when; it is printed, and `CRASH_SEED` sets it. What the machine makes of the same
moments differs each time, which is why it is no list of kill points: those are in `test_commands`.
"""

import contextlib
import os
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.api import Page
from tests.harness.application import Application, Died
from tests.harness.sidecar import SidecarProcess
from tests.harness.world import Load, World

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SEED = int(os.environ.get("CRASH_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
PARTITIONS = 4
COOPERATIVE = '{"partition.assignment.strategy": "cooperative-sticky"}'
EARLY = 0.25
"""The share of kills that may hit the recovery itself, or the start."""
DEATHS = 0.01
"""Of the pages, those whose application dies with the effect made and not reported."""


class Haunted:
    """A member with an application beside it, and how they end."""

    def __init__(
        self,
        world: World,
        sidecar: SidecarProcess,
        chance: random.Random,
        *,
        away_seconds_max: float,
    ) -> None:
        self.sidecar = sidecar
        self.kills = 0
        self.deaths = 0
        self.failure: BaseException | None = None
        self._world = world
        self._chance = chance
        self._fate = random.Random(chance.random())
        self._deadly = True
        self._away_seconds_max = away_seconds_max
        self._ending = threading.Event()
        self._application = self._reborn()

    def haunt(self, kills: int) -> None:
        """So many lives; runs in a thread of its own."""
        try:
            for _ in range(kills):
                self._life()
        except BaseException as error:  # raised by whoever waits for the thread
            self.failure = error

    def _life(self) -> None:
        self.sidecar.launch_sidecar()
        wait_until(self._listens, f"{self.sidecar.name} listens", timeout_seconds=60)
        if self._chance.random() > EARLY:
            seen = self._application.reported
            with contextlib.suppress(TimeoutError):  # the other member may have everything for now
                wait_until(lambda: self._reports_beyond(seen), "records flow", timeout_seconds=5)
        self._ending.wait(self._chance.uniform(0.0, 0.6))
        self.sidecar.kill()
        self.kills += 1
        self._ending.wait(self._chance.uniform(0.0, self._away_seconds_max))

    def _listens(self) -> bool:
        return self.sidecar.last("sidecar_started", this_life=True) is not None

    def _reports_beyond(self, seen: int) -> bool:
        self.mourn()
        return self._application.reported > seen

    def mourn(self) -> None:
        """Another application for one that died."""
        if isinstance(self._application.failure, Died):
            self.deaths += 1
            self._application = self._reborn()

    def _reborn(self) -> Application:
        return self._world.application(self.sidecar, records_max=20, before_report=self._may_die)

    def _may_die(self, page: Page) -> None:
        if self._deadly and self._fate.random() < DEATHS:
            raise Died(page.page)

    def rest(self) -> None:
        """Alive from here on, and nobody dies any more."""
        self._deadly = False
        self.mourn()
        self.sidecar.start()


def _await_while_applied(world: World, done: Callable[[], bool]) -> None:
    """However long the way is that the applications fell behind, as long as they go it."""
    while True:
        seen = world.ledger.count
        try:
            wait_until(done, "everything is applied and committed", every_seconds=0.2)
            return
        except TimeoutError:
            if world.ledger.count == seen:
                raise


def _played(world: World, row: Row, kills: tuple[int, int]) -> None:
    print(f"CRASH_SEED={SEED}")
    chance = random.Random(SEED)
    topic = world.topic(PARTITIONS)
    places = [(topic, index) for index in range(PARTITIONS)]
    load = Load(world, topic, PARTITIONS, batch=2)
    watch = world.watch_commits(*places)
    settings: dict[str, Any] = {
        "start": False,
        "KAFKA__SESSION_TIMEOUT_SECONDS": 3,
        "KAFKA__CLIENT": COOPERATIVE,
        "DELIVERY__DEADLINE_SECONDS": 2,
    }
    # The first is back at once; what the second has is given to the first, and taken back again.
    members = [
        Haunted(
            world,
            world.sidecar(static=not away, **settings),
            random.Random(chance.random()),
            away_seconds_max=away,
        )
        for away in (0.0, 2.0)
    ]
    threads = [
        threading.Thread(target=member.haunt, args=(count,), daemon=True)
        for member, count in zip(members, kills, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for member in members:
        if member.failure is not None:
            raise member.failure
        member.rest()
    load.stop()

    def done() -> bool:
        for member in members:
            member.mourn()
        ends = [world.outside.bounds(*place).end for place in places]
        stored = [int(world.checkpoint(*place).get("next", -1)) for place in places]
        return ends == stored == [world.committed(*place) for place in places]

    _await_while_applied(world, done)
    for application in world.applications:
        application.stop()
    watch.check()
    assert members[0].sidecar.api().gaps() == []
    row.observe("caught_up", "delivering")
    account = row.account(world.account())
    assert account.applied == account.produced
    assert account.repeated_flagged > 0
    assert sum(member.kills for member in members) == sum(kills)
    deaths = sum(member.deaths for member in members)
    assert deaths > 0 or sum(kills) < 50
    moved = sum(len(member.sidecar.events("partitions_revoked")) for member in members)
    print(
        f"{sum(kills)} kills, {deaths} applications died, {moved} revocations, "
        f"{watch.looks} looks at commits; {account}"
    )


@pytest.mark.faults_only
@pytest.mark.timeout(2400)
@pytest.mark.fault(row="sidecar-killed/200-random-moments", bench="K1+R1", expected="caught_up")
def test_two_hundred_kills_with_members_coming_and_going(world: World, row: Row) -> None:
    """Every record is applied, what is repeated is flagged, order holds in each partition, no
    commit was ever ahead of the store; applications die between effect and report as well."""
    _played(world, row, (100, 100))


@pytest.mark.timeout(180)
@pytest.mark.fault(row="sidecar-killed/a-dozen-random-moments", bench="K1+R1", expected="caught_up")
def test_a_dozen_kills_with_members_coming_and_going(world: World, row: Row) -> None:
    """As the two hundred, in a time that every run of the tests can spare."""
    _played(world, row, (8, 4))
