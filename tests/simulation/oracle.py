"""What must never happen, checked as it would happen, by the names the docs use.

The oracle shares no code with the product but its value types. It keeps what no sidecar can know:
every record that was ever produced, what the applications really did, what the store really
acknowledged. A violation raises at once, with the step that showed it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from sidecar.core.checkpoint import Checkpoint, Install
from sidecar.core.gap import Gap, GapState, Resolution
from sidecar.core.types import GapReason, Offset, Partition, TopicId
from sidecar.core.views import PageOffer, ReportAnswer
from sidecar.ports import CommitRequest

Log = tuple[TopicId, int]
"""One partition in one incarnation of its topic."""


class Violation(AssertionError):
    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant


@dataclass(slots=True)
class Oracle:
    owed: dict[Log, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """Visible records by offset, with their digest: what a consumer owes its application. A record
    that retention took is still owed; one that was compacted, aborted or truncated is not."""
    done: dict[Log, dict[int, set[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    """What applications gave a terminal outcome to, by offset and digest."""
    handed: set[tuple[Log, int, int]] = field(default_factory=set)
    keys: dict[str, int] = field(default_factory=dict)
    rewritten: set[Log] = field(default_factory=set)
    """Logs in which an offset was given to other bytes."""
    acknowledged: dict[Log, int] = field(default_factory=dict)
    """The greatest `next` the store ever installed."""
    covered: dict[Log, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """Intervals of gaps that somebody decided."""
    forgotten: set[Log] = field(default_factory=set)
    """Logs of which neither the store nor Kafka knew anything any more, at some time: what follows
    cannot be told from a first run, so nothing is promised across it."""
    opened: list[Gap] = field(default_factory=list)

    # The store

    def installed(self, before: Checkpoint | None, install: Install, holding: Gap | None) -> None:
        after = install.checkpoint
        log = _log(after)
        if after.generation <= (0 if before is None else before.generation):
            raise Violation("cas_or_nothing", f"generation {after.generation} did not rise")
        resolved = [g for g in install.gaps if g.state is GapState.RESOLVED]
        for gap in install.gaps:
            if gap.state is GapState.OPEN:
                self.opened.append(gap)
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
                raise Violation("gap_holds", f"{after.identity.partition} moved under an open gap")
            still = after.gap == holding.id or any(
                g.id == holding.id and g.state is GapState.SUPERSEDED for g in install.gaps
            )
            if not still:
                raise Violation("gap_outlives", f"{holding.id} vanished")
        if before is not None and _log(before) == log:
            same_lineage = before.lineage == after.lineage
            if same_lineage and after.token.next < before.token.next:
                raise Violation(
                    "applied_monotone", f"{before.token.next} went back to {after.token.next}"
                )
            self._moved(log, before.token.next, after.token.next)
        self.acknowledged[log] = max(self.acknowledged.get(log, 0), after.token.next)

    def _moved(self, log: Log, first: int, end: int) -> None:
        """`prefix_terminal`: everything owed between was done, or a gap covered it."""
        owed, done = self.owed[log], self.done[log]
        for offset in range(first, end):
            digest = owed.get(offset)
            if digest is None or digest in done.get(offset, ()):
                continue
            if log in self.rewritten:
                # Other bytes took the place of what stood there, or of a hole, while the promotion
                # was on its way. The next overlap finds it; `accounted` insists at the end.
                continue
            if not any(a <= offset < b for a, b in self.covered[log]):
                raise Violation("prefix_terminal", f"{log} passed {offset}, which nobody applied")

    # Kafka

    def committed(self, log: Log, request: CommitRequest) -> None:
        most = self.acknowledged.get(log)
        if most is None or request.next > most:
            raise Violation(
                "commit_behind_checkpoint", f"{log}: commit {request.next}, acknowledged {most}"
            )

    # The application

    def offered(self, log: Log, offer: PageOffer, digests: list[int]) -> None:
        if offer.offsets != sorted(set(offer.offsets)):
            raise Violation("order", f"{log}: {offer.offsets}")
        for offset, digest in zip(offer.offsets, digests, strict=True):
            seen = (log, offset, digest)
            again = seen in self.handed and log not in self.forgotten
            if again and offset >= offer.redelivered_below:
                raise Violation("redelivery_flagged", f"{log} {offset} came again, not flagged")
            self.handed.add(seen)
            prefix = next(
                p
                for f, p in reversed(offer.key_prefixes)
                if f <= offset or f == offer.key_prefixes[0][0]
            )
            key = f"{prefix}{offset}"
            if self.keys.setdefault(key, digest) != digest and log not in self.rewritten:
                raise Violation("redelivery_flagged", f"{key} names other bytes")

    def answered(self, log: Log, answer: ReportAnswer) -> None:
        if answer.next > self.acknowledged.get(log, -1):
            raise Violation("cas_or_nothing", f"{log}: told {answer.next}, not acknowledged")

    # The end

    def accounted(self, log: Log, baseline: int, next_: int, gaps: list[Gap]) -> None:
        """At the end every record below the position is done, or declared."""
        if log in self.forgotten:
            return
        declared = self.covered[log] + [
            (_declared_first(g), next_ if g.interval.end is None else g.interval.end) for g in gaps
        ]
        for offset, digest in self.owed[log].items():
            if not baseline <= offset < next_ or digest in self.done[log].get(offset, ()):
                continue
            if not any(a <= offset < b for a, b in declared):
                raise Violation("prefix_terminal", f"{log} {offset} is neither done nor declared")


def _declared_first(gap: Gap) -> int:
    """A topic that was created again: also what was promoted since its identity was confirmed."""
    if gap.reason is not GapReason.TOPIC_RECREATED:
        return gap.interval.first
    confirmed = gap.evidence.get("confirmed_to")
    return confirmed if isinstance(confirmed, int) else 0


def _log(checkpoint: Checkpoint) -> Log:
    topic_id = checkpoint.identity.topic_id
    assert topic_id is not None
    return topic_id, checkpoint.identity.partition.index


__all__ = ["Log", "Offset", "Oracle", "Partition", "Violation"]
