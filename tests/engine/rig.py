"""One sidecar's engine and performer on the fakes, with every step in the test's hand.

Questions are answered at once, in order, unless the test withholds their kind; time passes only
when it is told to. What the simulator meets by chance can be laid out here, event after event.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sidecar.core.checkpoint import Checkpoint
from sidecar.core.facts import Fact
from sidecar.core.faults import Known
from sidecar.core.gap import Gap
from sidecar.core.policy import Policy
from sidecar.core.types import GroupId, Instant, Offset, Outcome, Partition, StoreId
from sidecar.core.views import AllApplied, PageOffer, PageRequest, Report, ReportAnswer
from sidecar.core.witness import Ours, Witness, decode
from sidecar.engine import Engine
from sidecar.engine import messages as m
from sidecar.engine.cursor import Cursor
from sidecar.performer import Performer
from sidecar.ports import FetchEvent
from tests.fakes.kafka import FakeFetcher, FakeKafka, FakeLog
from tests.fakes.store import FakeStore

GROUP = GroupId("group")
TOPIC = "orders"
PARTITION = Partition(TOPIC, 0)
POLICY = Policy(group=GROUP, overlap_records=4, page_records_max=3, horizon_records=6)
QUIET_TURNS_MAX = 200

T = TypeVar("T")


class Rig:
    """`kafka` and `store` may be shared by several of them: they are members of one group."""

    def __init__(
        self,
        kafka: FakeKafka | None = None,
        store: FakeStore | None = None,
        *,
        name: str = "life",
        **policy: Any,
    ) -> None:
        self.kafka = FakeKafka() if kafka is None else kafka
        self.store = FakeStore() if store is None else store
        if TOPIC not in self.kafka.topics:
            self.kafka.create_topic(TOPIC)
        self.policy = replace(POLICY, **policy)
        self.engine = Engine(self.policy, name=name)
        self.fetcher = FakeFetcher(self.kafka, GROUP, [TOPIC], records_max=5)
        self.now = 100.0
        self.withheld: list[Any] = []
        """Questions of the kinds in `withholding`, for the test to `answer` when it likes."""
        self.withholding: tuple[type[Any], ...] = ()
        self.commands: list[m.Command] = []
        """Everything that was asked for so far."""
        self.facts: list[Fact] = []
        self.answers: dict[m.RequestId, object] = {}
        self._later: list[m.PerformInstall] = []
        self._requests = 0
        self._performer = Performer(
            self.policy,
            store_name=StoreId(f"store-{name}"),
            log=FakeLog(self.kafka, GROUP),
            fetcher=self.fetcher,
            store=self.store,
            now=self.clock,
            sleep=_at_once,
        )
        finished(self.fetcher.start(self._fetched))

    def clock(self) -> Instant:
        return Instant(self.now, 1_000_000.0 + self.now)

    # What happens

    def give(self, event: m.Event) -> None:
        for command in self.engine.step(event, self.clock()):
            self._perform(command)

    def answer(self, question: Any) -> None:
        """Asks what was withheld, now."""
        self.withheld.remove(question)
        self.give(finished(self._performer.answer(question)))

    def run(self, seconds: float = 0.0) -> None:
        """Lets time pass, and everything come to rest."""
        until = self.now + seconds
        while True:
            self.give(m.Tick())
            later, self._later = self._later, []
            for question in later:
                self.give(finished(self._performer.answer(replace(question, after_seconds=0.0))))
            for _ in range(QUIET_TURNS_MAX):
                if self.fetcher.pump() == 0:
                    break
            if self.now >= until:
                return
            self.now = min(until, self.now + 0.25)

    # What an application does

    def ask(self, make: Callable[[m.RequestId], m.Event]) -> m.RequestId:
        self._requests += 1
        number = m.RequestId(self._requests)
        self.give(make(number))
        return number

    def want(self) -> m.RequestId:
        return self.ask(lambda n: m.PageWanted(n, PageRequest(3, 10_000)))

    def page(self) -> PageOffer:
        """The next page; everything has to be at rest already."""
        got = self.answers.get(self.want())
        assert isinstance(got, PageOffer), f"no page: {got} ({self.cursor.phase})"
        return got

    def no_page(self) -> bool:
        """Whether who asks now would have to wait. Who asked gives up."""
        wanted = self.want()
        self.give(m.RequestDropped(wanted))
        return wanted not in self.answers

    def report(self, offer: PageOffer, report: Report | None = None) -> object:
        said = AllApplied(Outcome.APPLIED) if report is None else report
        return self.answers.get(self.ask(lambda n: m.Reported(n, offer.page, said, False)))

    def consume(self, pages: int) -> None:
        for _ in range(pages):
            assert isinstance(self.report(self.page()), ReportAnswer)

    def produce(self, count: int, tag: bytes = b"") -> None:
        """Records that differ from each other, and from those of another `tag`."""
        made = self.kafka.log(TOPIC, 0).end
        for i in range(count):
            self.kafka.produce(TOPIC, 0, b"%s%d" % (tag, made + i))

    def next_life(self, name: str, **policy: Any) -> Rig:
        """This one is killed; another process takes its place, and comes to rest."""
        if self.fetcher in self.kafka.group(GROUP).members:
            self.kafka.expel(self.fetcher)
        other = Rig(self.kafka, self.store, name=name, **policy)
        other.now = self.now + 1.0
        other.run(1.0)
        return other

    # What is seen

    @property
    def cursor(self) -> Cursor:
        return self.engine.cursors[PARTITION]

    @property
    def stored(self) -> Checkpoint:
        hook, self.store.hook = self.store.hook, None
        reading = finished(self.store.read(GROUP, [PARTITION]))[PARTITION]
        self.store.hook = hook
        assert isinstance(reading, Known)
        return reading.value.checkpoint

    @property
    def gaps(self) -> Sequence[Gap]:
        answer = finished(self.store.gaps(GROUP))
        assert isinstance(answer, Known)
        return [gap for gap in answer.value if gap.state.holds]

    @property
    def committed(self) -> Offset | None:
        commit = self.kafka.group(GROUP).commits.get(PARTITION)
        return None if commit is None else commit.next

    @property
    def witness(self) -> Witness:
        commit = self.kafka.group(GROUP).commits[PARTITION]
        read = decode(commit.metadata, group=GROUP, partition=PARTITION, committed=commit.next)
        assert isinstance(read, Ours), read
        return read.witness

    # Inside

    def _fetched(self, events: Sequence[FetchEvent]) -> None:
        for event in events:
            self.give(event)

    def _perform(self, command: m.Command) -> None:
        self.commands.append(command)
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
            case m.PerformInstall(after_seconds=seconds) if seconds > 0:
                self._later.append(command)
            case _:
                self.give(finished(self._performer.answer(command)))


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of what never waits: the fakes answer at once."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it was not to wait")


async def _at_once(_: float) -> None:
    return None


__all__ = ["GROUP", "PARTITION", "POLICY", "TOPIC", "Rig", "finished"]
