"""Gaps and holds of our partitions: opened, standing, decided."""

from __future__ import annotations

from dataclasses import replace

from sidecar.core import resolution, verdict
from sidecar.core.checkpoint import (
    Checkpoint,
    Expected,
)
from sidecar.core.evidence import Cue, Evidence, Stored
from sidecar.core.facts import (
    GapChanged,
)
from sidecar.core.faults import Known, Unreadable
from sidecar.core.gap import (
    Gap,
    GapEvent,
    GapState,
    Resolution,
    accepted_further,
    grow,
    supersede,
)
from sidecar.core.policy import OnGap
from sidecar.core.recovery import Phase, Step
from sidecar.core.types import (
    Fields,
    GapId,
    GapReason,
    Interval,
    OwnerId,
    Token,
    Verdict,
)
from sidecar.core.views import (
    Refusal,
    ResolveRequest,
)
from sidecar.engine import messages as m
from sidecar.engine.context import WAIT_SECONDS_MAX, WAIT_SECONDS_MIN
from sidecar.engine.cursor import Cursor, Resolving
from sidecar.engine.parts import Part


class Gaps(Part):
    def open(self, cursor: Cursor, judged: verdict.Open, evidence: Evidence) -> None:
        hand = cursor.hand
        if (
            cursor.live
            and not cursor.shaken
            and judged.reason is GapReason.RETENTION_LOSS
            and hand is not None
            and hand.position > judged.interval.first
            and not hand.empty
            and isinstance(evidence.stored, Known)
            and evidence.stored.value.checkpoint.owner == cursor.owner
        ):
            # Records in hand are not lost: the gap opens once they are promoted.
            self.context.stop_fetching(cursor)
            hand.drop_unproven()
            self.context.move(cursor, Step.CONFIRMED, detail=judged.detail)
            self.context.move(cursor, Step.READ)
            self.context.move(cursor, Step.VERIFIED, reason=cursor.claimed_as, detail=judged.detail)
            cursor.look_when_drained = Cue.CURSOR_ERROR
            self.parts.delivery.promote(cursor)
            return
        if self._joins(cursor, judged):
            return
        self.context.state_verdict(
            cursor, Verdict(judged.reason.value), judged.detail, verdict.describe(evidence)
        )
        self.open_gap(
            cursor,
            judged.reason,
            judged.interval,
            judged.base,
            judged.expected,
            judged.detail,
            self._with_unconfirmed(cursor, judged, verdict.describe(evidence)),
            judged.supersedes,
            judged.gap_id or self._name_of_what_stands(cursor, judged, evidence),
        )

    @staticmethod
    def _name_of_what_stands(
        cursor: Cursor, judged: verdict.Open, evidence: Evidence
    ) -> GapId | None:
        """A store that forgot, or went back, may have lost the gap that stands here before a commit
        named it, or before the look read that commit. It is the same loss, under the same name,
        also when the older commit tells it from further back."""
        gap, stored = cursor.gap, evidence.stored
        if gap is None or isinstance(stored, Unreadable):
            return None
        if isinstance(stored, Known) and stored.value.checkpoint.generation >= gap.generation:
            return None
        same = (
            gap.state.holds
            and gap.reason is judged.reason
            and gap.topic_id == judged.base.identity.topic_id
            and judged.interval.first <= gap.interval.first
        )
        return gap.id if same else None

    def _joins(self, cursor: Cursor, judged: verdict.Open) -> bool:
        """What is lost between accepting a loss and the first record read is part of that loss:
        nobody could have read it in between, and nobody is asked twice."""
        was, end = cursor.decided, judged.interval.end
        if (
            was is None
            or was.resolution is None
            or end is None
            or cursor.install is not None
            or judged.reason is not GapReason.RETENTION_LOSS
            or judged.supersedes is not None
            or judged.base.resolved != was.id
            or judged.interval.first != was.resolution.resume_at
        ):
            return False
        grown = accepted_further(was, end, at=self.context.now.wall)
        if grown is None:
            return False
        self.context.fence(cursor, judged.detail)
        self.context.stop_fetching(cursor)
        cursor.live = False
        cursor.owner = OwnerId(self.context.new_name("owner"))
        self.context.move(
            cursor, Step.STAND, reason=Verdict(was.reason.value), detail=judged.detail
        )
        self.parts.writes.install(
            cursor,
            m.Purpose.RESOLVE,
            judged.expected,
            replace(judged.base, token=Token(end, None)).succeed(owner=cursor.owner),
            gaps=(grown,),
            history_ends=True,
        )
        return True

    def _with_unconfirmed(self, cursor: Cursor, judged: verdict.Open, fields: Fields) -> Fields:
        """Promotions since the topic's identity was last confirmed may be of the new topic's
        records: the client reads a topic that was created again on in silence. None: unknown."""
        if judged.reason is not GapReason.TOPIC_RECREATED:
            return fields
        confirmed = cursor.confirmed
        if confirmed is None or not confirmed.same_log(judged.base):
            return {**fields, "confirmed_to": None}
        return {**fields, "confirmed_to": confirmed.token.next}

    def open_gap(
        self,
        cursor: Cursor,
        reason: GapReason,
        interval: Interval,
        base: Checkpoint,
        expected: Expected | None,
        detail: str,
        evidence: Fields,
        supersedes: Gap | None,
        known_as: GapId | None = None,
    ) -> None:
        self.context.fence(cursor, detail)
        self.context.stop_fetching(cursor)
        cursor.live = False
        cursor.resolving = None  # it was of a lesser one, which this one supersedes
        cursor.owner = OwnerId(self.context.new_name("owner"))
        gap_id = known_as or GapId(self.context.new_name("gap"))
        asked, cursor.asked_replay = cursor.asked_replay, None
        carrying = base.succeed(owner=cursor.owner, gap=gap_id, replay=asked or base.replay)
        opened = GapEvent(self.context.now.wall, "opened", "sidecar", detail)
        gap = Gap(
            id=gap_id,
            reason=reason,
            group=base.identity.group,
            partition=cursor.partition,
            cluster_id=base.identity.cluster_id,
            topic_id=base.identity.topic_id,
            lineage=base.lineage.number,
            interval=interval,
            state=GapState.OPEN,
            evidence=evidence,
            generation=carrying.generation,
            opened_at=self.context.now.wall,
            audit=(opened,),
        )
        gaps: tuple[Gap, ...] = (gap,)
        if supersedes is not None:
            gaps = (supersede(supersedes, gap_id, at=self.context.now.wall), gap)
        self.context.move(cursor, Step.OPEN, detail=detail)
        cursor.detail = detail
        if cursor.install is not None:
            # A promotion is on its way; its answer decides what stands, so look again then.
            self.context.lost(cursor, Cue.RETRY, "a write was under way while a gap was found")
            return
        answered = self.parts.requests.answered(cursor, detail)
        self.parts.writes.install(
            cursor, m.Purpose.OPEN, expected, carrying, gaps=gaps, requests=answered
        )

    def stand(self, cursor: Cursor, judged: verdict.Stand, evidence: Evidence) -> None:
        self.context.fence(cursor, judged.gap.reason)
        self.context.stop_fetching(cursor)
        cursor.live = False
        if cursor.gap is not None and cursor.gap.id == judged.gap.id and cursor.gap != judged.gap:
            # Somebody acknowledged it beside us, or took a fence.
            self.context.note(GapChanged(judged.gap))
        cursor.gap = judged.gap
        cursor.checkpoint = judged.base
        self.context.move(
            cursor,
            Step.STAND,
            reason=Verdict(judged.gap.reason.value),
            detail=f"the gap {judged.gap.interval} is {judged.gap.state}",
        )
        if judged.grown_to is not None and cursor.install is None:
            grown = grow(judged.gap, judged.grown_to, at=self.context.now.wall)
            cursor.owner = cursor.owner or OwnerId(self.context.new_name("owner"))
            self.parts.writes.install(
                cursor,
                m.Purpose.GROW,
                judged.base.expected,
                judged.base.succeed(owner=cursor.owner),
                gaps=(grown,),
            )
        elif cursor.install is None:
            self.by_policy(cursor)

    def by_policy(self, cursor: Cursor) -> None:
        """An automatic decision, where the setting asks for one."""
        gap = cursor.gap
        if gap is None or self.context.policy.on_gap.get(gap.reason) is not OnGap.ACCEPT:
            return
        now = self.context.now.monotonic
        idle = cursor.resolving is None and cursor.install is None and cursor.phase is Phase.GAP
        if idle and now >= cursor.policy_at:
            cursor.policy_at = now + WAIT_SECONDS_MAX
            cursor.resolving = Resolving(
                ResolveRequest(
                    Resolution.ACCEPTED, "policy", f"RECOVERY__ON_GAP accepts {gap.reason}"
                )
            )
            self.context.look(cursor, Cue.REQUESTED)

    def resolve_judged(self, cursor: Cursor, evidence: Evidence) -> None:
        assert cursor.resolving is not None
        request, wanted = cursor.resolving.request, cursor.resolving.wanted
        gap = cursor.gap
        planned = resolution.plan(
            evidence, wanted, self.context.policy, gap_id="" if gap is None else gap.id
        )
        stored = evidence.stored
        if isinstance(planned, Refusal) or not isinstance(stored, Known):
            cursor.resolving = None
            # What cannot be asked for now is asked for again, in a while.
            cursor.execute_at = self.context.now.monotonic + WAIT_SECONDS_MIN
            lasting = isinstance(planned, Refusal) and planned.retry_after_seconds is None
            if request is not None and isinstance(planned, Refusal) and lasting:
                self.parts.requests.refuse(cursor, request, planned.refused, planned.detail)
            if gap is not None and isinstance(stored, Known) and stored.value.gap is not None:
                self.context.move(cursor, Step.STAND, reason=Verdict(gap.reason.value))
            else:
                cursor.look_at = self.context.now.monotonic + WAIT_SECONDS_MIN
                self.context.move(cursor, Step.WAIT, reason=Verdict.UNAVAILABLE)
            return
        if planned.unverified and (cursor.shaken or not cursor.resolving.verified):
            self._verify_below(cursor, stored.value, evidence)
            return
        self.context.move(cursor, Step.STAND)
        done = () if request is None else (request.done(_decided(planned), at=evidence.asked_at),)
        cursor.owner = OwnerId(self.context.new_name("owner"))
        self.parts.writes.install(
            cursor,
            m.Purpose.RESOLVE,
            stored.value.checkpoint.expected,
            planned.checkpoint.succeed(owner=cursor.owner),
            gaps=(planned.gap,),
            history_ends=planned.history_ends,
            requests=done,
        )

    def _verify_below(self, cursor: Cursor, stored: Stored, evidence: Evidence) -> None:
        """What is remembered ends with the decision: a log that was cut there, or cut again, shows
        itself now or never."""
        gap, base = stored.gap, stored.checkpoint
        start, end, topic = evidence.log_start, evidence.log_end, evidence.topic
        assert gap is not None
        assert isinstance(start, Known)
        assert isinstance(end, Known)
        detail = f"verifying what lies below the gap {gap.interval} before going on behind it"
        cursor.gap, cursor.checkpoint = gap, base
        cursor.began_at = self.context.now.monotonic
        cursor.go = verdict.Go(
            Verdict(gap.reason.value),
            base,
            base.expected,
            detail,
            log_start=start.value,
            log_end=end.value.high_watermark,
            compacted=topic.value.compacted if isinstance(topic, Known) else None,
        )
        self.context.move(cursor, Step.CHECK, detail=detail)
        self.parts.recovery.remember(cursor, self.context.policy.overlap_records)

    def verified_below(self, cursor: Cursor) -> None:
        """The decision is judged once more, on what is asked now."""
        if cursor.resolving is not None:
            cursor.resolving = replace(cursor.resolving, verified=True)
        cursor.shaken = False
        self.context.fence(cursor, "a gap is being decided")
        self.context.stop_fetching(cursor)
        self.context.look(cursor, Cue.REQUESTED)

    def resolved(self, cursor: Cursor, gap: Gap) -> None:
        self.context.note(GapChanged(gap))
        cursor.resolving = None
        if gap.state.holds:
            # Backfilled in part: the rest stands, and the commit follows the part.
            cursor.gap = gap
            self.parts.commits.dirty.add(cursor.partition)
            return
        cursor.gap = None
        cursor.decided = gap
        # Somebody decided knowing that the log was cut: what follows is judged on its own.
        cursor.distrusted = False
        if cursor.phase is Phase.GAP:
            self.context.look(cursor, Cue.REQUESTED)


def _decided(planned: resolution.Settled) -> str:
    at = planned.checkpoint.token.next
    if planned.gap.state.holds:
        return f"backfilled in part: the gap begins at {planned.gap.interval.first} now"
    return f"reading goes on at {at}"
