"""Carries out one command of the engine's that has to wait for a server, and brings its answer.

Apart from the runtime, because the simulator performs the same commands with the same code, on
fakes and on its own idea of time: where one question of a look is answered and the next is not yet
asked, anything may happen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import TypeAlias, assert_never

from sidecar.core.checkpoint import Registry
from sidecar.core.enrolment import Create, GroupEvidence, Register
from sidecar.core.evidence import Committed, Cue, Evidence, LogEnd, TopicDescription
from sidecar.core.faults import Absent, Answer, Known, Reading, Unreadable
from sidecar.core.policy import Policy
from sidecar.core.types import Instant, Offset, Partition, StoreId
from sidecar.engine import messages as m
from sidecar.ports import CheckpointStore, Fetcher, Log

Question: TypeAlias = (
    m.PerformInstall
    | m.Look
    | m.AskFloors
    | m.AskBounds
    | m.AskRetention
    | m.AskTopics
    | m.AskOwners
    | m.AnswerRequest
    | m.AskCommitted
    | m.Commit
    | m.ReadMemory
    | m.GatherGroup
    | m.WriteRegistry
    | m.MarkStarted
)
"""Commands that are answered by an event."""

NOTHING_FETCHED: Mapping[Partition, Offset] = MappingProxyType({})


async def look(
    policy: Policy,
    log: Log,
    store: CheckpointStore,
    cues: Mapping[Partition, Cue],
    *,
    asked_at: float,
    fetched_to: Mapping[Partition, Offset] = NOTHING_FETCHED,
) -> Mapping[Partition, Evidence]:
    """Evidence, asked now: of the engine's looks, and of the commands that work without one.

    The order of these questions is part of the argument: see `core.evidence`.
    """
    partitions = list(cues)
    names = sorted({p.topic for p in partitions})
    cluster = await log.cluster_id()
    # A cluster that does not even say its name says nothing more: each further question would only
    # wait for its bound, and the verdict, and the end of the fault, with it.
    mute = cluster if isinstance(cluster, Unreadable) else None
    committed: Mapping[Partition, Reading[Committed]] = (
        dict.fromkeys(partitions, mute) if mute else await log.committed(partitions)
    )
    registry = await store.registry(policy.group)
    stored = await store.read(policy.group, partitions)
    store_epoch = await store.life()
    topics: Mapping[str, Reading[TopicDescription]] = (
        dict.fromkeys(names, mute) if mute else await log.topics(names)
    )
    ends: Mapping[Partition, Answer[LogEnd]] = (
        dict.fromkeys(partitions, mute) if mute else await log.log_ends(partitions)
    )
    starts: Mapping[Partition, Answer[Offset]] = (
        dict.fromkeys(partitions, mute) if mute else await log.log_starts(partitions)
    )
    return {
        partition: Evidence(
            group=policy.group,
            partition=partition,
            isolation=policy.isolation,
            cue=cue,
            cluster_id=cluster,
            committed=committed[partition],
            stored=stored[partition],
            registry=registry,
            topic=topics[partition.topic],
            log_end=ends[partition],
            log_start=starts[partition],
            asked_at=asked_at,
            fetched_to=fetched_to.get(partition),
            store_epoch=store_epoch,
        )
        for partition, cue in cues.items()
    }


async def gather_group(
    policy: Policy,
    log: Log,
    store: CheckpointStore,
    names: Collection[str],
    *,
    store_name: StoreId,
    asked_at: float,
) -> GroupEvidence:
    """What a group's registry is made of, asked now."""
    registry = await store.registry(policy.group)
    committed = await log.committed_in_group()
    topics = await log.topics(names)
    partitions = [
        Partition(name, index)
        for name, reading in topics.items()
        if isinstance(reading, Known)
        for index in range(reading.value.partitions)
    ]
    ends = await log.log_ends(partitions)
    starts = await log.log_starts(partitions)
    return GroupEvidence(
        group=policy.group,
        registry=registry,
        store=store_name,
        committed=committed,
        topics=topics,
        log_ends=ends,
        log_starts=starts,
        asked_at=asked_at,
    )


