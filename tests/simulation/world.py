"""One simulated world: a cluster, a store, a few sidecars with their applications, and time.

Everything that waits for a server is a coroutine that stops before each question and before each
answer; the scheduler decides which goes on. A sidecar that was killed leaves its questions behind:
they may still arrive. One random generator, seeded, decides everything.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sidecar.core.checkpoint import Install, InstallResult
from sidecar.core.evidence import Committed
from sidecar.core.faults import Component, Fault, FaultKind, Known
from sidecar.core.gap import Gap, Resolution, fenced
from sidecar.core.policy import Policy
from sidecar.core.request import Request, RequestId, RequestKind, resolve_arguments
from sidecar.core.types import (
    GroupId,
    Instant,
    Offset,
    Outcome,
    Partition,
    StoreId,
)
from sidecar.core.views import (
    AllApplied,
    Each,
    PageOffer,
    PageRequest,
    Refusal,
    Refused,
    Report,
    ReportAnswer,
    ResolveRequest,
)
from sidecar.core.witness import Ours, decode
from sidecar.engine import Engine
from sidecar.engine import messages as m
from sidecar.performer import Performer, Question
from sidecar.ports import CommitRequest, FetchEvent
from tests.fakes.kafka import FakeFetcher, FakeKafka, FakeLog
from tests.fakes.store import FakeStore, Mishap
from tests.simulation.oracle import Log, Oracle

GROUP = GroupId("group")
TOPIC = "orders"
SESSION_SECONDS = 4.0
POLICY = Policy(
    group=GROUP,
    overlap_records=4,
    receipts_retained_max=40,
    page_records_max=3,
    page_bytes_max=10_000,
    page_deadline_seconds=3.0,
    session_timeout_seconds=SESSION_SECONDS,
    topic_unknown_seconds=5.0,
    horizon_records=6,
    buffer_pages=2,
)
AWAY = Fault(Component.REDIS, FaultKind.UNAVAILABLE, "CONNECTION", "connection refused")


class Stop:
    """A point where the scheduler may let anything else happen. `until`: not before this time."""

    def __init__(self, until: float = 0.0) -> None:
        self.until = until

    def __await__(self) -> Generator[Stop, None, None]:
        yield self


def stepped(target: Any, names: Collection[str]) -> Any:
    """`target` with a stop before each question and before each answer."""

    class Stepped:
        def __getattr__(self, name: str) -> Any:
            return getattr(target, name)

    def wrap(name: str) -> Callable[..., Coroutine[Stop, None, Any]]:
        method = getattr(target, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            await Stop()
            answer = await method(*args, **kwargs)
            await Stop()
            return answer

        return call

    made = Stepped()
    for name in names:
        setattr(made, name, wrap(name))
    return made


LOG_QUESTIONS = (
    "cluster_id",
    "committed",
    "committed_in_group",
    "topics",
    "log_ends",
    "log_starts",
    "retentions",
    "stamps",
)
STORE_QUESTIONS = (
    *("registry", "create_registry", "register", "mark_started", "read", "memory", "install"),
    *("watch", "gaps", "update_gap", "requests", "leave", "answer_request"),
)


class WatchedStore(FakeStore):
    """Tells the oracle of every write that really took place."""

    def __init__(self, oracle: Oracle) -> None:
        super().__init__()
        self.oracle = oracle

    async def install(self, install: Install) -> InstallResult:
        partition = install.checkpoint.identity.partition
        stored = (await self.peek(GROUP, [partition]))[partition]
        result = await super().install(install)
        now = (await self.peek(GROUP, [partition]))[partition]
        before = stored.value.checkpoint if isinstance(stored, Known) else None
        after = now.value.checkpoint if isinstance(now, Known) else None
        if after is not None and after != before:
            gap = stored.value.gap if isinstance(stored, Known) else None
            holding = gap if gap is not None and gap.state.holds else None
            self.oracle.installed(before, install, holding)
        return result

    async def peek(self, group: GroupId, partitions: Collection[Partition]) -> Mapping[Any, Any]:
        hook, self.hook = self.hook, None
        try:
            return await self.read(group, partitions)
        finally:
            self.hook = hook


class WatchedFetcher(FakeFetcher):
    """Tells the oracle of every commit."""

    oracle: Oracle

    def _commit(self, offsets: Mapping[Partition, CommitRequest]) -> dict[Partition, Fault | None]:
        results = super()._commit(offsets)
        for partition, fault in results.items():
            request = offsets[partition]
            if fault is None:
                read = decode(
                    request.metadata, group=GROUP, partition=partition, committed=request.next
                )
                assert isinstance(read, Ours)
                assert read.witness.topic_id is not None
                self.oracle.committed((read.witness.topic_id, partition.index), request)
        return results


@dataclass(slots=True)
class Task:
    work: Coroutine[Stop, None, m.Event]
    life: Life | None
    until: float = 0.0


@dataclass(slots=True)
class Held:
    """A page the application has, and which of its records took effect."""

    offer: PageOffer
    log: Log
    digests: list[int]
    applied: int = 0


@dataclass(slots=True)
class Life:
    """One process: an engine, its fetcher, its application."""

    name: str
    engine: Engine
    fetcher: WatchedFetcher
    performer: Performer
    skew: float
    frozen_since: float | None = None
    pages: list[Held] = field(default_factory=list)
    reports: dict[m.RequestId, Log] = field(default_factory=dict)
    wanted: set[m.RequestId] = field(default_factory=set)
    requests: int = 0


class World:
    def __init__(self, seed: int, *, partitions: int = 2, sidecars: int = 2) -> None:
        self.random = random.Random(seed)
        self.kafka = FakeKafka()
        self.oracle = Oracle()
        self.store = WatchedStore(self.oracle)
        self.now = 100.0
        self.steps = 0
        self.lives: list[Life] = []
        self.every: list[Life] = []
        """The dead among them."""
        self.tasks: list[Task] = []
        self.story: list[str] = []
        self.telling = False
        self.reached: Counter[str] = Counter()
        self.made = 0
        self.snapshot: Any = None
        self.open_transaction: Any = None
        self.kafka.create_topic(TOPIC, partitions)
        for _ in range(sidecars):
            self.start()

    # Telling

    def tell(self, text: str) -> None:
        if self.telling:
            self.story.append(f"{self.steps:5d} t={self.now:7.2f} {text}")

    # Lives

    def start(self) -> Life:
        self.made += 1
        name = f"s{self.made}"
        fetcher = WatchedFetcher(self.kafka, GROUP, [TOPIC], records_max=5)
        fetcher.oracle = self.oracle
        engine = Engine(POLICY, name=name)
        skew = self.skew()

        def sleep(seconds: float) -> Stop:
            return Stop(self.now + seconds)

        performer = Performer(
            POLICY,
            store_name=StoreId(f"store-{name}"),
            log=self.stepped(FakeLog(self.kafka, GROUP), LOG_QUESTIONS),
            fetcher=self.stepped(fetcher, ("commit",)),
            store=self.stepped(self.store, STORE_QUESTIONS),
            now=lambda: Instant(self.now + skew, 1_000_000.0 + self.now),
            sleep=sleep,
        )
        life = Life(name, engine, fetcher, performer, skew)

        def sink(events: Sequence[FetchEvent]) -> None:
            for event in events:
                self.give(life, event)

        _finish(fetcher.start(sink))
        self.lives.append(life)
        self.every.append(life)
        self.tell(f"{name} starts")
        return life

    def stepped(self, target: Any, names: Collection[str]) -> Any:
        return stepped(target, names)

    def skew(self) -> float:
        """How far the monotonic clock of a process is from the world's."""
        return self.random.uniform(0.0, 1000.0)

    def kill(self, life: Life, *, app_dies: bool) -> None:
        """SIGKILL: its questions may still be on their way."""
        self.tell(f"{life.name} is killed")
        self.lives.remove(life)
        for task in self.tasks:
            if task.life is life:
                task.life = None
        self.kafka.expel(life.fetcher) if self._member(life) else None

    def _member(self, life: Life) -> bool:
        return life.fetcher in self.kafka.group(GROUP).members

    def give(self, life: Life, event: m.Event) -> None:
        if life not in self.lives:
            return
        self.steps += 1
        now = Instant(self.now + life.skew, 1_000_000.0 + self.now)
        if self.telling:
            self.tell(f"{life.name} <- {_short(event)}")
        for command in life.engine.step(event, now):
            self.perform(life, command)

    def perform(self, life: Life, command: m.Command) -> None:
        if self.telling:
            self.tell(f"{life.name} -> {_short(command)}")
        match command:
            case m.Note():
                self.reached[type(command.fact).__name__] += 1
            case m.Reply():
                self._replied(life, command)
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
                self._ask(life, command)

    def _ask(self, life: Life, question: Question) -> None:
        self.tasks.append(Task(life.performer.answer(question), life))

    def advance(self, task: Task) -> None:
        """Lets one question go on to its next stop, or brings its answer."""
        try:
            stop = task.work.send(None)
            task.until = stop.until
        except StopIteration as finished:
            self.tasks.remove(task)
            if task.life is not None and task.life.frozen_since is None:
                self.give(task.life, finished.value)

    def ready(self) -> list[Task]:
        return [
            t
            for t in self.tasks
            if t.until <= self.now and (t.life is None or t.life.frozen_since is None)
        ]

    # The application

    def request(self, life: Life) -> m.RequestId:
        life.requests += 1
        return m.RequestId(life.requests)

    def want(self, life: Life) -> None:
        number = self.request(life)
        life.wanted.add(number)
        self.give(life, m.PageWanted(number, PageRequest(3, 10_000)))

    def _replied(self, life: Life, reply: m.Reply) -> None:
        answer = reply.answer
        if isinstance(answer, PageOffer):
            life.wanted.discard(reply.request)
            checkpoint = life.engine.cursors[answer.partition].checkpoint
            assert checkpoint is not None
            topic_id = checkpoint.identity.topic_id
            assert topic_id is not None
            log = (topic_id, answer.partition.index)
            digests = [_digest(record) for record in answer.records]
            self.oracle.offered(log, answer, digests)
            life.pages.append(Held(answer, log, digests))
        elif isinstance(answer, ReportAnswer):
            log_ = life.reports.pop(reply.request, None)
            if log_ is not None:
                self.oracle.answered(log_, answer)
        elif isinstance(answer, Refusal):
            life.wanted.discard(reply.request)
            life.reports.pop(reply.request, None)
            self.reached[f"refused {answer.refused}"] += 1
            if answer.refused in (Refused.PAGE_LOST, Refused.PAGE_SUPERSEDED):
                self.reached["page gone"] += 1

    def effect(self, held: Held, count: int) -> None:
        """The application makes its effects durable, in order, before it reports."""
        for i in range(held.applied, min(held.applied + count, len(held.digests))):
            self.oracle.done[held.log][held.offer.offsets[i]].add(held.digests[i])
        held.applied = min(held.applied + count, len(held.digests))

    def report(self, life: Life, held: Held, report: Report, *, keep: bool = False) -> None:
        number = self.request(life)
        life.reports[number] = held.log
        if not keep and held in life.pages:
            life.pages.remove(held)
        self.give(life, m.Reported(number, held.offer.page, report, self.random.random() < 0.1))

    def work(self, life: Life) -> None:
        """One thing an application does: well, badly, in part, twice, or late."""
        if not life.pages:
            if len(life.wanted) < 3:
                self.want(life)
            return
        rng = self.random
        held = rng.choice(life.pages)
        size = len(held.digests)
        offsets = held.offer.offsets
        what = rng.random()
        if what < 0.6:
            self.effect(held, size)
            self.report(life, held, AllApplied(Outcome.APPLIED), keep=rng.random() < 0.1)
        elif what < 0.7:
            self.effect(held, rng.randint(0, size))
        elif what < 0.8 and held.applied:
            self.report(
                life,
                held,
                AllApplied(Outcome.APPLIED, Offset(offsets[held.applied - 1])),
                keep=True,
            )
        elif what < 0.9:
            self.effect(held, size)
            outcomes = [
                (
                    Offset(o),
                    rng.choice((Outcome.APPLIED, Outcome.APPLIED, Outcome.RETRY, Outcome.DROPPED)),
                )
                for o in offsets
            ]
            self.report(life, held, Each(outcomes))
        elif what < 0.95:
            self.report(life, held, Each([(Offset(10**9), Outcome.APPLIED)]), keep=True)
        else:
            life.pages.remove(held)

    # People

    def decide(self, life: Life) -> None:
        """Somebody decides a gap: well, badly, or too late."""
        gaps = [c.gap for c in life.engine.cursors.values() if c.gap is not None]
        if not gaps:
            return
        rng = self.random
        gap = rng.choice(gaps)
        log = self.kafka.topics[TOPIC].logs[gap.partition.index]
        somewhere = Offset(rng.randint(log.start, log.end))
        fence: Offset | None = None
        if rng.random() < 0.3:
            fence = self.fence(life, gap)
        request = ResolveRequest(
            rng.choice(list(Resolution)),
            "operator",
            "simulated",
            fence=fence,
            resume_at=somewhere if rng.random() < 0.5 else None,
        )
        self.made += 1
        left = Request(
            RequestId(f"asked-{self.made}"),
            GROUP,
            gap.partition,
            RequestKind.RESOLVE,
            gap.id,
            request.by,
            request.why,
            1_000_000.0 + self.now,
            resolve_arguments(request),
        )
        _finish(self.store.leave(left))
        if rng.random() < 0.5:
            self.give(life, m.RequestLeft(gap.partition))

    def fence(self, life: Life, gap: Gap) -> Offset | None:
        """An end offset, taken now and written into the gap."""
        log = self.kafka.topics[TOPIC].logs[gap.partition.index]
        fence = Offset(log.last_stable)
        taken = fenced(gap, fence=fence, at=1_000_000.0 + self.now)
        if taken is None:
            return None
        answer = _finish(self.store.update_gap(taken, was=gap))
        if isinstance(answer, Known) and answer.value is not None:
            return fence
        return None

    # The log

    def produce(self, count: int = 1) -> None:
        topic = self.kafka.topics.get(TOPIC)
        if topic is None:
            return
        index = self.random.randrange(len(topic.logs))
        for _ in range(count):
            self.made += 1
            offset = self.kafka.produce(TOPIC, index, b"%d" % self.made)
            self._owe(index, offset)

    def _owe(self, index: int, offset: int) -> None:
        topic = self.kafka.topics[TOPIC]
        log = topic.logs[index]
        at = log.offsets.index(offset)
        self.oracle.owed[topic.id, index][offset] = log.digests[at]

    def log_of(self, index: int) -> Log:
        return self.kafka.topics[TOPIC].id, index

    def committed(self) -> dict[Partition, Committed]:
        return self.kafka.group(GROUP).commits

    def store_late(self) -> None:
        """Writes that timed out arrive after all."""
        late, self.store.delayed = self.store.delayed, []
        hook, self.store.hook = self.store.hook, None
        for install in late:
            _finish(self.store.install(install))
        self.store.hook = hook

    def note_forgotten(self) -> None:
        """Whether both testimonies about a partition are gone now."""
        topic = self.kafka.topics.get(TOPIC)
        for index in range(0 if topic is None else len(topic.logs)):
            partition = Partition(TOPIC, index)
            stored = _finish(self.store.peek(GROUP, [partition]))[partition]
            commit = self.committed().get(partition)
            ours = commit is not None and isinstance(
                decode(commit.metadata, group=GROUP, partition=partition, committed=commit.next),
                Ours,
            )
            if not isinstance(stored, Known) and not ours:
                self.oracle.forgotten.add(self.log_of(index))

    # Time

    def tick(self, life: Life) -> None:
        self.now += self.random.choice((0.02, 0.1, 0.1, 0.3))
        self.give(life, m.Tick())


def _digest(record: Any) -> int:
    from sidecar.kafka.frames import digests

    return int(digests([record])[0])


def _finish(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        work.send(None)
    except StopIteration as finished:
        return finished.value
    raise AssertionError("it was not to wait")


def _short(value: object) -> str:
    text = re.sub(r" at 0x[0-9a-f]+", "", str(value))
    return text if len(text) < 300 else text[:300] + "…"


__all__ = [
    "AWAY",
    "GROUP",
    "POLICY",
    "SESSION_SECONDS",
    "TOPIC",
    "Gap",
    "Held",
    "Life",
    "Mishap",
    "World",
]
