"""One sidecar on the fakes, its clock in the test's hands and its application at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sidecar.core.faults import Known
from sidecar.core.policy import Policy
from sidecar.core.request import Request, RequestId, RequestKind, resolve_arguments
from sidecar.core.types import Instant, Outcome
from sidecar.core.views import (
    AllApplied,
    PageOffer,
    PageRequest,
    PartitionView,
    Refusal,
    ReportAnswer,
    ResolveRequest,
)
from sidecar.engine import messages as m
from tests.engine.process import GROUP, ORDERS, TOPIC, Process, finished
from tests.fakes.kafka import FakeKafka
from tests.fakes.store import FakeStore

WALL = 1_764_495_600.0
"""Unix seconds of monotonic zero; the fake cluster's records carry this time."""


class Driven(Process):
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
        self._requests = itertools.count(1)
        name = f"life{next(self._names)}"
        super().__init__(self.kafka, self.store, self.policy, name=name, now=lambda: self.instant)
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

    # The application

    def request(self, event: Callable[[m.RequestId], m.Event]) -> Any:
        """The reply; None: there is none now, and nobody waits for it any more."""
        number = m.RequestId(next(self._requests))
        self.give(event(number))
        if number not in self.answers:
            self.give(m.RequestDropped(number))
        return self.answers.pop(number, None)

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
        finished(self.store.leave(left))
        self.run(1.0)
        kept = finished(self.store.requests(GROUP, [ORDERS]))[ORDERS]
        assert isinstance(kept, Known)
        found: Request = next(one for one in kept.value if one.id == name)
        return found

    def produce(self, *values: bytes, timestamp: int | None = int(WALL * 1000)) -> None:
        for value in values:
            self.kafka.produce(TOPIC, 0, value, timestamp=timestamp)

    # What is shown

    def view(self) -> PartitionView:
        return next(v for v in self.engine.views() if v.partition == 0)
