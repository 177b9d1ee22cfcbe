"""The runtime: carries the engine's commands out, and brings their answers back as events.

One event loop, one engine, steps one at a time. A command that has to wait for a server becomes a
task of its own; whatever it answers is an event again, with the number of its question. Nothing
here decides anything about a cursor.

The runtime is also the desk the HTTP side talks to: a request becomes an event with a number, and
the engine's reply to that number ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar, assert_never, cast

from sidecar.core import gap as gaps
from sidecar.core.checkpoint import Registry
from sidecar.core.enrolment import Create, GroupEvidence, Register
from sidecar.core.evidence import Evidence
from sidecar.core.facts import (
    CaughtUp,
    DependencyChanged,
    Fact,
    GapChanged,
    GapOpened,
    PartitionsAssigned,
    PartitionsRevoked,
    StateChanged,
    StoreJudged,
)
from sidecar.core.faults import (
    Answer,
    Component,
    Fault,
    FaultKind,
    Known,
    Reading,
    Unreadable,
)
from sidecar.core.gap import Gap, GapState
from sidecar.core.policy import Policy
from sidecar.core.types import (
    ClusterId,
    GapId,
    GroupId,
    HoldId,
    Instant,
    Json,
    Offset,
    PageId,
    Partition,
    StoreId,
)
from sidecar.core.views import (
    DependencyView,
    HoldView,
    Notice,
    PageOffer,
    PageRequest,
    PartitionView,
    Refusal,
    Refused,
    Report,
    ReportAnswer,
    ResolveRequest,
    StatusView,
)
from sidecar.engine import Engine
from sidecar.engine import messages as m
from sidecar.errors import Fenced
from sidecar.ports import (
    CheckpointStore,
    ClientFaulted,
    Fetcher,
    FetchEvent,
    Log,
    MemberChanged,
    Recorder,
)

TICK_SECONDS = 0.1
HEALTH_SECONDS = 1.0
GAPS_SECONDS = 2.0
NOTICES_KEPT = 1024

T = TypeVar("T")


class Clock(Protocol):
    def now(self) -> Instant: ...


class Runtime:
    """`fatal` is set when the process must end: a broken invariant, or a fenced identity."""

    def __init__(
        self,
        policy: Policy,
        *,
        name: str,
        store_name: StoreId,
        log: Log,
        fetcher: Fetcher,
        store: CheckpointStore,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self.engine = Engine(policy, name=name)
        self.policy = policy
        self.fatal: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.cluster: ClusterId | None = None
        self.open_gaps: Sequence[Gap] | None = None
        """Open gaps of the whole group as last read; None before the first reading."""
        self._group: GroupId = policy.group
        self._store_name = store_name
        self._registry_store: StoreId | None = None
        self._log = log
        self._fetcher = fetcher
        self._store = store
        self._recorder = recorder
        self._clock = clock
        self._events: deque[m.Event] = deque()
        self._stepping = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests: dict[m.RequestId, asyncio.Future[object]] = {}
        self._request_count = 0
        self._joined = False
        self._store_refused: str | None = None
        self._store_fault: Fault | None = None
        self._store_seen = False
        self._kafka_fault: Fault | None = None
        self._kafka_seen = False
        self._since: dict[Component, float] = {}
        self._notices: deque[Notice] = deque(maxlen=NOTICES_KEPT)
        self._notice_count = 0
        self._noticed = asyncio.Event()
        self._closing = False

    # Life

    def start(self) -> None:
        """Begins to tick and to look for the servers; waits for none of them."""
        now = self._clock.now().wall
        self._since = {Component.KAFKA: now, Component.REDIS: now}
        self._spawn(self._ticks())
        self._spawn(self._join())
        self._spawn(self._watch_store())
        self._spawn(self._watch_gaps())

    async def stop(self, deadline_seconds: float, *, flush: bool) -> None:
        """Takes outcomes that are in flight, flushes commits, leaves the group: all within the
        deadline, also when nobody answers. Without `flush` nothing more is written."""
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline_seconds
        if flush:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.drain(), max(0.1, deadline_seconds * 0.7))
        if self._joined:
            await self._fetcher.close(max(0.1, end - loop.time() - 0.2))
        self._closing = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._store.close()

    async def _ticks(self) -> None:
        while not self._closing:
            await asyncio.sleep(TICK_SECONDS)
            self.post(m.Tick())

    async def _join(self) -> None:
        """Joins the group once the store may be used; a store that evicts is never used."""
        while not self._closing:
            await self._look_at_store()
            if self._store_seen and self._store_refused is None and self._store_fault is None:
                await self._fetcher.start(self._take_fetched)
                self._joined = True
                return
            await asyncio.sleep(HEALTH_SECONDS)

    async def _watch_store(self) -> None:
        while not self._closing:
            await asyncio.sleep(HEALTH_SECONDS)
            if self._joined:
                await self._look_at_store()

    async def _look_at_store(self) -> None:
        health = await self._store.health()
        if isinstance(health, Unreadable):
            self._component(Component.REDIS, health.fault)
            return
        self._component(Component.REDIS, None)
        refused = health.value.refused
        if not self._store_seen or refused != self._store_refused:
            self._record(StoreJudged(refused, health.value.warnings))
        self._store_seen = True
        self._store_refused = refused

    async def _watch_gaps(self) -> None:
        while not self._closing:
            answer = await self._store.gaps(self._group)
            if isinstance(answer, Known):
                self.open_gaps = [gap for gap in answer.value if gap.state.holds]
            await asyncio.sleep(GAPS_SECONDS)

    def _component(self, component: Component, fault: Fault | None) -> None:
        """Notes a dependency's change, once."""
        kafka = component is Component.KAFKA
        before = self._kafka_fault if kafka else self._store_fault
        seen = self._kafka_seen if kafka else self._store_seen
        if kafka:
            self._kafka_fault, self._kafka_seen = fault, self._kafka_seen or fault is None
        else:
            self._store_fault = fault
        changed = (before is None) != (fault is None) or (
            fault is not None and not seen and before is None
        )
        if changed or (not seen and fault is None):
            self._since[component] = self._clock.now().wall
            self._record(
                DependencyChanged(
                    component.value,
                    fault is None,
                    None if fault is None else fault.kind.value,
                    None if fault is None else fault.detail,
                )
            )

    def why_dead(self) -> str | None:
        """Why this process should be restarted; None while it should not."""
        if not self.fatal.done():
            return None
        return type(self.fatal.result()).__name__

    # Steps

    def post(self, event: m.Event) -> None:
        """One step of the engine, and the commands it asks for. Re-entrant calls queue up."""
        self._events.append(event)
        if self._stepping:
            return
        self._stepping = True
        try:
            while self._events:
                now = self._clock.now()
                for command in self.engine.step(self._events.popleft(), now):
                    self._perform(command)
        except Exception as error:
            self.fail(error)
        finally:
            self._stepping = False

    def fail(self, why: BaseException) -> None:
        """The process must end. The first reason stands."""
        if not self.fatal.done():
            self.fatal.set_result(why)

    def _take_fetched(self, events: Sequence[FetchEvent]) -> None:
        for event in events:
            if isinstance(event, ClientFaulted):
                self._component(Component.KAFKA, event.fault)
            elif isinstance(event, MemberChanged) and event.fenced is not None:
                self.fail(Fenced(event.fenced))
            self.post(event)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def _perform(self, command: m.Command) -> None:  # one row for each command
        match command:
            case m.Note(fact):
                self._record(fact)
            case m.Reply():
                self._reply(command)
            case m.PerformInstall():
                self._spawn(self._install(command))
            case m.Look():
                self._spawn(self._look(command))
            case m.AskFloors():
                self._spawn(self._ask_floors(command))
            case m.AskBounds():
                self._spawn(self._ask_bounds(command))
            case m.AskTopics():
                self._spawn(self._ask_topics(command))
            case m.AskOwners():
                self._spawn(self._ask_owners(command))
            case m.Commit():
                self._spawn(self._commit(command))
            case m.ReadMemory():
                self._spawn(self._read_memory(command))
            case m.GatherGroup():
                self._spawn(self._gather_group(command))
            case m.WriteRegistry():
                self._spawn(self._write_registry(command))
            case m.MarkStarted():
                self._spawn(self._mark_started(command))
            case m.Fetch():
                self._fetcher.assign(command.partition, command.session, command.at, command.epoch)
            case m.Release():
                self._fetcher.release(command.partition)
            case m.Pause():
                self._fetcher.pause(command.partition)
            case m.Resume():
                self._fetcher.resume(command.partition)
            case m.Throttle():
                self._fetcher.throttle(command.full)
            case m.FinishRevoke():
                command.answer(command.offsets)
            case _:
                assert_never(command)

    # Commands that wait for a server

    async def _install(self, command: m.PerformInstall) -> None:
        if command.after_seconds:
            await asyncio.sleep(command.after_seconds)
        asked_at = self._clock.now().monotonic
        result = await self._store.install(command.install)
        self.post(m.InstallAnswered(command.install, result, asked_at))

    async def _look(self, command: m.Look) -> None:
        """The order of these questions is part of the argument: see `core.evidence`."""
        partitions = list(command.cues)
        asked_at = self._clock.now().wall
        cluster = await self._log.cluster_id()
        committed = await self._log.committed(partitions)
        stored = await self._store.read(self._group, partitions)
        registry = await self._read_registry()
        names = sorted({p.topic for p in partitions})
        topics = await self._log.topics(names)
        ends = await self._log.log_ends(partitions)
        starts = await self._log.log_starts(partitions)
        if isinstance(cluster, Known):
            self.cluster = cluster.value
            if not self._kafka_seen:
                self._component(Component.KAFKA, None)
        evidence = {}
        for partition, cue in command.cues.items():
            evidence[partition] = Evidence(
                group=self._group,
                partition=partition,
                isolation=self.policy.isolation,
                cue=cue,
                cluster_id=cluster,
                committed=committed[partition],
                stored=stored[partition],
                registry=registry,
                topic=topics[partition.topic],
                log_end=ends[partition],
                log_start=starts[partition],
                asked_at=asked_at,
                fetched_to=command.fetched_to.get(partition),
            )
        self.post(m.Looked(command.ask, evidence))

    async def _read_registry(self) -> Reading[Registry]:
        registry = await self._store.registry(self._group)
        if isinstance(registry, Known):
            self._registry_store = registry.value.store
        return registry

    async def _gather_group(self, command: m.GatherGroup) -> None:
        registry = await self._read_registry()
        committed = await self._log.committed_in_group()
        topics = await self._log.topics(command.topics)
        partitions = [
            Partition(name, index)
            for name, reading in topics.items()
            if isinstance(reading, Known)
            for index in range(reading.value.partitions)
        ]
        ends = await self._log.log_ends(partitions)
        starts = await self._log.log_starts(partitions)
        evidence = GroupEvidence(
            group=self._group,
            registry=registry,
            store=self._store_name,
            committed=committed,
            topics=topics,
            log_ends=ends,
            log_starts=starts,
            asked_at=self._clock.now().wall,
        )
        self.post(m.GroupGathered(command.ask, evidence))

    async def _write_registry(self, command: m.WriteRegistry) -> None:
        answer: Answer[Registry]
        match command.enrolment:
            case Create(registry):
                answer = await self._store.create_registry(registry)
            case Register(store, topics, baselines):
                answer = await self._store.register(self._group, store, topics, baselines)
            case _:
                assert_never(command.enrolment)
        if isinstance(answer, Known):
            self._registry_store = answer.value.store
        self.post(m.RegistryWritten(command.ask, answer))

    async def _read_memory(self, command: m.ReadMemory) -> None:
        answer = await self._store.memory(self._group, command.partition, command.receipts_min)
        self.post(m.MemoryRead(command.ask, command.partition, answer))

    async def _mark_started(self, command: m.MarkStarted) -> None:
        fault: Fault | None
        if self._registry_store is None:
            fault = Fault(
                Component.REDIS, FaultKind.UNAVAILABLE, "NO_REGISTRY", "the registry was not read"
            )
        else:
            fault = await self._store.mark_started(
                self._group, self._registry_store, command.partitions
            )
        self.post(m.StartedMarked(command.ask, command.partitions, fault))

    async def _ask_floors(self, command: m.AskFloors) -> None:
        floors = await self._log.log_starts(command.partitions)
        self.post(m.FloorsAnswered(command.ask, floors))

    async def _ask_bounds(self, command: m.AskBounds) -> None:
        ends = await self._log.log_ends(command.partitions)
        starts = await self._log.log_starts(command.partitions)
        self.post(m.BoundsAnswered(command.ask, ends, starts))

    async def _ask_topics(self, command: m.AskTopics) -> None:
        self.post(m.TopicsAnswered(command.ask, await self._log.topics(command.names)))

    async def _ask_owners(self, command: m.AskOwners) -> None:
        asked_at = self._clock.now().monotonic
        marks = await self._store.watch(self._group, command.partitions)
        self.post(m.OwnersAnswered(command.ask, marks, asked_at))

    async def _commit(self, command: m.Commit) -> None:
        results = await self._fetcher.commit(command.offsets)
        self.post(m.Committed(command.ask, results))

    # The desk

    def _request(self, event: Callable[[m.RequestId], m.Event]) -> asyncio.Future[object]:
        self._request_count += 1
        number = m.RequestId(self._request_count)
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._requests[number] = future
        future.add_done_callback(lambda done: self._answered(number, done))
        self.post(event(number))
        return future

    def _answered(self, number: m.RequestId, future: asyncio.Future[object]) -> None:
        if self._requests.pop(number, None) is not None and future.cancelled():
            self.post(m.RequestDropped(number))

    def _reply(self, command: m.Reply) -> None:
        future = self._requests.pop(command.request, None)
        if future is not None and not future.done():
            future.set_result(command.answer)

    async def take_page(
        self, request: PageRequest, wait_seconds: float
    ) -> PageOffer | Refusal | None:
        future = self._request(lambda number: m.PageWanted(number, request))
        try:
            answer = await asyncio.wait_for(future, max(wait_seconds, 0.0) or 0.001)
        except TimeoutError:
            return None
        return cast("PageOffer | Refusal | None", answer)

    async def report(
        self, page: PageId, report: Report, *, wait_committed: bool
    ) -> ReportAnswer | Refusal:
        answer = await self._request(
            lambda number: m.Reported(number, page, report, wait_committed)
        )
        return cast("ReportAnswer | Refusal", answer)

    def status(self) -> StatusView:
        reasons: list[str] = []
        if self._store_refused is not None:
            reasons.append(self._store_refused)
        for component, fault, seen in (
            (Component.REDIS, self._store_fault, self._store_seen),
            (
                Component.KAFKA,
                self._kafka_fault,
                self._kafka_seen or self.engine.member is not None,
            ),
        ):
            if fault is not None:
                reasons.append(f"{component.value}: {fault.detail}")
            elif not seen:
                reasons.append(f"{component.value}: not reached yet")
        if self._joined and self.engine.member is None and not reasons:
            reasons.append("kafka: the group is not joined yet")
        return StatusView(
            ready=not reasons,
            reasons=tuple(reasons),
            group=self._group,
            member=self.engine.member,
            cluster_id=self.cluster,
            assigned=len(self.engine.cursors),
            dependencies={
                "kafka": self._dependency(Component.KAFKA, self._kafka_fault),
                "redis": self._dependency(Component.REDIS, self._store_fault),
            },
        )

    def _dependency(self, component: Component, fault: Fault | None) -> DependencyView:
        if component is Component.KAFKA:
            seen = self._kafka_seen or self.engine.member is not None
        else:
            seen = self._store_seen
        return DependencyView(
            up=fault is None and seen,
            since=self._since.get(component, 0.0),
            reason=None if fault is None else fault.kind.value,
            detail=None if fault is None else fault.detail,
        )

    def partitions(self) -> Sequence[PartitionView]:
        return self.engine.views()

    async def gaps(self) -> Sequence[Gap] | Refusal:
        answer = await self._store.gaps(self._group)
        if isinstance(answer, Unreadable):
            return Refusal(Refused.STORE_UNAVAILABLE, answer.fault.detail, 1.0)
        return answer.value

    async def _gap(self, gap_id: GapId) -> Gap | Refusal:
        known = await self.gaps()
        if isinstance(known, Refusal):
            return known
        for gap in known:
            if gap.id == gap_id:
                return gap
        return Refusal(Refused.GAP_UNKNOWN, "no such gap; list the gaps again")

    async def _update(self, was: Gap, gap: Gap | None) -> Gap | Refusal:
        changed = Refusal(Refused.GAP_CHANGED, "the gap is another by now; look at it again")
        if gap is None:
            return changed
        answer = await self._store.update_gap(gap, was=was)
        if isinstance(answer, Unreadable):
            return Refusal(Refused.STORE_UNAVAILABLE, answer.fault.detail, 1.0)
        if answer.value is None:
            return changed
        self.post(m.GapUpdated(answer.value))
        return answer.value

    async def acknowledge(self, gap: GapId, *, by: str, why: str) -> Gap | Refusal:
        was = await self._gap(gap)
        if isinstance(was, Refusal):
            return was
        at = self._clock.now().wall
        return await self._update(was, gaps.acknowledge(was, by=by, why=why, at=at))

    async def fence(self, gap: GapId) -> Offset | Refusal:
        was = await self._gap(gap)
        if isinstance(was, Refusal):
            return was
        answer = (await self._log.log_ends([was.partition]))[was.partition]
        if isinstance(answer, Unreadable):
            return Refusal(Refused.EVIDENCE_UNAVAILABLE, answer.fault.detail, 1.0)
        at = self._clock.now().wall
        fence = answer.value.last_stable
        updated = await self._update(was, gaps.fenced(was, fence=fence, at=at))
        return updated if isinstance(updated, Refusal) else fence

    async def resolve(self, gap: GapId, request: ResolveRequest) -> Gap | Refusal:
        answer = await self._request(lambda number: m.ResolveAsked(number, gap, request))
        return cast("Gap | Refusal", answer)

    def holds(self) -> Sequence[HoldView]:
        return self.engine.holds()

    async def answer(self, hold: HoldId, answer: str, *, by: str, why: str) -> HoldView | Refusal:
        replied = await self._request(lambda number: m.HoldAnswered(number, hold, answer, by, why))
        return cast("HoldView | Refusal", replied)

    async def drain(self) -> None:
        await self._request(m.DrainAsked)

    # Facts and notices

    def _record(self, fact: Fact) -> None:
        self._recorder.record(fact)
        named = _notice(fact)
        if named is not None:
            name, fields = named
            self._notice_count += 1
            notice = Notice(self._notice_count, name, self._clock.now().wall, fields)
            self._notices.append(notice)
            self._noticed.set()
            self._noticed = asyncio.Event()

    async def notices(self, after: int | None) -> AsyncIterator[Notice]:
        last = self._notice_count if after is None else after
        while True:
            waiting = self._noticed
            for notice in list(self._notices):
                if notice.id > last:
                    last = notice.id
                    yield notice
            if self._notice_count == last or not self._notices:
                await waiting.wait()


