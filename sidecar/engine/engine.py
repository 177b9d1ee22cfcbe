"""The coordinator: takes an event, moves the cursors it concerns, says what is to be done next.

Order of a recovery (the reasons are in docs/architecture.md): evidence, verdict, claim, memory,
overlap, log start asked after it, first commit and the started mark where there were none, then
delivery. A live attempt whose ground may have shifted (leader, epoch or connection changed) is
looked at again and reads its overlap anew; nothing is promoted or committed meanwhile.
"""

from __future__ import annotations

from typing import assert_never

from sidecar.core.facts import (
    FaultMet,
)
from sidecar.core.faults import FaultKind
from sidecar.core.policy import Policy
from sidecar.core.recovery import Phase
from sidecar.core.types import (
    Instant,
    Offset,
    Partition,
)
from sidecar.core.views import (
    HoldView,
    PartitionView,
)
from sidecar.engine import messages as m
from sidecar.engine.commits import Commits
from sidecar.engine.conditions import Conditions
from sidecar.engine.context import Context
from sidecar.engine.cursor import Cursor
from sidecar.engine.delivery import Delivery
from sidecar.engine.enrolling import Enrolling
from sidecar.engine.forecasts import Forecasts
from sidecar.engine.gaps import Gaps
from sidecar.engine.membership import Membership
from sidecar.engine.parts import Parts
from sidecar.engine.reading import Reading
from sidecar.engine.recovery import Recovery
from sidecar.engine.replays import Replays
from sidecar.engine.requests import Requests
from sidecar.engine.writes import Writes
from sidecar.ports import (
    Assigned,
    ClientFaulted,
    CursorFailed,
    EndReached,
    Fetched,
    LeaderChanged,
    MemberChanged,
    Revoked,
)


