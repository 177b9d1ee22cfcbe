"""Compare-and-swap, one at a time for each partition, sent again until it is answered."""

from __future__ import annotations

from typing import assert_never

from sidecar.core.checkpoint import (
    Ambiguous,
    AnsweredBefore,
    Audit,
    Checkpoint,
    Expected,
    Install,
    Installed,
    Lost,
    NotInstalled,
    ReceiptRun,
    audit_of,
)
from sidecar.core.evidence import Cue
from sidecar.core.facts import (
    FaultMet,
    GapChanged,
    GapOpened,
)
from sidecar.core.gap import Gap
from sidecar.core.recovery import Phase, Step
from sidecar.core.request import Request
from sidecar.core.types import (
    AttemptId,
    Offset,
    Verdict,
)
from sidecar.core.views import (
    Refused,
)
from sidecar.engine import messages as m
from sidecar.engine.cursor import Cursor
from sidecar.engine.hand import Page
from sidecar.engine.parts import Part
from sidecar.errors import InvariantBroken

INSTALL_RETRY_SECONDS_MAX = 2.0


class Writes(Part):
    def install(
        self,
        cursor: Cursor,
        purpose: m.Purpose,
        expected: Expected | None,
        checkpoint: Checkpoint,
        *,
        receipts: tuple[ReceiptRun, ...] = (),
        page: Page | None = None,
        head: int = 0,
        gaps: tuple[Gap, ...] = (),
        body: bool = True,
        history_ends: bool = False,
        audit: tuple[Audit, ...] = (),
        requests: tuple[Request, ...] = (),
    ) -> None:
        """`history_ends`: what is remembered of the partition is of a past that is over.
        `requests` are answered with it."""
        if cursor.install is not None:
            raise InvariantBroken("one_install", f"{cursor.partition}: {cursor.purpose} in flight")
        ahead = [] if page is None else page.beyond(head)
        done, cursor.overtaken = cursor.overtaken, []
        if page is not None and page.durable:
            done += [Offset(o) for o in page.offsets[page.done : head] if o in page.durable]
        cursor.install = Install(
            expected=expected,
            checkpoint=checkpoint,
            attempt=AttemptId(self.context.new_name("attempt")),
            receipts=receipts,
            receipts_replaced=history_ends,
            ahead=ahead,
            ahead_done=done,
            gaps=gaps,
            audit=(*audit, *map(audit_of, requests)),
            requests=requests,
            body=body,
        )
        cursor.purpose = purpose
        cursor.install_retry_seconds = 0.0
        self.context.do(m.PerformInstall(cursor.install))

    def install_answered(self, event: m.InstallAnswered) -> None:
        partition = event.install.checkpoint.identity.partition
        cursor = self.context.cursors.get(partition)
        if (
            cursor is None
            or cursor.install is None
            or cursor.install.attempt != event.install.attempt
        ):
            return
        self.context.touched.setdefault(partition)
        purpose = cursor.purpose
        assert purpose is not None
        fault = event.result.fault if isinstance(event.result, NotInstalled | Ambiguous) else None
        told = fault is not None and fault == cursor.denied
        self.context.deny(cursor, fault if fault is not None and fault.denied else None)
        match event.result:
            case Installed(earlier):
                cursor.install = None
                cursor.installed_at = self.context.now.monotonic
                if not earlier:
                    # One that was there before says nothing about who owns the partition now.
                    cursor.owner_seen_at = event.asked_at
                self.installed(cursor, purpose, event.install)
            case Lost(winner):
                self._turned_away(cursor, purpose)
                self.install_lost(cursor, purpose, winner)
            case AnsweredBefore(request):
                self._turned_away(cursor, purpose)
                self.parts.requests.answered_before(cursor, request)
                detail = f"{request} was answered before; nothing of ours was installed"
                self.context.lost(cursor, Cue.COMPARISON_LOST, detail)
            case NotInstalled(fault) | Ambiguous(fault):
                if not told:
                    self.context.note(FaultMet(fault, partition))
                if cursor.phase in (Phase.CLAIMING, Phase.OPENING):
                    cursor.detail = f"the store does not take the write: {fault.detail}"
                if purpose is m.Purpose.PROMOTE:
                    if not told:
                        self.parts.delivery.note_promotion(cursor, "error", {}, None)
                    for waiter in cursor.waiters:
                        self.context.refuse(
                            waiter.request,
                            Refused.STORE_UNAVAILABLE,
                            "not known to be recorded: send the same report again "
                            f"({fault.detail})",
                            1.0,
                        )
                    cursor.waiters.clear()
                cursor.install_retry_seconds = min(
                    INSTALL_RETRY_SECONDS_MAX, max(0.1, cursor.install_retry_seconds * 2)
                )
                # Safe to send again: the attempt is remembered by the store.
                self.context.do(m.PerformInstall(event.install, cursor.install_retry_seconds))
            case _:
                assert_never(event.result)

    def installed(self, cursor: Cursor, purpose: m.Purpose, install: Install) -> None:
        cursor.checkpoint = install.checkpoint
        self.parts.requests.written(cursor, install.requests)
        match purpose:
            case m.Purpose.CLAIM:
                if cursor.phase is Phase.CLAIMING and not cursor.revoking:
                    cursor.ahead = {}
                    self.context.move(cursor, Step.CLAIMED, detail="reading what is remembered")
                    self.parts.recovery.remember(cursor, self.context.policy.overlap_records)
            case m.Purpose.PROMOTE:
                self.parts.delivery.promoted(cursor, install)
            case m.Purpose.REPLAY:
                self.parts.commits.replay_written(cursor)
                self.parts.delivery.promote(cursor)
            case m.Purpose.HORIZON:
                self.parts.delivery.promote(cursor)
            case m.Purpose.NOTE:
                for gap in install.gaps:
                    self.context.note(GapChanged(gap))
                if cursor.phase is Phase.HELD and not cursor.revoking:
                    self.context.look(cursor, Cue.REQUESTED)
                self.parts.replays.noted(cursor)
                self.parts.delivery.promote(cursor)
                self.parts.requests.advance(cursor)
            case m.Purpose.OPEN:
                cursor.gap = install.gaps[-1]
                if cursor.phase is Phase.OPENING:
                    self.context.note(GapOpened(cursor.gap))
                    self.context.move(
                        cursor,
                        Step.OPENED,
                        reason=Verdict(cursor.gap.reason.value),
                        detail=cursor.gap.audit[-1].why,
                    )
                    self.parts.commits.dirty.add(cursor.partition)
                    self.parts.commits.urgent = True
                    self.parts.gaps.by_policy(cursor)
            case m.Purpose.GROW:
                cursor.gap = install.gaps[-1]
                self.context.note(GapChanged(cursor.gap))
            case m.Purpose.RESOLVE:
                self.parts.gaps.resolved(cursor, install.gaps[-1])
            case _:
                assert_never(purpose)

    def install_lost(self, cursor: Cursor, purpose: m.Purpose, winner: Checkpoint | None) -> None:
        who = "nobody" if winner is None else f"generation {winner.generation}"
        detail = f"another write stands in the store ({who}); nothing of ours was installed"
        checkpoint = cursor.checkpoint
        if (
            purpose in (m.Purpose.PROMOTE, m.Purpose.HORIZON, m.Purpose.NOTE, m.Purpose.REPLAY)
            and winner is not None
            and checkpoint is not None
            and winner.owner != checkpoint.owner
            and winner.generation > checkpoint.generation
        ):
            self.context.displaced(cursor, detail)
        else:
            self.context.lost(cursor, Cue.COMPARISON_LOST, detail)

    def _turned_away(self, cursor: Cursor, purpose: m.Purpose) -> None:
        """What was asked for still pends: it is heard again, and judged by what is found then."""
        cursor.install = None
        if purpose is m.Purpose.PROMOTE:
            self.parts.delivery.note_promotion(cursor, "lost", {}, None)
        cursor.resolving = None
        cursor.answering = None
        cursor.heard = None
