"""Killed before and after everything the engine can ask for.

The list of commands is the engine's own: one that is added has no row here, and fails until it has.
"""

import pytest

from sidecar.engine import messages as m
from sidecar.performer import Question
from tests.crash import stage
from tests.crash.killed import ANSWERED_BY, COMMANDS, Doom, Moment
from tests.crash.stage import Scene
from tests.faults.rows import Row
from tests.harness.sidecar import ENTRY
from tests.harness.world import World

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(240)]

SMALL = {"DELIVERY__PAGE_RECORDS_MAX": 5}
"""What may be in hand is some pages, so that little makes it full."""
DYNAMIC = {"static": False, "KAFKA__SESSION_TIMEOUT_SECONDS": 2}
REFUSING = {**DYNAMIC, "RECOVERY__START": "refuse"}

SCENES: dict[str, Scene] = {
    "Look": Scene(at=(1, 2), prepare=stage.first_day, settings=DYNAMIC),
    "GatherGroup": Scene(at=(1,), prepare=stage.first_day, settings=DYNAMIC),
    "WriteRegistry": Scene(at=(1,), prepare=stage.first_day, settings=DYNAMIC),
    "PerformInstall:claim": Scene(at=(1, 2)),
    "PerformInstall:claim+answer": Scene(
        at=(1,), prepare=stage.first_day, stir=stage.commanded, settings=REFUSING
    ),
    "PerformInstall:promote": Scene(at=(1, 6)),
    "PerformInstall:promote+answer": Scene(at=(1,), stir=stage.asked),
    "PerformInstall:horizon": Scene(at=(1,), stir=stage.terminated),
    "PerformInstall:open": Scene(at=(1,), prepare=stage.retention),
    "PerformInstall:grow": Scene(at=(1,), prepare=stage.retention, stir=stage.growing),
    "PerformInstall:resolve": Scene(at=(1,), prepare=stage.retention, stir=stage.decided),
    "PerformInstall:resolve+answer": Scene(at=(1,), prepare=stage.retention, stir=stage.commanded),
    "PerformInstall:note": Scene(at=(1, 3, 5), stir=stage.asked),
    "PerformInstall:replay": Scene(at=(1,), stir=stage.meddled),
    "ReadMemory": Scene(at=(1, 2)),
    "MarkStarted": Scene(at=(1, 2), prepare=stage.first_day, settings=DYNAMIC),
    "Fetch": Scene(at=(1, 2)),
    "Release": Scene(at=(1,), stir=stage.terminated),
    "Pause": Scene(at=(1,), stir=stage.lagging, settings=SMALL),
    "Resume": Scene(at=(1,), stir=stage.lagging, settings=SMALL),
    "Throttle": Scene(at=(1, 2), stir=stage.lagging, settings=SMALL),
    "AskFloors": Scene(at=(1, 2)),
    "AskBounds": Scene(at=(1, 2)),
    "AskRetention": Scene(at=(1, 2)),
    "AskTopics": Scene(at=(1, 4)),
    "AskOwners": Scene(at=(1, 3)),
    "AnswerRequest": Scene(at=(1, 3), stir=stage.asked),
    "AskCommitted": Scene(at=(1, 2), stir=stage.meddled),
    "Commit": Scene(at=(1, 2)),
    "FinishRevoke": Scene(at=(1,), stir=stage.joined),
    "Reply": Scene(at=(2, 9)),
    "Note": Scene(at=(1, 12)),
}


def test_every_command_has_its_row() -> None:
    """And every purpose of an install, and an event to every command that is answered."""
    dooms = [Doom(Moment.BEFORE, name) for name in SCENES]
    assert {doom.type for doom in dooms} == set(COMMANDS)
    assert {doom.purpose for doom in dooms} == {None, *m.Purpose}
    assert set(ANSWERED_BY.values()) == set(Question.__args__)


IN_MAKE_TEST = ("PerformInstall:promote", "Commit")


@pytest.mark.fault(row="sidecar-killed-around", bench="K1+R1", expected="caught_up")
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(name, marks=[] if name in IN_MAKE_TEST else [pytest.mark.faults_only])
        for name in SCENES
    ],
)
def test_killed_before_and_after_it_loses_nothing(world: World, row: Row, command: str) -> None:
    """Every record is applied, skipped or in a declared gap, every repetition is flagged, no commit
    was ever ahead of the store, and what people asked was done or refused, once."""
    played = SCENES[command].play(world, command)
    sidecar = played.sidecar
    sidecar.entry = ENTRY
    played.sidecar.start(KAFKA__TOPICS=",".join(played.topics))
    sidecar.await_up()
    gaps = played.settle()
    played.watch.check()
    row.observe("caught_up", "delivering")
    skipped = played.person.account(world.ledger.effects())
    account = row.account(world.account([*gaps, *skipped]))
    print(account, f"{len(skipped)} skipped")
    assert account.applied + account.in_gaps == account.produced
    for topic, index in played.places:
        end = world.outside.bounds(topic, index).end
        sidecar.await_partition(topic, index, next=end, committed=end)
