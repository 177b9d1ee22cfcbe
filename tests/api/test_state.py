"""State, gaps and holds, on the application's listener."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from sidecar.core import gap as gaps
from sidecar.core.gap import Decision, GapState, Resolution
from sidecar.core.types import (
    Condition,
    Fields,
    GapId,
    Interval,
    Json,
    Offset,
    PartitionState,
    Verdict,
)
from sidecar.core.views import Refusal, Refused, ResolveRequest
from tests.api.conftest import Bench
from tests.api.desk import NOW, a_gap, view

ASSENT = {"by": "on-call", "why": "restored"}


async def get(bench: Bench, path: str) -> tuple[int, Any]:
    async with bench.client.get(path) as response:
        return response.status, await response.json(content_type=None)


async def post(bench: Bench, path: str, body: Any = None) -> tuple[int, Any]:
    async with bench.client.post(path, json=body) as response:
        return response.status, await response.json(content_type=None)


async def test_status_shows_a_fault_before_any_partition_is_assigned(bench: Bench) -> None:
    """Group, member, cluster, and each dependency with since, reason and detail."""
    bench.desk.ready = False
    assert await get(bench, "/v1/status") == (
        200,
        {
            "ready": False,
            "reasons": ["redis: connection refused"],
            "group": "billing",
            "member": "billing-0",
            "cluster_id": "c-1",
            "assigned": 1,
            "dependencies": {
                "kafka": {
                    "up": True,
                    "since": "2025-11-30T12:00:00.000Z",
                    "reason": None,
                    "detail": None,
                },
                "redis": {
                    "up": False,
                    "since": "2025-11-30T12:00:00.000Z",
                    "reason": None,
                    "detail": None,
                },
            },
        },
    )


async def test_partitions_show_what_is_known(bench: Bench) -> None:
    """Unknown is null, never zero; a list is an object."""
    bench.desk.views = [
        view(),
        view(
            partition=1,
            state=PartitionState.HELD,
            reason=Verdict.AUTHORIZATION,
            verdict=None,
            applied=None,
            lag_records=None,
            caught_up=False,
            conditions=(Condition.NO_PROGRESS,),
        ),
    ]
    status, body = await get(bench, "/v1/partitions")
    assert status == 200
    first, second = body["partitions"]
    assert first == {
        "topic": "orders",
        "partition": 0,
        "state": "delivering",
        "reason": None,
        "verdict": "resume",
        "applied": 106,
        "next": 107,
        "committed": 107,
        "generation": 13,
        "cluster_id": "c-1",
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
    assert (second["reason"], second["applied"]) == ("authorization", None)
    assert second["conditions"] == ["no_progress"]
    assert await get(bench, "/v1/partitions/orders/1") == (200, second)


@pytest.mark.parametrize("path", ["orders/7", "other/0", "orders/x"])
async def test_a_partition_that_is_not_ours_is_a_problem(bench: Bench, path: str) -> None:
    """It may be another member's."""
    status, problem = await get(bench, f"/v1/partitions/{path}")
    assert (status, problem["type"]) == (404, "partition-unknown")


async def test_a_gap_is_shown_whole(bench: Bench) -> None:
    """Interval, evidence, who acknowledged, what was decided, and its history."""
    seen = gaps.acknowledge(a_gap(), by="on-call", why="seen", at=NOW)
    assert seen is not None
    fenced = gaps.fenced(seen, fence=Offset(900), at=NOW)
    assert fenced is not None
    decision = Decision(Resolution.SNAPSHOT, "on-call", "reloaded", NOW, Offset(900), Offset(900))
    nested: Json = MappingProxyType({"a": [1]})
    evidence: Fields = MappingProxyType({"log_start": 250, "nested": nested})
    done = gaps.resolve(fenced, decision, end=Offset(250), evidence=evidence)
    assert done is not None
    bench.desk.kept_gaps = [done]
    at = "2025-11-30T12:00:00.000Z"
    assert await get(bench, "/v1/gaps/g-1") == (
        200,
        {
            "id": "g-1",
            "topic": "orders",
            "partition": 0,
            "first": 107,
            "end": 250,
            "reason": "retention_loss",
            "state": "resolved",
            "evidence": {"next": 107, "log_start": 250},
            "generation": 13,
            "opened_at": at,
            "acknowledged": {"at": at, "by": "on-call", "why": "seen"},
            "resolution": {
                "resolution": "snapshot",
                "by": "on-call",
                "why": "reloaded",
                "at": at,
                "resume_at": 900,
                "fence": 900,
                "end_max": None,
                "evidence": None,
            },
            "audit": [
                {"at": at, "what": "acknowledged", "by": "on-call", "why": "seen", "evidence": {}},
                {
                    "at": at,
                    "what": "fence taken",
                    "by": "application",
                    "why": "",
                    "evidence": {"fence": 900},
                },
                {
                    "at": at,
                    "what": "resolved: snapshot",
                    "by": "on-call",
                    "why": "reloaded",
                    "evidence": {"log_start": 250, "nested": {"a": [1]}, "resume_at": 900},
                },
            ],
            "cluster_id": "c-1",
            "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
            "lineage": 0,
            "superseded_by": None,
            "fences": [{"fence": 900, "at": at}],
        },
    )


