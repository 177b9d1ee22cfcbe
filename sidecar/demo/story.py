"""The story, step by step. Each step does something to the cursor, waits until the consequence is
there, and says what was promised about it and whether it was so.

A promise that is not kept does not end the story; it is told, and the story ends in failure. What
ends it at once is a process that dies by itself, and a consequence that never comes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sidecar.core.gap import GapState, Resolution
from sidecar.core.types import GapReason, PartitionState, Verdict
from sidecar.demo.application import Away
from sidecar.demo.cast import SESSION_SECONDS, Application, SidecarProcess, lost
from sidecar.demo.cluster import Cluster
from sidecar.demo.ledger import Account, account
from sidecar.demo.stage import NotSeen, Stage, StageFailed
from sidecar.demo.telling import Span, Teller

STEP_SECONDS = 20.0
OVERLAP_RECORDS = 64
"""RECOVERY__OVERLAP_RECORDS, by default."""
FIRST = 100
MORE = 100
UNPAID = 60
"""Of the second hundred, the order at which the application waits."""
AWAY = 60
"""Orders that come while the sidecar is down."""
CUT = 0
"""The partition whose page is cut by the kill."""
FORGETFUL = 1
"""The partition whose log loses its oldest records."""
WHO = "on-call@example.org"
COMPLAINTS_MAX = 10


@dataclass(slots=True)
class Outcome:
    """What `--summary` writes. The numbers of the account are in it once there is one."""

    not_seen: list[str] = field(default_factory=list)
    account: Account | None = None
    verdicts: list[str] = field(default_factory=list)
    overlap_records_verified: int = 0
    """On the partition whose page was cut."""
    overlap_records_verified_in_all: int = 0
    """On every partition, in every recovery."""
    gaps: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.account is not None and not self.not_seen

    def summary(self) -> dict[str, Any]:
        numbers: dict[str, Any] = {}
        if self.account is not None:
            numbers = asdict(self.account.total) | {
                "unaccounted": self.account.unaccounted,
                "partitions": [{"partition": p, **asdict(r)} for p, r in self.account.rows.items()],
            }
        return {
            "ok": self.ok,
            **numbers,
            "verdicts": self.verdicts,
            "overlap_records_verified": self.overlap_records_verified,
            "overlap_records_verified_in_all": self.overlap_records_verified_in_all,
            "gaps": self.gaps,
            "not_seen": self.not_seen,
        }


class Story:
    def __init__(
        self,
        stage: Stage,
        tell: Teller,
        cluster: Cluster,
        sidecar: SidecarProcess,
        application: Application,
        outcome: Outcome,
    ) -> None:
        self._stage = stage
        self._tell = tell
        self._cluster = cluster
        self._sidecar = sidecar
        self._application = application
        self._ledger = application.ledger
        self._outcome = outcome
        self._partitions = range(cluster.partitions)

    def run(self) -> None:
        try:
            self._normal_delivery()
            self._killed_in_the_middle_of_a_page()
            gap = self._the_log_forgets()
            self._the_gap_is_decided(gap)
            self._the_account()
        finally:
            self._collect()

    # 1

    def _normal_delivery(self) -> None:
        tell, count = self._tell, len(self._partitions)
        tell.step("Normal delivery")
        with tell.waiting("the group gives out its partitions"):
            views = self._sidecar.until_settled(count)
        identity = views[CUT]["topic_id"]
        known_by = f"topic ID {identity}" if identity else "by name, as this log has no topic IDs"
        tell.note(
            f"The sidecar joined the group and has all {count} partitions. Nobody read this topic "
            f"before, so a history begins at offset 0: verdict {Verdict.NEW_GROUP} ({known_by})."
        )
        total = FIRST * count
        tell.doing(f"[b]{total}[/] orders are written, {FIRST} to each partition.")
        for partition in self._partitions:
            self._cluster.write(partition, FIRST)
        self._until_booked("the ledger has every order")
        once = len(self._ledger.lines) == total
        self._promise(
            once and not any(line.redelivered for line in self._ledger.lines),
            f"The application has all [b]{total}[/] in its ledger, each once. It fsyncs an order "
            "first, and reports it then.",
        )
        self._until_committed()
        self._promise(
            all(view["committed"] == FIRST for view in self._sidecar.partitions().values()),
            f"After the reports, the group's cursor moved to [b]{FIRST}[/] on every partition.",
        )

    # 2

    def _killed_in_the_middle_of_a_page(self) -> None:
        tell, where = self._tell, self._name(CUT)
        tell.step("kill -9 in the middle of a page")
        written = {
            partition: self._cluster.write(
                partition, MORE, unpaid=UNPAID if partition == CUT else None
            )
            for partition in self._partitions
        }
        unpaid, end = written[CUT].start + UNPAID, written[CUT].stop
        tell.doing(
            f"[b]{MORE * len(self._partitions)}[/] more orders. The one at offset {unpaid} of "
            f"{where} waits for a payment, so the application waits, a page half done in its hands."
        )
        with tell.waiting("the application gets there"):
            self._until(
                f"the application waits at offset {unpaid} of {where}",
                lambda: self._ledger.refresh()[-1].place == (CUT, unpaid - 1),
            )
        told = self._sidecar.partitions()[CUT]["applied"]
        unreported = unpaid - 1 - told
        self._promise(
            unreported > 0,
            f"Its ledger is at offset {unpaid - 1}, and the sidecar was told of {told}: "
            f"[b]{unreported}[/] orders are done and not reported.",
        )
        tell.doing(
            f"[b]kill -9[/] to the sidecar ({self._sidecar.pid}) and to the application "
            f"({self._application.child.pid}), as when a node loses its power. Then the payment "
            "comes in, and both start again."
        )
        self._sidecar.kill()
        self._application.kill()
        self._application.pay(self._cluster.produced[CUT, unpaid])
        self._sidecar.start()
        self._application.start()
        with tell.waiting("the sidecar starts, and the group gives it its partitions") as seconds:
            self._sidecar.until_settled(len(self._partitions))
            took = seconds()
        self._until_booked("the ledger has every order")
        self._until_committed()
        recoveries = self._recoveries()
        recovered = recoveries.pop(CUT)
        anchor, cursor = recovered["anchor"], recovered["next"]
        matched = self._outcome.overlap_records_verified = recovered["matched"]
        why = (
            "the group knows it by its name"
            if self._cluster.knows_members
            else f"the group had to miss its dead member first, for {SESSION_SECONDS:g} s"
        )
        self._promise(
            recovered["verdict"] == Verdict.RESUME and cursor == told + 1,
            f"The sidecar is back after {took:.1f} s ({why}). Checkpoint and commit agree on the "
            f"cursor of {where}: [b]{cursor}[/], verdict [b]{recovered['verdict']}[/].",
        )
        others = sum(one["matched"] for one in recoveries.values())
        self._promise(
            matched == OVERLAP_RECORDS
            and recovered["mismatched"] == 0
            and recovered["result"] == "verified",
            f"It wants to see that, too: the [b]{matched}[/] records below {cursor} are read once "
            "more, and each is, byte for byte, what was applied there. (So are "
            f"{others} on the other partitions.)",
        )
        row = account(self._cluster.produced, self._ledger.lines, ()).rows[CUT]
        twice = row.applied_twice_flagged
        flagged = {line.offset for line in self._ledger.lines if line.redelivered}
        self._promise(
            twice == unreported and flagged >= set(range(cursor, unpaid)),
            f"The [b]{twice}[/] orders came again, and every one said so: redelivered.",
        )
        tell.picture(
            where,
            [
                Span(anchor, cursor, "▒", "cyan", "read again and compared, not handed out"),
                Span(cursor, unpaid, "█", "yellow", "done before the kill: handed out again"),
                Span(unpaid, end, "░", "green", "in nobody's ledger yet: done now"),
            ],
            [(anchor, "anchor"), (cursor, "cursor"), (unpaid, "killed here"), (end, "log end")],
        )
        tell.note(
            "An application that stores each record's idempotency key with its effect drops the "
            "second ones. This one books them all, so that they can be counted."
        )

    # 3

    def _the_log_forgets(self) -> dict[str, Any]:
        tell, where = self._tell, self._name(FORGETFUL)
        tell.step("The log loses its oldest records, and the cursor points there")
        code = self._sidecar.stop()
        self._promise(code == 0, f"The sidecar is told to stop (SIGTERM), and does: exit {code}.")
        for partition in self._partitions:
            self._cluster.write(partition, AWAY)
        cursor = FIRST + MORE
        self._cluster.lose_oldest(FORGETFUL, cursor)
        start, end = self._cluster.bounds(FORGETFUL)
        tell.doing(
            f"While it is away, [b]{AWAY}[/] more orders come to each partition, and {where} "
            f"forgets its oldest. {self._cluster.how_it_forgets}"
        )
        self._promise(
            cursor < start < end,
            f"The cursor of {where} is {cursor}, and the log begins at {start} now: "
            f"[b]{start - cursor}[/] orders are gone that nobody has read.",
        )
        tell.doing("The sidecar is started again.")
        self._sidecar.start()
        with tell.waiting("the sidecar starts, and the group gives it its partitions"):
            self._sidecar.until_settled(len(self._partitions))
        others = [p for p in self._partitions if p != FORGETFUL]
        self._until_booked("the other partitions go on", *others)
        gaps = [gap for gap in self._sidecar.gaps() if gap["partition"] == FORGETFUL]
        if len(gaps) != 1:
            raise StageFailed(f"{where} has {len(gaps)} gaps, not 1", self._sidecar.child)
        gap = gaps[0]
        self._promise(
            gap["reason"] == GapReason.RETENTION_LOSS
            and gap["state"] == GapState.OPEN
            and (gap["first"], gap["end"]) == (cursor, start),
            f"It opens a gap on {where}: [b]{gap['reason']}[/], offsets {gap['first']} to "
            f"{gap['end'] - 1}, exactly what is gone.",
        )
        tell.picture(
            where,
            [
                Span(0, cursor, "═", "green", f"{cursor} applied"),
                Span(cursor, start, "░", "bold red", f"{start - cursor} gone, the gap"),
                Span(start, end, "█", "cyan", f"{end - start} still in the log"),
            ],
            [(cursor, "next"), (start, "log start"), (end, "log end")],
        )
        view = self._sidecar.partitions()[FORGETFUL]
        untouched = max(self._ledger.applied(FORGETFUL)) == cursor - 1
        self._promise(
            untouched and view["state"] == PartitionState.GAP and view["committed"] == cursor,
            f"{where} stands still, its cursor at {cursor}: nothing from behind the gap was handed "
            "out.",
        )
        self._promise(
            not any(map(self._missing, others)),
            f"The other {len(others)} partitions went on: [b]{AWAY * len(others)}[/] of "
            f"{AWAY * len(others)} new orders are in the ledger.",
        )
        tell.note(
            f"A consumer on its own would have been reset, to {start} or even to {end}, and nobody "
            "would have been told."
        )
        return gap

    # 4

    def _the_gap_is_decided(self, gap: dict[str, Any]) -> None:
        tell, where, path = self._tell, self._name(FORGETFUL), f"/v1/gaps/{gap['id']}"
        tell.step("The gap is decided, by a person")
        tell.doing("Whoever is on call acknowledges it: POST /v1/gaps/ID/acknowledge")
        seen = self._sidecar.post(f"{path}/acknowledge", by=WHO, why="retention was too short")
        still = self._sidecar.partitions()[FORGETFUL]["state"]
        self._promise(
            seen["state"] == GapState.ACKNOWLEDGED and still == PartitionState.GAP,
            f"It is {seen['state']}, and {where} stands still all the same: to see is not to "
            "decide.",
        )
        tell.doing("The loss is accepted, with a name and a reason: POST /v1/gaps/ID/resolve")
        why = "the shop sends these orders once more"
        decided = self._sidecar.post(
            f"{path}/resolve", resolution=Resolution.ACCEPTED, by=WHO, why=why
        )
        start, end = self._cluster.bounds(FORGETFUL)
        resume_at, last = decided["resolution"]["resume_at"], decided["audit"][-1]
        self._promise(
            decided["state"] == GapState.RESOLVED
            and (last["by"], last["why"]) == (WHO, why)
            and resume_at == start == decided["end"],
            f"It is resolved, kept with who, when and why, and {where} goes on at "
            f"[b]{resume_at}[/].",
        )
        left = set(range(start, end))
        with tell.waiting("the application works"):
            self._until(
                f"{where} is read to its end", lambda: left <= self._ledger.applied(FORGETFUL)
            )
            self._until_committed()
        self._promise(
            not any(view["gap"] for view in self._sidecar.partitions().values()),
            f"The [b]{len(left)}[/] orders that the log still had are in the ledger, and every "
            "partition has caught up.",
        )
        tell.note(
            "By hand: cursor-sidecar gaps list, then cursor-sidecar gaps resolve ID "
            "--resolution accepted --by WHO --why TEXT --execute."
        )

    # 5

    def _the_account(self) -> None:
        tell = self._tell
        tell.step("Where is every order?")
        tell.doing(
            "What was written is set against the application's own ledger and against the gaps "
            "that the sidecar declares. Nobody else is asked."
        )
        self._outcome.gaps = self._sidecar.gaps()
        told = self._outcome.account = account(
            self._cluster.produced, self._ledger.refresh(), [lost(g) for g in self._outcome.gaps]
        )
        total = told.total
        rows = {self._name(partition): row for partition, row in told.rows.items()}
        tell.table(
            ("", "produced", "applied once", "twice, flagged", "in a gap", "unaccounted"),
            [
                (
                    name,
                    str(row.produced),
                    str(row.applied),
                    f"[yellow]{row.applied_twice_flagged or ''}[/]",
                    f"[red]{row.in_gaps or ''}[/]",
                    f"[bold red]{row.unaccounted}[/]" if row.unaccounted else "0",
                )
                for name, row in (rows | {"all": total}).items()
            ],
            total=True,
        )
        for complaint in told.complaints[:COMPLAINTS_MAX]:
            tell.seen(False, complaint)
        self._promise(
            told.unaccounted == 0,
            "Every order is in exactly one place: nothing was lost, and nothing done twice, in "
            "silence.",
        )
        self._promise(
            total.applied_twice_flagged > 0 and total.in_gaps > 0,
            f"{total.applied_twice_flagged} were done twice and said so; {total.in_gaps} are gone, "
            "and the gap names each of them.",
        )

    # What the steps share

    def _promise(self, kept: bool, text: str) -> None:
        self._tell.seen(kept, text)
        if not kept:
            self._outcome.not_seen.append(text.replace("[b]", "").replace("[/]", ""))

    def _until(self, what: str, condition: Callable[[], bool | None]) -> None:
        try:
            self._stage.until(what, condition, STEP_SECONDS, self._sidecar.child)
        except NotSeen as missing:
            with contextlib.suppress(Away):
                missing.details = tuple(map(_described, self._sidecar.partitions().values()))
            raise

    def _until_booked(self, what: str, *partitions: int) -> None:
        """Everything that was produced there is in the ledger."""
        asked = partitions or self._partitions
        with self._tell.waiting("the application works"):
            self._until(what, lambda: not any(self._missing(p) for p in asked))

    def _missing(self, partition: int) -> int:
        applied = self._ledger.applied(partition)
        written = [at for where, at in self._cluster.produced if where == partition]
        return sum(at not in applied for at in written)

    def _until_committed(self) -> None:
        """Commits follow, coalesced; and only then is a partition said to have caught up."""

        def committed() -> bool:
            views = self._sidecar.partitions().values()
            return all(v["caught_up"] and v["committed"] == v["log_end"] for v in views)

        self._until("every partition has caught up, and is committed", committed)

    def _recoveries(self) -> dict[int, dict[str, Any]]:
        """The first recovery of each partition since the sidecar was last started."""
        first: dict[int, dict[str, Any]] = {}
        for event in self._sidecar.events("recovery_ended"):
            first.setdefault(event["partition"], event)
        return first

    def _collect(self) -> None:
        verdicts = self._sidecar.events("verdict_reached", ever=True)
        self._outcome.verdicts = [event["verdict"] for event in verdicts]
        recoveries = self._sidecar.events("recovery_ended", ever=True)
        self._outcome.overlap_records_verified_in_all = sum(e["matched"] for e in recoveries)

    def _name(self, partition: int) -> str:
        return f"{self._cluster.topic}/{partition}"


def _described(view: Mapping[str, Any]) -> str:
    shown = ("state", "reason", "next", "committed", "log_start", "log_end", "caught_up", "gap")
    fields = ", ".join(f"{name} {view[name]}" for name in shown if view[name] is not None)
    return f"{view['topic']}/{view['partition']}: {fields}"
