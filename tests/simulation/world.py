"""One simulated world: a cluster, a store, a few sidecars with their applications, and time.

Everything that waits for a server is a coroutine that stops before each question and before the
answer; a move says which goes on. A sidecar that was killed leaves its questions behind: they may
still arrive. The world decides nothing by itself: it is made from a `Setup`, and every `apply` is
given a move and a number from which all that is left open in the move is drawn. Who gives the moves
is no concern of its: a seed's generator, a list out of a file, or an enumeration of all of them.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from sidecar.core.checkpoint import Checkpoint, Install, InstallResult, Registry
from sidecar.core.evidence import Committed, LogEnd, TopicDescription
from sidecar.core.faults import Answer, Fault, Known, Reading
from sidecar.core.gap import Gap, Resolution, fenced
from sidecar.core.policy import Adopt, OnGap, Policy, Start
from sidecar.core.recovery import Phase
from sidecar.core.request import (
    PENDING_MAX,
    Request,
    RequestId,
    RequestKind,
    resolve_arguments,
)
from sidecar.core.types import (
    Fields,
    GapId,
    GapReason,
    GroupId,
    Instant,
    IsolationLevel,
    LeaderEpoch,
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
    Report,
    ReportAnswer,
    ResolveRequest,
)
from sidecar.core.witness import Ours, Witness, decode
from sidecar.engine import Engine
from sidecar.engine import messages as m
from sidecar.performer import Performer, Question
from sidecar.ports import CommitRequest, FetchEvent
from tests.fakes.kafka import FakeFetcher, FakeKafka, FakeLog, FakePartitionLog
from tests.fakes.store import FakeStore, Snapshot
from tests.simulation.dice import Dice
from tests.simulation.oracle import Log, Oracle, Value, Violation

GROUP = GroupId("group")
TOPIC = "orders"
SESSION_SECONDS = 4.0
LIVES_MAX = 5
RECEIPTS_MAX = 40
POLICY = Policy(
    group=GROUP,
    overlap_records=4,
    receipts_retained_max=RECEIPTS_MAX,
    page_records_max=3,
    page_bytes_max=10_000,
    page_deadline_seconds=3.0,
    session_timeout_seconds=SESSION_SECONDS,
    topic_unknown_seconds=5.0,
    horizon_records=6,
    buffer_pages=2,
)
ECHOES_MAX = 8
SETTLE_TURNS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Setup:
    """How a world begins: all that its schedule does not say."""

    partitions: int = 2
    sidecars: int = 2
    records: int = 0
    """In the log before anybody joins, spread over the partitions."""
    compacted: bool = False
    adopted: int = 0
    """A group that committed this much, by another client, before the first sidecar came."""
    start: Start = Start.EARLIEST
    adopt: Adopt = Adopt.COMMIT
    accepting: tuple[GapReason, ...] = ()
    """Gaps of these reasons are accepted by the setting."""

    @property
    def policy(self) -> Policy:
        return replace(
            POLICY,
            start=self.start,
            adopt=self.adopt,
            on_gap=dict.fromkeys(self.accepting, OnGap.ACCEPT),
        )


class Stop:
    """A point where anything else may happen. `until`: not before this time."""

    __slots__ = ("until",)

    def __init__(self, until: float = 0.0) -> None:
        self.until = until

    def __await__(self) -> Generator[Stop, None, None]:
        yield self


_ANSWERED = Stop()


class Stepped:
    """`target` with a stop behind each question. A question that has not begun has one before it
    by that; between two of them one stop is as good as two."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Stop, None, Any]]:
        method = getattr(self._target, name)

        async def call(*args: Any, **named: Any) -> Any:
            answer = await method(*args, **named)
            await _ANSWERED
            return answer

        setattr(self, name, call)
        return call


