"""The shipped sidecar, which ends itself by SIGKILL before or after a command of its engine's.

    python -m tests.crash.killed --before Commit --nth 2 -- run --set KAFKA__TOPICS=orders …

Everything between the engine and the world is what it issues, so a wrapper around the engine sees
every moment there is, and nothing that ships knows of it. *Before*: the command is decided and
nobody has begun it. *After*: of a command that is answered, the answer has come, and the engine has
not seen it; of any other, a moment has passed in which its effect (a reply on its way to the
application, a partition assigned) took place.

Rejected: a wrapper around each port. A call of a port does not tell which command it serves
(`log_starts` serves four), and a reply to the application passes none.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import get_args

from sidecar.app import run
from sidecar.cli.options import load_settings
from sidecar.core.checkpoint import Install
from sidecar.core.policy import Policy
from sidecar.core.types import Instant
from sidecar.engine import Engine
from sidecar.engine import messages as m
from tests.benches.process import REPOSITORY

COMMANDS: tuple[type, ...] = get_args(m.Command)
"""Every command there is, from the union itself."""

ANSWERED_BY: dict[type, type] = {
    m.Looked: m.Look,
    m.GroupGathered: m.GatherGroup,
    m.RegistryWritten: m.WriteRegistry,
    m.InstallAnswered: m.PerformInstall,
    m.MemoryRead: m.ReadMemory,
    m.StartedMarked: m.MarkStarted,
    m.FloorsAnswered: m.AskFloors,
    m.BoundsAnswered: m.AskBounds,
    m.RetentionAnswered: m.AskRetention,
    m.TopicsAnswered: m.AskTopics,
    m.OwnersAnswered: m.AskOwners,
    m.RequestAnswered: m.AnswerRequest,
    m.CommittedAnswered: m.AskCommitted,
    m.Committed: m.Commit,
}
"""The event that answers each command that has an answer."""

EFFECT_SECONDS = 0.01
"""How long after a command without an answer its effect has taken place."""


class Moment(StrEnum):
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Doom:
    """`command` is its name; of an install, what it is for may follow, and `+answer` for one that
    carries the answer to what a person asked: `PerformInstall:promote+answer`."""

    moment: Moment
    command: str
    nth: int = 1

    @property
    def type(self) -> type:
        name = self.command.partition(":")[0]
        return next(command for command in COMMANDS if command.__name__ == name)

    @property
    def purpose(self) -> m.Purpose | None:
        purpose = self.command.partition(":")[2].partition("+")[0]
        return m.Purpose(purpose) if purpose else None

    @property
    def answers(self) -> bool:
        return self.command.endswith("+answer")

    def entry(self) -> list[str]:
        """What starts a sidecar that ends so, for `SidecarProcess.entry`."""
        path = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})"
        start = "from tests.crash.killed import main; sys.exit(main(sys.argv[1:]))"
        when = [f"--{self.moment}", self.command, "--nth", str(self.nth)]
        return [sys.executable, "-c", f"{path}; {start}", *when, "--"]

    def __str__(self) -> str:
        return f"{self.moment} {self.command} {self.nth}"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class MortalEngine(Engine):
    def __init__(self, policy: Policy, *, name: str, doom: Doom) -> None:
        super().__init__(policy, name=name)
        self._doom = doom
        self._answered = doom.type in ANSWERED_BY.values()
        self._left = doom.nth

    def step(self, event: m.Event, now: Instant) -> list[m.Command]:
        if ANSWERED_BY.get(type(event)) is self._doom.type and self._doom.moment is Moment.AFTER:
            installed = event.install if isinstance(event, m.InstallAnswered) else None
            if self._serves(installed) and self._due():
                die()
        return _Watched(super().step(event, now), self)

    def leaves(self, command: m.Command) -> None:
        if self._is_doomed(command) and self._doom.moment is Moment.BEFORE and self._due():
            die()

    def left(self, command: m.Command) -> None:
        late = self._doom.moment is Moment.AFTER and not self._answered
        if late and self._is_doomed(command) and self._due():
            asyncio.get_running_loop().call_later(EFFECT_SECONDS, die)

    def _is_doomed(self, command: m.Command) -> bool:
        if type(command) is not self._doom.type:
            return False
        return self._serves(command.install if isinstance(command, m.PerformInstall) else None)

    def _serves(self, install: Install | None) -> bool:
        """Whether an install is for the purpose that is meant; no purpose means any."""
        purpose = self._doom.purpose
        if install is None or purpose is None:
            return True
        if self._doom.answers and not install.requests:
            return False
        cursor = self.cursors.get(install.checkpoint.identity.partition)
        return cursor is not None and cursor.purpose is purpose

    def _due(self) -> bool:
        self._left -= 1
        return self._left == 0


class _Watched(list[m.Command]):
    """The commands of one step, as they are taken one by one."""

    def __init__(self, commands: Iterable[m.Command], engine: MortalEngine) -> None:
        super().__init__(commands)
        self._engine = engine

    def __iter__(self) -> Iterator[m.Command]:
        for command in super().__iter__():
            self._engine.leaves(command)
            yield command
            self._engine.left(command)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.killed", description=__doc__)
    when = parser.add_mutually_exclusive_group(required=True)
    for moment in Moment:
        when.add_argument(f"--{moment}", metavar="COMMAND[:PURPOSE[+answer]]")
    parser.add_argument("--nth", type=int, default=1, help="which one of this life")
    parser.add_argument("run", choices=["run"])
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args([word for word in argv if word != "--"])
    moment = Moment.BEFORE if given.before else Moment.AFTER
    doom = Doom(moment, getattr(given, moment), given.nth)
    settings = load_settings(None, dict(pair.split("=", 1) for pair in given.set), {})

    def engine(policy: Policy, *, name: str) -> Engine:
        return MortalEngine(policy, name=name, doom=doom)

    return run(settings, engine)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
