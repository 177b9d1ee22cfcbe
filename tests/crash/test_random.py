"""Killed at random moments, under load, while members come and go and applications die.

Three members are static: one that is back within a session has its partitions again at once, so
that most of the time goes into what is to be proven. A fourth is not: what it is given is taken
from the living, and what it leaves goes back to them.

One seed decides when; it is printed, and `CRASH_SEED` sets it. What the machine makes of the same
moments differs each time, which is why it is no list of kill points: those are in `test_commands`.
"""

import contextlib
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
PARTITIONS = 8
SESSION_SECONDS = 3
START_SECONDS = 180
"""Four start at a time: on a machine that does other things as well, that takes long."""
EARLY = 0.25
"""The share of kills that may hit the recovery itself, or the start."""
DEATHS = 0.01
"""Of the pages, those whose application dies with the effect made and not reported."""


class Haunted:
    """A member with an application beside it, and how they end."""

    def __init__(self, world: World, sidecar: SidecarProcess, chance: random.Random) -> None:
        self.sidecar = sidecar
        self.kills = 0
        self.ends = 0
        """Of which it was asked for."""
        self.deaths = 0
        self.failure: BaseException | None = None
        self._world = world
        self._chance = chance
        self._fate = random.Random(chance.random())
        self._deadly = True
        self._pausing = threading.Event()
        self._application = self._reborn()

    def stays(self, kills: int) -> None:
        """So many lives, each begun at once after the one before; in a thread of its own."""
        with self._failing():
            for _ in range(kills):
                self._begin()
                if self._chance.random() > EARLY:
                    self._flows(5)
                self._pause(0.6)
                self._kill()

    def comes_and_goes(self, over: threading.Event) -> None:
        """Until it is over: is given some of what the others have, loses it by a kill or gives it
        back, and is away for less or for more than a session."""
        with self._failing():
            while not over.is_set():
                self._begin()
                self._flows(20)
                self._pause(1.0)
                if self._chance.random() < 0.5:
                    self._kill()
                else:
                    self.sidecar.terminate()
                    self.ends += 1
                self._pause(1.5 * SESSION_SECONDS)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:  # raised by whoever waits for the thread
            self.failure = error

    def _begin(self) -> None:
        self.sidecar.launch_sidecar()
        name = self.sidecar.name
        wait_until(self._listens, f"{name} listens", timeout_seconds=START_SECONDS)

    def _flows(self, seconds: float) -> None:
        """Until something was reported; the others may have everything for now."""
        seen = self._application.reported
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: self._reports_beyond(seen), "records flow", timeout_seconds=seconds)

    def _pause(self, seconds_max: float) -> None:
        self._pausing.wait(self._chance.uniform(0.0, seconds_max))

    def _kill(self) -> None:
        self.sidecar.kill()
        self.kills += 1

    def _listens(self) -> bool:
        assert self.sidecar.running, self.sidecar.describe("it ended by itself")
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

    def lives(self) -> None:
        """From here on, and nobody dies any more."""
        self._deadly = False
        self.mourn()
        self.sidecar.start()


@dataclass(frozen=True, slots=True)
class Moves:
    """What the members' own lines say of how partitions went from one to another."""

    moved: int
    """Times that a partition was assigned to another member than before."""
    several: int
    """Assignments by which more than one moved."""
    revoked: int
    """Partitions that a living member gave back."""

    @classmethod
    def of(cls, sidecars: Sequence[SidecarProcess]) -> "Moves":
        lines = sorted(
            (str(event["timestamp"]), sidecar.name, event["partitions"])
            for sidecar in sidecars
            for event in sidecar.events("partitions_assigned")
        )
        owners: dict[str, str] = {}
        moves = []
        for _, name, partitions in lines:
            moves.append(sum(owners.get(one, name) != name for one in partitions))
            owners.update(dict.fromkeys(partitions, name))
        revoked = sum(
            len(event["partitions"])
            for sidecar in sidecars
            for event in sidecar.events("partitions_revoked")
        )
        return cls(sum(moves), sum(count > 1 for count in moves), revoked)


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


def _played(world: World, row: Row, kills: int) -> Moves:
    """So many kills of each of three members that stay, while a fourth comes and goes."""
    print(f"CRASH_SEED={SEED}")
    chance = random.Random(SEED)
    topic = world.topic(PARTITIONS)
    places = [(topic, index) for index in range(PARTITIONS)]
    load = Load(world, topic, PARTITIONS, batch=1)
    watch = world.watch_commits(*places)
    settings: dict[str, Any] = {
        "start": False,
        "KAFKA__SESSION_TIMEOUT_SECONDS": SESSION_SECONDS,
        "DELIVERY__DEADLINE_SECONDS": 2,
    }
    members = [
        Haunted(world, world.sidecar(static=static, **settings), random.Random(chance.random()))
        for static in (True, True, True, False)
    ]
    *stay, guest = members
    over = threading.Event()
    threads = [threading.Thread(target=member.stays, args=(kills,), daemon=True) for member in stay]
    coming = threading.Thread(target=guest.comes_and_goes, args=(over,), daemon=True)
    for thread in (*threads, coming):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    coming.join()
    for member in members:
        if member.failure is not None:
            raise member.failure
    for member in stay:
        member.lives()
    guest.sidecar.kill()
    load.stop()

    def done() -> bool:
        for member in stay:
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
    killed, deaths = (sum(m.kills for m in members), sum(m.deaths for m in members))
    assert killed >= len(stay) * kills
    assert deaths > 0 or killed < 100
    moves = Moves.of([member.sidecar for member in members])
    print(
        f"{killed} kills, {guest.ends} ends, {deaths} applications died; {moves}; "
        f"{watch.looks} looks at commits; {account}"
    )
    return moves


@pytest.mark.faults_only
@pytest.mark.timeout(2400)
@pytest.mark.fault(row="sidecar-killed/200-random-moments", bench="K1+R1", expected="caught_up")
def test_two_hundred_kills_with_members_coming_and_going(world: World, row: Row) -> None:
    """Every record is applied, what is repeated is flagged, order holds in each partition, no
    commit was ever ahead of the store; applications die between effect and report as well, and
    partitions go, several at once, from member to member, from the dead and from the living."""
    moves = _played(world, row, 67)
    assert moves.moved >= 40, moves
    assert moves.several >= 10, moves
    assert moves.revoked >= 10, moves


@pytest.mark.timeout(300)
@pytest.mark.faults_only
@pytest.mark.fault(row="sidecar-killed/a-dozen-random-moments", bench="K1+R1", expected="caught_up")
def test_a_dozen_kills_with_members_coming_and_going(world: World, row: Row) -> None:
    """As the two hundred, in a time that every run of the tests can spare."""
    _played(world, row, 4)
