"""One sidecar's engine on the fakes, with time in the test's hands.

Every question is answered at once, so that a test sees what the engine makes of an answer and not
when it comes; the simulator is where answers come late, twice or not at all.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from sidecar.core.facts import Fact
from sidecar.core.policy import Policy
from sidecar.core.request import Request, RequestId, RequestKind, resolve_arguments
from sidecar.core.types import GroupId, Instant, Outcome, Partition, StoreId
from sidecar.core.views import (
    AllApplied,
    PageOffer,
    PageRequest,
    PartitionView,
    Refusal,
    ReportAnswer,
    ResolveRequest,
)
from sidecar.engine import Engine
from sidecar.engine import messages as m
from sidecar.performer import Performer
from sidecar.ports import FetchEvent
from tests.fakes.kafka import FakeFetcher, FakeKafka, FakeLog
from tests.fakes.store import FakeStore

GROUP = GroupId("group")
TOPIC = "orders"
ORDERS = Partition(TOPIC, 0)
WALL = 1_764_495_600.0
"""Unix seconds of monotonic zero; the fake cluster's records carry this time."""


class Driven:
    """`orders` has one partition unless the cluster has the topic already."""

    _names = itertools.count(1)

    def __init__(
        self, kafka: FakeKafka | None = None, store: FakeStore | None = None, **policy: Any
    ) -> None:
        self.kafka = kafka or FakeKafka()
        if TOPIC not in self.kafka.topics:
            self.kafka.create_topic(TOPIC)
        self.store = store or FakeStore()
        self.policy = replace(Policy(GROUP), **policy)
        self.now = 100.0
        self.facts: list[Fact] = []
        self.asked: list[m.Command] = []
        self.deaf: set[type] = set()
        """Events that do not reach the engine."""
        self.fetcher = FakeFetcher(
            self.kafka, GROUP, [TOPIC], isolation=self.policy.isolation, records_max=5
        )
        name = f"life{next(self._names)}"
        self.engine = Engine(self.policy, name=name)
        self._performer = Performer(
            self.policy,
            store_name=StoreId(f"store-{name}"),
            log=FakeLog(self.kafka, GROUP),
            fetcher=self.fetcher,
            store=self.store,
            now=lambda: self.instant,
            sleep=_no_sleep,
        )
        self._replies: dict[m.RequestId, Any] = {}
        self._requests = itertools.count(1)
        self._events: deque[m.Event] = deque()
        self._stepping = False
        at_once(self.fetcher.start(self._take))
        self.run(1.0)

    @property
    def instant(self) -> Instant:
        return Instant(self.now, WALL + self.now)

    # Time

    def run(self, seconds: float, *, each: Callable[[], object] = lambda: None) -> None:
        """Ticks ten times a second, polls as often, and calls `each` in between."""
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            self.give(m.Tick())
            self.fetcher.pump()
            each()

    def give(self, event: m.Event) -> None:
        self._events.append(event)
        if self._stepping:
            return
        self._stepping = True
        while self._events:
            event = self._events.popleft()
            if type(event) not in self.deaf:
                for command in self.engine.step(event, self.instant):
                    self._perform(command)
        self._stepping = False

    def _take(self, events: Sequence[FetchEvent]) -> None:
        for event in events:
            self.give(event)

    def _perform(self, command: m.Command) -> None:
        match command:
            case m.Note(fact):
                self.facts.append(fact)
            case m.Reply(request, answer):
                self._replies[request] = answer
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
            case m.FinishRevoke(answer, offsets):
                answer(offsets)
            case _:
                self.asked.append(command)
                self._events.append(at_once(self._performer.answer(command)))

    # The application

    def request(self, event: Callable[[m.RequestId], m.Event]) -> Any:
        """The reply; None: there is none now, and nobody waits for it any more."""
        number = m.RequestId(next(self._requests))
        self.give(event(number))
        if number not in self._replies:
            self.give(m.RequestDropped(number))
        return self._replies.pop(number, None)

    def take(self, records: int = 500) -> PageOffer | None:
        answer = self.request(lambda n: m.PageWanted(n, PageRequest(records, 10**9)))
        assert answer is None or isinstance(answer, PageOffer)
        return answer

    def apply(self, count: int) -> None:
        """Takes and applies exactly so many records."""
        while count:
            page = self.take(count)
            assert page is not None, f"{count} records did not come"
            answer = self.report(page)
            assert isinstance(answer, ReportAnswer)
            count -= len(page.records)

    def report(self, page: PageOffer) -> ReportAnswer | Refusal:
        answer: ReportAnswer | Refusal = self.request(
            lambda n: m.Reported(n, page.page, AllApplied(Outcome.APPLIED), wait_committed=False)
        )
        return answer

    def resolve(self, wanted: ResolveRequest) -> Request:
        """Leaves the request, gives the owner its second, and returns what became of it."""
        gap = self.engine.cursors[ORDERS].gap
        assert gap is not None
        name = RequestId(f"asked-{next(self._requests)}")
        at, arguments = self.instant.wall, resolve_arguments(wanted)
        left = Request(
            *(name, GROUP, ORDERS, RequestKind.RESOLVE, gap.id, wanted.by, wanted.why, at),
            arguments,
        )
        at_once(self.store.leave(left))
        self.run(1.0)
        kept = at_once(self.store.requests(GROUP, [ORDERS]))[ORDERS].value
        found: Request = next(one for one in kept if one.id == name)
        return found

    def produce(self, *values: bytes, timestamp: int | None = int(WALL * 1000)) -> None:
        for value in values:
            self.kafka.produce(TOPIC, 0, value, timestamp=timestamp)

    # What is shown

    def view(self) -> PartitionView:
        return next(v for v in self.engine.views() if v.partition == 0)


async def _no_sleep(seconds: float) -> None:
    pass


def at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine that never suspends returns."""
    try:
        work.send(None)
    except StopIteration as finished:
        return finished.value
    raise AssertionError("it was not to wait")
