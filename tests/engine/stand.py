"""One broker, one store and the sidecars of a group on them, in one thread and in their own time.

A test of what the engine decides reads as its story here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sidecar.core.gap import Gap
from sidecar.core.policy import Policy
from sidecar.core.request import Request, RequestId, RequestKind
from sidecar.core.types import Instant, Json, Outcome, Partition
from sidecar.core.views import AllApplied, PageOffer, PageRequest, PartitionView, ReportAnswer
from sidecar.engine import messages as m
from tests.engine.process import GROUP, ORDERS, TOPIC, Process, finished, known
from tests.fakes.kafka import FakeKafka
from tests.fakes.store import FakeStore

TICK_SECONDS = 0.1


class Stand:
    def __init__(self, *, partitions: int = 1, records: int = 0, **policy: Any) -> None:
        self.kafka = FakeKafka()
        self.kafka.create_topic(TOPIC, partitions)
        self.store = FakeStore()
        self.policy = replace(Policy(group=GROUP, page_records_max=4), **policy)
        self.seconds = 100.0
        self.lives: list[Process] = []
        self._names = 0
        for partition in range(partitions):
            self.produce(records, partition)

    # What the world does

    def produce(self, count: int, partition: int = 0) -> None:
        for _ in range(count):
            end = self.kafka.log(TOPIC, partition).end
            self.kafka.produce(TOPIC, partition, b"v%d" % end)

    def start(self, **policy: Any) -> Process:
        """A sidecar of the group, with its partitions."""
        self._names += 1
        ours = replace(self.policy, **policy)
        life = Process(
            self.kafka, self.store, ours, name=f"s{self._names}", now=self.now, records_max=1000
        )
        self.lives.append(life)
        self.until(lambda: life.engine.cursors)
        return life

    def kill(self, life: Process) -> None:
        self.lives.remove(life)
        self.kafka.expel(life.fetcher)

    def now(self) -> Instant:
        return Instant(self.seconds, 1_000_000.0 + self.seconds)

    def run(self, seconds: float = 1.0) -> None:
        end = self.seconds + seconds
        while self.seconds < end:
            self.seconds += TICK_SECONDS
            for life in [*self.lives]:
                life.fetcher.pump()
                life.give(m.Tick())

    def until(self, reached: Callable[[], object], seconds: float = 60.0) -> None:
        """Runs until it is so; fails when it never is."""
        end = self.seconds + seconds
        while not reached():
            shown = [view for life in self.lives for view in life.engine.views()]
            assert self.seconds < end, f"never reached: {shown}"
            self.run(TICK_SECONDS)

    # What an application does

    def take(self, life: Process, seconds: float = 1.0) -> PageOffer | None:
        request = m.RequestId(10_000 + len(life.answers))
        life.give(m.PageWanted(request, PageRequest(4, 10_000)))
        end = self.seconds + seconds
        while request not in life.answers and self.seconds < end:
            self.run(TICK_SECONDS)
        if request not in life.answers:
            life.give(m.RequestDropped(request))
            return None
        answer = life.answers[request]
        assert isinstance(answer, PageOffer)
        return answer

    def report(
        self, life: Process, page: PageOffer, *, wait_committed: bool = False
    ) -> ReportAnswer:
        request = m.RequestId(20_000 + len(life.answers))
        life.give(m.Reported(request, page.page, AllApplied(Outcome.APPLIED), wait_committed))
        answer = life.answers[request]
        assert isinstance(answer, ReportAnswer)
        return answer

    def apply(self, life: Process, count: int) -> None:
        """Takes pages and applies them until `next` has moved by so many."""
        left = count
        while left > 0:
            page = self.take(life)
            assert page is not None
            self.report(life, page)
            left -= len(page.offsets)
        self.run(1.0)

    # What people do, and see

    def ask(
        self,
        kind: RequestKind,
        target: str = "",
        *,
        partition: Partition = ORDERS,
        **arguments: Json,
    ) -> RequestId:
        self._names += 1
        name = RequestId(f"asked-{self._names}")
        at = self.now().wall
        request = Request(name, GROUP, partition, kind, target, "on-call", "a test", at, arguments)
        finished(self.store.leave(request))
        return name

    def asked(self, name: RequestId, partition: Partition = ORDERS) -> Request:
        kept: Sequence[Request] = known(
            finished(self.store.requests(GROUP, [partition]))[partition]
        )
        return next(one for one in kept if one.id == name)

    def view(self, life: Process, partition: Partition = ORDERS) -> PartitionView:
        return life.engine.cursors[partition].view(self.now())

    def gap(self, partition: Partition = ORDERS) -> Gap:
        kept = known(finished(self.store.gaps(GROUP)))
        return next(gap for gap in kept if gap.state.holds and gap.partition == partition)

    def audit(self, partition: Partition = ORDERS) -> list[tuple[str, str, str]]:
        found = known(finished(self.store.audit(GROUP, partition)))
        return [(entry.what, entry.by, entry.why) for entry in found]