class WatchedStore(FakeStore):
    """Tells the oracle of every write that really took place."""

    def __init__(self, oracle: Oracle) -> None:
        super().__init__(receipts_retained_max=RECEIPTS_MAX, receipts_retained_min=8)
        self.oracle = oracle

    def _install(self, install: Install) -> InstallResult:
        partition = install.checkpoint.identity.partition
        before = self.standing(partition)
        gap = self.standing_gap(partition)
        replayed = before is not None and before.replaying is not None
        stood = self._asked(partition) if install.requests or replayed else {}
        result = super()._install(install)
        after = self.standing(partition)
        if after is not None and after is not before:
            self.oracle.answered_with(before, install, stood)
            self.oracle.installed(before, install, gap)
        return result

    def _asked(self, partition: Partition) -> dict[RequestId, Request]:
        kept = self._kept.get((GROUP, partition))
        return {} if kept is None else dict(kept.asked)

    def pending(self, partition: Partition) -> set[RequestKind]:
        """Kinds of requests that wait for the owner."""
        return {one.kind for one in self._asked(partition).values() if one.pending}

    def room(self, partition: Partition, kind: RequestKind) -> bool:
        """Whether one more request of this kind would be taken."""
        asked = self._asked(partition).values()
        return sum(one.pending and one.kind is kind for one in asked) < PENDING_MAX

    def standing(self, partition: Partition) -> Checkpoint | None:
        kept = self._kept.get((GROUP, partition))
        return None if kept is None else kept.checkpoint

    def standing_gap(self, partition: Partition) -> Gap | None:
        """The gap that the checkpoint carries, as it holds the partition now."""
        kept = self._kept.get((GROUP, partition))
        if kept is None or kept.checkpoint is None or kept.checkpoint.gap is None:
            return None
        gap = kept.gap(kept.checkpoint.gap)
        return gap if gap is not None and gap.state.holds else None

    def registered(self) -> Registry | None:
        return self._registries.get(GROUP)

    def sizes(self, partition: Partition) -> tuple[int, int, int]:
        """How many receipts, gaps and audit entries are kept of it."""
        kept = self._kept.get((GROUP, partition))
        return (0, 0, 0) if kept is None else (kept.receipts_count, len(kept.gaps), len(kept.audit))


class WatchedFetcher(FakeFetcher):
    """Tells the oracle of every commit."""

    world: World

    def _commit(self, offsets: Mapping[Partition, CommitRequest]) -> dict[Partition, Fault | None]:
        results = super()._commit(offsets)
        for partition, fault in results.items():
            if fault is None:
                request = offsets[partition]
                witness = read_witness(request.metadata, partition, request.next)
                self.world.oracle.committed(partition, request, witness)
        return results


class WatchedLog(FakeLog):
    """Answers now and then from metadata that is old by now."""

    def __init__(self, world: World) -> None:
        super().__init__(world.kafka, GROUP)
        self._world = world

    async def topics(self, names: Collection[str]) -> Mapping[str, Reading[TopicDescription]]:
        answers = await super().topics(names)
        world = self._world
        old = world.old_topic
        if (
            old is not None
            and world.now < world.stale_until
            and TOPIC in answers
            and world.told_from_a_newer_one(old)
        ):
            answers = {**answers, TOPIC: Known(old)}
            world.misled(old)
        return answers

    async def log_ends(
        self, partitions: Collection[Partition]
    ) -> Mapping[Partition, Answer[LogEnd]]:
        answers = await super().log_ends(partitions)
        world = self._world
        if world.stale_ends:
            world.stale_ends -= 1
            answers = {
                p: Known(old) if (old := world.old_end(p)) is not None else answer
                for p, answer in answers.items()
            }
        return answers


@dataclass(slots=True, eq=False)
class Task:
    """A question on its way: `work` goes on from stop to stop."""

    work: Coroutine[Stop, None, m.Event]
    life: Life | None
    until: float = 0.0


@dataclass(slots=True, eq=False)
class Held:
    """A page the application has, and which of its records took effect."""

    offer: PageOffer
    log: Log
    values: list[Value]
    applied: int = 0


@dataclass(slots=True, eq=False)
class Life:
    """One process: an engine, its fetcher, its application."""

    name: str
    engine: Engine
    fetcher: WatchedFetcher
    performer: Performer
    clock: float
    """Seconds by which its monotonic clock is ahead of the world's time."""
    wall: float = 1_000_000.0
    frozen_since: float | None = None
    stalled: bool = False
    """Its monotonic clock stood still once, as in a machine that was suspended."""
    drain: m.RequestId | None = None
    pages: list[Held] = field(default_factory=list)
    reports: dict[m.RequestId, Log] = field(default_factory=dict)
    wanted: dict[m.RequestId, None] = field(default_factory=dict)
    echoes: deque[m.Event] = field(default_factory=lambda: deque(maxlen=ECHOES_MAX))
    requests: int = 0


