"""A checkpoint store in memory: what `RedisStore` does, deterministically, and never suspending.

Mishaps are inflicted by a hook, which is asked before every call and may answer with what goes
wrong (`Mishap`) or with the fault to answer. Besides: `flush` (everything is gone), `snapshot` and
`restore` (a failover to a copy that lags, a restored backup), `deliver_delayed` (what timed out
arrives after all).

Unlike the real one it keeps values instead of bytes, so it cannot find a field that is not stored;
the differential test against the real one does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from sidecar.core.checkpoint import (
    Ambiguous,
    AnsweredBefore,
    Audit,
    Checkpoint,
    Install,
    Installed,
    InstallResult,
    Lost,
    Memory,
    NotInstalled,
    OwnerMark,
    ReceiptRun,
    RegisteredTopic,
    Registry,
    audit_of,
)
from sidecar.core.evidence import Stored
from sidecar.core.faults import (
    ABSENT,
    Answer,
    Component,
    Fault,
    FaultKind,
    Known,
    Reading,
    Unreadable,
)
from sidecar.core.gap import Gap
from sidecar.core.request import KEPT_MAX, PENDING_MAX, Request, RequestId
from sidecar.core.types import (
    AttemptId,
    GapId,
    GroupId,
    Offset,
    OwnerId,
    Partition,
    Receipt,
    StoreId,
    TopicId,
)
from sidecar.errors import InvariantBroken
from sidecar.ports import CheckpointStore, StoreHealth
from sidecar.store.formats import EXACT_MAX
from sidecar.store.gaps import GapAdditions, additions_to, merge_gap
from sidecar.store.scripts import Code

HISTORY_MAX = 32
AUDIT_MAX = 1000
GAPS_MAX = 256


_CODES = {
    "FORMAT": Code.FORMAT_NEWER,
    "CORRUPT": Code.CORRUPT,
    "NOPERM": Code.DENIED,
    "WRONGTYPE": Code.MISPLACED,
    "DISORDERED": Code.DISORDERED,
}
"""By the name of the fault that the adapter makes of each."""


class Mishap(Enum):
    REPLY_LOST = auto()
    """Done, and nobody hears of it."""
    REQUEST_LOST = auto()
    """Not done, and nobody can tell."""
    DELAYED = auto()
    """An install that arrives only when `deliver_delayed` is called; else as REQUEST_LOST."""


TIMED_OUT = Fault(Component.REDIS, FaultKind.UNAVAILABLE, "TIMEOUT", "no answer in time")
AWAY = Fault(Component.REDIS, FaultKind.UNAVAILABLE, "CONNECTION", "connection refused")

Hook = Callable[[str], Mishap | Fault | None]
"""Given a method's name: what goes wrong. A `Fault` means that nothing was done, for certain."""

GOOD_HEALTH = StoreHealth(
    version="fake",
    epoch="life-0",
    refused=None,
    warnings=(),
    memory_used_bytes=None,
    memory_max_bytes=None,
)


@dataclass(slots=True)
class _Kept:
    """What is kept of one partition. The values are immutable, so a shallow copy is a copy."""

    checkpoint: Checkpoint | None = None
    requests: int = 0
    receipts: list[ReceiptRun] = field(default_factory=list)
    receipts_count: int = 0
    receipts_last: int = -1
    ahead: dict[int, Receipt] = field(default_factory=dict)
    gaps: dict[GapId, Gap] = field(default_factory=dict)
    additions: dict[GapId, GapAdditions] = field(default_factory=dict)
    audit: list[Audit] = field(default_factory=list)
    history: list[AttemptId] = field(default_factory=list)
    asked: dict[RequestId, Request] = field(default_factory=dict)

    def copy(self) -> _Kept:
        return _Kept(
            self.checkpoint,
            self.requests,
            list(self.receipts),
            self.receipts_count,
            self.receipts_last,
            dict(self.ahead),
            dict(self.gaps),
            dict(self.additions),
            list(self.audit),
            list(self.history),
            dict(self.asked),
        )

    def gap(self, gap_id: GapId) -> Gap | None:
        if (gap := self.gaps.get(gap_id)) is None:
            return None
        added = self.additions.get(gap_id)
        return gap if added is None else merge_gap(gap, added)


@dataclass(frozen=True, slots=True)
class Snapshot:
    partitions: Mapping[tuple[GroupId, Partition], _Kept]
    registries: Mapping[GroupId, Registry]


