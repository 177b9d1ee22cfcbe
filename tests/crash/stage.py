"""What stands around a sidecar that is going to be killed, and what makes it issue a command.

A *scene* belongs to one command: which occurrences of it in a life are the ends of lives, and what
happens to the sidecar meanwhile so that it does issue it. Ordinary delivery needs nothing more than
records; a command of rare occasions needs the occasion.
"""

import contextlib
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sidecar.core.request import RequestKind
from tests.benches.waiting import wait_until
from tests.crash.killed import Doom, Moment
from tests.crash.people import OtherTool, Person
from tests.harness.api import AWAY, Api, GapSeen, Page, Refused
from tests.harness.application import Application
from tests.harness.world import World

PARTITIONS = 2
RECORDS = 40
"""Of each partition, at the beginning of each life."""
DEATH_SECONDS = 60.0


class Stage:
    """One group over the lives of one sidecar."""

    def __init__(self, world: World, settings: Mapping[str, Any]) -> None:
        """A static member has its partitions again at once. Only, a member that comes back so is
        given what it had, so for new topics it is one with a short session instead."""
        self.world = world
        self.topics = [world.topic(PARTITIONS)]
        self.pace_seconds = 0.0
        self.sidecar = world.sidecar(
            start=False,
            KAFKA__COMMIT_INTERVAL_SECONDS=0.05,
            DELIVERY__DEADLINE_SECONDS=10,
            **{"static": True, **settings},
        )
        self.others = 0
        self.application: Application = world.application(
            self.sidecar, records_max=4, before_report=self._rest
        )
        self.watch = world.watch_commits(*self.places)
        self.person = Person(world, self.sidecar)

    def _rest(self, page: Page) -> None:
        if self.pace_seconds:
            self.application.rest(self.pace_seconds)

    @property
    def places(self) -> list[tuple[str, int]]:
        return [(topic, index) for topic in self.topics for index in range(PARTITIONS)]

    def add_topic(self) -> None:
        """Another topic for the next life: a first day, with all that belongs to it."""
        self.topics.append(self.world.topic(PARTITIONS))
        self.watch.add(*self.places[-PARTITIONS:])

    def produce(self, count: int = RECORDS) -> None:
        for topic, index in self.places[-PARTITIONS:]:
            self.world.produce(topic, count, index)

    def launch(self) -> None:
        self.sidecar.launch_sidecar(KAFKA__TOPICS=",".join(self.topics))

    def reported(self, more: int) -> None:
        """Until so many more records were reported, or the sidecar has ended."""
        target = self.application.reported + more
        wait_until(
            lambda: self.application.reported >= target or not self.sidecar.running,
            f"{more} records are reported",
            timeout_seconds=DEATH_SECONDS,
        )

    @staticmethod
    def decide(api: Api) -> None:
        """Each loss is accepted, a topic begins at its beginning, a replay is not wanted."""
        for gap in api.gaps():
            if gap.holds:
                api.resolve(gap.id, "accepted")
        for hold in api.holds():
            api.answer(hold.id, "dismiss" if "dismiss" in hold.answers else "earliest")

    def settle(self) -> list[GapSeen]:
        """Until everything is delivered and decided; returns every gap there was."""
        sidecar = self.sidecar
        api = sidecar.api()

        def at_rest() -> bool:
            with contextlib.suppress(Refused):
                self.decide(api)
            states = {(p.topic, p.partition): p for p in api.partitions()}
            for place, state in states.items():
                if "paused" in state.conditions:
                    self.person.ask(place, RequestKind.CONTINUE)
            return all(
                place in states and states[place].caught_up and not states[place].conditions
                for place in self.places
            )

        wait_until(at_rest, "every partition is caught up", timeout_seconds=60, every_seconds=0.1)
        self.application.stop()
        return api.gaps()


Stir = Callable[[Stage], None]


def ordinary(stage: Stage) -> None:
    """Records come, are applied, and that is all."""


def first_day(stage: Stage) -> None:
    """There is a topic that it never had."""
    stage.add_topic()


def terminated(stage: Stage) -> None:
    """It is asked to end, in the middle of its work."""
    stage.reported(12)
    if stage.sidecar.running:
        stage.sidecar.ask_to_end()


def joined(stage: Stage) -> None:
    """Another member joins, and takes some of its partitions: it must have them all before."""
    stage.reported(12)

    def has_them_all() -> bool:
        return not stage.sidecar.running or stage.sidecar.api(5.0).status().assigned == PARTITIONS

    wait_until(has_them_all, "it has every partition", timeout_seconds=DEATH_SECONDS, ignoring=AWAY)
    other = stage.world.sidecar(stage.topics)
    stage.world.application(other, records_max=4)
    stage.others += 1
    wait_until(lambda: not stage.sidecar.running, "it ended", timeout_seconds=DEATH_SECONDS)
    other.terminate()


