"""A partition as a line: which offsets mean something, in order, and what lies between them.

Not to scale: an interval that matters may be one offset long beside one of a billion. Offsets of
different incarnations are never put on one line, because they cannot be compared; what is left
of the earlier one is a line of its own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum

from sidecar.core.checkpoint import Checkpoint
from sidecar.core.evidence import Evidence
from sidecar.core.faults import Known
from sidecar.core.types import GapReason, Interval, Offset, Verdict
from sidecar.core.verdict import Hold, Judgement, Open, Stand


class Stretch(StrEnum):
    """What lies between two marks."""

    BEFORE = "before"
    """Below the baseline: before this history began."""
    GONE = "gone"
    """Applied, and below the log start by now."""
    APPLIED = "applied"
    OVERLAP = "overlap"
    """Applied, and read again before anything is delivered."""
    GAP = "gap"
    WAITING = "waiting"
    """Not yet applied."""
    BEYOND = "beyond"
    """The log does not go so far."""
    LOG = "log"
    """In the log, of an incarnation that nothing is known of."""


@dataclass(frozen=True, slots=True)
class Mark:
    """`names`: what this offset is. `then`: what lies between it and the next mark; None at the
    end of the line, except for a gap whose end is unknown."""

    offset: Offset
    names: tuple[str, ...]
    then: Stretch | None


@dataclass(frozen=True, slots=True)
class Line:
    title: str
    marks: tuple[Mark, ...]


NAMES = (
    *("log_start", "baseline", "anchor", "applied", "next", "committed"),
    *("gap_first", "gap_end", "last_stable", "log_end"),
)
"""In the order in which names that share an offset are given."""


def lines(
    evidence: Evidence,
    judgement: Judgement,
    checkpoint: Checkpoint | None,
    anchor: Offset | None,
) -> tuple[Line, ...]:
    """`checkpoint` is what reading would go on from, `anchor` where it would begin to read."""
    log = _log(evidence)
    if checkpoint is None:
        return (_line("the log", log, None, None, None),) if log else ()
    ours: dict[str, Offset] = {
        "baseline": checkpoint.baseline,
        "applied": checkpoint.applied,
        "next": checkpoint.token.next,
    }
    if checkpoint.applied < checkpoint.baseline:
        del ours["applied"]  # nothing was applied yet
    if anchor is not None and anchor < checkpoint.token.next:
        ours["anchor"] = anchor
    gap = _gap(judgement)
    if gap is not None:
        ours["gap_first"] = gap.first
        if gap.end is not None:
            ours["gap_end"] = gap.end
    if not _another_incarnation(judgement):
        return (_line("", {**log, **ours}, checkpoint, anchor, gap),)
    return (
        _line("as it was, in the earlier incarnation", ours, checkpoint, None, gap),
        _line("the log there is now", log, None, None, None),
    )


def _log(evidence: Evidence) -> dict[str, Offset]:
    found: dict[str, Offset] = {}
    if isinstance(evidence.log_start, Known):
        found["log_start"] = evidence.log_start.value
    if isinstance(evidence.log_end, Known):
        end = evidence.log_end.value
        found["log_end"] = end.high_watermark
        if end.last_stable != end.high_watermark:
            found["last_stable"] = end.last_stable
    if isinstance(evidence.committed, Known):
        found["committed"] = evidence.committed.value.next
    return found


def _gap(judgement: Judgement) -> Interval | None:
    if isinstance(judgement, Open):
        return judgement.interval
    if isinstance(judgement, Stand):
        end = judgement.grown_to or judgement.gap.interval.end
        return Interval(judgement.gap.interval.first, end)
    return None


def _another_incarnation(judgement: Judgement) -> bool:
    match judgement:
        case Open(reason=GapReason.TOPIC_RECREATED):
            return True
        case Stand(gap=gap):
            return gap.reason is GapReason.TOPIC_RECREATED
        case Hold(verdict=Verdict.FOREIGN_CHECKPOINT):
            return True
        case _:
            return False


def _line(
    title: str,
    named: dict[str, Offset],
    checkpoint: Checkpoint | None,
    anchor: Offset | None,
    gap: Interval | None,
) -> Line:
    at: defaultdict[Offset, list[str]] = defaultdict(list)
    for name in NAMES:
        if name in named:
            at[named[name]].append(name)
    offsets = sorted(at)
    marks = []
    for offset in offsets:
        then: Stretch | None = None
        if offset != offsets[-1]:
            then = _stretch(offset, named, checkpoint, anchor, gap)
        elif gap is not None and gap.end is None and offset >= gap.first:
            then = Stretch.GAP
        marks.append(Mark(offset, tuple(at[offset]), then))
    return Line(title, tuple(marks))


def _stretch(
    at: Offset,
    named: dict[str, Offset],
    checkpoint: Checkpoint | None,
    anchor: Offset | None,
    gap: Interval | None,
) -> Stretch:
    if gap is not None and gap.first <= at and (gap.end is None or at < gap.end):
        return Stretch.GAP
    end, start = named.get("log_end"), named.get("log_start")
    if end is not None and at >= end:
        return Stretch.BEYOND
    if checkpoint is None:
        return Stretch.LOG
    if at < checkpoint.baseline:
        return Stretch.BEFORE
    if at >= checkpoint.token.next:
        return Stretch.WAITING
    if start is not None and at < start:
        return Stretch.GONE
    return Stretch.OVERLAP if anchor is not None and at >= anchor else Stretch.APPLIED
