"""From evidence to delivery: look, judge, claim, remember, read the overlap, conclude."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from typing import assert_never

from sidecar.core import overlap, verdict
from sidecar.core.checkpoint import Audit, Checkpoint
from sidecar.core.evidence import Cue, Evidence
from sidecar.core.facts import (
    FaultMet,
    RecoveryEnded,
)
from sidecar.core.faults import Absent, FaultKind, Known, Unreadable
from sidecar.core.recovery import Phase, Step
from sidecar.core.types import (
    GapReason,
    Interval,
    Offset,
    OwnerId,
    Partition,
    SessionId,
    Verdict,
)
from sidecar.engine import messages as m
from sidecar.engine.context import WAIT_SECONDS_MAX, WAIT_SECONDS_MIN
from sidecar.engine.cursor import Cursor
from sidecar.engine.hand import Hand
from sidecar.engine.parts import Part
from sidecar.ports import (
    CursorFailed,
)

BLOCKED_SECONDS_MAX = 60.0
READ_SO_FAR = (
    *(Phase.VERIFYING, Phase.CONCLUDING, Phase.COMMITTING),
    *(Phase.DELIVERING, Phase.REPLAYING),
)
"""What was read in these phases may be of a log that is another by now, when its leader changed.
Before them nothing was read, and what is read after a look is verified anyway."""

SHORT_SECONDS = 1.0
ANSWERS_APART_SECONDS_MAX = 2 * WAIT_SECONDS_MAX
"""Of the time between two answers, what counts at most for what both of them say."""
"""Between two questions for a log's end that lies below the position."""
FAILURES_AT_ONCE = 2
"""Cursor errors of one recovery that are looked at without a pause in between."""


