"""One broker, one store and the sidecars of a group on them, in one thread and in their own time.

What an engine asks is answered at once by the shipped performer on the fakes; what happens in
between is the simulator's business. So a test of what the engine decides reads as its story.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sidecar.core.facts import Fact
from sidecar.core.gap import Gap
from sidecar.core.policy import Policy
from sidecar.core.request import Request, RequestId, RequestKind
from sidecar.core.types import GroupId, Instant, Json, Outcome, Partition, StoreId
from sidecar.core.views import AllApplied, PageOffer, PageRequest, PartitionView, ReportAnswer
from sidecar.engine import Engine
from sidecar.engine import messages as m
from sidecar.performer import Performer
from sidecar.ports import FetchEvent
from tests.fakes.kafka import FakeFetcher, FakeKafka, FakeLog
from tests.fakes.store import FakeStore

GROUP = GroupId("g")
TOPIC = "orders"
P0 = Partition(TOPIC, 0)
TICK_SECONDS = 0.1


@dataclass
class Life:
    """One process, until it is killed."""

    engine: Engine
    fetcher: FakeFetcher
    performer: Performer
    facts: list[Fact] = field(default_factory=list)
    replies: dict[m.RequestId, object] = field(default_factory=dict)
    queue: deque[m.Event] = field(default_factory=deque)
    stepping: bool = False


class Stand:
    def __init__(self, *, partitions: int = 1, records: int = 0, **policy: Any) -> None:
        self.kafka = FakeKafka()
        self.kafka.create_topic(TOPIC, partitions)
        self.store = FakeStore()
        self.policy = replace(Policy(group=GROUP, page_records_max=4), **policy)
        self.seconds = 100.0
        self.lives: list[Life] = []
        self._names = 0
        for partition in range(partitions):
            self.produce(records, partition)

    # What the world does

    def produce(self, count: int, partition: int = 0) -> None:
        for _ in range(count):
            end = self.kafka.log(TOPIC, partition).end
            self.kafka.produce(TOPIC, partition, b"v%d" % end)

    def start(self, **policy: Any) -> Life:
        """A sidecar of the group, with its partitions."""
        self._names += 1
        name = f"s{self._names}"
        ours = replace(self.policy, **policy)
        fetcher = FakeFetcher(self.kafka, GROUP, [TOPIC])
        performer = Performer(
            ours,
            store_name=StoreId(f"store-{name}"),
            log=FakeLog(self.kafka, GROUP),
            fetcher=fetcher,
            store=self.store,
            now=self.now,
            sleep=_at_once,
        )
        life = Life(Engine(ours, name=name), fetcher, performer)

        def sink(events: Sequence[FetchEvent]) -> None:
            for event in events:
                self.give(life, event)

        finish(fetcher.start(sink))
        self.lives.append(life)
        self.until(lambda: life.engine.cursors)
        return life

    def kill(self, life: Life) -> None:
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
                self.give(life, m.Tick())

    def until(self, reached: Callable[[], object], seconds: float = 60.0) -> None:
        """Runs until it is so; fails when it never is."""
        end = self.seconds + seconds
        while not reached():
            shown = [view for life in self.lives for view in life.engine.views()]
            assert self.seconds < end, f"never reached: {shown}"
            self.run(TICK_SECONDS)

    def give(self, life: Life, event: m.Event) -> None:
        life.queue.append(event)
        if life.stepping:
            return
        life.stepping = True
        while life.queue:
            for command in life.engine.step(life.queue.popleft(), self.now()):
                self._perform(life, command)
        life.stepping = False

    def _perform(self, life: Life, command: m.Command) -> None:
        match command:
            case m.Note(fact):
                life.facts.append(fact)
            case m.Reply(request, answer):
                life.replies[request] = answer
            case m.Fetch(partition, session, at, epoch):
                life.fetcher.assign(partition, session, at, epoch)
            case m.Release(partition):
                life.fetcher.release(partition)
            case m.Pause(partition):
                life.fetcher.pause(partition)
            case m.Resume(partition):
                life.fetcher.resume(partition)
            case m.Throttle(full):
                life.fetcher.throttle(full)
            case m.FinishRevoke(answer, offsets):
                answer(offsets)
            case _:
                life.queue.append(finish(life.performer.answer(command)))

    # What an application does

    def take(self, life: Life, seconds: float = 1.0) -> PageOffer | None:
        request = m.RequestId(10_000 + len(life.replies))
        self.give(life, m.PageWanted(request, PageRequest(4, 10_000)))
        end = self.seconds + seconds
        while request not in life.replies and self.seconds < end:
            self.run(TICK_SECONDS)
        if request not in life.replies:
            self.give(life, m.RequestDropped(request))
            return None
        answer = life.replies[request]
        assert isinstance(answer, PageOffer)
        return answer

    def report(self, life: Life, page: PageOffer, *, wait_committed: bool = False) -> ReportAnswer:
        request = m.RequestId(20_000 + len(life.replies))
        self.give(life, m.Reported(request, page.page, AllApplied(Outcome.APPLIED), wait_committed))
        answer = life.replies[request]
        assert isinstance(answer, ReportAnswer)
        return answer

    def apply(self, life: Life, count: int) -> None:
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
        partition: Partition = P0,
        **arguments: Json,
    ) -> RequestId:
        self._names += 1
        name = RequestId(f"asked-{self._names}")
        at = self.now().wall
        request = Request(name, GROUP, partition, kind, target, "on-call", "a test", at, arguments)
        finish(self.store.leave(request))
        return name

    def asked(self, name: RequestId, partition: Partition = P0) -> Request:
        kept: Sequence[Request] = finish(self.store.requests(GROUP, [partition]))[partition].value
        return next(one for one in kept if one.id == name)

    def view(self, life: Life, partition: Partition = P0) -> PartitionView:
        return life.engine.cursors[partition].view(self.now())

    def gap(self, partition: Partition = P0) -> Gap:
        kept: Sequence[Gap] = finish(self.store.gaps(GROUP)).value
        return next(gap for gap in kept if gap.state.holds and gap.partition == partition)

    def audit(self, partition: Partition = P0) -> list[tuple[str, str, str]]:
        found = finish(self.store.audit(GROUP, partition)).value
        return [(entry.what, entry.by, entry.why) for entry in found]


async def _at_once(_: float) -> None:
    pass


def finish(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        work.send(None)
    except StopIteration as finished:
        return finished.value
    raise AssertionError("it was not to wait")
