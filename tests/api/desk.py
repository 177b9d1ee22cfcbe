"""A desk that answers from memory, for the HTTP side and for telemetry.

Pages are given out in the order they were put in; a poll without one waits. What was asked is kept
in `asked`, so that a test can say what the desk was told, and that it was told nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from sidecar.core import gap as gaps
from sidecar.core.gap import Decision, Gap, GapState
from sidecar.core.types import (
    ClusterId,
    GapId,
    GapReason,
    Generation,
    GroupId,
    HoldId,
    Interval,
    Offset,
    PageId,
    Partition,
    PartitionState,
    Record,
    TopicId,
    Verdict,
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

NOW = 1764504000.0
ORDERS = Partition("orders", 0)
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def offer(records: Sequence[Record], first: int = 100, **changes: Any) -> PageOffer:
    offsets = range(first, first + len(records))
    page = PageOffer(
        page=PageId("p-1"),
        partition=ORDERS,
        generation=12,
        first=Offset(first),
        last=Offset(offsets[-1]),
        successor=Offset(offsets[-1] + 1),
        remaining_records=0,
        attempt=1,
        deadline=NOW + 30,
        offsets=offsets,
        records=records,
        key_prefixes=((Offset(0), f"{TOPIC_ID}/0/0/"),),
        redelivered_below=Offset(0),
    )
    return replace(page, **changes)


def view(topic: str = "orders", partition: int = 0, **changes: Any) -> PartitionView:
    one = PartitionView(
        topic=topic,
        partition=partition,
        state=PartitionState.DELIVERING,
        reason=None,
        verdict=Verdict.RESUME,
        applied=Offset(106),
        next=Offset(107),
        committed=Offset(107),
        generation=13,
        cluster_id="c-1",
        topic_id=TOPIC_ID,
        leader_epoch=4,
        log_start=Offset(12),
        log_end=Offset(107),
        lag_records=0,
        caught_up=True,
        conditions=(),
        gap=None,
        hold=None,
        since=NOW,
        detail="64 records of overlap matched their receipts",
    )
    return replace(one, **changes)


def a_gap(id: str = "g-1", partition: Partition = ORDERS, **changes: Any) -> Gap:
    one = Gap(
        id=GapId(id),
        reason=GapReason.RETENTION_LOSS,
        group=GroupId("billing"),
        partition=partition,
        cluster_id=ClusterId("c-1"),
        topic_id=TopicId(TOPIC_ID),
        lineage=0,
        interval=Interval(Offset(107), Offset(250)),
        state=GapState.OPEN,
        evidence={"next": 107, "log_start": 250},
        generation=Generation(13),
        opened_at=NOW,
    )
    return replace(one, **changes)


def a_hold() -> HoldView:
    return HoldView(
        id=HoldId("h-1"),
        partition=ORDERS,
        verdict=Verdict.UNKNOWN,
        evidence={"next": 107},
        since=NOW,
        detail="in no row of the table",
    )


class FakeDesk:
    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.pages: deque[PageOffer] = deque()
        self.waiting = 0
        self.abandoned = 0
        self.changed = asyncio.Condition()
        self.report_answer: ReportAnswer | Refusal | Exception = ReportAnswer(
            Offset(106), Offset(107), 13, Offset(107), ()
        )
        self.hold_reports: asyncio.Event | None = None
        self.reports_done = 0
        self.views: list[PartitionView] = [view()]
        self.kept_gaps: list[Gap] | Refusal = [a_gap()]
        self.fence_answer: Offset | Refusal = Offset(900)
        self.kept_holds = [a_hold()]
        self.kept_notices: list[Notice] = []
        self.drained = False
        self.ready = True

    async def put(self, page: PageOffer) -> None:
        async with self.changed:
            self.pages.append(page)
            self.changed.notify_all()

    async def until(self, what: str, value: int) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: getattr(self, what) == value)

    async def _note(self, what: str, by: int) -> None:
        async with self.changed:
            setattr(self, what, getattr(self, what) + by)
            self.changed.notify_all()

    async def take_page(
        self, request: PageRequest, wait_seconds: float
    ) -> PageOffer | Refusal | None:
        self.asked.append((request, wait_seconds))
        await self._note("waiting", 1)
        try:
            if self.drained:
                return Refusal(Refused.DRAINING, "ask the next member", 5)
            async with asyncio.timeout(wait_seconds), self.changed:
                await self.changed.wait_for(lambda: self.pages)
                return self.pages.popleft()
        except TimeoutError:
            return None
        except asyncio.CancelledError:
            self.abandoned += 1
            raise
        finally:
            await self._note("waiting", -1)

    async def report(
        self, page: PageId, report: Report, *, wait_committed: bool
    ) -> ReportAnswer | Refusal:
        self.asked.append((page, report, wait_committed))
        if self.hold_reports is not None:
            await self._note("waiting", 1)
            await self.hold_reports.wait()
        await self._note("reports_done", 1)
        if isinstance(self.report_answer, Exception):
            raise self.report_answer
        return self.report_answer

    def status(self) -> StatusView:
        return StatusView(
            ready=self.ready,
            reasons=() if self.ready else ("redis: connection refused",),
            group="billing",
            member="billing-0",
            cluster_id="c-1",
            assigned=len(self.views),
            dependencies={
                "kafka": DependencyView(True, NOW, None, None),
                "redis": DependencyView(self.ready, NOW, None, None),
            },
        )

    def partitions(self) -> Sequence[PartitionView]:
        return self.views

    async def gaps(self) -> Sequence[Gap] | Refusal:
        return self.kept_gaps

    def _find(self, id: GapId) -> Gap | Refusal:
        if isinstance(self.kept_gaps, Refusal):
            return self.kept_gaps
        found = next((gap for gap in self.kept_gaps if gap.id == id), None)
        return found or Refusal(Refused.GAP_UNKNOWN, "no such gap")

    async def fence(self, gap: GapId) -> Offset | Refusal:
        found = self._find(gap)
        return found if isinstance(found, Refusal) else self.fence_answer

    async def acknowledge(self, gap: GapId, *, by: str, why: str) -> Gap | Refusal:
        self.asked.append((gap, by, why))
        found = self._find(gap)
        if isinstance(found, Refusal):
            return found
        return gaps.acknowledge(found, by=by, why=why, at=NOW) or Refusal(
            Refused.GAP_CHANGED, "it was resolved meanwhile"
        )

    async def resolve(self, gap: GapId, request: ResolveRequest) -> Gap | Refusal:
        self.asked.append((gap, request))
        found = self._find(gap)
        if isinstance(found, Refusal):
            return found
        decision = Decision(
            request.resolution, request.by, request.why, NOW, request.resume_at or Offset(250)
        )
        return gaps.resolve(found, decision, end=Offset(250), evidence={}) or Refusal(
            Refused.GAP_CHANGED, "it was resolved meanwhile"
        )

    def holds(self) -> Sequence[HoldView]:
        return self.kept_holds

    async def answer(self, hold: HoldId, answer: str, *, by: str, why: str) -> HoldView | Refusal:
        self.asked.append((hold, answer, by, why))
        found = next((one for one in self.kept_holds if one.id == hold), None)
        if found is None:
            return Refusal(Refused.HOLD_UNKNOWN, "no such hold")
        if answer not in found.answers:
            return Refusal(Refused.ANSWER_IMPOSSIBLE, "one of: retry")
        return found

    async def notices(self, after: int | None) -> AsyncIterator[Notice]:
        position = len(self.kept_notices) if after is None else after
        await self._note("waiting", 1)
        try:
            while True:
                async with self.changed:
                    while len(self.kept_notices) <= position:
                        await self.changed.wait()
                    notice = self.kept_notices[position]
                position += 1
                yield notice
        finally:
            self.waiting -= 1

    async def notify(self, name: str, **fields: Any) -> None:
        async with self.changed:
            self.kept_notices.append(Notice(len(self.kept_notices) + 1, name, NOW, fields))
            self.changed.notify_all()

    async def drain(self) -> None:
        self.drained = True
