"""Every operation, once: routes, documentation and tests are made from this table.

Operation ids are stable; clients are generated from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sidecar.api import messages as m
from sidecar.api.problems import Misuse
from sidecar.core.gap import GapState
from sidecar.core.views import Refused


@dataclass(frozen=True, slots=True)
class Query:
    name: str
    meaning: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """`body` and `answer` are Structs, `answer` a media type where it is neither JSON nor
    MessagePack. `admin`: also (or, with `app` false, only) on the admin listener."""

    id: str
    method: str
    path: str
    summary: str
    answer: type | str
    body: tuple[type, ...] = ()
    body_required: bool = True
    answers_nothing: str | None = None
    refusals: tuple[Refused | Misuse, ...] = ()
    query: tuple[Query, ...] = ()
    example: Any = None
    examples_body: dict[str, Any] = field(default_factory=dict)
    app: bool = True
    admin: bool = True

    @property
    def mutates(self) -> bool:
        return self.method != "GET"

    @property
    def problems(self) -> tuple[Refused | Misuse, ...]:
        """Its own, and those that any operation can answer."""
        always: list[Refused | Misuse] = [Misuse.INTERNAL]
        if isinstance(self.answer, type):
            always.append(Misuse.NOT_ACCEPTABLE)
        if self.body:
            always += [Misuse.MALFORMED, Misuse.TOO_LARGE, Misuse.UNSUPPORTED_MEDIA_TYPE]
        if self.query and Misuse.MALFORMED not in always:
            always.append(Misuse.MALFORMED)
        if self.mutates and self.admin:
            always += [Misuse.UNAUTHORIZED, Misuse.FORBIDDEN]
        return (*self.refusals, *always)


_GAP_EXAMPLE = {
    "id": "g-01J9Z3",
    "topic": "orders",
    "partition": 0,
    "first": 107,
    "end": 250,
    "reason": "retention_loss",
    "state": "open",
    "evidence": {"next": 107, "log_start": 250, "log_end": 900},
    "generation": 13,
    "opened_at": "2025-11-30T12:00:00.000Z",
    "acknowledged": None,
    "resolution": None,
    "audit": [],
    "cluster_id": "5L6g3nShT-eMCtK--X86sw",
    "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
    "lineage": 0,
    "superseded_by": None,
    "fences": [],
}
_PARTITION_EXAMPLE = {
    "topic": "orders",
    "partition": 0,
    "state": "delivering",
    "reason": None,
    "verdict": "resume",
    "applied": 106,
    "next": 107,
    "committed": 107,
    "generation": 13,
    "cluster_id": "5L6g3nShT-eMCtK--X86sw",
    "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
    "leader_epoch": 4,
    "log_start": 12,
    "log_end": 107,
    "lag_records": 0,
    "caught_up": True,
    "conditions": [],
    "gap": None,
    "hold": None,
    "since": "2025-11-30T12:00:00.000Z",
    "detail": "64 records of overlap matched their receipts",
}
_HOLD_EXAMPLE = {
    "id": "h-01J9Z4",
    "topic": "orders",
    "partition": 1,
    "verdict": "unknown",
    "evidence": {"next": 107},
    "answers": ["look"],
    "since": "2025-11-30T12:00:00.000Z",
    "detail": "the evidence is in no row of the table",
    "meanings": {"look": "ask for the evidence again, now"},
    "mends": "",
}
_ASSENT = {"by": "on-call@example.org", "why": "restored from the warehouse"}

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        id="takePage",
        method="POST",
        path="/v1/pages",
        summary="Wait for a page of records of one partition, and take it.",
        body=(m.PageBody,),
        body_required=False,
        answer=m.Page,
        answers_nothing="No page within `wait_seconds`.",
        refusals=(Refused.BUSY, Refused.DRAINING),
        examples_body={"page": {"wait_seconds": 20, "records_max": 500}},
        example={
            "page": "p-7f3a",
            "topic": "orders",
            "partition": 0,
            "generation": 12,
            "first": 106,
            "last": 106,
            "successor": 107,
            "remaining_records": 0,
            "attempt": 1,
            "deadline": "2025-11-30T12:00:30.000Z",
            "records": [
                {
                    "offset": 106,
                    "timestamp": 1764495600000,
                    "key": "b3JkZXItNDI=",
                    "value": None,
                    "headers": [["trace", "YWJj"], ["trace", None]],
                    "idempotency_key": "AAAAAAAAAAAAAAAAAAAAAQ/0/0/106",
                    "redelivered": False,
                }
            ],
        },
        admin=False,
    ),
    Operation(
        id="reportOutcomes",
        method="POST",
        path="/v1/pages/{page}/outcomes",
        summary="Report what became of a page's records, after their effects are durable. "
        "The same report twice gets the same answer.",
        body=(m.ReportWhole, m.ReportEach),
        answer=m.Reported,
        query=(Query("wait", "Answer only once the group's commit is made.", ("committed",)),),
        refusals=(
            Refused.PAGE_LOST,
            Refused.PAGE_SUPERSEDED,
            Refused.OFFSETS_UNKNOWN,
            Refused.UNVERIFIED,
            Refused.STORE_UNAVAILABLE,
            Refused.BUSY,
            Refused.DRAINING,
        ),
        examples_body={
            "all": {"outcome": "applied"},
            "through": {"outcome": "applied", "through": 105},
            "each": {"outcomes": [{"offset": 104, "outcome": "retry", "reason": "try later"}]},
        },
        example={
            "applied": 106,
            "next": 107,
            "generation": 13,
            "committed": 107,
            "unresolved": [],
        },
        admin=False,
    ),
    Operation(
        id="getStatus",
        method="GET",
        path="/v1/status",
        summary="Whether the sidecar can work, and if not, why.",
        answer=m.Status,
        example={
            "ready": True,
            "reasons": [],
            "group": "billing",
            "member": "billing-0",
            "cluster_id": "5L6g3nShT-eMCtK--X86sw",
            "assigned": 4,
            "dependencies": {
                "kafka": {
                    "up": True,
                    "since": "2025-11-30T12:00:00.000Z",
                    "reason": None,
                    "detail": None,
                }
            },
        },
    ),
    Operation(
        id="listPartitions",
        method="GET",
        path="/v1/partitions",
        summary="Every assigned partition.",
        answer=m.Partitions,
        example={"partitions": [_PARTITION_EXAMPLE]},
    ),
    Operation(
        id="getPartition",
        method="GET",
        path="/v1/partitions/{topic}/{partition}",
        summary="One assigned partition.",
        answer=m.PartitionItem,
        refusals=(Refused.PARTITION_UNKNOWN,),
        example=_PARTITION_EXAMPLE,
    ),
    Operation(
        id="listGaps",
        method="GET",
        path="/v1/gaps",
        summary="Every gap of the group that the store keeps.",
        answer=m.Gaps,
        query=(Query("state", "Only gaps in this state.", tuple(GapState)),),
        refusals=(Refused.STORE_UNAVAILABLE,),
        example={"gaps": [_GAP_EXAMPLE]},
    ),
    Operation(
        id="getGap",
        method="GET",
        path="/v1/gaps/{id}",
        summary="One gap, with its evidence and history.",
        answer=m.GapItem,
        refusals=(Refused.GAP_UNKNOWN, Refused.STORE_UNAVAILABLE),
        example=_GAP_EXAMPLE,
    ),
    Operation(
        id="fenceGap",
        method="POST",
        path="/v1/gaps/{id}/fence",
        summary="Take the end offset now, before a snapshot is read.",
        answer=m.Fence,
        refusals=(
            Refused.GAP_UNKNOWN,
            Refused.GAP_CHANGED,
            Refused.PARTITION_UNKNOWN,
            Refused.EVIDENCE_UNAVAILABLE,
            Refused.STORE_UNAVAILABLE,
        ),
        example={"fence": 900},
    ),
    Operation(
        id="acknowledgeGap",
        method="POST",
        path="/v1/gaps/{id}/acknowledge",
        summary="Say that a gap was seen. It still holds its partition.",
        body=(m.AcknowledgeBody,),
        answer=m.GapItem,
        refusals=(Refused.GAP_UNKNOWN, Refused.GAP_CHANGED, Refused.STORE_UNAVAILABLE),
        examples_body={"seen": _ASSENT},
        example=_GAP_EXAMPLE
        | {"state": "acknowledged", "acknowledged": {"at": "2025-11-30T12:05:00.000Z", **_ASSENT}},
    ),
    Operation(
        id="resolveGap",
        method="POST",
        path="/v1/gaps/{id}/resolve",
        summary="Decide a gap; the evidence is asked again first.",
        body=(m.ResolveBody,),
        answer=m.GapItem,
        refusals=(
            Refused.GAP_UNKNOWN,
            Refused.GAP_CHANGED,
            Refused.RESOLUTION_IMPOSSIBLE,
            Refused.PARTITION_UNKNOWN,
            Refused.EVIDENCE_UNAVAILABLE,
            Refused.STORE_UNAVAILABLE,
            Refused.REQUEST_PENDING,
            Refused.REQUEST_REFUSED,
            Refused.BUSY,
        ),
        examples_body={
            "accepted": {"resolution": "accepted", **_ASSENT},
            "snapshot": {"resolution": "snapshot", "fence": 900, **_ASSENT},
        },
        example=_GAP_EXAMPLE
        | {
            "state": "resolved",
            "resolution": {
                "resolution": "accepted",
                **_ASSENT,
                "at": "2025-11-30T12:10:00.000Z",
                "resume_at": 250,
                "fence": None,
                "end_max": None,
                "evidence": None,
            },
        },
    ),
    Operation(
        id="listHolds",
        method="GET",
        path="/v1/holds",
        summary="What waits for a person and is no gap; pending replay requests included.",
        answer=m.Holds,
        example={"holds": [_HOLD_EXAMPLE]},
    ),
    Operation(
        id="answerHold",
        method="POST",
        path="/v1/holds/{id}/answer",
        summary="Answer a hold with one of its `answers`. The answer is kept, and executed by "
        "whoever has the partition.",
        body=(m.AnswerBody,),
        answer=m.HoldItem,
        refusals=(
            Refused.HOLD_UNKNOWN,
            Refused.ANSWER_IMPOSSIBLE,
            Refused.EVIDENCE_UNAVAILABLE,
            Refused.STORE_UNAVAILABLE,
            Refused.REQUEST_PENDING,
            Refused.REQUEST_REFUSED,
            Refused.BUSY,
        ),
        examples_body={"answer": {"answer": "look", **_ASSENT}},
        example=_HOLD_EXAMPLE,
    ),
    Operation(
        id="streamEvents",
        method="GET",
        path="/v1/events",
        summary="Server-sent events: gap_opened, gap_resolved, caught_up, state_changed, "
        "assigned, revoked. Resumable with Last-Event-ID.",
        answer="text/event-stream",
        refusals=(Refused.BUSY, Misuse.MALFORMED),
        example='id: 7\nevent: caught_up\ndata: {"at":"2025-11-30T12:00:00.000Z",'
        '"topic":"orders","partition":0,"position":107}\n\n',
    ),
    Operation(
        id="drain",
        method="POST",
        path="/v1/drain",
        summary="Stop fetching, keep the membership, settle what is out, flush. Answers when done.",
        answer=m.Drained,
        example={"drained": True},
    ),
    Operation(
        id="getOpenApi",
        method="GET",
        path="/openapi.json",
        summary="This document.",
        answer="application/json",
    ),
    Operation(
        id="startup",
        method="GET",
        path="/startupz",
        summary="200 once the process listens; it waits for neither Kafka nor Redis.",
        answer=m.Health,
        example={"ok": True, "reasons": []},
        app=False,
    ),
    Operation(
        id="liveness",
        method="GET",
        path="/livez",
        summary="200 while the process works; an open gap or a broker that is away is no reason.",
        answer=m.Health,
        example={"ok": True, "reasons": []},
        app=False,
    ),
    Operation(
        id="readiness",
        method="GET",
        path="/readyz",
        summary="200 once store and broker were reached and the group was joined; else 503.",
        answer=m.Health,
        example={"ok": False, "reasons": ["redis: connection refused"]},
        app=False,
    ),
    Operation(
        id="metrics",
        method="GET",
        path="/metrics",
        summary="Prometheus or OpenMetrics text; docs/metrics.md lists every series.",
        answer="text/plain",
        app=False,
    ),
)
