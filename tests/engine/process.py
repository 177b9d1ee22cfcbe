"""One sidecar on the fakes: its engine, its fetcher, and the shipped performer between them.

A question is answered at once, after what is being given, unless its kind is withheld; so a test
sees what the engine makes of an answer, and the simulator is where answers come late or twice.
Time stands still but for whoever `now` asks. The stands beside this add a clock and an application.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from sidecar.core.facts import Fact
from sidecar.core.faults import Known, Reading
from sidecar.core.policy import Policy
from sidecar.core.types import GroupId, Instant, Partition, StoreId
from sidecar.engine import Engine
from sidecar.engine import messages as m
from sidecar.performer import Performer
from sidecar.ports import FetchEvent
from tests.fakes.kafka import FakeFetcher, FakeKafka, FakeLog
from tests.fakes.store import FakeStore

GROUP = GroupId("group")
TOPIC = "orders"
ORDERS = Partition(TOPIC, 0)
T = TypeVar("T")


class Process:
    def __init__(
        self,
        kafka: FakeKafka,
        store: FakeStore,
        policy: Policy,
        *,
        name: str,
        now: Callable[[], Instant],
        records_max: int = 5,
    ) -> None:
        """`records_max`: in what one poll brings."""
        self.engine = Engine(policy, name=name)
        self.fetcher = FakeFetcher(
            kafka, GROUP, [TOPIC], isolation=policy.isolation, records_max=records_max
        )
        self.facts: list[Fact] = []
        self.answers: dict[m.RequestId, object] = {}
        """To whom asked over HTTP."""
        self.commands: list[m.Command] = []
        """Everything that was commanded so far."""
        self.withholding: tuple[type[Any], ...] = ()
        self.withheld: list[Any] = []
        """Questions of the kinds in `withholding`, for the test to `answer` when it likes."""
        self.deaf: set[type[Any]] = set()
        """Events that do not reach the engine."""
        self._now = now
        self._performer = Performer(
            policy,
            store_name=StoreId(f"store-{name}"),
            log=FakeLog(kafka, GROUP),
            fetcher=self.fetcher,
            store=store,
            now=now,
            sleep=_at_once,
        )
        self._events: deque[m.Event] = deque()
        self._stepping = False
        finished(self.fetcher.start(self._fetched))

    def give(self, event: m.Event) -> None:
        """One event, and whatever comes of it."""
        self._events.append(event)
        if self._stepping:
            return
        self._stepping = True
        while self._events:
            event = self._events.popleft()
            if type(event) not in self.deaf:
                for command in self.engine.step(event, self._now()):
                    self.commands.append(command)
                    self._perform(command)
        self._stepping = False

    def answer(self, question: Any) -> None:
        """Asks it now; it may have been withheld."""
        if question in self.withheld:
            self.withheld.remove(question)
        self.give(finished(self._performer.answer(question)))

    def _fetched(self, events: Sequence[FetchEvent]) -> None:
        for event in events:
            self.give(event)

    def _perform(self, command: m.Command) -> None:
        match command:
            case m.Note(fact):
                self.facts.append(fact)
            case m.Reply(request, answer):
                self.answers[request] = answer
            case m.Fetch(partition, session, at, epoch):
                self.fetcher.assign(partition, session, at, epoch)
            case m.Release(partition):
                self.fetcher.release(partition)
            case m.Pause(partition):
                self.fetcher.pause(partition)
            case m.Resume(partition):
                self.fetcher.resume(partition)
            case m.Throttle(full):
                self.fetcher.throttle(full)
            case m.FinishRevoke(answer_group, offsets):
                answer_group(offsets)
            case _ if isinstance(command, self.withholding):
                self.withheld.append(command)
            case _:
                self._events.append(finished(self._performer.answer(command)))


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of what never waits: the fakes answer at once."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it was not to wait")


def known(reading: Reading[T]) -> T:
    """What was read, where the server is there."""
    assert isinstance(reading, Known), reading
    return reading.value


async def _at_once(_: float) -> None:
    return None
