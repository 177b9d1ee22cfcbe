"""Which partitions are ours: assigned, revoked, lost, claimed by another, drained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sidecar.core.checkpoint import Checkpoint, OwnerMark
from sidecar.core.evidence import Cue
from sidecar.core.facts import (
    PartitionsAssigned,
    PartitionsRevoked,
)
from sidecar.core.faults import Absent, Known, Reading, Unreadable
from sidecar.core.recovery import Phase
from sidecar.core.types import (
    Offset,
    Partition,
)
from sidecar.engine import messages as m
from sidecar.engine.context import Context
from sidecar.engine.cursor import Cursor
from sidecar.engine.parts import Part
from sidecar.ports import (
    CommitRequest,
    Revoked,
)

_LIVE = (Phase.DELIVERING, Phase.REPLAYING)
REVOKE_SECONDS = 3.0
WATCH_SECONDS = 0.5
HEARD_SECONDS_MAX = 60.0
"""Requests are read again after so long, whatever their counter says."""


@dataclass(slots=True)
class Revocation:
    """The group waits for the last offsets of these, until `deadline` (monotonic seconds)."""

    partitions: tuple[Partition, ...]
    answer: Callable[[Mapping[Partition, CommitRequest]], None]
    deadline: float
    ask: m.Ask | None = None
    offsets: dict[Partition, CommitRequest] = field(default_factory=dict)
    asked: Mapping[Partition, Checkpoint] = field(default_factory=dict)


class Membership(Part):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.member: str | None = None
        self.revocations: list[Revocation] = []
        self.drains: list[m.RequestId] = []
        self._watch: m.Ask | None = None
        self._watched_at = -1e9

    def assigned(self, partitions: tuple[Partition, ...]) -> None:
        for revocation in list(self.revocations):
            if not set(revocation.partitions).isdisjoint(partitions):
                # They came back before their last offsets were settled: that attempt is over.
                self.finish(revocation, {})
        fresh = tuple(p for p in partitions if p not in self.context.cursors)
        for partition in fresh:
            self.context.cursors[partition] = Cursor(
                partition,
                since=self.context.now.wall,
                isolation=self.context.policy.isolation,
                began_at=self.context.now.monotonic,
                looked_at=self.context.now.monotonic,
            )
            self.context.looks[partition] = Cue.ASSIGNED
        self.context.note(PartitionsAssigned(partitions))

    def revoked(self, event: Revoked) -> None:
        ours = tuple(p for p in event.partitions if p in self.context.cursors)
        for partition in ours:
            cursor = self.context.cursors[partition]
            cursor.revoking = True
            self.context.fence(cursor, "the partition was given to another member")
            self.context.looks.pop(partition, None)
        if event.lost:
            self.forget(ours, lost=True)
            return
        self.revocations.append(
            Revocation(ours, event.answer, self.context.now.monotonic + REVOKE_SECONDS)
        )

    def forget(self, partitions: tuple[Partition, ...], *, lost: bool) -> None:
        for partition in partitions:
            self.context.cursors.pop(partition, None)
            self.parts.commits.dirty.discard(partition)
            self.context.looks.pop(partition, None)
            self.context.touched.setdefault(partition)
        self.context.note(PartitionsRevoked(partitions, lost))

    def advance_revocations(self) -> None:
        for revocation in list(self.revocations):
            late = self.context.now.monotonic >= revocation.deadline
            cursors = [
                self.context.cursors[p] for p in revocation.partitions if p in self.context.cursors
            ]
            if revocation.ask is None and not late:
                if any(c.install is not None for c in cursors):
                    continue
                revocation.offsets = {
                    c.partition: c.commit_request(self.context.policy)
                    for c in cursors
                    if c.phase in _LIVE and c.committed != c.next and c.asked_replay is None
                }
                revocation.asked = self.parts.commits.standing(revocation.offsets)
                named = self.parts.commits.pinned_topics(revocation.offsets)
                if named:
                    revocation.ask = self.context.ask()
                    self.context.do(m.AskTopics(revocation.ask, named))
                    continue
                self.finish(revocation, revocation.offsets)
            elif late:
                self.finish(revocation, {})

    def finish(self, revocation: Revocation, offsets: Mapping[Partition, CommitRequest]) -> None:
        self.revocations.remove(revocation)
        self.context.do(m.FinishRevoke(revocation.answer, offsets))
        self.forget(revocation.partitions, lost=False)

    def watch(self, partitions: tuple[Partition, ...]) -> None:
        """From time to time: are we still the owner of each?"""
        now = self.context.now.monotonic
        if self._watch is None and now - self._watched_at >= WATCH_SECONDS:
            self._watched_at = now
            self._watch = self.context.ask()
            heard = {
                partition: cursor.heard
                for partition in partitions
                if (cursor := self.context.cursors[partition]).heard is not None
                and now - cursor.heard_at < HEARD_SECONDS_MAX
            }
            self.context.do(m.AskOwners(self._watch, partitions, heard))

    def watch_now(self) -> None:
        """With the next tick, however short ago it was asked."""
        self._watched_at = -1e9

    def owners_answered(self, event: m.OwnersAnswered) -> None:
        if event.ask != self._watch:
            return
        self._watch = None
        for partition, reading in event.marks.items():
            cursor = self.context.cursors.get(partition)
            if cursor is None or cursor.revoking:
                continue
            if partition in event.requests:
                counted = reading.value.requests if isinstance(reading, Known) else None
                self.parts.requests.heard(
                    cursor, event.requests[partition], counted, event.asked_at
                )
            if isinstance(reading, Unreadable):
                if cursor.owner is not None and reading.fault.denied and cursor.phase in _LIVE:
                    self.context.look(cursor, Cue.ACCESS_DENIED)
                continue
            if cursor.owner is None:
                continue
            forgot = _forgot(cursor, reading, event.asked_at)
            if isinstance(reading, Known) and reading.value.owner == cursor.owner and not forgot:
                cursor.owner_seen_at = max(cursor.owner_seen_at, event.asked_at)
                continue
            if cursor.phase is Phase.GAP and (forgot or isinstance(reading, Absent)):
                # What is shown of it by whoever looks at the store is to be what we stand at.
                self.context.look(cursor, Cue.COMPARISON_LOST)
                continue
            if cursor.live and cursor.phase in _LIVE and cursor.install is None:
                if isinstance(reading, Absent):
                    detail = "the store holds no checkpoint any more"
                elif forgot:
                    detail = "the store holds an older checkpoint than it acknowledged"
                else:
                    detail = "another owner's mark stands in the store"
                    checkpoint = cursor.checkpoint
                    if checkpoint is None or reading.value.generation > checkpoint.generation:
                        self.context.displaced(cursor, detail)
                        continue
                self.context.lost(cursor, Cue.COMPARISON_LOST, detail)

    def drain_asked(self, request: m.RequestId) -> None:
        self.context.draining = True
        self.drains.append(request)
        self.parts.delivery.refuse_parked()
        for cursor in self.context.cursors.values():
            if cursor.phase is not Phase.VERIFYING:
                # What is being verified has to be read, or the page that is out is lost.
                self.context.stop_fetching(cursor)
            cursor.look_when_drained = None

    def advance_drain(self) -> None:
        if not self.drains:
            return
        now = self.context.now.monotonic
        for cursor in self.context.cursors.values():
            page = cursor.page
            out = page is not None and not page.closed and now < page.deadline
            if cursor.live and (out or cursor.install is not None):
                return
        for cursor in self.context.cursors.values():
            if self.lower_horizon(cursor):
                return
        self.parts.commits.urgent = bool(self.parts.commits.dirty)
        flushing = any(
            p in self.context.cursors and self.context.cursors[p].may_commit()
            for p in self.parts.commits.dirty
        )
        if flushing or self.parts.commits.in_flight is not None:
            self.parts.commits.advance_commit()
            return
        for request in self.drains:
            self.context.do(m.Reply(request, None))
        self.drains.clear()

    def lower_horizon(self, cursor: Cursor) -> bool:
        """A clean end: what was never handed out will not be flagged after the restart."""
        checkpoint = cursor.checkpoint
        if cursor.phase is not Phase.DELIVERING or checkpoint is None:
            return False
        reached = max(checkpoint.token.next, cursor.handed_to, cursor.redelivered_below)
        if checkpoint.horizon <= reached:
            return False
        lowered = checkpoint.succeed(horizon=Offset(reached))
        self.parts.writes.install(
            cursor, m.Purpose.HORIZON, checkpoint.expected, lowered, body=False
        )
        self.parts.commits.dirty.add(cursor.partition)
        return True


def _forgot(cursor: Cursor, reading: Reading[OwnerMark], asked_at: float) -> bool:
    """Whether the store went back under its owner, by a failover or an old backup: it was asked
    after it had acknowledged what is newer than what it holds, whoever wrote that."""
    return (
        isinstance(reading, Known)
        and cursor.checkpoint is not None
        and cursor.install is None
        and asked_at >= cursor.installed_at
        and reading.value.generation < cursor.checkpoint.generation
    )