async def test_gaps_are_listed_by_state(bench: Bench) -> None:
    """`?state=` takes the contract's states and nothing else."""
    bench.desk.kept_gaps = [
        a_gap(),
        replace(
            a_gap("g-2"),
            state=GapState.ACKNOWLEDGED,
            interval=Interval(Offset(5), None),
        ),
    ]
    _, everything = await get(bench, "/v1/gaps")
    _, opened = await get(bench, "/v1/gaps?state=open")
    _, seen = await get(bench, "/v1/gaps?state=acknowledged")
    assert [gap["id"] for gap in everything["gaps"]] == ["g-1", "g-2"]
    assert [gap["id"] for gap in opened["gaps"]] == ["g-1"]
    assert [(gap["id"], gap["end"]) for gap in seen["gaps"]] == [("g-2", None)]
    status, problem = await get(bench, "/v1/gaps?state=opened")
    assert (status, problem["type"]) == (400, "malformed")
    assert "open, acknowledged, resolved, superseded" in problem["detail"]


async def test_gaps_that_cannot_be_read_are_no_empty_list(bench: Bench) -> None:
    """ "None" and "could not read" are different answers here, too."""
    bench.desk.kept_gaps = Refusal(Refused.STORE_UNAVAILABLE, "ask again", 1)
    for path in ("/v1/gaps", "/v1/gaps/g-1"):
        status, problem = await get(bench, path)
        assert (status, problem["type"]) == (503, "store-unavailable")


async def test_a_gap_goes_from_fence_to_resolution(bench: Bench) -> None:
    """Each step answers what stands afterwards, and the desk hears who and why."""
    assert await post(bench, "/v1/gaps/g-1/fence") == (200, {"fence": 900})
    status, seen = await post(bench, "/v1/gaps/g-1/acknowledge", ASSENT)
    assert (status, seen["state"], seen["acknowledged"]["by"]) == (200, "acknowledged", "on-call")
    body = {
        "resolution": "snapshot",
        "fence": 900,
        "resume_at": 901,
        "end_max": 902,
        "evidence": "restored from the warehouse",
        **ASSENT,
    }
    status, done = await post(bench, "/v1/gaps/g-1/resolve", body)
    assert (status, done["state"]) == (200, "resolved")
    assert bench.desk.asked == [
        (GapId("g-1"), "on-call", "restored"),
        (
            GapId("g-1"),
            ResolveRequest(
                Resolution.SNAPSHOT,
                "on-call",
                "restored",
                "restored from the warehouse",
                Offset(900),
                Offset(901),
                Offset(902),
            ),
        ),
    ]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"by": "", "why": "x"},
        {"by": "on-call"},
        {"by": "on-call", "why": ""},
        {"by": "a" * 201, "why": "x"},
    ],
    ids=str,
)
async def test_nothing_is_decided_anonymously(bench: Bench, body: Any) -> None:
    """Who and why are needed, and bounded."""
    for path in ("acknowledge", "resolve"):
        status, problem = await post(
            bench,
            f"/v1/gaps/g-1/{path}",
            body if path == "acknowledge" else {"resolution": "accepted", **body},
        )
        assert (status, problem["type"]) == (400, "malformed")
    assert bench.desk.asked == []


async def test_a_gap_that_changed_or_is_gone_is_a_problem(bench: Bench) -> None:
    """409 when it is another by now, 404 when there is none."""
    bench.desk.kept_gaps = [replace(a_gap(), state=GapState.SUPERSEDED)]
    status, problem = await post(bench, "/v1/gaps/g-1/acknowledge", ASSENT)
    assert (status, problem["type"]) == (409, "gap-changed")
    for path, body in (("g-9/acknowledge", ASSENT), ("g-9/fence", None)):
        status, problem = await post(bench, f"/v1/gaps/{path}", body)
        assert (status, problem["type"]) == (404, "gap-unknown")


async def test_holds_are_listed_and_answered(bench: Bench) -> None:
    """With one of the permitted answers."""
    status, body = await get(bench, "/v1/holds")
    assert status == 200
    (hold,) = body["holds"]
    assert (hold["id"], hold["answers"], hold["topic"]) == ("h-1", ["look"], "orders")
    answer = {"answer": "look", **ASSENT}
    assert await post(bench, "/v1/holds/h-1/answer", answer) == (200, hold)
    status, problem = await post(bench, "/v1/holds/h-1/answer", {**answer, "answer": "skip"})
    assert (status, problem["type"]) == (422, "answer-impossible")
    status, problem = await post(bench, "/v1/holds/h-2/answer", answer)
    assert (status, problem["type"]) == (404, "hold-unknown")


async def test_drain_answers_when_it_is_done(bench: Bench) -> None:
    """So that a preStop hook can wait for it."""
    assert await post(bench, "/v1/drain") == (200, {"drained": True})
    assert bench.desk.drained


async def test_unknown_paths_and_methods_are_problems(bench: Bench) -> None:
    """Also where nothing of ours answered; probes and metrics are not on this listener."""
    for path in ("/", "/v2/pages", "/metrics", "/livez"):
        status, problem = await get(bench, path)
        assert (status, problem["type"]) == (404, "not-found")
    async with bench.client.get("/v1/pages") as response:
        problem = msgspec.json.decode(await response.read())
        assert (response.status, problem["type"]) == (405, "method-not-allowed")
        assert response.headers["Allow"] == "POST"
