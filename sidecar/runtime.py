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
from dataclasses import replace
from typing import Any, Protocol, TypeVar, cast

from sidecar.core import gap as gaps
from sidecar.core.facts import (
    CaughtUp,
    DependencyChanged,
    Fact,
    FaultMet,
    GapChanged,
    GapOpened,
    PartitionsAssigned,
    PartitionsRevoked,
    RequestSettled,
    StateChanged,
    StoreJudged,
)
from sidecar.core.faults import (
    Component,
    Fault,
    FaultKind,
    Known,
    Unreadable,
)
from sidecar.core.gap import Gap, GapState
from sidecar.core.policy import Policy
from sidecar.core.request import Request, RequestId, RequestKind, resolve_arguments
from sidecar.core.types import (
    ClusterId,
    Fields,
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
from sidecar.performer import Performer, Question
from sidecar.ports import (
    CheckpointStore,
    ClientFaulted,
    Fetcher,
    FetchEvent,
    Log,
    MemberChanged,
    Recorder,
    Revoked,
)

TICK_SECONDS = 0.1
HEALTH_SECONDS = 1.0
GAPS_SECONDS = 2.0
NOTICES_KEPT = 1024
SETTLE_SECONDS = 15.0
"""How long whoever leaves a request waits for its answer; it is executed later, too."""
SETTLE_LOOK_SECONDS = 0.25

T = TypeVar("T")


class Clock(Protocol):
    def now(self) -> Instant: ...


class Runtime:
    """`fatal` is set when the process must end: a broken invariant, or a fenced identity."""

    def __init__(
        self,
        policy: Policy,
        *,
        engine: Engine,
        store_name: StoreId,
        log: Log,
        fetcher: Fetcher,
        store: CheckpointStore,
        recorder: Recorder,
        clock: Clock,
        topics: Collection[str] = (),
    ) -> None:
        """`topics`: those that are subscribed to by name."""
        self.engine = engine
        self.policy = policy
        self.fatal: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.cluster: ClusterId | None = None
        self.open_gaps: Sequence[Gap] | None = None
        """Open gaps of the whole group as last read; None before the first reading. While the store
        cannot be read they stand: a gap does not close because nobody can ask for it."""
        self._group: GroupId = policy.group
        self._performer = Performer(
            policy,
            store_name=store_name,
            log=log,
            fetcher=fetcher,
            store=store,
            now=clock.now,
            sleep=asyncio.sleep,
        )
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
        self._settling: dict[RequestId, asyncio.Future[Request]] = {}
        self._joined = False
        self._store_refused: str | None = None
        self._store_fault: Fault | None = None
        self._store_seen = False
        self._store_judged: StoreJudged | None = None
        self._kafka_fault: Fault | None = None
        self._client_fault: Fault | None = None
        self._topics_denied: Fault | None = None
        self._kafka_seen = False
        self._topics = tuple(topics)
        self._topic_faults: tuple[str, ...] = ()
        self._since: dict[Component, float] = {}
        self._notices: deque[Notice] = deque(maxlen=NOTICES_KEPT)
        self._notice_count = 0
        self._noticed = asyncio.Event()
        self._closing = False
        self._draining = False

    # Life

    def start(self) -> None:
        """Begins to tick and to look for the servers; waits for none of them."""
        now = self._clock.now().wall
        self._since = {Component.KAFKA: now, Component.REDIS: now}
        self._spawn(self._ticks())
        self._spawn(self._join())
        self._spawn(self._watch_store())
        self._spawn(self._watch_group())
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

    async def _watch_group(self) -> None:
        """While the group is not joined: is a broker there at all? And of which we hold nothing:
        are the topics there, and ours to read? A client whose topics are missing never joins, and
        of one that it may not read it holds nothing; it says why after a minute, if at all."""
        missing: set[str] = set()
        while not self._closing:
            await asyncio.sleep(HEALTH_SECONDS)
            if not self._joined:
                continue
            member = self.engine.member is not None
            if not member:
                cluster = await self._log.cluster_id()
                if not isinstance(cluster, Known):
                    continue
                self.cluster = cluster.value
                if not self._kafka_seen and self._kafka_fault is None:
                    self._component(Component.KAFKA, None)
            held = {partition.topic for partition in self.engine.cursors}
            described = await self._log.topics([n for n in self._topics if n not in held])
            faults = {
                name: reading.fault
                for name, reading in described.items()
                if isinstance(reading, Unreadable) and not reading.fault.transient
            }
            self._topic_faults = (
                () if member else tuple(f"{n}: {f.detail}" for n, f in faults.items())
            )
            if well := missing.difference(faults):
                self._fetcher.topics_well(well)
            for name in faults.keys() - missing:
                # The client says so half a minute later, and a missing right by itself.
                if (fault := faults[name]).kind is FaultKind.TOPIC_UNKNOWN:
                    self.tell(FaultMet(replace(fault, detail=f"{name}: {fault.detail}"), None))
            missing = set(faults)
            self._topics_denied = next((f for f in faults.values() if f.denied), None)
            self._saw_client()

    def _saw_client(self) -> None:
        """What the client says of itself comes before what it may not read."""
        fault = self._client_fault or self._topics_denied
        if fault is not None or self._kafka_fault is not None:
            self._component(Component.KAFKA, fault)

    async def _look_at_store(self) -> None:
        health = await self._store.health()
        if isinstance(health, Unreadable):
            self._component(Component.REDIS, health.fault)
            return
        self._component(Component.REDIS, None)
        judged = StoreJudged(health.value.refused, health.value.warnings)
        if judged != self._store_judged:
            self.tell(judged)
            self.post(m.StoreRefused(judged.refused))
        self._store_judged = judged
        self._store_seen = True
        self._store_refused = judged.refused

    async def _watch_gaps(self) -> None:
        denied: Fault | None = None
        while not self._closing:
            answer = await self._store.gaps(self._group)
            if isinstance(answer, Known):
                self.open_gaps = [gap for gap in answer.value if gap.state.holds]
                denied = None
            elif answer.fault.denied and answer.fault != denied:
                # Whatever else is granted, the gaps that are shown are old from here on.
                denied = answer.fault
                self.tell(FaultMet(denied, None))
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
            self.tell(
                DependencyChanged(
                    component.value,
                    fault is None,
                    None if fault is None else fault.kind.value,
                    None if fault is None else fault.detail,
                    None if fault is None else fault.code,
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
        if self.fatal.done():
            # Fail-stop: the state is one it cannot have, so nothing is decided from it any more.
            if isinstance(event, Revoked):
                event.answer({})
            return
        self._events.append(event)
        if self._stepping:
            return
        self._stepping = True
        try:
            while self._events and not self.fatal.done():
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
                self._client_fault = event.fault
                self._saw_client()
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
                self.tell(fact)
            case m.Reply():
                self._reply(command)
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
                self._spawn(self._answer(command))

    async def _answer(self, question: Question) -> None:
        event = await self._performer.answer(question)
        if isinstance(event, m.Looked):
            self._saw_kafka(event)
        self.post(event)

    def _saw_kafka(self, looked: m.Looked) -> None:
        """A look that names the cluster has reached it."""
        for evidence in looked.evidence.values():
            if isinstance(evidence.cluster_id, Known):
                self.cluster = evidence.cluster_id.value
                if not self._kafka_seen:
                    self._component(Component.KAFKA, None)
            return

    # The desk

    def _request(self, event: Callable[[m.RequestId], m.Event]) -> asyncio.Future[object]:
        self._request_count += 1
        number = m.RequestId(self._request_count)
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._requests[number] = future
        if self.fatal.done():
            future.set_result(Refusal(Refused.DRAINING, "the sidecar is ending"))
            return future
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
        reasons: list[str] = ["draining: no more pages are handed out"] if self._draining else []
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
            why = "".join(f"; {fault}" for fault in self._topic_faults)
            reasons.append(f"kafka: the group is not joined yet{why}")
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
        return self.engine.views(self._clock.now())

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
        self.post(m.RequestLeft(gap.partition))
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
        fence = answer.value.readable(self.policy.isolation)
        updated = await self._update(was, gaps.fenced(was, fence=fence, at=at))
        return updated if isinstance(updated, Refusal) else fence

    async def resolve(self, gap: GapId, request: ResolveRequest) -> Gap | Refusal:
        known = await self._gap(gap)
        if isinstance(known, Refusal):
            return known
        if not known.state.holds:
            return Refusal(Refused.GAP_CHANGED, _decided(known))
        settled = await self._ask(
            known.partition,
            RequestKind.RESOLVE,
            gap,
            by=request.by,
            why=request.why,
            arguments=resolve_arguments(request),
        )
        return settled if isinstance(settled, Refusal) else await self._gap(gap)

    def holds(self) -> Sequence[HoldView]:
        return self.engine.holds()

    async def answer(self, hold: HoldId, answer: str, *, by: str, why: str) -> HoldView | Refusal:
        view = next((view for view in self.engine.holds() if view.id == hold), None)
        if view is None:
            return Refusal(
                Refused.HOLD_UNKNOWN,
                "no such hold of a partition that is assigned here; list the holds again",
            )
        if answer not in view.answers:
            allowed = ", ".join(view.answers) or f"none: {view.mends}"
            return Refusal(Refused.ANSWER_IMPOSSIBLE, f"permitted answers: {allowed}")
        settled = await self._ask(
            view.partition, RequestKind.ANSWER, hold, by=by, why=why, arguments={"answer": answer}
        )
        return settled if isinstance(settled, Refusal) else view

    async def _ask(
        self,
        partition: Partition,
        kind: RequestKind,
        target: str,
        *,
        by: str,
        why: str,
        arguments: Fields,
    ) -> Request | Refusal:
        """Leaves a request, and waits until its owner, who need not be we, has settled it."""
        self._request_count += 1
        name = RequestId(f"{self.engine.context.name}-request{self._request_count}")
        at = self._clock.now().wall
        request = Request(name, self._group, partition, kind, target, by, why, at, arguments)
        settled = self._settling[name] = asyncio.get_running_loop().create_future()
        try:
            left = await self._store.leave(request)
            if isinstance(left, Unreadable) and left.fault.transient:
                left = await self._store.leave(request)  # it is left once, however often it is sent
            if isinstance(left, Unreadable):
                return Refusal(Refused.STORE_UNAVAILABLE, left.fault.detail, 1.0)
            self.post(m.RequestLeft(partition))
            return await self._settled(request, settled)
        finally:
            del self._settling[name]

    async def _settled(self, request: Request, ours: asyncio.Future[Request]) -> Request | Refusal:
        loop = asyncio.get_running_loop()
        end = loop.time() + SETTLE_SECONDS
        while loop.time() < end and not self.fatal.done() and not self._draining:
            await asyncio.wait([ours], timeout=SETTLE_LOOK_SECONDS)
            if ours.done():
                return ours.result().refusal or ours.result()
            if request.partition not in self.engine.cursors:
                answer = (await self._store.requests(self._group, [request.partition]))[
                    request.partition
                ]
                found = answer.value if isinstance(answer, Known) else ()
                for one in found:
                    if one.id == request.id and not one.pending:
                        return one.refusal or one
        return Refusal(
            Refused.REQUEST_PENDING,
            f"kept as {request.id}, and not executed yet: whoever has the partition will; look at "
            "it again rather than ask again",
        )

    async def drain(self) -> None:
        self._draining = True
        await self._request(m.DrainAsked)

    # Facts and notices

    def tell(self, fact: Fact) -> None:
        """To telemetry, and to whoever listens for notices."""
        self._recorder.record(fact)
        if isinstance(fact, RequestSettled):
            waiting = self._settling.get(fact.request.id)
            if waiting is not None and not waiting.done():
                waiting.set_result(fact.request)
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
        if last > self._notice_count:
            # An id of an earlier process: nobody knows what was missed, so all that is kept.
            last = 0
        while True:
            waiting = self._noticed
            fresh = [notice for notice in self._notices if notice.id > last]
            for notice in fresh:
                last = notice.id
                yield notice
            if not fresh:
                await waiting.wait()


def _decided(gap: Gap) -> str:
    decision = gap.resolution
    if decision is None:
        return f"the gap is {gap.state} already"
    return f"the gap is resolved already: {decision.resolution}, by {decision.by}"


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