class Performer:
    """`store_name` is what the store will be called, should it have no registry of the group."""

    def __init__(
        self,
        policy: Policy,
        *,
        store_name: StoreId,
        log: Log,
        fetcher: Fetcher,
        store: CheckpointStore,
        now: Callable[[], Instant],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._policy = policy
        self._group = policy.group
        self._store_name = store_name
        self._log = log
        self._fetcher = fetcher
        self._store = store
        self._now = now
        self._sleep = sleep

    async def answer(self, question: Question) -> m.Event:
        match question:
            case m.PerformInstall():
                return await self._install(question)
            case m.Look():
                return await self._look(question)
            case m.AskFloors(ask, partitions):
                return m.FloorsAnswered(ask, await self._log.log_starts(partitions))
            case m.AskBounds(ask, partitions):
                ends = await self._log.log_ends(partitions)
                return m.BoundsAnswered(ask, ends, await self._log.log_starts(partitions))
            case m.AskRetention(ask, names, offsets_):
                retentions = await self._log.retentions(names)
                return m.RetentionAnswered(ask, retentions, await self._log.stamps(offsets_))
            case m.AskTopics(ask, names):
                return m.TopicsAnswered(ask, await self._log.topics(names))
            case m.AskOwners():
                return await self._watch(question)
            case m.AnswerRequest(ask, request, owner):
                answered = await self._store.answer_request(request, owner=owner)
                return m.RequestAnswered(ask, request, answered)
            case m.AskCommitted(ask, partitions):
                return m.CommittedAnswered(ask, await self._log.committed(partitions))
            case m.Commit(ask, offsets):
                return m.Committed(ask, await self._fetcher.commit(offsets))
            case m.ReadMemory(ask, partition, receipts_min):
                answer = await self._store.memory(self._group, partition, receipts_min)
                return m.MemoryRead(ask, partition, answer)
            case m.GatherGroup():
                return await self._gather_group(question)
            case m.WriteRegistry(ask, enrolment):
                return m.RegistryWritten(ask, await self._write_registry(enrolment))
            case m.MarkStarted(ask, store, partitions):
                fault = await self._store.mark_started(self._group, store, partitions)
                return m.StartedMarked(ask, partitions, fault)
            case _:
                assert_never(question)

    async def _install(self, question: m.PerformInstall) -> m.InstallAnswered:
        if question.after_seconds:
            await self._sleep(question.after_seconds)
        asked_at = self._now().monotonic
        result = await self._store.install(question.install)
        return m.InstallAnswered(question.install, result, asked_at)

    async def _watch(self, question: m.AskOwners) -> m.OwnersAnswered:
        """The counters first: what is left after they were read makes them another next time."""
        asked_at = self._now().monotonic
        marks = await self._store.watch(self._group, question.partitions)
        moved = [
            partition
            for partition, mark in marks.items()
            if isinstance(mark, Absent)
            or (isinstance(mark, Known) and mark.value.requests != question.heard.get(partition))
        ]
        requests = await self._store.requests(self._group, moved) if moved else {}
        return m.OwnersAnswered(question.ask, marks, asked_at, requests)

    async def _look(self, question: m.Look) -> m.Looked:
        evidence = await look(
            self._policy,
            self._log,
            self._store,
            question.cues,
            asked_at=self._now().wall,
            fetched_to=question.fetched_to,
        )
        requests = await self._store.requests(self._group, [*question.cues])
        return m.Looked(question.ask, evidence, requests)

    async def _gather_group(self, question: m.GatherGroup) -> m.GroupGathered:
        evidence = await gather_group(
            self._policy,
            self._log,
            self._store,
            question.topics,
            store_name=self._store_name,
            asked_at=self._now().wall,
        )
        return m.GroupGathered(question.ask, evidence)

    async def _write_registry(self, enrolment: Create | Register) -> Answer[Registry]:
        match enrolment:
            case Create(registry):
                return await self._store.create_registry(registry)
            case Register(store, topics, baselines, seen):
                return await self._store.register(self._group, store, topics, baselines, seen=seen)
            case _:
                assert_never(enrolment)