class Recovery(Part):
    def tick(self, cursor: Cursor) -> None:
        """Looks again at what waits, or is drained as far as it could be read."""
        due = cursor.look_at is not None and self.context.now.monotonic >= cursor.look_at
        if due and cursor.phase in (Phase.WAITING, Phase.HELD, Phase.VERIFYING):
            self.context.look(cursor, Cue.RETRY)
        self.look_if_drained(cursor)
        self.parts.commits.write_replay(cursor)
        if cursor.phase is Phase.GAP:
            self.parts.gaps.by_policy(cursor)

    def look_if_drained(self, cursor: Cursor) -> None:
        """What follows cannot be read: once all that is in hand is promoted, look, or hold."""
        if (
            cursor.phase is not Phase.DELIVERING
            or cursor.install is not None
            or cursor.hand is None
            or not cursor.hand.empty
        ):
            return
        if cursor.blocked is not None:
            at, why = cursor.blocked
            # Of a batch that is broken only its first offset is named, which may be passed already.
            self.hold_blocked(cursor, Offset(max(at, cursor.next or 0)), why, applied=False)
            cursor.drained = True
            self.parts.commits.urgent = True
        elif cursor.look_when_drained is not None:
            self.context.look(cursor, cursor.look_when_drained)

    def looked(self, event: m.Looked) -> None:
        for partition, evidence in event.evidence.items():
            cursor = self.context.cursors.get(partition)
            if cursor is None or cursor.revoking or cursor.ask != event.ask:
                continue
            if partition in event.requests:
                self.parts.requests.heard(cursor, event.requests[partition], None, cursor.looked_at)
            if cursor.phase is Phase.LOOKING:
                self.judge(cursor, evidence)
        self.parts.enrolling.enrol()

    def judge(self, cursor: Cursor, evidence: Evidence) -> None:
        """Acts on the verdict."""
        if isinstance(evidence.log_start, Known):
            cursor.log_start = evidence.log_start.value
        if isinstance(evidence.log_end, Known):
            cursor.log_end = evidence.log_end.value
        if isinstance(evidence.committed, Known):
            cursor.committed = evidence.committed.value.next
        elif isinstance(evidence.committed, Absent):
            cursor.committed = None
        if isinstance(evidence.registry, Known):
            cursor.started = cursor.partition in evidence.registry.value.started
        if isinstance(evidence.stored, Known) and not cursor.live:
            cursor.checkpoint = evidence.stored.value.checkpoint
        if cursor.install is not None and not cursor.live:
            self.unsettled(cursor, "the store has not answered an earlier write yet")
            return
        waited = (
            0.0
            if cursor.same_answer_since is None
            else max(0.0, cursor.looked_at - cursor.same_answer_since)
        )
        judge = partial(
            verdict.judge,
            evidence,
            self.context.policy,
            same_ids_seconds=self._same_ids_seconds(cursor, evidence),
        )
        judged = judge()
        accepted = self.parts.requests.accepted(cursor, judged)
        if accepted is not None:
            judged = judge(accepted=accepted)
        if not isinstance(judged, verdict.Wait):
            cursor.same_answer_since = None
            cursor.same_answer = None
        elif cursor.same_answer == judged.answer:
            # Only the very same answer, without a break, comes to count as lasting.
            judged = judge(waited_seconds=waited, accepted=accepted)
        if accepted is None or isinstance(judged, verdict.Hold):
            self.parts.requests.overtaken(cursor, judged)
        if cursor.resolving is not None:
            self.parts.gaps.resolve_judged(cursor, evidence)
            return
        standing = evidence.stored.value.checkpoint if isinstance(evidence.stored, Known) else None
        if (
            cursor.live
            and standing is not None
            and cursor.checkpoint is not None
            and standing.owner != cursor.owner
            and standing.generation > cursor.checkpoint.generation
        ):
            self.context.displaced(cursor, "another member claimed the partition")
            return
        match judged:
            case verdict.Enrol() if cursor.enrolled:
                # It was just written, and still is not what is described: somebody's answer is old.
                cursor.enrolled = False
                self.unsettled(cursor, judged.detail)
            case verdict.Enrol():
                cursor.instead = judged.instead
                if judged.instead is not None:
                    # There is no checkpoint that a gap could stand in: it is said, once.
                    said = verdict.describe(evidence)
                    self.context.state_verdict(cursor, Verdict.TOPIC_RECREATED, judged.detail, said)
                self.context.move(cursor, Step.ENROL, detail=judged.detail)
            case verdict.Wait():
                if cursor.cue is not Cue.RETRY:
                    cursor.wait_seconds = 0.0
                if not cursor.live:
                    self.context.stop_fetching(cursor)
                self.context.wait(cursor, judged)
            case verdict.Hold():
                self.hold(cursor, judged, evidence)
            case verdict.Stand():
                self.parts.gaps.stand(cursor, judged, evidence)
                if accepted is not None:
                    self.parts.requests.rescoped(cursor, evidence.isolation)
            case verdict.Open() if self.first_heard_short(cursor, judged, evidence):
                cursor.look_at = self.context.now.monotonic + SHORT_SECONDS
                self.context.move(
                    cursor, Step.WAIT, reason=Verdict.UNAVAILABLE, detail=judged.detail
                )
            case verdict.Open():
                self.parts.gaps.open(cursor, judged, evidence)
            case verdict.Go():
                self.go(cursor, judged, evidence)
            case _:
                assert_never(judged)

    def first_heard_short(self, cursor: Cursor, judged: verdict.Open, evidence: Evidence) -> bool:
        """A leader that was just elected answers with an end far below its log's, for a moment: a
        position beyond the end is judged when the same end was named twice."""
        end = evidence.log_end
        if judged.reason not in (GapReason.LOG_TRUNCATED, GapReason.CURSOR_AHEAD):
            return False
        if not isinstance(end, Known) or judged.base.token.next <= end.value.high_watermark:
            return False
        heard, cursor.short_end = cursor.short_end, end.value.high_watermark
        return heard != cursor.short_end

    def _same_ids_seconds(self, cursor: Cursor, evidence: Evidence) -> float:
        """For how long no other topic ID was answered, beside the registered one. While nothing is
        answered nobody says either, so that such a time begins nothing anew and is not counted."""
        if isinstance(evidence.registry, Known) and isinstance(evidence.topic, Known):
            registered = evidence.registry.value.topics.get(cursor.partition.topic)
            described = evidence.topic.value.topic_id
            ids = (None if registered is None else registered.topic_id, described)
            if ids != cursor.ids:
                cursor.ids, cursor.same_ids_seconds = ids, 0.0
            else:
                passed = max(0.0, cursor.looked_at - cursor.ids_at)
                cursor.same_ids_seconds += min(passed, ANSWERS_APART_SECONDS_MAX)
            cursor.ids_at = self.context.now.monotonic
        return cursor.same_ids_seconds

    def unsettled(self, cursor: Cursor, detail: str) -> None:
        """Nothing is claimed now; the evidence is asked again in a while."""
        cursor.look_at = self.context.now.monotonic + WAIT_SECONDS_MIN
        self.context.move(
            cursor,
            Step.WAIT,
            reason=Verdict.UNAVAILABLE,
            detail=detail,
        )

    def hold(self, cursor: Cursor, judged: verdict.Hold, evidence: Evidence) -> None:
        self.context.state_verdict(
            cursor, judged.verdict, judged.detail, verdict.describe(evidence)
        )
        self.held(cursor, judged, forgotten=isinstance(evidence.stored, Absent))

    def held(self, cursor: Cursor, judged: verdict.Hold, *, forgotten: bool) -> None:
        """`forgotten`: the store has no checkpoint of it."""
        self.context.fence(cursor, judged.detail)
        self.context.stop_fetching(cursor)
        cursor.live = False
        if forgotten and cursor.install is None:
            # What we knew is not there any more: an answer to a request must not compare with it.
            cursor.checkpoint = None
        self.context.hold(cursor, judged, WAIT_SECONDS_MAX)

    def go(self, cursor: Cursor, judged: verdict.Go, evidence: Evidence) -> None:
        cursor.gap = None
        cursor.short_end = None
        cursor.enrolled = False
        if cursor.live and cursor.checkpoint is not None and cursor.hand is not None:
            standing = evidence.stored
            if not isinstance(standing, Known) or standing.value.checkpoint.owner != cursor.owner:
                cursor.live = False
                self.context.fence(cursor, "another member claimed the partition")
            elif (evidence.fetched_to or 0) > judged.log_end:
                # What was read beyond the log's end is not there any more: this attempt is over.
                cursor.live = False
                self.context.fence(cursor, "the log was truncated below what was handed out")
            else:
                cursor.go = judged
                if judged.base.replay != standing.value.checkpoint.replay:
                    # What this look made of a foreign commit, not what it read before a write.
                    cursor.asked_replay = judged.base.replay
                self.context.move(cursor, Step.CONFIRMED, detail="verifying the overlap again")
                self.read_overlap(cursor)
                return
        if cursor.install is not None:
            self.context.stop_fetching(cursor)
            self.unsettled(cursor, "the store has not answered an earlier write yet")
            return
        if self.context.draining:
            self.unsettled(cursor, "draining: nothing new is claimed")
            return
        self.context.state_verdict(
            cursor, judged.verdict, judged.detail, verdict.describe(evidence)
        )
        self.context.stop_fetching(cursor)
        cursor.live = False
        cursor.began_at = self.context.now.monotonic
        cursor.asked_replay = None  # the claim writes it down
        cursor.go = judged
        cursor.claimed_as = judged.verdict
        cursor.distrusted = cursor.distrusted or evidence.cue is Cue.TRUNCATION_REPORTED
        cursor.owner = OwnerId(self.context.new_name("owner"))
        base, answered = self.parts.requests.carried(cursor, judged.base)
        reached = max(base.horizon, base.token.next)
        if judged.horizon_unknown:
            reached = max(reached, judged.log_end)
        cursor.redelivered_below = Offset(max(reached, cursor.handed_to))
        claimed = base.succeed(
            owner=cursor.owner,
            horizon=Offset(max(reached, base.token.next + self.context.policy.horizon_records)),
            gap=None,
        )
        self.context.move(cursor, Step.GO, reason=judged.verdict, detail=judged.detail)
        self.parts.writes.install(
            cursor,
            m.Purpose.CLAIM,
            judged.expected,
            claimed,
            history_ends=judged.history_ends,
            requests=answered,
            audit=(
                Audit(
                    self.context.now.wall, f"claimed: {judged.verdict}", "sidecar", judged.detail
                ),
            ),
        )

    def remember(self, cursor: Cursor, receipts_min: int) -> None:
        cursor.ask = self.context.ask()
        self.context.do(m.ReadMemory(cursor.ask, cursor.partition, receipts_min))

    def memory_read(self, event: m.MemoryRead) -> None:
        cursor = self.context.cursors.get(event.partition)
        if cursor is None or cursor.ask != event.ask or cursor.phase is not Phase.REMEMBERING:
            return
        if isinstance(event.answer, Unreadable):
            self.context.unanswered(cursor, event.answer.fault)
            return
        memory, checkpoint, go = event.answer.value, cursor.checkpoint, cursor.go
        assert checkpoint is not None
        assert go is not None
        if memory.owner != checkpoint.owner:
            # The store went back, or another claimed it: no receipts are no boundary then.
            self.context.lost(
                cursor,
                Cue.COMPARISON_LOST,
                "the checkpoint is another's by now, or gone: its receipts are not ours to compare",
            )
            return
        cursor.receipts = tuple(receipt for run in memory.receipts for receipt in run)
        remembered = {receipt.offset: receipt.digest for receipt in cursor.receipts}
        remembered.update(go.remembered)
        next_ = checkpoint.token.next
        cursor.ahead = {r.offset: r for r in memory.ahead if r.offset >= next_}
        cursor.overtaken = [r.offset for r in memory.ahead if r.offset < next_]
        keep = (
            self.context.policy.receipts_retained_max
            if cursor.widened
            else self.context.policy.overlap_records
        )
        cursor.tail = deque(
            sorted((o, d) for o, d in remembered.items() if o < checkpoint.token.next)[-keep:],
            maxlen=None,
        )
        at = checkpoint.token.next
        cursor.hand = Hand(at, at)
        self.context.move(cursor, Step.REMEMBERED)
        self.read_overlap(cursor)

    def read_overlap(self, cursor: Cursor) -> None:
        """Fetch from the anchor. What is in hand counts as remembered."""
        hand, go, checkpoint = cursor.hand, cursor.go, cursor.checkpoint
        assert hand is not None
        assert go is not None
        assert checkpoint is not None
        hand.drop_unproven()
        cursor.floor_ask = None
        held = list(hand.remembered())
        records = len(held) + (
            self.context.policy.receipts_retained_max
            if cursor.widened
            else self.context.policy.overlap_records
        )
        cursor.overlap = overlap.begin(
            [*cursor.tail, *held],
            position=hand.position,
            floor=go.log_start,
            records=records,
            # A witness remembers its last few only, and what the store forgot before them is not.
            complete_from=go.remembered[0][0] if go.remembered else overlap.START,
        )
        cursor.end_reached = None
        self.fetch(cursor, cursor.overlap.anchor)
        if not cursor.overlap.expected:
            self.conclude(cursor)

    def fetch(self, cursor: Cursor, at: Offset) -> None:
        checkpoint, hand = cursor.checkpoint, cursor.hand
        assert checkpoint is not None
        assert hand is not None
        cursor.session = SessionId(self.context.ask())
        cursor.fetching = True
        cursor.paused = False
        cursor.blocked = None
        hand.began = at
        hand.disturbed = False
        # The epoch is that of the last record below `next`. Beyond it, a later one is right, and
        # asking with this one would look like a truncation.
        beyond = at > checkpoint.token.next
        epoch = None if cursor.distrusted or beyond else checkpoint.token.epoch
        self.context.do(m.Fetch(cursor.partition, cursor.session, at, epoch))

    def conclude(self, cursor: Cursor) -> None:
        """The overlap was read; what counts of it depends on the log start asked from now on."""
        self.context.move(cursor, Step.READ)
        cursor.ask = self.context.ask()
        self.context.do(m.AskFloors(cursor.ask, (cursor.partition,)))

    def concluded(self, cursor: Cursor, floor: Offset) -> None:
        read, go, checkpoint, hand = cursor.overlap, cursor.go, cursor.checkpoint, cursor.hand
        assert read is not None
        assert go is not None
        assert checkpoint is not None
        assert hand is not None
        result = read.conclude(floor=floor, compacted=go.compacted)
        if result.diverged and result.last_matching is None and not cursor.widened:
            if cursor.install is not None:
                self.context.lost(
                    cursor, Cue.RETRY, "the anchor differs; a write has no answer yet"
                )
                return
            cursor.widened = True
            cursor.live = False
            self.context.fence(cursor, "the anchor differs: reading further back")
            self.context.stop_fetching(cursor)
            self.context.move(cursor, Step.WIDEN, detail="the anchor differs: reading further back")
            self.remember(cursor, self.context.policy.receipts_retained_max)
            return
        outcome = "gap" if result.diverged else "boundary" if result.boundary else "verified"
        self.context.note(
            RecoveryEnded(
                cursor.partition,
                go.verdict,
                outcome,
                self.context.now.monotonic - cursor.began_at,
                result.matched,
                result.mismatched,
                result.inconclusive,
                read.anchor,
                checkpoint.token.next,
            )
        )
        cursor.proof = (
            "boundary: nothing is left below the position to compare"
            if result.boundary
            else f"records of overlap that matched their receipts: {result.matched}"
        )
        cursor.overlap = None
        cursor.widened = False
        if result.boundary and cursor.distrusted and checkpoint.token.next > checkpoint.baseline:
            self.truncated(cursor, checkpoint)
            return
        if result.diverged and not _known_to_differ(cursor, checkpoint, result):
            self.diverged(cursor, result)
            return
        if checkpoint.gap is not None:
            self.parts.gaps.verified_below(cursor)
            return
        if go.adopts_topic_id is not None:
            cursor.checkpoint = replace(
                checkpoint,
                identity=replace(
                    checkpoint.identity,
                    topic_id=go.adopts_topic_id,
                    keyed_by=checkpoint.identity.incarnation,
                ),
            )
        while len(cursor.tail) > self.context.policy.overlap_records:
            cursor.tail.popleft()
        cursor.needs_commit = go.commit_first and not cursor.live
        if go.commit_again or go.verdict is Verdict.STORE_ROLLED_BACK:
            self.parts.commits.dirty.add(cursor.partition)
        if not cursor.live and (cursor.needs_commit or not cursor.started):
            self.context.move(cursor, Step.COMMITTED, detail="committing where reading begins")
            if cursor.needs_commit:
                self.parts.commits.dirty.add(cursor.partition)
                self.parts.commits.urgent = True
            if not cursor.started:
                cursor.ask = self.context.ask()
                self.context.do(m.MarkStarted(cursor.ask, checkpoint.store, (cursor.partition,)))
            return
        self.delivering(cursor, Step.VERIFIED)

    def delivering(self, cursor: Cursor, step: Step) -> None:
        """What was shown on the way (a fault, what a commit said) is over: the verdict is the
        attempt's again, and the detail how it was proven."""
        self.context.move(cursor, step, reason=cursor.claimed_as, detail=cursor.proof)
        cursor.live = True
        cursor.shaken = False
        cursor.stated = None
        cursor.wait_seconds = 0.0
        cursor.same_answer_since = None
        self.parts.delivery.promote(cursor)

    def truncated(self, cursor: Cursor, checkpoint: Checkpoint) -> None:
        """The client says that the log was cut, and no record is left to show where."""
        self.parts.gaps.open_gap(
            cursor,
            GapReason.LOG_TRUNCATED,
            Interval(checkpoint.token.next, None),
            checkpoint,
            checkpoint.expected,
            "the log was truncated, and nothing that is remembered can be compared any more",
            {"next": checkpoint.token.next, "log_start": cursor.log_start},
            cursor.gap,
        )

    def diverged_ahead(self, cursor: Cursor, at: Offset) -> None:
        """A receipt beyond the applied position names other bytes than the log holds there."""
        checkpoint = cursor.checkpoint
        assert checkpoint is not None
        self.parts.gaps.open_gap(
            cursor,
            GapReason.LOG_DIVERGED,
            Interval(checkpoint.token.next, Offset(at + 1)),
            checkpoint,
            checkpoint.expected,
            f"the record at {at} is not the one that was applied there",
            {
                "first_differing": at,
                "last_matching": checkpoint.applied,
                "next": checkpoint.token.next,
            },
            None,
        )

    def diverged(self, cursor: Cursor, result: overlap.OverlapResult) -> None:
        checkpoint = cursor.checkpoint
        first = result.first_differing
        assert checkpoint is not None
        assert first is not None
        matching = "none" if result.last_matching is None else str(result.last_matching)
        end = max(checkpoint.token.next, cursor.handed_to)
        self.parts.gaps.open_gap(
            cursor,
            GapReason.LOG_DIVERGED,
            # What differs beyond `next` was handed out and not applied: from `next` on is unsure.
            Interval(Offset(min(first, checkpoint.token.next)), Offset(end)),
            checkpoint,
            checkpoint.expected,
            f"the record at {first} is not the one that was applied there "
            f"(last matching offset: {matching})",
            {
                "first_differing": first,
                "last_matching": result.last_matching,
                "matched": result.matched,
                "mismatched": result.mismatched,
                "inconclusive": result.inconclusive,
                "next": checkpoint.token.next,
                "log_start": cursor.log_start,
            },
            cursor.gap,
        )

    def cursor_failed(self, event: CursorFailed) -> None:
        cursor = self.context.cursors.get(event.partition)
        if cursor is None or cursor.session != event.session or cursor.revoking:
            return
        self.context.note(FaultMet(event.fault, event.partition))
        if cursor.hand is not None:
            cursor.hand.disturbed = True
        if event.blocked_at is not None and cursor.phase is Phase.REPLAYING:
            self.parts.replays.blocked(cursor, event.blocked_at, event.fault.detail)
            return
        if event.blocked_at is not None and cursor.phase in READ_SO_FAR:
            self.blocked(cursor, event.blocked_at, event.fault.detail)
            return
        cursor.fetching = False
        cue = Cue.TRUNCATION_REPORTED if event.truncation else Cue.CURSOR_ERROR
        if event.truncation or event.fault.kind is FaultKind.EPOCH_SUSPECT:
            # The epoch leads nowhere any more: from here on the digests decide.
            cursor.distrusted = True
        if event.truncation:
            self.context.fence(cursor, "the log was truncated below what was handed out")
            cursor.live = False
        if cursor.phase in READ_SO_FAR:
            self.context.do(m.Release(cursor.partition))
            cursor.failures += 1
            if cursor.failures > FAILURES_AT_ONCE:
                # Evidence finds nothing wrong, and nothing can be read all the same.
                wait = min(WAIT_SECONDS_MAX, WAIT_SECONDS_MIN * 2 ** (cursor.failures - 2))
                self.context.lost(
                    cursor,
                    cue,
                    event.fault.detail,
                    wait_seconds=wait,
                    reason=Verdict.AUTHORIZATION
                    if event.fault.kind is FaultKind.AUTHORIZATION
                    else Verdict.UNAVAILABLE,
                )
            else:
                self.context.look(cursor, cue)

    def blocked(self, cursor: Cursor, at: Offset, why: str) -> None:
        """Nothing goes on behind a record that cannot be read; what was read before it does."""
        self.context.stop_fetching(cursor)
        cursor.look_when_drained = None
        cursor.blocked = (at, why)
        if cursor.phase is Phase.VERIFYING:
            self.blocked_in_overlap(cursor, at, why)
        self.look_if_drained(cursor)

    def blocked_in_overlap(self, cursor: Cursor, named: Offset, why: str) -> None:
        read, hand = cursor.overlap, cursor.hand
        assert read is not None
        assert hand is not None
        at = Offset(max(named, hand.began))
        if at >= read.until:  # all of the overlap that can be read was read
            self.conclude(cursor)
            return
        if at >= (cursor.next or 0):
            # It was in hand and is not applied, nor is what was in hand before it: that is read
            # anew, and held only where all before is done.
            self.context.lost(cursor, Cue.CURSOR_ERROR, why)
            return
        deciding = cursor.resolving is not None
        behind = read.behind_unread(named, hand.began, anyway=deciding)
        if behind is not None:
            self.fetch(cursor, behind)
            if behind >= read.until:
                self.conclude(cursor)
        elif cursor.live:
            # Held only by an attempt that just read what the store remembers: an answer changes it.
            self.context.lost(cursor, Cue.CURSOR_ERROR, why)
        else:
            self.hold_blocked(cursor, at, why, applied=True)

    def hold_blocked(self, cursor: Cursor, at: Offset, why: str, *, applied: bool) -> None:
        """Tried again ever less often: a setting or the log's start may let it pass one day.
        `applied`: it lies in the overlap, and cannot be compared any more."""
        detail = f"the record at {at} cannot be read: {why}"
        judged = verdict.Hold(
            Verdict.BLOCKED_RECORD, detail, f"applied {at}" if applied else str(at)
        )
        known = cursor.hold_id == judged.id(self.context.policy.group, cursor.partition)
        cursor.blocked_seconds = min(
            BLOCKED_SECONDS_MAX, cursor.blocked_seconds * 2 if known else WAIT_SECONDS_MAX
        )
        cursor.blocked = None
        cursor.blocked_at = at
        self.context.fence(cursor, detail)
        cursor.live = False
        cursor.overlap = None
        self.context.state_verdict(
            cursor, Verdict.BLOCKED_RECORD, detail, {"blocked_at": at, "next": cursor.next}
        )
        self.context.hold(cursor, judged, cursor.blocked_seconds)

    def credentials_refused(self) -> None:
        """The client says so of its connections; whether it is so of all, evidence tells."""
        for cursor in self.context.cursors.values():
            if cursor.phase in READ_SO_FAR and not cursor.revoking:
                self.context.look(cursor, Cue.ACCESS_DENIED)

    def leader_changed(self, partitions: tuple[Partition, ...]) -> None:
        for partition in partitions:
            cursor = self.context.cursors.get(partition)
            if cursor is None or cursor.revoking:
                continue
            cursor.shaken = True
            if cursor.hand is not None:
                cursor.hand.disturbed = True
            if cursor.phase in READ_SO_FAR:
                self.context.look(cursor, Cue.LEADER_CHANGED)

    def started_marked(self, event: m.StartedMarked) -> None:
        for partition in event.partitions:
            cursor = self.context.cursors.get(partition)
            if cursor is None or cursor.ask != event.ask or cursor.phase is not Phase.COMMITTING:
                continue
            if event.fault is not None:
                self.context.unanswered(cursor, event.fault)
                continue
            cursor.started = True
            if not cursor.needs_commit:
                self.delivering(cursor, Step.COMMITTED)


def _known_to_differ(cursor: Cursor, checkpoint: Checkpoint, result: overlap.OverlapResult) -> bool:
    """Whether it is what the gap that is being decided says, and nothing further below."""
    gap = cursor.gap
    if checkpoint.gap is None or gap is None or gap.reason is not GapReason.LOG_DIVERGED:
        return False
    first, found = gap.evidence.get("first_differing"), result.first_differing
    return isinstance(first, int) and found is not None and found >= first