def _notice(fact: Fact) -> tuple[str, Mapping[str, Json]] | None:
    """The few facts an application is told of as they happen."""
    match fact:
        case GapOpened(gap):
            return "gap_opened", _gap_fields(gap)
        case GapChanged(gap) if gap.state is GapState.RESOLVED:
            return "gap_resolved", _gap_fields(gap)
        case CaughtUp(partition, position):
            return "caught_up", {**_named(partition), "position": position}
        case StateChanged(partition, state, reason, detail):
            return "state_changed", {
                **_named(partition),
                "state": state.value,
                "reason": None if reason is None else reason.value,
                "detail": detail,
            }
        case PartitionsAssigned(partitions):
            return "assigned", {"partitions": _all_named(partitions)}
        case PartitionsRevoked(partitions, lost):
            return "revoked", {"partitions": _all_named(partitions), "lost": lost}
        case _:
            return None


def _named(partition: Partition) -> dict[str, Json]:
    return {"topic": partition.topic, "partition": partition.index}


def _all_named(partitions: Collection[Partition]) -> list[Json]:
    return [_named(partition) for partition in partitions]


def _gap_fields(gap: Gap) -> dict[str, Json]:
    resolution = gap.resolution
    return {
        **_named(gap.partition),
        "id": gap.id,
        "reason": gap.reason.value,
        "state": gap.state.value,
        "first": gap.interval.first,
        "end": gap.interval.end,
        "resolution": None if resolution is None else resolution.resolution.value,
    }
