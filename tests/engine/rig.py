"""One sidecar on the fakes, with every step in the test's hand.

Time passes only when it is told to, and questions are withheld as the test likes. What the
simulator meets by chance can be laid out here, event after event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sidecar.core.checkpoint import Checkpoint
from sidecar.core.faults import Known
from sidecar.core.gap import Gap
from sidecar.core.policy import Policy
from sidecar.core.types import Instant, Offset, Outcome
from sidecar.core.views import AllApplied, PageOffer, PageRequest, Report, ReportAnswer
from sidecar.core.witness import Ours, Witness, decode
from sidecar.engine import messages as m
from sidecar.engine.cursor import Cursor
from tests.engine.process import GROUP, ORDERS, TOPIC, Process, finished
from tests.fakes.kafka import FakeKafka
from tests.fakes.store import FakeStore

POLICY = Policy(group=GROUP, overlap_records=4, page_records_max=3, horizon_records=6)
QUIET_TURNS_MAX = 200


class Rig(Process):
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
        self.now = 100.0
        self._later: list[m.PerformInstall] = []
        self._requests = 0
        super().__init__(self.kafka, self.store, self.policy, name=name, now=self.clock)

    def clock(self) -> Instant:
        return Instant(self.now, 1_000_000.0 + self.now)

    # What happens

    def run(self, seconds: float = 0.0) -> None:
        """Lets time pass, and everything come to rest."""
        until = self.now + seconds
        while True:
            self.give(m.Tick())
            later, self._later = self._later, []
            for question in later:
                self.answer(replace(question, after_seconds=0.0))
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
        return self.engine.cursors[ORDERS]

    @property
    def stored(self) -> Checkpoint:
        hook, self.store.hook = self.store.hook, None
        reading = finished(self.store.read(GROUP, [ORDERS]))[ORDERS]
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
        commit = self.kafka.group(GROUP).commits.get(ORDERS)
        return None if commit is None else commit.next

    @property
    def witness(self) -> Witness:
        commit = self.kafka.group(GROUP).commits[ORDERS]
        read = decode(commit.metadata, group=GROUP, partition=ORDERS, committed=commit.next)
        assert isinstance(read, Ours), read
        return read.witness

    # Inside

    def _perform(self, command: m.Command) -> None:
        """A write that is to be tried again after a while is, when time passes."""
        withheld = isinstance(command, self.withholding)
        if isinstance(command, m.PerformInstall) and command.after_seconds > 0 and not withheld:
            self._later.append(command)
        else:
            super()._perform(command)
