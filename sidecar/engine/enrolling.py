"""The first day of a group, a topic or a partition: one question for all, written down once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import assert_never

from sidecar.core import enrolment, verdict
from sidecar.core.faults import Fault, Unreadable
from sidecar.core.recovery import Phase
from sidecar.engine import messages as m
from sidecar.engine.context import WAIT_SECONDS_MAX, Context
from sidecar.engine.cursor import Cursor
from sidecar.engine.parts import Part


class Enrolling(Part):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._asked: m.Ask | None = None
        self._left_out: Mapping[str, Fault] = MappingProxyType({})
        """Topics that what is being written says nothing of, and why."""

    def enrol(self) -> None:
        """Asks for what the registry is made of, if any partition waits for it."""
        enrolling = [c.partition for c in self.enrolling_cursors()]
        if enrolling and self._asked is None:
            self._asked = self.context.ask()
            self.context.do(m.GatherGroup(self._asked, enrolment.topics_of(enrolling)))

    def enrolling_cursors(self) -> list[Cursor]:
        return [
            c
            for c in self.context.cursors.values()
            if c.phase is Phase.ENROLLING and not c.revoking
        ]

    def group_gathered(self, event: m.GroupGathered) -> None:
        if event.ask != self._asked:
            return
        cursors = self.enrolling_cursors()
        plan = enrolment.enrol(
            event.evidence,
            self.context.policy,
            answered=self.parts.requests.starts(cursors),
            instead={c.partition.topic: c.instead for c in cursors if c.instead is not None},
        )
        match plan:
            case enrolment.CannotEnrol():
                self._asked = None
                for cursor in cursors:
                    self._unanswered(cursor, plan.left_out.get(cursor.partition.topic, plan.fault))
            case enrolment.StartRefused():
                self._asked = None
                for cursor in cursors:
                    self.parts.recovery.held(cursor, verdict.start_refused(), forgotten=True)
            case enrolment.Create() | enrolment.Register():
                self._left_out = plan.left_out
                self.context.do(m.WriteRegistry(self._asked, plan))
            case _:
                assert_never(plan)

    def registry_written(self, event: m.RegistryWritten) -> None:
        if event.ask != self._asked:
            return
        self._asked = None
        for cursor in self.enrolling_cursors():
            if isinstance(event.answer, Unreadable):
                self._unanswered(cursor, event.answer.fault)
            elif cursor.partition.topic in self._left_out:
                self._unanswered(cursor, self._left_out[cursor.partition.topic])
            else:
                cursor.enrolled = True
                self.context.look(cursor, cursor.cue)

    def _unanswered(self, cursor: Cursor, fault: Fault) -> None:
        judged = verdict.waiting(fault, patient=False)
        if isinstance(judged, verdict.Wait):
            self.context.wait(cursor, judged)
        else:
            self.context.hold(cursor, judged, WAIT_SECONDS_MAX)