def lagging(stage: Stage) -> None:
    """The application falls behind one partition, while another has nothing to read."""
    stage.pace_seconds = 0.02
    topic, index = stage.places[-1]
    for _ in range(12):
        if not stage.sidecar.running:
            break
        stage.world.produce(topic, 100, index)
    stage.pace_seconds = 0.0


def retention(stage: Stage) -> None:
    """While it is down, retention passes what it was going to read next. Its history has begun."""
    topic, index = stage.places[-1]
    if "next" in stage.world.checkpoint(topic, index):
        stage.world.produce(topic, 30, index)  # however far it came
        end = stage.world.outside.bounds(topic, index).end
        stage.world.outside.delete_records(topic, index, end - 20)


def _until_it_ends(stage: Stage, act: Stir, *, every_seconds: float = 0.02) -> None:
    """Again and again, whatever it refuses."""

    def ended() -> bool:
        if stage.sidecar.running:
            with contextlib.suppress(Refused):
                act(stage)
        return not stage.sidecar.running

    wait_until(
        ended,
        "it ended",
        timeout_seconds=DEATH_SECONDS,
        every_seconds=every_seconds,
        ignoring=AWAY,
    )


def decided(stage: Stage) -> None:
    """Somebody decides whatever there is to decide, as soon as it is declared."""
    _until_it_ends(stage, lambda stage: stage.decide(stage.sidecar.api(5.0)))


def commanded(stage: Stage) -> None:
    """As `decided`, by command."""

    def decide(stage: Stage) -> None:
        api = stage.sidecar.api(5.0)
        for gap in api.gaps("open"):
            place = gap.topic, gap.partition
            stage.person.ask(place, RequestKind.RESOLVE, gap.id, {"resolution": "accepted"})
        for hold in api.holds():
            place = hold.topic, hold.partition
            stage.person.ask(place, RequestKind.ANSWER, hold.id, {"answer": "earliest"})

    _until_it_ends(stage, decide)


def asked(stage: Stage) -> None:
    """A person pauses a partition, lets one record pass, goes on, wants some again; and asks for
    what is not there."""
    place = stage.places[-1]

    def ask(stage: Stage) -> None:
        person = stage.person
        person.ask(place, RequestKind.PAUSE)
        stage.produce(4)  # or there may be nothing to skip
        next_ = int(stage.world.checkpoint(*place)["next"])
        person.ask(place, RequestKind.SKIP, arguments={"offset": next_})
        person.ask(place, RequestKind.CONTINUE)
        person.ask(place, RequestKind.SKIP, arguments={"offset": 0})
        person.ask(place, RequestKind.ANSWER, "no-hold", {"answer": "accept"})
        person.ask(place, RequestKind.RESOLVE, "no-gap", {"resolution": "accepted"})
        interval = {"from": max(0, next_ - 12), "to": next_}
        person.ask(place, RequestKind.REPLAY, arguments=interval)
        stage.produce(4)

    stage.reported(8)
    _until_it_ends(stage, ask)


def meddled(stage: Stage) -> None:
    """Somebody else's tool commits below the position, whenever all is done and committed."""
    topic, index = stage.places[-1]

    def commit(stage: Stage) -> None:
        tool.takes_part()
        api = stage.sidecar.api(5.0)
        seen = api.partition(topic, index)
        if seen is not None and seen.caught_up and seen.next == seen.committed and not api.holds():
            assert seen.next is not None
            tool.commit((topic, index), seen.next - 3)
        stage.decide(api)

    with OtherTool(stage.world) as tool:
        _until_it_ends(stage, commit, every_seconds=0.3)


def growing(stage: Stage) -> None:
    """Retention goes on behind an open gap."""
    topic, index = stage.places[-1]

    def pass_it(stage: Stage) -> None:
        if stage.sidecar.api(5.0).gaps("open"):
            stage.world.produce(topic, 40, index)
            end = stage.world.outside.bounds(topic, index).end
            stage.world.outside.delete_records(topic, index, end - 5)

    _until_it_ends(stage, pass_it, every_seconds=0.3)


@dataclass(frozen=True, slots=True)
class Scene:
    """`at`: which occurrences of the command in a life end it, one life before and one after
    each. `prepare` happens before each life, `stir` in it."""

    at: tuple[int, ...] = (1, 4)
    stir: Stir = ordinary
    prepare: Stir = ordinary
    settings: Mapping[str, Any] = field(default_factory=dict)

    def play(self, world: World, command: str) -> Stage:
        """A quiet life first, unless the command belongs to a first day; then all the others,
        each ended by a kill."""
        stage = Stage(world, self.settings)
        stage.produce()
        if self.prepare is not first_day:
            stage.launch()
            stage.reported(8)
            stage.sidecar.kill()
        for nth in self.at:
            for moment in Moment:
                doom = Doom(moment, command, nth)
                self.prepare(stage)
                stage.produce()
                stage.sidecar.entry = doom.entry()
                stage.launch()
                self.stir(stage)
                died = stage.sidecar.ended(DEATH_SECONDS)
                assert died == -signal.SIGKILL, f"{doom}: it ended by itself, with {died}"
        return stage