class FakeStore(CheckpointStore):
    def __init__(
        self, *, receipts_retained_max: int = 10_000, receipts_retained_min: int = 64
    ) -> None:
        self.hook: Hook | None = None
        self.judged = GOOD_HEALTH
        """What `health` answers; its epoch changes with every `restart`."""
        self.delayed: list[Install] = []
        self.codes: set[Code] = set()
        """What the real scripts would have answered with, so far."""
        self._retained_max = receipts_retained_max
        self._retained_min = receipts_retained_min
        self._kept: dict[tuple[GroupId, Partition], _Kept] = {}
        self._registries: dict[GroupId, Registry] = {}
        self._life = 0
        self._closed = False

    # --- what tests inflict -----------------------------------------------------------------------

    def fail(self, *mishaps: Mishap | Fault | None, method: str = "install") -> None:
        """The next calls of `method` go wrong like this, one each; then all is well again."""
        plan = list(mishaps)

        def hook(called: str) -> Mishap | Fault | None:
            if called != method:
                return None
            mishap = plan.pop(0)
            if not plan:
                self.hook = None
            return mishap

        self.hook = hook

    def away(self, fault: Fault | None = AWAY) -> None:
        """Every call answers `fault` from now on; None: it is back."""
        self.hook = None if fault is None else lambda _: fault

    def flush(self) -> None:
        self._kept.clear()
        self._registries.clear()

    def snapshot(self) -> Snapshot:
        return Snapshot({k: v.copy() for k, v in self._kept.items()}, dict(self._registries))

    def restore(self, snapshot: Snapshot) -> None:
        """An older state comes back, in a new life of the store."""
        self._kept = {k: v.copy() for k, v in snapshot.partitions.items()}
        self._registries = dict(snapshot.registries)
        self.restart()

    def restart(self) -> None:
        self._life += 1
        self.judged = replace(self.judged, epoch=f"life-{self._life}")

    def deliver_delayed(self) -> list[InstallResult]:
        """What timed out is applied after all, in order, as if the server woke up."""
        late, self.delayed = self.delayed, []
        return [self._install(install) for install in late]

    # --- the port ---------------------------------------------------------------------------------

    async def health(self) -> Answer[StoreHealth]:
        fault = self._fault("health")
        return Known(self.judged) if fault is None else Unreadable(fault)

    async def life(self) -> Answer[str]:
        fault = self._fault("life")
        return Known(self.judged.epoch) if fault is None else Unreadable(fault)

    async def registry(self, group: GroupId) -> Reading[Registry]:
        if (fault := self._fault("registry")) is not None:
            return Unreadable(fault)
        standing = self._registries.get(group)
        return ABSENT if standing is None else Known(standing)

    async def create_registry(self, registry: Registry) -> Answer[Registry]:
        done, fault = self._ask("create_registry")
        if done:
            there = registry.group in self._registries
            self.codes.add(Code.STANDS if there else Code.INSTALLED)
            self._registries.setdefault(registry.group, registry)
        return Known(self._registries[registry.group]) if fault is None else Unreadable(fault)

    async def register(
        self,
        group: GroupId,
        store: StoreId,
        topics: Mapping[str, RegisteredTopic],
        baselines: Mapping[Partition, Offset],
        *,
        seen: Mapping[str, TopicId],
    ) -> Answer[Registry]:
        done, fault = self._ask("register")
        if done:
            standing = self._registries.get(group)
            if standing is None or standing.store != store:
                self.codes.add(Code.LOST)
                return Unreadable(_refused("REGISTRY", "the registry is gone or another's"))
            self._registries[group] = self._registered(standing, topics, baselines, seen)
        return Known(self._registries[group]) if fault is None else Unreadable(fault)

    async def mark_started(
        self, group: GroupId, store: StoreId, partitions: Collection[Partition]
    ) -> Fault | None:
        done, fault = self._ask("mark_started")
        if done:
            standing = self._registries.get(group)
            if standing is None or standing.store != store:
                return _refused("REGISTRY", "the registry is gone or another's")
            self._registries[group] = replace(standing, started=standing.started | {*partitions})
        return fault

    async def read(
        self, group: GroupId, partitions: Collection[Partition]
    ) -> Mapping[Partition, Reading[Stored]]:
        if (fault := self._fault("read")) is not None:
            return dict.fromkeys(partitions, Unreadable(fault))
        return {partition: self._stored(group, partition) for partition in partitions}

    async def memory(
        self, group: GroupId, partition: Partition, receipts_min: int
    ) -> Answer[Memory]:
        if (fault := self._fault("memory")) is not None:
            return Unreadable(fault)
        kept = self._kept.get((group, partition)) or _Kept()
        newest: list[ReceiptRun] = []
        count = 0
        for run in reversed(kept.receipts):
            if count >= receipts_min:
                break
            newest.append(run)
            count += len(run.offsets)
        return Known(
            Memory(
                newest[::-1],
                [kept.ahead[offset] for offset in sorted(kept.ahead)],
                len(newest) == len(kept.receipts),
                None if kept.checkpoint is None else kept.checkpoint.owner,
            )
        )

    async def install(self, install: Install) -> InstallResult:
        hook = self.hook
        if hook is None and not self._closed:
            return self._install(install)
        match self._mishap("install"):
            case None:
                return self._install(install)
            case Mishap.REPLY_LOST:
                self._install(install)
                return Ambiguous(TIMED_OUT)
            case Mishap.REQUEST_LOST:
                return Ambiguous(TIMED_OUT)
            case Mishap.DELAYED:
                self.delayed.append(install)
                return Ambiguous(TIMED_OUT)
            case fault:
                self._answered(fault)
                return NotInstalled(fault)

    async def watch(
        self, group: GroupId, partitions: Collection[Partition]
    ) -> Mapping[Partition, Reading[OwnerMark]]:
        if (fault := self._fault("watch")) is not None:
            return dict.fromkeys(partitions, Unreadable(fault))
        return {partition: self._mark(group, partition) for partition in partitions}

    async def gaps(self, group: GroupId) -> Answer[Sequence[Gap]]:
        if (fault := self._fault("gaps")) is not None:
            return Unreadable(fault)
        found = [
            gap
            for (owner, _), kept in self._kept.items()
            if owner == group
            for gap_id in kept.gaps
            if (gap := kept.gap(gap_id)) is not None
        ]
        found.sort(key=lambda g: (not g.state.holds, g.opened_at, g.partition, g.id))
        return Known(found)

    async def update_gap(self, gap: Gap, *, was: Gap) -> Answer[Gap | None]:
        done, fault = self._ask("update_gap")
        updated = self._update_gap(gap, was) if done else None
        return Known(updated) if fault is None else Unreadable(fault)

    async def requests(
        self, group: GroupId, partitions: Collection[Partition]
    ) -> Mapping[Partition, Answer[Sequence[Request]]]:
        if (fault := self._fault("requests")) is not None:
            return dict.fromkeys(partitions, Unreadable(fault))
        return {p: Known(self._requests(group, p)) for p in partitions}

    async def leave(self, request: Request) -> Answer[Request]:
        done, fault = self._ask("leave")
        stands = self._leave(request) if done else None
        if fault is not None:
            return Unreadable(fault)
        if stands is None:
            return Unreadable(_refused("FULL", "too many requests wait for the owner"))
        return Known(stands)

    async def answer_request(self, request: Request, *, owner: OwnerId | None) -> Answer[Request]:
        done, fault = self._ask("answer_request")
        stands = self._answer_request(request, owner) if done else None
        if fault is not None:
            return Unreadable(fault)
        if stands is None:
            return Unreadable(_refused("LOST", "the request is gone, or another owner answers it"))
        return Known(stands)

    async def groups(self) -> Answer[Sequence[GroupId]]:
        fault = self._fault("groups")
        return Known(sorted(self._registries)) if fault is None else Unreadable(fault)

    async def audit(self, group: GroupId, partition: Partition) -> Answer[Sequence[Audit]]:
        if (fault := self._fault("audit")) is not None:
            return Unreadable(fault)
        kept = self._kept.get((group, partition))
        return Known([] if kept is None else list(kept.audit))

    async def close(self) -> None:
        self._closed = True

    # --- inside -----------------------------------------------------------------------------------

    def _mishap(self, method: str) -> Mishap | Fault | None:
        if self._closed:
            return Fault(Component.REDIS, FaultKind.UNAVAILABLE, "CLOSED", "the store was closed")
        return None if self.hook is None else self.hook(method)

    def _ask(self, method: str) -> tuple[bool, Fault | None]:
        """Is it done, and what is answered instead of the result?"""
        match self._mishap(method):
            case None:
                return True, None
            case Mishap.REPLY_LOST:
                return True, TIMED_OUT
            case Mishap.REQUEST_LOST | Mishap.DELAYED:
                return False, TIMED_OUT
            case fault:
                self._answered(fault)
                return False, fault

    def _answered(self, fault: Fault) -> None:
        """A fault that was inflicted may be what the adapter makes of a script's code."""
        code = _CODES.get(fault.code)
        if code is not None:
            self.codes.add(code)

    def _fault(self, method: str) -> Fault | None:
        return self._ask(method)[1]

    def _stored(self, group: GroupId, partition: Partition) -> Reading[Stored]:
        kept = self._kept.get((group, partition))
        if kept is None or kept.checkpoint is None:
            return ABSENT
        checkpoint = kept.checkpoint
        if checkpoint.gap is None:
            return Known(Stored(checkpoint, None))
        gap = kept.gap(checkpoint.gap)
        if gap is None:
            return Unreadable(
                Fault(
                    Component.REDIS,
                    FaultKind.FORMAT_UNKNOWN,
                    "CORRUPT",
                    f"the checkpoint names the gap {checkpoint.gap}, which is not kept",
                )
            )
        return Known(Stored(checkpoint, gap))

    def _mark(self, group: GroupId, partition: Partition) -> Reading[OwnerMark]:
        kept = self._kept.get((group, partition))
        if kept is None or kept.checkpoint is None:
            return ABSENT
        return Known(
            OwnerMark(kept.checkpoint.generation, OwnerId(kept.checkpoint.owner), kept.requests)
        )

    def _install(self, install: Install) -> InstallResult:
        new, expected = install.checkpoint, install.expected
        runs = install.receipts
        last = -1
        for run in runs:
            if run.offsets[0] <= last:
                raise InvariantBroken("receipts_rise", f"{run.offsets[0]} after {last}")
            last = run.offsets[-1]
        if expected is not None and new.generation <= expected.generation:
            raise InvariantBroken("generation_rises", f"{expected.generation} to {new.generation}")
        if " " in install.attempt or not install.attempt:
            raise InvariantBroken("attempt_is_one_word", repr(install.attempt))
        if (
            new.token.next > EXACT_MAX
            or new.generation > EXACT_MAX
            or new.horizon > EXACT_MAX
            or last > EXACT_MAX
        ):
            return NotInstalled(
                _refused("TOO_LARGE", f"offsets and generations end at {EXACT_MAX}")
            )

        key = (new.identity.group, new.identity.partition)
        kept = self._kept.get(key)
        if kept is None:
            kept = _Kept()
        standing = kept.checkpoint
        if standing is None:
            if expected is not None:
                self.codes.add(Code.LOST)
                return Lost(None)
        elif (
            expected is None
            or expected.generation != standing.generation
            or expected.token != standing.token
            or expected.owner != standing.owner
        ):
            earlier = install.attempt in kept.history
            self.codes.add(Code.INSTALLED_BEFORE if earlier else Code.LOST)
            return Installed(earlier=True) if earlier else Lost(standing)

        anew = standing is None or install.receipts_replaced
        if not anew and runs and runs[0].offsets[0] <= kept.receipts_last:
            self.codes.add(Code.DISORDERED)
            return NotInstalled(
                _refused(
                    "DISORDERED", f"receipts do not follow upon those kept ({kept.receipts_last})"
                )
            )
        for request in install.requests:
            if request.id in kept.asked and not kept.asked[request.id].pending:
                self.codes.add(Code.STANDS)
                return AnsweredBefore(request.id)
        if standing is None:
            kept.requests = 0
            kept.history.clear()
        if anew:
            kept.receipts.clear()
            kept.ahead.clear()
            kept.receipts_count, kept.receipts_last = 0, -1
        self._kept[key] = kept
        if install.body or standing is None:
            kept.checkpoint = new
        else:
            kept.checkpoint = replace(
                standing,
                token=new.token,
                generation=new.generation,
                owner=new.owner,
                horizon=new.horizon,
            )
        for run in runs:
            kept.receipts.append(run)
            kept.receipts_count += len(run.offsets)
            kept.receipts_last = run.offsets[-1]
        while kept.receipts_count > self._retained_max and len(kept.receipts) > 1:
            rest = kept.receipts_count - len(kept.receipts[0].offsets)
            if rest < self._retained_min:
                break
            del kept.receipts[0]
            kept.receipts_count = rest
        for receipt in install.ahead:
            kept.ahead[receipt.offset] = receipt
        for offset in install.ahead_done:
            kept.ahead.pop(offset, None)
        if install.gaps:
            for gap in install.gaps:
                kept.gaps[gap.id] = gap
            _trim_gaps(kept)
        if install.audit:
            kept.audit.extend(install.audit)
            del kept.audit[:-AUDIT_MAX]
        for request in install.requests:
            kept.asked[request.id] = request
        kept.history.append(install.attempt)
        if len(kept.history) > HISTORY_MAX:
            del kept.history[0]
        self.codes.add(Code.INSTALLED)
        return Installed()

    def _registered(
        self,
        standing: Registry,
        topics: Mapping[str, RegisteredTopic],
        baselines: Mapping[Partition, Offset],
        seen: Mapping[str, TopicId],
    ) -> Registry:
        merged = dict(standing.topics)
        again, stale = set(), set()
        for name, topic in topics.items():
            known = merged.get(name)
            pinned = None if known is None else known.topic_id
            if pinned is None or topic.topic_id == pinned:
                merged[name] = _merged(known, topic)
            elif topic.topic_id is None or seen.get(name) != pinned:
                stale.add(name)
            else:
                again.add(name)
                merged[name] = topic
        kept = dict(standing.baselines)
        for partition, baseline in baselines.items():
            if partition.topic in again and partition not in standing.started:
                kept[partition] = baseline
            elif partition.topic not in stale:
                kept.setdefault(partition, baseline)
        return replace(standing, topics=merged, baselines=kept)

    def _requests(self, group: GroupId, partition: Partition) -> Sequence[Request]:
        kept = self._kept.get((group, partition))
        asked = [] if kept is None else list(kept.asked.values())
        return sorted(asked, key=lambda request: request.place)

    def _leave(self, request: Request) -> Request | None:
        kept = self._kept.setdefault((request.group, request.partition), _Kept())
        if request.id in kept.asked:
            return kept.asked[request.id]
        waiting = sum(one.pending and one.kind is request.kind for one in kept.asked.values())
        if waiting >= PENDING_MAX:
            self.codes.add(Code.FULL)
            return None
        settled = sorted(
            (one.settled_at or 0.0, one.id) for one in kept.asked.values() if not one.pending
        )
        order = 1 + max((one.order for one in kept.asked.values()), default=0)
        left = kept.asked[request.id] = replace(request, order=order)
        for _, old in settled[: max(0, len(kept.asked) - KEPT_MAX)]:
            del kept.asked[old]
        kept.audit.append(audit_of(request))
        del kept.audit[:-AUDIT_MAX]
        if kept.checkpoint is not None:
            kept.requests += 1
        return left

    def _answer_request(self, request: Request, owner: OwnerId | None) -> Request | None:
        kept = self._kept.get((request.group, request.partition))
        stands = None if kept is None else kept.asked.get(request.id)
        if kept is None or stands is None:
            return None
        if not stands.pending:
            return stands
        if owner != (None if kept.checkpoint is None else kept.checkpoint.owner):
            return None
        kept.asked[request.id] = request
        kept.audit.append(audit_of(request))
        del kept.audit[:-AUDIT_MAX]
        return request

    def _update_gap(self, gap: Gap, was: Gap) -> Gap | None:
        kept = self._kept.get((gap.group, gap.partition))
        owners = None if kept is None else kept.gaps.get(gap.id)
        if kept is None or owners is None:
            return None
        added = kept.additions.get(gap.id, GapAdditions())
        standing = merge_gap(owners, added)
        if (
            standing.state is not was.state
            or owners.reason is not was.reason
            or owners.cluster_id != was.cluster_id
            or owners.topic_id != was.topic_id
            or owners.lineage != was.lineage
        ):
            return None
        more = additions_to(standing, added, gap, was)
        kept.additions[gap.id] = more
        if kept.checkpoint is not None:
            kept.requests += 1
        return merge_gap(owners, more)


def _merged(standing: RegisteredTopic | None, topic: RegisteredTopic) -> RegisteredTopic:
    if standing is None:
        return topic
    topic_id = topic.topic_id if standing.topic_id is None else standing.topic_id
    partitions = standing.partitions
    if topic_id == topic.topic_id:
        partitions = max(partitions, topic.partitions)
    return RegisteredTopic(topic_id, partitions, standing.partitions_first)


def _trim_gaps(kept: _Kept) -> None:
    if len(kept.gaps) <= GAPS_MAX:
        return
    settled = sorted(
        (gap.opened_at, gap_id) for gap_id, gap in kept.gaps.items() if not gap.state.holds
    )
    for _, gap_id in settled[: len(kept.gaps) - GAPS_MAX]:
        del kept.gaps[gap_id]
        kept.additions.pop(gap_id, None)


def _refused(code: str, detail: str) -> Fault:
    return Fault(Component.REDIS, FaultKind.REFUSED, code, detail)
