"""What is in hand of one partition: records that were read and are not promoted yet.

    applied │ page (out with the application) │ ready │ unproven │ … fetcher
            ▲ next                                    ▲ proven   ▲ position

A record becomes *ready* once it is shown that nothing visible lies between it and the one before.
Consecutive offsets show it by themselves. A hole (a control record, an aborted or a compacted
one, or a loss) is shown to hide no loss by a log start at or below it that was asked *after* the
read; until then it and what follows are *unproven*.

At most one page is out at a time; it is promoted from its head, as far as outcomes are terminal.
Everything works on columns: a page costs a few slices, not a loop over its records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sidecar.core.checkpoint import ReceiptRun
from sidecar.core.types import (
    Digest,
    LeaderEpoch,
    Offset,
    Outcome,
    PageId,
    Receipt,
    Record,
)
from sidecar.core.views import AllApplied, Report
from sidecar.ports import Batch


@dataclass(slots=True)
class Slab:
    """A batch and how much of it was taken. `begins` is where its ground begins: the position
    before it was read, so a hole in front of its first record belongs to it."""

    batch: Batch
    begins: Offset
    taken: int = 0

    @property
    def left(self) -> int:
        return len(self.batch.offsets) - self.taken

    @property
    def first(self) -> Offset:
        return Offset(self.batch.offsets[self.taken])


@dataclass(slots=True)
class Page:
    """Records handed out together. `outcomes` is parallel to `offsets`; `done` of them, from the
    head, are promoted."""

    id: PageId
    attempt: int
    handed_at: float
    deadline: float
    offsets: list[int]
    digests: list[int]
    records: list[Record]
    epochs: list[tuple[Offset, LeaderEpoch | None]]
    outcomes: list[Outcome | None]
    durable: set[int] = field(default_factory=set)
    retried: set[int] = field(default_factory=set)
    """Offsets reported as to be retried since the page was handed out, in however many reports."""
    done: int = 0
    closed: bool = False
    """No more reports are expected of it: what is left is offered again."""
    offer_after: float = 0.0

    @property
    def resolved(self) -> bool:
        return None not in self.outcomes

    @property
    def unresolved(self) -> tuple[Offset, ...]:
        return tuple(
            Offset(o)
            for o, outcome in zip(self.offsets, self.outcomes, strict=True)
            if outcome is None
        )

    def covers(self, report: Report) -> bool:
        """Whether each offset of the report is in this page."""
        if isinstance(report, AllApplied):
            through = report.through
            return through is None or self.offsets[0] <= through <= self.offsets[-1]
        known = set(self.offsets)
        return all(offset in known for offset, _ in report.outcomes)

    def take(self, report: Report) -> bool:
        """Notes the outcomes; the first terminal one of a record stands. True when everything
        that is left was reported as to be retried."""
        outcomes = self.outcomes
        if isinstance(report, AllApplied):
            last = self.offsets[-1] if report.through is None else report.through
            if report.outcome is Outcome.RETRY:
                self.retried.update(o for o in self.offsets if o <= last)
                return self._only_retries_left()
            if last == self.offsets[-1] and outcomes.count(None) == len(outcomes):
                self.outcomes = [report.outcome] * len(outcomes)
                return False
            for i, offset in enumerate(self.offsets):
                if offset > last:
                    break
                if outcomes[i] is None:
                    outcomes[i] = report.outcome
            return self._only_retries_left()
        index = {offset: i for i, offset in enumerate(self.offsets)}
        for offset, outcome in report.outcomes:
            i = index[offset]
            if outcome is Outcome.RETRY:
                self.retried.add(offset)
            elif outcomes[i] is None:
                outcomes[i] = outcome
        return self._only_retries_left()

    def _only_retries_left(self) -> bool:
        if not self.retried or self.resolved:
            return False
        return all(
            outcome is not None or offset in self.retried
            for offset, outcome in zip(self.offsets, self.outcomes, strict=True)
        )

    def head(self) -> int:
        """How many leading records have a terminal outcome."""
        try:
            return self.outcomes.index(None, self.done)
        except ValueError:
            return len(self.outcomes)

    def run(self, head: int) -> ReceiptRun:
        """Receipts of the records from `done` to `head`."""
        outcomes = self.outcomes[self.done : head]
        first = outcomes[0]
        if first is not None and outcomes.count(first) == len(outcomes):
            each: Outcome | list[Outcome] = first
        else:
            each = [outcome for outcome in outcomes if outcome is not None]
        return ReceiptRun(self.offsets[self.done : head], self.digests[self.done : head], each)

    def beyond(self, head: int) -> list[Receipt]:
        """Receipts behind an unresolved head that the store does not hold yet."""
        if head >= len(self.outcomes):
            return []
        return [
            Receipt(Offset(self.offsets[i]), Digest(self.digests[i]), outcome)
            for i in range(head, len(self.outcomes))
            if (outcome := self.outcomes[i]) is not None and self.offsets[i] not in self.durable
        ]

    def stored(self) -> dict[Offset, Receipt]:
        """Receipts of this page that the store holds beyond the applied position."""
        return {
            Offset(o): Receipt(Offset(o), Digest(d), outcome)
            for o, d, outcome in zip(self.offsets, self.digests, self.outcomes, strict=True)
            if o in self.durable and outcome is not None
        }

    def epoch_below(self, offset: Offset) -> LeaderEpoch | None:
        """The leader epoch of the last record below `offset`."""
        found: LeaderEpoch | None = None
        for first, epoch in self.epochs:
            if first < offset:
                found = epoch
        return found


@dataclass(slots=True)
class Hand:
    position: Offset
    """The next offset the fetcher will read: everything below is in hand or applied."""
    began: Offset
    """Where the present session began to read."""
    ready: deque[Slab] = field(default_factory=deque)
    unproven: deque[tuple[int, Slab]] = field(default_factory=deque)
    """Slabs with a hole, and those behind them, with the hand's read count when they came."""
    page: Page | None = None
    trailing: tuple[int, Offset] | None = None
    """The end was reached at this position with nothing visible before it; not proven yet."""
    reads: int = 0
    records: int = 0
    bytes: int = 0
    disturbed: bool = False
    """A pause, an error or a new session since the last record: a hole here is read once more."""

    def intake(self, batch: Batch) -> Offset | None:
        """Takes a batch in. Returns the offset to read again from, when the batch begins with a
        hole that came right after a disturbance; the batch is then not taken."""
        offsets = batch.offsets
        if offsets[0] < self.position:
            batch = _from(batch, self.position)
            offsets = batch.offsets
            if not offsets:
                return None
        if self.disturbed and offsets[0] != self.position and self.position != self.began:
            return self.position
        self.disturbed = False
        self.reads += 1
        slab = Slab(batch, self.position)
        contiguous = offsets[0] == self.position and offsets[-1] - offsets[0] + 1 == len(offsets)
        if contiguous and not self.unproven:
            self.ready.append(slab)
        else:
            self.unproven.append((self.reads, slab))
        self.position = Offset(offsets[-1] + 1)
        self.records += len(offsets)
        self.bytes += sum(batch.sizes)
        self.trailing = None
        return None

    def reached(self, position: Offset) -> None:
        """The fetcher stands at the end; what lies between is a hole, proven by the floor."""
        if position > self.position:
            self.reads += 1
            self.trailing = (self.reads, position)

    @property
    def wants_floor(self) -> bool:
        return bool(self.unproven) or self.trailing is not None

    @property
    def proven_to(self) -> Offset:
        return self.unproven[0][1].begins if self.unproven else self.position

    @property
    def head(self) -> Offset | None:
        """The first record that has no outcome; None while none is in hand."""
        page = self.page
        if page is None:
            return self.ready[0].first if self.ready else None
        return None if page.resolved else Offset(page.offsets[page.head()])

    @property
    def frontier(self) -> Offset:
        """Where reading goes on once the page out is done: the next record, or the end of what
        is proven."""
        return self.ready[0].first if self.ready else self.proven_to

    def prove(self, reads: int, floor: Offset) -> tuple[list[tuple[Offset, Offset]], Offset | None]:
        """A floor asked after `reads` reads. Returns the holes it covers, and the first offset it
        does not: from there on nothing is kept, and reading stops."""
        covered: list[tuple[Offset, Offset]] = []
        while self.unproven and self.unproven[0][0] <= reads:
            slab = self.unproven[0][1]
            holes = list(_holes(slab))
            lost = next((first for first, _ in holes if first < floor), None)
            if lost is not None:
                self._cut(lost)
                return covered, lost
            covered += holes
            self.unproven.popleft()
            self.ready.append(slab)
        if self.trailing is not None and self.trailing[0] <= reads and not self.unproven:
            end = self.trailing[1]
            self.trailing = None
            if self.position < floor:
                return covered, self.position
            covered.append((self.position, end))
            self.position = end
        return covered, None

    def _cut(self, at: Offset) -> None:
        """Nothing from `at` on is kept: it could not be covered."""
        slab = self.unproven[0][1]
        keep = sum(1 for o in slab.batch.offsets if o < at)
        for _, gone in self.unproven:
            self.records -= len(gone.batch.offsets)
            self.bytes -= sum(gone.batch.sizes)
        self.unproven.clear()
        if keep:
            kept = _slice(slab.batch, 0, keep)
            self.ready.append(Slab(kept, slab.begins))
            self.records += keep
            self.bytes += sum(kept.sizes)
        self.position = at
        self.trailing = None

    def cut_page(
        self, *, records_max: int, bytes_max: int, below: Offset
    ) -> tuple[list[int], list[int], list[Record], list[tuple[Offset, LeaderEpoch | None]]] | None:
        """The columns of the next page, taken from what is ready; None when there is nothing
        below `below`. At least one record, however large it is."""
        offsets: list[int] = []
        digests: list[int] = []
        records: list[Record] = []
        epochs: list[tuple[Offset, LeaderEpoch | None]] = []
        size = 0
        while self.ready and len(offsets) < records_max:
            slab = self.ready[0]
            batch = slab.batch
            start = slab.taken
            stop = min(len(batch.offsets), start + records_max - len(offsets))
            if batch.offsets[stop - 1] >= below:
                stop = next((i for i in range(start, stop) if batch.offsets[i] >= below), stop)
            taken = sum(batch.sizes[start:stop])
            if size + taken > bytes_max:
                stop, taken = _fit(batch.sizes, start, stop, bytes_max - size, bool(offsets))
            if stop == start:
                break
            offsets += batch.offsets[start:stop]
            digests += batch.digests[start:stop]
            records += batch.records[start:stop]
            epochs += batch.epochs
            size += taken
            slab.taken = stop
            self.records -= stop - start
            self.bytes -= taken
            if slab.left:
                break
            self.ready.popleft()
        return (offsets, digests, records, epochs) if offsets else None

    @property
    def first_record(self) -> Record | None:
        """The first record that is not promoted yet, if it is the next one for certain."""
        if self.page is not None:
            return self.page.records[self.page.done]
        if self.ready:
            return self.ready[0].batch.records[self.ready[0].taken]
        return None

    def remembered(self) -> Iterator[tuple[Offset, Digest]]:
        """Offset and digest of everything in hand, the page first."""
        if self.page is not None:
            page = self.page
            for o, d in zip(page.offsets[page.done :], page.digests[page.done :], strict=True):
                yield Offset(o), Digest(d)
        for slab in self.ready:
            batch = slab.batch
            for i in range(slab.taken, len(batch.offsets)):
                yield Offset(batch.offsets[i]), Digest(batch.digests[i])

    def drop_unproven(self) -> None:
        """Before the ground is read again: what was not proven is read anew."""
        if self.unproven:
            self.position = self.unproven[0][1].begins
            for _, slab in self.unproven:
                self.records -= len(slab.batch.offsets)
                self.bytes -= sum(slab.batch.sizes)
            self.unproven.clear()
        self.trailing = None

    @property
    def empty(self) -> bool:
        return self.page is None and not self.ready and not self.unproven


def _fit(sizes: Sequence[int], start: int, stop: int, room: int, begun: bool) -> tuple[int, int]:
    taken = 0
    for i in range(start, stop):
        if taken + sizes[i] > room and (begun or i > start):
            return i, taken
        taken += sizes[i]
    return stop, taken


def _holes(slab: Slab) -> Iterator[tuple[Offset, Offset]]:
    expected = slab.begins
    for offset in slab.batch.offsets:
        if offset != expected:
            yield expected, Offset(offset)
        expected = Offset(offset + 1)


def _from(batch: Batch, position: Offset) -> Batch:
    """Without what lies below `position` (a session that began earlier reads it again)."""
    keep = next((i for i, o in enumerate(batch.offsets) if o >= position), len(batch.offsets))
    return _slice(batch, keep, len(batch.offsets))


def _slice(batch: Batch, start: int, stop: int) -> Batch:
    return Batch(
        batch.offsets[start:stop],
        batch.digests[start:stop],
        batch.sizes[start:stop],
        batch.records[start:stop],
        batch.epochs,
    )
