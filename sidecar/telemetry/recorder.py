"""Each of the engine's facts, as a log line and as numbers.

Runs on the event loop, twice a page: the children of every metric are looked up once, and what
happens for each page is logged only where `debug` is on. It never raises: a fact that cannot be
recorded is not worth the record that is being delivered.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from typing import Any, assert_never

from sidecar.core import facts as f
from sidecar.core.faults import Component, Fault, FaultKind
from sidecar.core.types import Outcome, Partition, PartitionState, Verdict
from sidecar.telemetry.log import Log
from sidecar.telemetry.metrics import Head, Metrics

_PROOF = (Verdict.RESUME, Verdict.RESUME_AT_BOUNDARY, Verdict.NEW_GROUP, Verdict.NEW_PARTITION)
"""What the normal life of a cursor consists of."""


class TelemetryRecorder:
    def __init__(self, log: Log, metrics: Metrics, wall: Callable[[], float] = time.time) -> None:
        self._log = log
        self._events = log.events
        self._metrics = metrics
        self._wall = wall
        self._debug = log.level <= logging.DEBUG
        self._records = {o: metrics.records.labels(o.value) for o in Outcome}
        self._promotions = {r: metrics.promotions.labels(r) for r in ("won", "lost", "error")}
        self._holes = {kind: metrics.holes.labels(kind) for kind in ("inner", "trailing")}
        self._faults = {
            (component, kind): metrics.faults.labels(component.value, kind.value)
            for component in Component
            for kind in FaultKind
        }
        self._overlap = {
            result: metrics.overlap_records.labels(result)
            for result in ("match", "mismatch", "inconclusive")
        }

    def record(self, fact: f.Fact) -> None:
        try:
            self._record(fact)
        except Exception as error:
            self._limited(
                "fact_not_recorded",
                logging.ERROR,
                (type(fact), type(error)),
                fact=type(fact).__name__,
                error=type(error).__name__,
            )

    def _record(self, fact: f.Fact) -> None:
        match fact:
            case f.PageOffered(partition, first, last, attempt):
                self._offered(partition, first, last)
                if self._debug:
                    self._events.debug(
                        "page_offered", **_at(partition), first=first, last=last, attempt=attempt
                    )
            case f.PromotionEnded():
                self._promoted(fact)
            case f.CommitEnded(committed, refused):
                for partition, fault in refused.items():
                    self._fault("commit_refused", fault, partition)
                if self._debug and committed:
                    self._events.debug(
                        "offsets_committed", offsets={str(p): o for p, o in committed.items()}
                    )
            case f.HoleCovered(partition, first, end, kind):
                self._holes[kind].inc()
                self._metrics.progressed[partition] = self._wall()
                if self._debug:
                    self._events.debug(
                        "hole_covered", **_at(partition), first=first, end=end, kind=kind
                    )
            case f.PartitionsAssigned(partitions):
                now = self._wall()
                for partition in partitions:
                    self._metrics.progressed[partition] = now
                self._events.info("partitions_assigned", partitions=[str(p) for p in partitions])
            case f.PartitionsRevoked(partitions, lost):
                for partition in partitions:
                    self._metrics.progressed.pop(partition, None)
                    self._metrics.heads.pop(partition, None)
                self._events.log(
                    logging.WARNING if lost else logging.INFO,
                    "partitions_lost" if lost else "partitions_revoked",
                    partitions=[str(p) for p in partitions],
                )
            case f.VerdictReached(partition, verdict, detail, evidence):
                self._events.log(
                    logging.INFO if verdict in _PROOF else logging.WARNING,
                    "verdict_reached",
                    **_at(partition),
                    verdict=verdict.value,
                    detail=detail,
                    evidence=evidence,
                )
            case f.StateChanged(partition, state, reason, detail):
                if state is not PartitionState.DELIVERING:
                    self._metrics.heads.pop(partition, None)
                self._events.log(
                    logging.WARNING
                    if state in (PartitionState.HELD, PartitionState.GAP)
                    else logging.INFO,
                    "state_changed",
                    **_at(partition),
                    state=state.value,
                    reason=None if reason is None else reason.value,
                    detail=detail,
                )
            case f.RecoveryEnded():
                self._recovered(fact)
            case f.GapOpened(gap) | f.GapChanged(gap):
                opened = isinstance(fact, f.GapOpened)
                entry = gap.audit[-1] if gap.audit else None
                self._events.log(
                    logging.WARNING if gap.state.holds else logging.INFO,
                    "gap_opened" if opened else "gap_changed",
                    **_at(gap.partition),
                    gap=gap.id,
                    reason=gap.reason.value,
                    state=gap.state.value,
                    first=gap.interval.first,
                    end=gap.interval.end,
                    generation=gap.generation,
                    what=None if entry is None else entry.what,
                    by=None if entry is None else entry.by,
                    evidence=gap.evidence,
                )
            case f.RequestSettled(request):
                self._events.info(
                    "request_settled",
                    **_at(request.partition),
                    request=request.id,
                    kind=request.kind.value,
                    target=request.target,
                    by=request.by,
                    state=request.state.value,
                    code=request.code,
                    detail=request.detail,
                )
            case f.CaughtUp(partition, position):
                self._events.info("caught_up", **_at(partition), position=position)
            case f.ConditionChanged(partition, condition, present, detail):
                self._events.log(
                    logging.WARNING if present else logging.INFO,
                    "condition_appeared" if present else "condition_cleared",
                    **_at(partition),
                    condition=condition.value,
                    detail=detail,
                )
            case f.FaultMet(fault, partition):
                self._fault("fault_met", fault, partition)
            case f.DependencyChanged(component, up, reason, detail, code):
                self._events.log(
                    logging.INFO if up else logging.WARNING,
                    "dependency_recovered" if up else "dependency_lost",
                    component=component,
                    reason=reason,
                    code=code,
                    detail=detail,
                )
            case f.StoreJudged(refused, warnings):
                self._metrics.store_refused = refused is not None
                self._metrics.store_warnings = len(warnings)
                self._events.log(
                    logging.ERROR if refused else logging.WARNING if warnings else logging.INFO,
                    "store_refused" if refused else "store_judged",
                    reason=refused,
                    warnings=list(warnings),
                )
            case _:
                assert_never(fact)

    def _offered(self, partition: Partition, first: int, last: int) -> None:
        head = self._metrics.heads.get(partition)
        if head is None or head.first < first:
            self._metrics.heads[partition] = Head(first, last, self._wall())
        else:  # offered again: it has been out since the first time
            head.last = max(head.last, last)

    def _promoted(self, fact: f.PromotionEnded) -> None:
        self._promotions[fact.result].inc()
        partition, applied = fact.partition, fact.applied
        if fact.result == "won":
            self._metrics.progressed[partition] = self._wall()
            for outcome, count in fact.outcomes.items():
                self._records[outcome].inc(count)
            if fact.delivery_seconds is not None:
                self._metrics.delivery_seconds.observe(fact.delivery_seconds)
            head = self._metrics.heads.get(partition)
            if head is not None:
                if applied >= head.last:
                    del self._metrics.heads[partition]
                elif applied >= head.first:
                    head.first = applied + 1  # out since the page was
            if self._debug:
                self._events.debug(
                    "page_promoted",
                    **_at(partition),
                    applied=applied,
                    generation=fact.generation,
                    outcomes={o.value: n for o, n in fact.outcomes.items()},
                )
        else:
            self._limited(
                "promotion_lost" if fact.result == "lost" else "promotion_failed",
                logging.WARNING,
                (fact.result, partition),
                **_at(partition),
                applied=applied,
                generation=fact.generation,
            )

    def _recovered(self, fact: f.RecoveryEnded) -> None:
        self._metrics.recoveries.labels(fact.verdict.value, fact.result).inc()
        self._metrics.recovery_seconds.observe(fact.seconds)
        self._overlap["match"].inc(fact.matched)
        self._overlap["mismatch"].inc(fact.mismatched)
        self._overlap["inconclusive"].inc(fact.inconclusive)
        self._events.log(
            logging.INFO if fact.result in ("verified", "boundary") else logging.WARNING,
            "recovery_ended",
            **_at(fact.partition),
            verdict=fact.verdict.value,
            result=fact.result,
            seconds=round(fact.seconds, 3),
            matched=fact.matched,
            mismatched=fact.mismatched,
            inconclusive=fact.inconclusive,
            anchor=fact.anchor,
            next=fact.next,
        )

    def _fault(self, event: str, fault: Fault, partition: Partition | None) -> None:
        self._faults[fault.component, fault.kind].inc()
        self._limited(
            event,
            logging.WARNING,
            (fault.component, fault.kind, fault.code, partition),
            **({} if partition is None else _at(partition)),
            component=fault.component.value,
            kind=fault.kind.value,
            code=fault.code,
            detail=fault.detail,
        )

    def _limited(self, event: str, level: int, key: Hashable, **fields: Any) -> None:
        repeated = self._log.limiter.admit((event, key))
        if repeated is not None:
            if repeated:
                fields["repeated"] = repeated
            self._events.log(level, event, **fields)


def _at(partition: Partition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.index}