class World:
    def __init__(self, setup: Setup, *, telling: bool = False) -> None:
        self.setup = setup
        self.policy = setup.policy
        self.dice = Dice()
        self.kafka = FakeKafka()
        self.oracle = Oracle(self.present)
        self.store = WatchedStore(self.oracle)
        self.now = 100.0
        self.steps = 0
        self.lives: list[Life] = []
        self.every: list[Life] = []
        """The dead among them."""
        self.tasks: list[Task] = []
        self.story: list[str] = []
        self.telling = telling
        self.reached: Counter[str] = Counter()
        self.made = 0
        self.snapshot: Snapshot | None = None
        self.open_transaction: Any = None
        self.old_topic: TopicDescription | None = None
        """What a broker that lags behind says of the topic."""
        self.stale_until = 0.0
        self.stale_ends = 0
        self._old_ends: dict[int, tuple[FakePartitionLog, LogEnd]] = {}
        self.kafka.create_topic(TOPIC, setup.partitions, compacted=setup.compacted)
        for _ in range(setup.records):
            self.produce()
        if setup.adopted:
            for index in range(setup.partitions):
                to = min(setup.adopted, self.kafka.log(TOPIC, index).end)
                self.kafka.reset_offset(GROUP, Partition(TOPIC, index), to)
        for _ in range(setup.sidecars):
            self.start()

    # Telling

    def tell(self, text: str) -> None:
        if self.telling:
            self.story.append(f"{self.steps:5d} t={self.now:7.2f} {text}")

    # Lives

    def start(self, policy: Policy | None = None) -> Life:
        self.made += 1
        name = f"s{self.made}"
        fetcher = WatchedFetcher(
            self.kafka,
            GROUP,
            [TOPIC],
            records_max=5,
            isolation=(policy or self.policy).isolation,
        )
        fetcher.world = self
        engine = Engine(policy or self.policy, name=name)
        performer = Performer(
            policy or self.policy,
            store_name=StoreId(f"store-{name}"),
            log=self.stepped(WatchedLog(self)),
            fetcher=self.stepped(fetcher),  # of which it uses `commit` alone
            store=self.stepped(self.store),
            now=lambda: self.instant(life),
            sleep=self._sleep,
        )
        life = Life(name, engine, fetcher, performer, clock=100.0 * (self.made % 7))

        def sink(events: Sequence[FetchEvent]) -> None:
            for event in events:
                self.give(life, event)

        finish(fetcher.start(sink))
        self.lives.append(life)
        self.every.append(life)
        self.tell(f"{name} starts")
        return life

    def stepped(self, target: Any) -> Any:
        return Stepped(target)

    def _sleep(self, seconds: float) -> Stop:
        return Stop(self.now + seconds)

    def instant(self, life: Life) -> Instant:
        return Instant(self.now + life.clock, self.now + life.wall)

    def kill(self, life: Life) -> None:
        """SIGKILL: its questions may still be on their way."""
        self.tell(f"{life.name} is killed")
        self._ends(life)
        if self.member(life):
            self.kafka.expel(life.fetcher)

    def leaves(self, life: Life) -> None:
        """It was drained, and ends."""
        self.tell(f"{life.name} leaves")
        self._ends(life)
        self.kafka.leave(life.fetcher)

    def _ends(self, life: Life) -> None:
        self.lives.remove(life)
        for task in self.tasks:
            if task.life is life:
                task.life = None

    def member(self, life: Life) -> bool:
        return life.fetcher in self.kafka.group(GROUP).members

    def thaw(self, life: Life) -> None:
        if life.frozen_since is None:
            return
        self.expel_frozen(life)
        life.frozen_since = None
        self.tell(f"{life.name} goes on")

    def expel_frozen(self, life: Life) -> None:
        since = life.frozen_since
        if since is not None and self.now - since >= SESSION_SECONDS and self.member(life):
            self.kafka.expel(life.fetcher)

    def give(self, life: Life, event: m.Event) -> None:
        """One event to one engine, and what it commands."""
        if life not in self.lives:
            return
        self.steps += 1
        if self.telling:
            self.tell(f"{life.name} <- {_short(event)}")
        commands = life.engine.step(event, self.instant(life))
        for command in commands:
            self.perform(life, command)
        self.oracle.stepped(life.name, event, commands, life.engine.cursors)

    def perform(self, life: Life, command: m.Command) -> None:
        if self.telling:
            self.tell(f"{life.name} -> {_short(command)}")
        match command:
            case m.Note():
                pass
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

    # Questions

    def advance_some(self) -> bool:
        """Lets one question go on to its next stop, or brings its answer. False: none can."""
        tasks = self.tasks
        count = len(tasks)
        if not count:
            return False
        first = self.dice.below(count)
        for offset in range(count):
            at = first + offset
            if at >= count:
                at -= count
            task = tasks[at]
            if task.until <= self.now and (task.life is None or task.life.frozen_since is None):
                self.advance(at)
                return True
        return False

    def advance(self, at: int) -> None:
        task = self.tasks[at]
        try:
            task.until = task.work.send(None).until
        except StopIteration as finished:
            last = self.tasks.pop()
            if last is not task:
                self.tasks[at] = last
            if task.life is not None:
                task.life.echoes.append(finished.value)
                self.give(task.life, finished.value)

    def settle(self) -> None:
        """Brings every answer that can be had now, and what follows from it."""
        waiting: list[Task] = []
        turns = 0
        try:
            while self.tasks:
                turns += 1
                if turns > SETTLE_TURNS_MAX:
                    raise Violation("liveness", "one question follows the other without end")
                if self.tasks[-1].until > self.now:
                    waiting.append(self.tasks.pop())
                else:
                    self.advance(len(self.tasks) - 1)
        finally:
            self.tasks += waiting

    def close(self) -> None:
        """Nobody waits for anything any more."""
        for task in self.tasks:
            task.work.close()
        self.tasks.clear()

    # The application

    def request(self, life: Life) -> m.RequestId:
        life.requests += 1
        return m.RequestId(life.requests)

    def want(self, life: Life) -> None:
        number = self.request(life)
        life.wanted[number] = None
        self.give(life, m.PageWanted(number, PageRequest(3, 10_000)))

    def _replied(self, life: Life, reply: m.Reply) -> None:
        answer = reply.answer
        if isinstance(answer, PageOffer):
            life.wanted.pop(reply.request, None)
            checkpoint = life.engine.cursors[answer.partition].checkpoint
            assert checkpoint is not None
            topic_id = checkpoint.identity.topic_id
            assert topic_id is not None
            log = (topic_id, answer.partition.index)
            values = [record[2] for record in answer.records]
            cursor = life.engine.cursors[answer.partition]
            if checkpoint.paused is not None:
                raise Violation("paused_stands", f"{answer.partition}: offered while paused")
            again = checkpoint.replaying if cursor.phase is Phase.REPLAYING else None
            self.oracle.offered(log, answer, values, again, unsure=life.stalled)
            life.pages.append(Held(answer, log, values))
        elif isinstance(answer, ReportAnswer):
            log_ = life.reports.pop(reply.request, None)
            if log_ is not None:
                self.oracle.answered(log_, answer)
        elif isinstance(answer, Refusal):
            life.wanted.pop(reply.request, None)
            life.reports.pop(reply.request, None)
            self.reached[answer.refused] += 1
        elif reply.request == life.drain:
            self.leaves(life)

    def effect(self, held: Held, count: int) -> None:
        """The application makes its effects durable, in order, before it reports."""
        until = min(held.applied + count, len(held.values))
        done = self.oracle.done[held.log]
        for i in range(held.applied, until):
            done[held.offer.offsets[i]].add(held.values[i])
        held.applied = until

    def report(
        self, life: Life, held: Held, report: Report, *, keep: bool = False, waits: bool = False
    ) -> None:
        number = self.request(life)
        life.reports[number] = held.log
        if not keep and held in life.pages:
            life.pages.remove(held)
        self.give(life, m.Reported(number, held.offer.page, report, waits))

    def work(self, life: Life) -> None:
        """One thing an application does: well, badly, in part, twice, or late."""
        if not life.pages:
            if len(life.wanted) < 3:
                self.want(life)
            return
        dice = self.dice
        held = life.pages[dice.below(len(life.pages))]
        size = len(held.values)
        offsets = held.offer.offsets
        what = dice.below(100)
        if what < 60:
            self.effect(held, size)
            keep, waits = dice.chance(10), dice.chance(10)
            self.report(life, held, AllApplied(Outcome.APPLIED), keep=keep, waits=waits)
        elif what < 70:
            self.effect(held, dice.between(0, size))
        elif what < 80 and held.applied:
            through = Offset(offsets[held.applied - 1])
            self.report(life, held, AllApplied(Outcome.APPLIED, through), keep=True)
        elif what < 90:
            self.effect(held, size)
            outcomes = [(Offset(o), dice.choice(_OUTCOMES)) for o in offsets]
            self.report(life, held, Each(outcomes))
        elif what < 95:
            self.report(life, held, Each([(Offset(10**9), Outcome.APPLIED)]), keep=True)
        else:
            life.pages.remove(held)  # it died: with its effect, and without a word

    # People

    def decide(self, life: Life) -> None:
        """Somebody decides a gap: well, badly, or too late."""
        gaps = [c.gap for c in life.engine.cursors.values() if c.gap is not None]
        topic = self.kafka.topics.get(TOPIC)
        if not gaps or topic is None:
            return
        dice = self.dice
        gap = dice.choice(gaps)
        if gap.partition.index >= len(topic.logs):
            return
        log = topic.logs[gap.partition.index]
        somewhere = Offset(dice.between(log.start, log.end))
        fence = self.fence(life, gap) if dice.chance(30) else None
        request = ResolveRequest(
            dice.choice(_RESOLUTIONS),
            "operator",
            "simulated",
            fence=fence,
            resume_at=somewhere if dice.chance(50) else None,
        )
        arguments = resolve_arguments(request)
        self.ask(life, gap.partition, RequestKind.RESOLVE, gap.id, arguments)

    def ask(
        self,
        life: Life,
        partition: Partition,
        kind: RequestKind,
        target: str = "",
        arguments: Fields = MappingProxyType({}),
    ) -> bool:
        """Somebody leaves a request; at times by the owner's own API, which tells it at once.
        Answers whether it was taken."""
        self.made += 1
        name, at = RequestId(f"asked-{self.made}"), self.now + life.wall
        left = Request(
            *(name, GROUP, partition, kind, target, "operator", "simulated", at), arguments
        )
        answer = finish(self.store.leave(left))
        if self.dice.chance(50):
            self.give(life, m.RequestLeft(partition))
        return isinstance(answer, Known)

    def fence(self, life: Life, gap: Gap) -> Offset | None:
        """An end offset, taken now and written into the gap."""
        log = self.kafka.topics[TOPIC].logs[gap.partition.index]
        fence = Offset(log.last_stable)
        taken = fenced(gap, fence=fence, at=self.now + life.wall)
        if taken is None:
            return None
        answer = finish(self.store.update_gap(taken, was=gap))
        return fence if isinstance(answer, Known) and answer.value is not None else None

    # The log

    @property
    def partitions(self) -> Iterator[Partition]:
        topic = self.kafka.topics.get(TOPIC)
        return (Partition(TOPIC, i) for i in range(0 if topic is None else len(topic.logs)))

    def some_partition(self) -> int | None:
        topic = self.kafka.topics.get(TOPIC)
        return None if topic is None else self.dice.below(len(topic.logs))

    def produce(self, index: int | None = None) -> None:
        if index is None:
            index = self.some_partition()
        if index is None:
            return
        self.made += 1
        value = b"%d" % self.made
        offset = self.kafka.produce(TOPIC, index, value)
        self.oracle.owed[self.log_of(index)][offset] = value

    def log_of(self, index: int) -> Log:
        return self.kafka.topics[TOPIC].id, index

    def read_to(self, index: int) -> int:
        """How far any process has read of the topic there is now, dead or alive: what it wrote may
        still arrive."""
        topic_id, _ = self.log_of(index)
        cursors = (life.engine.cursors.get(Partition(TOPIC, index)) for life in self.every)
        return max(
            (
                cursor.hand.proven_to
                for cursor in cursors
                if cursor is not None
                and cursor.hand is not None
                and cursor.checkpoint is not None
                and cursor.checkpoint.identity.topic_id == topic_id
            ),
            default=0,
        )

    def remember_topic(self) -> None:
        """What the cluster says now is what a broker that lags will say for a while."""
        topic = self.kafka.topics.get(TOPIC)
        if topic is not None:
            old = TopicDescription(topic.id, len(topic.logs), topic.compacted)
            if self.told_from_a_newer_one(old):
                self.old_topic = old

    def told_from_a_newer_one(self, old: TopicDescription) -> bool:
        """A topic that came and went between two looks cannot be, once something has begun under
        another: what was never seen may be the one that took its place."""
        registry = self.store.registered()
        if registry is None or old.topic_id == registry.topics[TOPIC].topic_id:
            return True
        return not registry.started and not any(map(self.store.standing, self.partitions))

    def misled(self, old: TopicDescription) -> None:
        """Who is told that the topic is still the one before takes the new one's records for its,
        to within the time that metadata takes to spread."""
        topic = self.kafka.topics.get(TOPIC)
        if old.topic_id is not None and (topic is None or topic.id != old.topic_id):
            for index in range(old.partitions):
                self.oracle.rewritten[old.topic_id, index] = 0

    def remember_end(self, index: int) -> None:
        """What the present leader says is what it will say once it is deposed. Where no epoch is
        pinned yet nobody can tell that it was."""
        if self.store.standing(Partition(TOPIC, index)) is None:
            return
        log = self.kafka.log(TOPIC, index)
        end = LogEnd(Offset(log.end), Offset(log.last_stable), LeaderEpoch(log.epoch))
        self._old_ends[index] = (log, end)

    def old_end(self, partition: Partition) -> LogEnd | None:
        topic = self.kafka.topics.get(TOPIC)
        kept = self._old_ends.get(partition.index)
        if topic is None or kept is None or partition.index >= len(topic.logs):
            return None
        log, end = kept
        return end if topic.logs[partition.index] is log else None

    def present(self, log: Log) -> Collection[int]:
        """Offsets whose records are in the log now."""
        topic = self.kafka.topics.get(TOPIC)
        if topic is None or topic.id != log[0]:
            return ()
        return topic.logs[log[1]].offsets

    # Testimony

    def committed(self) -> dict[Partition, Committed]:
        return self.kafka.group(GROUP).commits

    def witness(self, partition: Partition) -> Witness | None:
        commit = self.committed().get(partition)
        if commit is None:
            return None
        return read_witness(commit.metadata, partition, commit.next)

    def note_forgotten(self) -> None:
        """Testimony was taken away: what nobody testifies to any more, nobody can know."""
        for partition in self.partitions:
            log = self.log_of(partition.index)
            checkpoint, witness = self.store.standing(partition), self.witness(partition)
            if checkpoint is None and witness is None:
                self.oracle.forgotten.add(log)
        # Also of a topic that is gone: its commits went with it.
        for partition in self.oracle.open:
            self.oracle.testified(partition, self.named_gaps(partition))

    def named_gaps(self, partition: Partition) -> set[GapId]:
        """Open gaps that the store or a witness testifies to."""
        gap, witness = self.store.standing_gap(partition), self.witness(partition)
        named = set() if gap is None else {gap.id}
        if witness is not None and witness.gap is not None:
            named.add(witness.gap.id)
        return named

    def store_late(self) -> None:
        """Writes that timed out arrive after all."""
        self.store.deliver_delayed()

    # Time

    def tick(self, life: Life) -> None:
        self.give(life, m.Tick())


_OUTCOMES = (Outcome.APPLIED, Outcome.APPLIED, Outcome.RETRY, Outcome.DROPPED)
_RESOLUTIONS = tuple(Resolution)
READ_UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED


def read_witness(metadata: str | None, partition: Partition, next_: Offset) -> Witness | None:
    read = decode(metadata, group=GROUP, partition=partition, committed=next_)
    return read.witness if isinstance(read, Ours) else None


def finish(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        work.send(None)
    except StopIteration as finished:
        return finished.value
    raise AssertionError("it was not to wait")


_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def _short(value: object) -> str:
    text = _ADDRESS.sub("", str(value))
    return text if len(text) < 300 else text[:300] + "…"


Move: TypeAlias = tuple[str, int]
"""What is to happen, and the number that everything left open in it is drawn from."""
