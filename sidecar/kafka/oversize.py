"""Which record is larger than the client accepts.

A response beyond `receive.message.max.bytes` breaks the connection to its broker, is asked for
again, breaks it again, and the error names a broker, never a partition. Left alone, every partition
of that broker would stand still without a word.

So the partitions that may have it (fetched, and not at their end) are fetched one at a time. The
one that breaks the connection while it is alone has the record at its position; one that moves on
or reaches its end has not.
"""

from __future__ import annotations

from collections import deque

from sidecar.core.faults import Component, Fault, FaultKind
from sidecar.core.types import Offset, Partition
from sidecar.kafka.assignment import Assignment
from sidecar.kafka.faults import one_line
from sidecar.kafka.translate import Session
from sidecar.ports import CursorFailed

SUSPECT_SECONDS = 5.0
"""How long one partition is fetched alone at most: its broker may have other troubles."""


class OversizeSearch:
    """On the consumer's thread. `noted` may be called inside a callback, `go_on` may not."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._suspects: deque[Partition] = deque()
        self._stood_at = 0
        self._since = 0.0
        self._text: str | None = None

    @property
    def running(self) -> bool:
        return self._text is not None or bool(self._suspects)

    def noted(self, text: str) -> None:
        """The client broke a connection over a response, with these words."""
        self._text = text

    def go_on(self, now: float) -> CursorFailed | None:
        """Between two polls, while `running`. The culprit, once it is found."""
        text, self._text = self._text, None
        if text is None:
            self._judge(now)
            return None
        if self._suspects:  # it happened while this one was fetched alone
            culprit = self._assignment.session(self._suspects[0])
            self._suspects.clear()
            self._isolate(now)
            return None if culprit is None else self._fail(culprit, text)
        for partition in sorted(self._assignment.fetched):
            session = self._assignment.session(partition)
            if session is not None and not (session.paused or session.at_end):
                self._suspects.append(partition)
        self._isolate(now)
        return None

    def _judge(self, now: float) -> None:
        session = self._assignment.session(self._suspects[0])
        innocent = session is None or session.at_end or session.next > self._stood_at
        if innocent or now - self._since > SUSPECT_SECONDS:
            self._suspects.popleft()
            self._isolate(now)

    def _isolate(self, now: float) -> None:
        """The first suspect that is still fetched; nobody, if none is left."""
        assignment = self._assignment
        while self._suspects and assignment.session(self._suspects[0]) is None:
            self._suspects.popleft()
        assignment.alone = self._suspects[0] if self._suspects else None
        if assignment.alone is not None and (session := assignment.session(assignment.alone)):
            self._stood_at = session.next
            self._since = now
        assignment.sync_pauses(assignment.fetched)

    def _fail(self, session: Session, text: str) -> CursorFailed:
        detail = f"the record at offset {session.next}, or its batch, is too large: {text}"
        self._assignment.change(stopped=[session.partition])
        return CursorFailed(
            session.partition,
            session.id,
            Fault(Component.KAFKA, FaultKind.REFUSED, "MSG_SIZE_TOO_LARGE", one_line(detail)),
            truncation=False,
            blocked_at=Offset(session.next),
        )
