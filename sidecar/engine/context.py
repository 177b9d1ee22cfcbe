"""What every part of the engine shares: the cursors, the time, the commands of this step, and the
few moves that all of them make.
"""

from __future__ import annotations

from dataclasses import replace

from sidecar.core import verdict
from sidecar.core.answerable import hold_of
from sidecar.core.evidence import Cue
from sidecar.core.facts import (
    ConditionChanged,
    Fact,
    FaultMet,
    StateChanged,
    VerdictReached,
)
from sidecar.core.faults import Fault
from sidecar.core.policy import Policy
from sidecar.core.recovery import Phase, Step, after
from sidecar.core.types import (
    Condition,
    Fields,
    Instant,
    Offset,
    Partition,
    Verdict,
)
from sidecar.core.views import (
    Refusal,
    Refused,
)
from sidecar.engine import messages as m
from sidecar.engine.cursor import Cursor
from sidecar.engine.hand import Hand
from sidecar.errors import InvariantBroken

WAIT_SECONDS_MIN = 0.25
WAIT_SECONDS_MAX = 5.0


class Context:
    """`name` is unique to this process's life: owner marks, attempts, pages and gaps are named
    after it, by counting, so that the same events give the same names."""

    def __init__(self, policy: Policy, *, name: str) -> None:
        self.policy = policy
        self.name = name
        self.cursors: dict[Partition, Cursor] = {}
        self.draining = False
        self.client_faulted = False
        self.store_refused: str | None = None
        self.now = Instant(0.0, 0.0)
        self.offers_from = 0.0
        """Nothing is handed out before this time, monotonic."""
        self.out: list[m.Command] = []
        self.looks: dict[Partition, Cue] = {}
        self.touched: dict[Partition, None] = {}
        """Cursors this step changed: only these are looked at afterwards, so that a step costs
        the same with one partition and with a thousand."""
        self.taken: set[tuple[Phase, Step]] = set()
        """Rows of the recovery table that this life took."""
        self.verdicts: set[str] = set()
        """Verdicts that this life reached."""
        self._count = 0

    def do(self, command: m.Command) -> None:
        self.out.append(command)

    def note(self, fact: Fact) -> None:
        self.out.append(m.Note(fact))

    def ask(self) -> m.Ask:
        self._count += 1
        return m.Ask(self._count)

    def new_name(self, kind: str) -> str:
        self._count += 1
        return f"{self.name}-{kind}{self._count}"

    def move(
        self, cursor: Cursor, step: Step, *, reason: Verdict | None = None, detail: str = ""
    ) -> None:
        phase = after(cursor.phase, step)
        if phase is None:
            raise InvariantBroken(
                "recovery_table", f"{cursor.partition}: no step {step} from {cursor.phase}"
            )
        self.taken.add((cursor.phase, step))
        if reason is not None:
            self.verdicts.add(reason.value)
        before = cursor.state
        self.touched.setdefault(cursor.partition)
        if cursor.phase is not Phase.LOOKING:
            resting = cursor.phase in (Phase.WAITING, Phase.HELD, Phase.GAP)
            cursor.resting = cursor.phase if resting else None
        cursor.phase = phase
        if reason is not None:
            cursor.verdict = reason
        if detail or reason is not None:
            cursor.detail = detail
        if cursor.state is not before:
            cursor.since = self.now.wall
            cursor.caught_up = False
            self.note(StateChanged(cursor.partition, cursor.state, cursor.verdict, cursor.detail))

    def state_verdict(
        self, cursor: Cursor, reached: Verdict, detail: str, evidence: Fields
    ) -> None:
        if cursor.stated != (reached, detail):
            cursor.stated = (reached, detail)
            self.note(VerdictReached(cursor.partition, reached, detail, evidence))

    def look(self, cursor: Cursor, cue: Cue) -> None:
        """Asks for evidence; whatever was asked before is late from now on."""
        if cursor.revoking:
            return
        if cursor.phase is Phase.REPLAYING and cursor.next is not None:
            # What is in hand is of the past; it is read again from where its progress stands.
            self.fence(cursor, "the ground is looked at again; these records come again")
            self.stop_fetching(cursor)
            cursor.hand = Hand(cursor.next, cursor.next)
        self.move(cursor, Step.LOOK)
        cursor.cue = cue
        cursor.look_at = None
        cursor.looked_at = self.now.monotonic
        cursor.look_when_drained = None
        cursor.drained = False
        self.looks[cursor.partition] = cue

    def hold(self, cursor: Cursor, judged: verdict.Hold, wait_seconds: float) -> None:
        """Held until somebody answers or what was found is another thing by then."""
        cursor.hold_id = judged.id(self.policy.group, cursor.partition)
        self.move(cursor, Step.HOLD, reason=judged.verdict, detail=judged.detail)
        cursor.look_at = self.now.monotonic + wait_seconds

    def wait(self, cursor: Cursor, judged: verdict.Wait) -> None:
        now = self.now.monotonic
        news = cursor.same_answer != judged.answer or cursor.same_answer_since is None
        if news and cursor.phase is not Phase.ENROLLING:  # which an answered look led to
            cursor.wait_seconds = 0.0
        if cursor.same_answer_since is None or cursor.same_answer != judged.answer:
            cursor.same_answer_since = now
            self.note(FaultMet(judged.fault, cursor.partition))
        cursor.same_answer = judged.answer
        if judged.latched:
            cursor.hold_id = hold_of(judged, self.policy.group, cursor.partition)
        # What somebody has to mend first is not asked for several times a second.
        cursor.wait_seconds = (
            WAIT_SECONDS_MAX
            if judged.latched
            else min(WAIT_SECONDS_MAX, max(WAIT_SECONDS_MIN, cursor.wait_seconds * 2))
        )
        cursor.look_at = now + cursor.wait_seconds
        self.move(cursor, Step.WAIT, reason=judged.verdict, detail=judged.fault.detail)

    def displaced(self, cursor: Cursor, detail: str) -> None:
        """Another owner claimed what we deliver, so one of the two is a zombie and does not know
        it. If we are, the group says so within a session: until then nothing is claimed back.
        Were it claimed back at once, two members would take it from each other again and again."""
        self.lost(
            cursor,
            Cue.COMPARISON_LOST,
            detail,
            wait_seconds=self.policy.session_timeout_seconds,
        )
        if cursor.phase is Phase.LOOKING:
            self.move(cursor, Step.WAIT, reason=Verdict.UNAVAILABLE, detail=detail)

    def lost(
        self,
        cursor: Cursor,
        cue: Cue,
        detail: str,
        *,
        wait_seconds: float = WAIT_SECONDS_MIN,
        reason: Verdict = Verdict.UNAVAILABLE,
    ) -> None:
        """This attempt is over: its pages are fenced, and the evidence is asked again."""
        self.fence(cursor, detail)
        self.stop_fetching(cursor)
        cursor.live = False
        cursor.owner = None
        cursor.overlap = None
        cursor.floor_ask = None
        cursor.cue = cue
        cursor.look_at = self.now.monotonic + wait_seconds
        if cursor.phase in (Phase.LOOKING, Phase.WAITING, Phase.ENROLLING):
            return
        self.move(cursor, Step.LOST, reason=reason, detail=detail)

    def unanswered(self, cursor: Cursor, fault: Fault) -> None:
        """A question of this attempt was not answered, so the attempt is over. The next one claims
        anew, which is a write: ever less often, and seldom where somebody has to grant something
        first."""
        self.note(FaultMet(fault, cursor.partition))
        cursor.failures += 1
        wait = WAIT_SECONDS_MAX
        if not fault.denied:
            wait = min(wait, WAIT_SECONDS_MIN * 2 ** min(cursor.failures - 1, 10))
        reason = verdict.waiting(fault, patient=False).verdict
        self.lost(cursor, Cue.RETRY, fault.detail, wait_seconds=wait, reason=reason)

    def fence(self, cursor: Cursor, detail: str) -> None:
        """No page of this attempt can be promoted any more; whoever waits is told. One whose report
        is recorded and who waits for its commit is told so, and how far the commit is."""
        for waiter in cursor.waiters:
            answer = cursor.answers.get(waiter.page)
            if answer is None:
                self.refuse(waiter.request, Refused.PAGE_LOST, detail)
            else:
                self.do(m.Reply(waiter.request, replace(answer, committed=cursor.committed)))
        cursor.waiters.clear()
        if cursor.page is not None:
            # What the store holds beyond the applied position it still holds.
            cursor.ahead.update(cursor.page.stored())
        cursor.hand = None
        cursor.redelivered_below = Offset(max(cursor.redelivered_below, cursor.handed_to))

    def stop_fetching(self, cursor: Cursor) -> None:
        if cursor.fetching:
            self.do(m.Release(cursor.partition))
        cursor.fetching = False
        cursor.paused = False
        cursor.full_since = None
        cursor.end_reached = None

    def refuse(
        self, request: m.RequestId, refused: Refused, detail: str, retry: float | None = None
    ) -> None:
        self.do(m.Reply(request, Refusal(refused, detail, retry)))

    def deny(self, cursor: Cursor, fault: Fault | None) -> None:
        """The store refused a write for want of a right, or takes writes again. The write itself
        is the probe: it is sent again and again, and nothing else stands still for it."""
        if fault == cursor.denied:
            return
        before = cursor.state
        cursor.denied = fault
        if cursor.state is not before:
            cursor.since = self.now.wall
            self.touched.setdefault(cursor.partition)
            detail = cursor.detail if fault is None else fault.detail
            self.note(StateChanged(cursor.partition, cursor.state, cursor.reached, detail))

    def condition(self, cursor: Cursor, condition: Condition, present: bool, detail: str) -> None:
        if (condition in cursor.conditions) == present:
            return
        if present:
            cursor.conditions.add(condition)
        else:
            cursor.conditions.discard(condition)
        self.note(ConditionChanged(cursor.partition, condition, present, detail))
