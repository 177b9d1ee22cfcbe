"""What must never happen, checked as it would happen, by the names the docs use.

The oracle shares no code with the product but its values and the witness's format. It keeps what no
sidecar can know: every record that was ever produced, what the applications really did, what the
store really acknowledged. A violation raises at once, with the step that showed it.

Every record has a value of its own, so that the value is the record: it is compared instead of the
product's digest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from sidecar.core.checkpoint import Checkpoint, Install, Replaying
from sidecar.core.faults import Known
from sidecar.core.gap import Gap, GapState, Resolution
from sidecar.core.recovery import Phase
from sidecar.core.request import Request, RequestId, RequestKind, RequestState
from sidecar.core.types import GapId, GapReason, Lineage, Partition, TopicId
from sidecar.core.views import PageOffer, ReportAnswer
from sidecar.core.witness import Ours, Witness, decode
from sidecar.engine import messages as m
from sidecar.engine.cursor import Cursor
from sidecar.ports import CommitRequest

Log: TypeAlias = tuple[TopicId, int]
"""One partition in one incarnation of its topic."""
Value: TypeAlias = bytes | None


FLAGS = frozenset((RequestKind.PAUSE, RequestKind.CONTINUE))
CUT = (GapReason.LOG_TRUNCATED, GapReason.LOG_DIVERGED, GapReason.CURSOR_AHEAD)


class Hole:
    """No record stood there."""


HOLE = Hole()


class Violation(AssertionError):
    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant


@dataclass(frozen=True, slots=True)
class Cut:
    """Of what a log held from `first` to below `end`, at a time."""

    first: int
    end: int
    records: Mapping[int, Value]
    """Those that were owed."""
    read_to: int
    """How far anybody had read."""
    at: int


@dataclass(slots=True)
class Oracle:
    present: Callable[[Log], Collection[int]]
    """Offsets whose records a log holds now."""
    owed: dict[Log, dict[int, Value]] = field(default_factory=lambda: defaultdict(dict))
    """Visible records by offset: what a consumer owes its application. A record that retention
    took is still owed; one that was compacted, aborted or truncated is not."""
    done: dict[Log, dict[int, set[Value]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    """What applications gave a terminal outcome to, by offset."""
    handed: set[tuple[Log, int, Value]] = field(default_factory=set)
    keys: dict[str, Value] = field(default_factory=dict)
    rewritten: dict[Log, int] = field(default_factory=dict)
    """Logs in which an offset was given to other bytes, with the lowest such offset."""
    cuts: dict[Log, list[Cut]] = field(default_factory=lambda: defaultdict(list))
    """Those whose ground nobody has verified, or found cut, since."""
    unseen: dict[Log, dict[int, set[Value | Hole]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    """Offsets whose earlier bytes may have been read, whose later ones retention took before
    anybody could look: nothing in the log or the store shows that there were others. And what
    stood there before, at each cut, which is done by whoever passed it, if it was a record."""
    asked: dict[tuple[str, m.Ask], int] = field(default_factory=dict)
    """When a look began, by who looks; counted in what this is told of."""
    looked: dict[tuple[str, Partition], tuple[Log, int]] = field(default_factory=dict)
    """Looks at a log that had been cut before they began, which come to an end with the attempt."""
    told: int = 0
    acknowledged: dict[Log, int] = field(default_factory=dict)
    """The greatest `next` the store ever installed."""
    covered: dict[Log, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """Intervals of gaps that somebody decided."""
    forgotten: set[Log] = field(default_factory=set)
    """Logs of which neither the store nor Kafka knew anything any more, at some time: what follows
    cannot be told from a first run, so nothing is promised across it."""
    opened: list[Gap] = field(default_factory=list)
    open: dict[Partition, dict[GapId, Log]] = field(default_factory=lambda: defaultdict(dict))
    """Gaps the store acknowledged, that nobody decided and nothing superseded."""
    again: dict[tuple[Log, RequestId], set[int]] = field(default_factory=lambda: defaultdict(set))
    """What was handed out for each replay that somebody asked for."""

    # The engine

    def stepped(
        self,
        who: str,
        event: m.Event,
        commands: Sequence[m.Command],
        cursors: Mapping[Partition, Cursor],
    ) -> None:
        """What an engine did upon one event."""
        self.told += 1
        if isinstance(event, m.Looked) and (who, event.ask) in self.asked:
            self._looked(who, event, self.asked.pop((who, event.ask)))
        if self.looked:
            self._verified(who, cursors)
        for command in commands:
            if isinstance(command, m.Look):
                self.asked[who, command.ask] = self.told
            elif isinstance(command, m.Commit):
                self._confirmed(event, command)
            elif isinstance(command, m.PerformInstall) and isinstance(event, m.Looked):
                self._judged(event, command.install)

    def _looked(self, who: str, event: m.Looked, began: int) -> None:
        for partition, evidence in event.evidence.items():
            self.looked.pop((who, partition), None)
            if isinstance(evidence.topic, Known) and isinstance(evidence.log_end, Known):
                topic_id = evidence.topic.value.topic_id
                if topic_id is not None and self.cuts.get((topic_id, partition.index)):
                    self.looked[who, partition] = (topic_id, partition.index), began

    def _verified(self, who: str, cursors: Mapping[Partition, Cursor]) -> None:
        """Whoever delivers upon a look that began after a cut has verified the ground, or could
        have; whoever stops has found it cut."""
        for partition, cursor in cursors.items():
            if (who, partition) in self.looked and (
                cursor.phase in (Phase.DELIVERING, Phase.REPLAYING)
                or (cursor.gap is not None and cursor.gap.reason in CUT)
            ):
                log, began = self.looked.pop((who, partition))
                self.cuts[log] = [cut for cut in self.cuts[log] if cut.at > began]

    def _confirmed(self, event: m.Event, commit: m.Commit) -> None:
        """A commit goes out only upon the answer that named its topic's identity."""
        for partition, request in commit.offsets.items():
            reading = (
                event.topics.get(partition.topic) if isinstance(event, m.TopicsAnswered) else None
            )
            described = reading.value.topic_id if isinstance(reading, Known) else None
            if described is None or f'"{described}"' not in request.metadata:
                raise Violation(
                    "incarnation_pinned",
                    f"{partition}: a commit of {request.next} upon {described}: {request.metadata}",
                )

    def _judged(self, event: m.Looked, install: Install) -> None:
        """What is claimed upon a look lies below neither testimony it was shown."""
        after = install.checkpoint
        evidence = event.evidence.get(after.identity.partition)
        if evidence is None or install.gaps:
            return
        partition, committed = after.identity.partition, evidence.committed
        testified: list[tuple[Log, Lineage, int]] = []
        if isinstance(evidence.stored, Known):
            before = evidence.stored.value.checkpoint
            testified.append((_log(before), before.lineage, before.token.next))
        if isinstance(committed, Known):
            next_, metadata = committed.value.next, committed.value.metadata
            read = decode(metadata, group=evidence.group, partition=partition, committed=next_)
            if isinstance(read, Ours) and read.witness.topic_id is not None:
                log = (read.witness.topic_id, partition.index)
                testified.append((log, read.witness.lineages[-1], next_))
        for log, lineage, reached in testified:
            if log == _log(after) and lineage == after.lineage and after.token.next < reached:
                raise Violation(
                    "applied_monotone",
                    f"{partition}: {after.token.next} was claimed upon testimony of {reached}",
                )

    # The store

    def installed(self, before: Checkpoint | None, install: Install, holding: Gap | None) -> None:
        after = install.checkpoint
        log = _log(after)
        partition = after.identity.partition
        if after.generation <= (0 if before is None else before.generation):
            raise Violation("cas_or_nothing", f"generation {after.generation} did not rise")
        expected = install.expected
        if (None if before is None else before.expected) != expected:
            raise Violation("cas_or_nothing", f"{partition}: {before} replaced upon {expected}")
        if install.receipts and before is not None and before.owner != after.owner:
            raise Violation(
                "zombie_writes_nothing",
                f"{partition}: {after.owner} wrote receipts over {before.owner}'s checkpoint",
            )
        resolved = [g for g in install.gaps if g.state is GapState.RESOLVED]
        for gap in install.gaps:
            if gap.state is GapState.OPEN:
                self.opened.append(gap)
            if gap.state.holds:
                self.open[partition][gap.id] = log
            else:
                self.open[partition].pop(gap.id, None)
        for gap in resolved:
            decision = gap.resolution
            assert decision is not None
            if decision.resolution is not Resolution.RETRACTED:
                self.covered[log].append((gap.interval.first, decision.resume_at))
        part = next((g for g in install.gaps if holding is not None and g.id == holding.id), None)
        if holding is not None and part is not None and part.state.holds:
            # Backfilled in part: somebody vouches for what lies before the rest.
            self.covered[log].append((holding.interval.first, part.interval.first))
        if holding is not None and not resolved and before is not None:
            if after.token != before.token and (
                part is None or after.token.next != part.interval.first
            ):
                raise Violation("gap_holds", f"{partition} moved under an open gap")
            still = after.gap == holding.id or any(
                g.id == holding.id and g.state is GapState.SUPERSEDED for g in install.gaps
            )
            if not still:
                raise Violation("gap_outlives", f"{holding.id} vanished")
        if before is not None:
            if _log(before) == log:
                if before.lineage == after.lineage and after.token.next < before.token.next:
                    raise Violation(
                        "applied_monotone", f"{before.token.next} went back to {after.token.next}"
                    )
                self._moved(log, before.token.next, after.token.next)
            elif not any(g.reason is GapReason.TOPIC_RECREATED for g in resolved):
                raise Violation(
                    "incarnation_pinned", f"{_log(before)} became {log}, and nobody decided it"
                )
        self.acknowledged[log] = max(self.acknowledged.get(log, 0), after.token.next)

    # What people ask for

    def answered_with(
        self, before: Checkpoint | None, install: Install, stood: Mapping[RequestId, Request]
    ) -> None:
        """`stood`: requests as they stood before this write, which answers some of them."""
        after, done = install.checkpoint, []
        partition, log = after.identity.partition, _log(after)
        for request in install.requests:
            if request.id in stood and not stood[request.id].pending:
                raise Violation("request_once", f"{partition}: {request} was answered before")
            if all(entry.fields.get("request") != request.id for entry in install.audit):
                raise Violation("request_once", f"{partition}: {request} is not in the audit")
            if request.state is RequestState.DONE:
                done.append(request)
        if before is None:
            return
        if before.paused != after.paused and FLAGS.isdisjoint(one.kind for one in done):
            raise Violation("paused_stands", f"{partition}: {before.paused} to {after.paused}")
        if _log(before) != log or before.lineage != after.lineage or install.gaps:
            for request in done:
                if request.kind is RequestKind.SKIP:
                    self._skipped(log, before, install, request)
            return
        self._replayed(log, before, install, done, stood)
        for request in done:
            if request.kind is RequestKind.SKIP:
                self._skipped(log, before, install, request)

    def _replayed(
        self,
        log: Log,
        before: Checkpoint,
        install: Install,
        done: Sequence[Request],
        stood: Mapping[RequestId, Request],
    ) -> None:
        """A replay moves nothing but itself, and by what it delivered. What a store acknowledged
        once and forgot is restored from the witness, in a replay that it forgot the end of, too."""
        after = install.checkpoint
        was, now = before.replaying, after.replaying
        restored = before.token.next < after.token.next <= self.acknowledged.get(log, 0)
        moved = before.token != after.token or install.receipts or install.ahead
        if moved and not restored and (was is not None or now is not None):
            raise Violation(
                "replay_moves_nothing", f"{log}: {before.token} to {after.token} during {was}"
            )
        if was is None or was == now:
            return
        if now is None and all(one.id != was.request for one in done):
            asked = stood.get(was.request)
            answered = any(one.id == was.request for one in install.requests)
            if asked is not None and asked.pending and not answered:
                raise Violation("request_once", f"{log}: {was} ended, and is still asked for")
            return  # it was refused, or the store knows no such request any more
        same = now is not None and now.request == was.request
        end = now.position if same and now is not None else was.end
        if log in self.rewritten:
            return
        owed, handed = self.owed[log], self.again[log, was.request]
        for offset in self.present(log):
            if was.position <= offset < end and offset in owed and offset not in handed:
                raise Violation("replay_moves_nothing", f"{log}: {was} passed {offset}")

    def _skipped(self, log: Log, before: Checkpoint, install: Install, request: Request) -> None:
        """One record, at the head of the line: all before it is done."""
        at = request.arguments["offset"]
        assert isinstance(at, int)
        first, end = before.token.next, install.checkpoint.token.next
        if at < first and end == first:
            return  # it was applied, and only what is remembered of it is given up
        if not first <= at < end:
            raise Violation("skip_passes_one", f"{log}: {at} is not of [{first}, {end})")
        owed, done = self.owed[log], self.done[log]
        for offset in range(first, end):
            if offset == at or offset not in owed or owed[offset] in done.get(offset, ()):
                continue
            if log not in self.rewritten:
                raise Violation("skip_passes_one", f"{log}: {offset} was passed beside {at}")
        self.covered[log].append((at, at + 1))

    def _moved(self, log: Log, first: int, end: int) -> None:
        """`prefix_terminal`: everything owed between was done, or a gap covered it."""
        if log in self.rewritten:
            # Other bytes may have taken the place of what stood there, or of a hole, while the
            # promotion was on its way. The next overlap finds it; `accounted` insists at the end.
            return
        owed, done = self.owed[log], self.done[log]
        for offset in range(first, end):
            if offset not in owed or owed[offset] in done.get(offset, ()):
                continue
            if not any(a <= offset < b for a, b in self.covered[log]):
                raise Violation("prefix_terminal", f"{log} passed {offset}, which nobody applied")

    def testified(self, partition: Partition, named: Collection[GapId | None]) -> None:
        """Testimony was taken away: an open gap that nobody names any more cannot be kept."""
        gaps = self.open[partition]
        for gap in [g for g in gaps if g not in named]:
            del gaps[gap]

    # Kafka

    def cut(self, log: Log, first: int, end: int, in_hand_to: int) -> None:
        """What the log held from `first` on is no more; other records may come in its place.
        `in_hand_to`: how far any process has read, whether or not it was promoted."""
        self.told += 1
        self.rewritten[log] = min(first, self.rewritten.get(log, first))
        owed = self.owed[log]
        records = {offset: value for offset, value in owed.items() if offset >= first}
        read_to = max(in_hand_to, self.acknowledged.get(log, 0))
        self.cuts[log].append(Cut(first, end, records, read_to, self.told))
        for offset in records:
            del owed[offset]

    def retained(self, log: Log, floor: int) -> None:
        """Retention took what lies below `floor`. Of several cuts any may have been read before:
        nobody came to know of them in between."""
        unseen = self.unseen[log]
        for cut in self.cuts.get(log, ()):
            for offset in range(cut.first, min(cut.end, floor)):
                if offset in cut.records:
                    unseen[offset].add(cut.records[offset])
                elif offset < cut.read_to:
                    unseen[offset].add(HOLE)

    def committed(
        self, partition: Partition, request: CommitRequest, witness: Witness | None
    ) -> None:
        if witness is None or witness.topic_id is None:
            raise Violation("commit_behind_checkpoint", f"{partition}: {request} has no witness")
        log = (witness.topic_id, partition.index)
        most = self.acknowledged.get(log)
        if most is None or request.next > most:
            raise Violation(
                "commit_behind_checkpoint", f"{log}: commit {request.next}, acknowledged {most}"
            )

    # The application

    def offered(
        self,
        log: Log,
        offer: PageOffer,
        values: list[Value],
        again: Replaying | None,
        *,
        unsure: bool,
    ) -> None:
        """`unsure`: by a process whose clock stood still, so that it cannot know how old it is.
        `again`: the replay that it is a page of."""
        offsets = offer.offsets
        if again is not None:
            if not again.first <= offsets[0] <= offsets[-1] < again.end:
                raise Violation("replay_moves_nothing", f"{log}: {offsets} for {again}")
            if offer.redelivered_below <= offsets[-1]:
                raise Violation("redelivery_flagged", f"{log}: {offsets} for {again}")
            self.again[log, again.request].update(offsets)
        if any(a >= b for a, b in pairwise(offsets)):
            raise Violation("order", f"{log}: {offsets}")
        first = offer.key_prefixes[0][0]
        for offset, value in zip(offsets, values, strict=True):
            seen = (log, offset, value)
            if seen in self.handed:
                if offset >= offer.redelivered_below and log not in self.forgotten and not unsure:
                    raise Violation("redelivery_flagged", f"{log} {offset} came again, not flagged")
            else:
                self.handed.add(seen)
            prefix = next(p for f, p in reversed(offer.key_prefixes) if f <= offset or f == first)
            key = f"{prefix}{offset}"
            if self.keys.setdefault(key, value) != value and log not in self.rewritten:
                raise Violation("redelivery_flagged", f"{key} names other bytes")

    def answered(self, log: Log, answer: ReportAnswer) -> None:
        if answer.next > self.acknowledged.get(log, -1):
            raise Violation("cas_or_nothing", f"{log}: told {answer.next}, not acknowledged")

    # The end

    def accounted(
        self, log: Log, baseline: int, next_: int, gaps: list[Gap], *, held: bool
    ) -> None:
        """At the end every record below the position is done, or declared. `held`: nobody may look
        into this log, so that what was rewritten in it is not found yet. Nor does anybody while a
        foreign reset waits for a decision, whichever it is: before the position moves on, it is."""
        if log in self.forgotten:
            return
        undecided = any(gap.reason is GapReason.EXTERNAL_RESET for gap in gaps)
        if (held or undecided) and log in self.rewritten:
            next_ = min(next_, self.rewritten[log])
        declared = self.covered[log] + [
            (
                self._declared_first(log, gap),
                next_ if gap.interval.end is None else max(next_, gap.interval.end),
            )
            for gap in gaps
        ]
        unseen = self.unseen[log]
        for offset, value in self.owed[log].items():
            if not baseline <= offset < next_ or value in self.done[log].get(offset, ()):
                continue
            was = unseen.get(offset, set())
            if HOLE in was or not was.isdisjoint(self.done[log].get(offset, ())):
                continue
            if not any(a <= offset < b for a, b in declared):
                raise Violation("prefix_terminal", f"{log} {offset} is neither done nor declared")

    def _declared_first(self, log: Log, gap: Gap) -> int:
        """Where what an open gap speaks of begins. Of a log that was cut: where it was cut, however
        much of it was applied before; reading will go on there. Of a topic that was created again:
        also what was promoted since its identity was confirmed, and what had been cut and was gone
        before anybody could look."""
        first: int = gap.interval.first
        if gap.reason is GapReason.TOPIC_RECREATED:
            confirmed = gap.evidence.get("confirmed_to")
            first = confirmed if isinstance(confirmed, int) else 0
        elif gap.reason not in CUT:
            return first
        return min(first, self.rewritten.get(log, first))

    def outlived(self, partition: Partition, named: Collection[GapId | None]) -> None:
        """At the end the gap that nobody decided is named by the store, or by the witness that the
        store will be mended from."""
        for undecided in self.open[partition]:
            if undecided not in named:
                raise Violation(
                    "gap_outlives", f"{partition}: {undecided} was never decided; {named} stands"
                )


def _log(checkpoint: Checkpoint) -> Log:
    topic_id = checkpoint.identity.topic_id
    assert topic_id is not None
    return topic_id, checkpoint.identity.partition.index