class Engine:
    """See the package's docstring. `name` must be unique to this process's life."""

    def __init__(self, policy: Policy, *, name: str) -> None:
        self.context = Context(policy, name=name)
        self.parts = Parts(
            Membership(self.context),
            Enrolling(self.context),
            Recovery(self.context),
            Writes(self.context),
            Reading(self.context),
            Delivery(self.context),
            Commits(self.context),
            Gaps(self.context),
            Conditions(self.context),
            Forecasts(self.context),
            Requests(self.context),
            Replays(self.context),
        )
        self.parts.introduce()

    @property
    def cursors(self) -> dict[Partition, Cursor]:
        return self.context.cursors

    @property
    def member(self) -> str | None:
        """Who we are in the group; None while not joined."""
        return self.parts.membership.member

    def step(self, event: m.Event, now: Instant) -> list[m.Command]:
        """What is to be done, now that `event` happened. Raises only `InvariantBroken`."""
        self._notice_standstill(now)
        self.context.now = now
        self.context.out = []
        self.context.touched = {}
        self._take(event)
        self._after()
        return self.context.out

    def _notice_standstill(self, now: Instant) -> None:
        """A process that stood still for long (it is ticked all the while otherwise) may be out of
        the group, and its client is told so only with the next heartbeat. Until that has had time
        to come, a mark of ours in the store is no word on who has the partition: whoever was given
        it may be about to claim it."""
        half = self.context.policy.session_timeout_seconds / 2
        if 0.0 < self.context.now.monotonic <= now.monotonic - half:
            self.context.offers_from = now.monotonic + half

    def _take(self, event: m.Event) -> None:  # one row for each event
        match event:
            case Fetched():
                self.parts.reading.fetched(event)
            case m.InstallAnswered():
                self.parts.writes.install_answered(event)
            case m.Reported():
                self.parts.delivery.reported(event)
            case m.PageWanted():
                self.parts.delivery.page_wanted(event)
            case m.RequestDropped():
                self.parts.delivery.request_dropped(event.request)
            case m.Tick():
                self._tick()
            case EndReached():
                self.parts.reading.end_reached(event)
            case m.FloorsAnswered():
                self.parts.reading.floors_answered(event)
            case m.BoundsAnswered():
                self.parts.reading.bounds_answered(event)
            case m.RetentionAnswered():
                self.parts.forecasts.answered(event)
            case m.TopicsAnswered():
                self.parts.commits.topics_answered(event)
            case m.Committed():
                self.parts.commits.commit_answered(event)
            case m.CommittedAnswered():
                self.parts.commits.committed_answered(event)
            case m.OwnersAnswered():
                self.parts.membership.owners_answered(event)
            case Assigned():
                self.parts.membership.assigned(event.partitions)
            case Revoked():
                self.parts.membership.revoked(event)
            case m.Looked():
                self.parts.recovery.looked(event)
            case m.GroupGathered():
                self.parts.enrolling.group_gathered(event)
            case m.RegistryWritten():
                self.parts.enrolling.registry_written(event)
            case m.MemoryRead():
                self.parts.recovery.memory_read(event)
            case m.StartedMarked():
                self.parts.recovery.started_marked(event)
            case CursorFailed():
                self.parts.recovery.cursor_failed(event)
            case LeaderChanged():
                self.parts.recovery.leader_changed(event.partitions)
            case MemberChanged():
                self.parts.membership.member = event.member
            case ClientFaulted():
                if event.fault is not None:
                    self.context.note(FaultMet(event.fault, None))
                    if event.fault.kind is FaultKind.AUTHENTICATION:
                        self.parts.recovery.credentials_refused()
                elif self.context.client_faulted:
                    # Whatever was lost, connections were: also one that statistics never saw.
                    self.parts.recovery.leader_changed(tuple(self.context.cursors))
                self.context.client_faulted = event.fault is not None
            case m.RequestAnswered():
                self.parts.requests.request_answered(event)
            case m.RequestLeft():
                self.parts.requests.left(event.partition)
            case m.StoreRefused():
                self.context.store_refused = event.why
            case m.DrainAsked():
                self.parts.membership.drain_asked(event.request)
            case _:
                assert_never(event)

    def _after(self) -> None:
        """What follows from any step: questions that were collected, pages that can be offered."""
        self.parts.membership.advance_revocations()
        if self.context.looks:
            cues, self.context.looks = self.context.looks, {}
            ask = self.context.ask()
            fetched_to: dict[Partition, Offset] = {}
            for partition in cues:
                cursor = self.context.cursors[partition]
                cursor.ask = ask
                if cursor.live and cursor.hand is not None:
                    fetched_to[partition] = cursor.hand.position
            self.context.do(m.Look(ask, cues, fetched_to))
        self.parts.reading.pressure()
        self.parts.delivery.offer_pages()
        self.parts.commits.advance_commit()
        self.parts.membership.advance_drain()

    def _tick(self) -> None:
        parts = self.parts
        # What only time changes: deadlines, pauses, how fresh the owner marks are.
        self.context.touched.update(dict.fromkeys(self.context.cursors))
        for cursor in self.context.cursors.values():
            if cursor.revoking:
                continue
            parts.recovery.tick(cursor)
            parts.reading.tick(cursor)
            parts.forecasts.tick(cursor)
            parts.delivery.expire_waiters(cursor)
            parts.commits.refresh(cursor)
            parts.requests.advance(cursor)
            if cursor.phase is Phase.REPLAYING:
                parts.replays.advance(cursor)
        parts.enrolling.enrol()
        held = tuple(c.partition for c in self.context.cursors.values() if not c.revoking)
        if held:
            parts.membership.watch(held)
            parts.reading.watch(held)
            parts.forecasts.watch(held)
            parts.commits.watch(held)

    def views(self, now: Instant | None = None) -> list[PartitionView]:
        """`now`: what is told in seconds is told as of then; None: as of the last step, which on a
        busy machine may be some time ago."""
        at = now or self.context.now
        return [cursor.view(at) for _, cursor in sorted(self.context.cursors.items())]

    def holds(self) -> list[HoldView]:
        cursors = (cursor for _, cursor in sorted(self.context.cursors.items()))
        return [view for cursor in cursors for view in cursor.hold_views()]
