"""Pages out, outcomes in: over real sockets, in both encodings."""

from __future__ import annotations

import asyncio
import base64
import io
import os
from typing import Any

import aiohttp
import msgspec
import pytest

from sidecar.api.handlers import Limits
from sidecar.core.types import Offset, Outcome, Record
from sidecar.core.views import AllApplied, Each, PageRequest, Refusal, Refused, ReportAnswer
from sidecar.errors import InvariantBroken
from tests.api.conftest import Bench, Open, client_of
from tests.api.desk import TOPIC_ID, offer

JSON = "application/json"
MSGPACK = "application/msgpack"
PROBLEM = "application/problem+json"

NOT_UTF8 = bytes(range(256))
AWKWARD: list[Record] = [
    (1764495600000, NOT_UTF8, b"plain", [("trace", b"abc")]),
    (None, None, None, None),  # no timestamp, no key, a tombstone, no headers
    (0, b"", b"", []),  # an empty value is no tombstone
    (1, b"k", NOT_UTF8, [("a", b"1"), ("a", b"1"), ("b", None), ("", b""), ("ü", NOT_UTF8)]),
]


def encode(media_type: str, body: Any) -> bytes:
    return msgspec.json.encode(body) if media_type == JSON else msgspec.msgpack.encode(body)


def decode(media_type: str, body: bytes) -> Any:
    return msgspec.json.decode(body) if media_type == JSON else msgspec.msgpack.decode(body)


async def post(
    bench: Bench, path: str, body: Any = None, media_type: str = JSON
) -> tuple[aiohttp.ClientResponse, Any]:
    async with bench.client.post(
        path,
        data=None if body is None else encode(media_type, body),
        headers={"Content-Type": media_type, "Accept": media_type},
    ) as response:
        raw = await response.read()
        found = response.content_type
        return response, decode(JSON if "json" in found else found, raw) if raw else None


@pytest.mark.parametrize("media_type", [JSON, MSGPACK])
async def test_a_page_carries_every_byte(bench: Bench, media_type: str) -> None:
    """Keys that are no UTF-8, tombstones, empty values, repeated and null headers survive."""
    await bench.desk.put(offer(AWKWARD))
    response, page = await post(bench, "/v1/pages", {"wait_seconds": 0}, media_type)

    def raw(value: Any) -> bytes | None:
        return base64.b64decode(value) if isinstance(value, str) else value

    assert (response.status, response.content_type) == (200, media_type)
    assert {name: page[name] for name in page if name != "records"} == {
        "page": "p-1",
        "topic": "orders",
        "partition": 0,
        "generation": 12,
        "first": 100,
        "last": 103,
        "successor": 104,
        "remaining_records": 0,
        "attempt": 1,
        "deadline": "2025-11-30T12:00:30.000Z",
    }
    assert [
        (r["timestamp"], raw(r["key"]), raw(r["value"]), [(n, raw(v)) for n, v in r["headers"]])
        for r in page["records"]
    ] == [(t, k, v, h or []) for t, k, v, h in AWKWARD]
    assert [(r["offset"], r["idempotency_key"], r["redelivered"]) for r in page["records"]] == [
        (o, f"{TOPIC_ID}/0/0/{o}", False) for o in range(100, 104)
    ]


async def test_idempotency_keys_and_flags_follow_their_runs(bench: Bench) -> None:
    """Old bytes keep their lineage's key, new ones get a new one; the horizon cuts the flag."""
    records: list[Record] = [(1, None, b"v", None)] * 6
    prefixes = ((Offset(90), "T/0/0/"), (Offset(102), "T/1/0/"), (Offset(104), "T/2/0/"))
    await bench.desk.put(
        offer(records, key_prefixes=prefixes, redelivered_below=Offset(103), attempt=2)
    )
    _, page = await post(bench, "/v1/pages", {"wait_seconds": 0})
    assert [(r["idempotency_key"], r["redelivered"]) for r in page["records"]] == [
        ("T/0/0/100", True),
        ("T/0/0/101", True),
        ("T/1/0/102", True),
        ("T/1/0/103", False),
        ("T/2/0/104", False),
        ("T/2/0/105", False),
    ]


async def test_a_whole_page_below_the_horizon_is_flagged(bench: Bench) -> None:
    """The common case after a restart."""
    await bench.desk.put(offer([(1, None, b"v", None)] * 3, redelivered_below=Offset(500)))
    _, page = await post(bench, "/v1/pages")
    assert [r["redelivered"] for r in page["records"]] == [True, True, True]


async def test_an_empty_body_asks_with_the_defaults(bench: Bench) -> None:
    """Every field is optional, and so is the body."""
    await bench.desk.put(offer(AWKWARD))
    async with bench.client.post("/v1/pages") as response:
        assert response.status == 200
    assert bench.desk.asked == [(PageRequest(500, 1_048_576, None, None), 20)]


async def test_what_was_asked_reaches_the_desk(bench: Bench) -> None:
    """`records_max` is cut to the configured page size, not refused."""
    asked = {"wait_seconds": 0, "records_max": 9_999, "topic": "orders", "partition": 3}
    response, body = await post(bench, "/v1/pages", asked)
    assert (response.status, body) == (204, None)
    assert bench.desk.asked == [(PageRequest(500, 1_048_576, "orders", 3), 0)]


async def test_a_long_poll_answers_when_a_page_arrives(bench: Bench) -> None:
    """It waits for records, not for a timer."""
    poll = asyncio.create_task(post(bench, "/v1/pages", {"wait_seconds": 60}))
    await bench.desk.until("waiting", 1)
    assert not poll.done()
    await bench.desk.put(offer(AWKWARD))
    response, page = await poll
    assert (response.status, page["page"]) == (200, "p-1")


async def test_a_client_that_leaves_gives_up_its_poll(bench: Bench) -> None:
    """The next page goes to a client that is there."""
    async with client_of(bench.server) as leaving:
        poll = asyncio.create_task(leaving.post("/v1/pages", json={"wait_seconds": 60}))
        await bench.desk.until("waiting", 1)
        poll.cancel()
        await asyncio.wait({poll})
    await bench.desk.until("waiting", 0)
    assert bench.desk.abandoned == 1
    await bench.desk.put(offer(AWKWARD))
    response, _ = await post(bench, "/v1/pages", {"wait_seconds": 0})
    assert response.status == 200


async def test_a_report_is_finished_although_its_client_left(bench: Bench) -> None:
    """A promotion is never cut off half-way."""
    bench.desk.hold_reports = asyncio.Event()
    async with client_of(bench.server) as leaving:
        report = asyncio.create_task(
            leaving.post("/v1/pages/p-1/outcomes", json={"outcome": "applied"})
        )
        await bench.desk.until("waiting", 1)
        report.cancel()
        await asyncio.wait({report})
    bench.desk.hold_reports.set()
    await bench.desk.until("reports_done", 1)


async def test_too_many_waiting_requests_are_sent_away(open_bench: Open) -> None:
    """Parked requests are bounded: the next one is told when to come back."""
    bench = await open_bench(limits=Limits(parked_max=2))
    polls = [asyncio.create_task(post(bench, "/v1/pages", {"wait_seconds": 60})) for _ in range(2)]
    await bench.desk.until("waiting", 2)
    response, problem = await post(bench, "/v1/pages", {"wait_seconds": 60})
    assert (response.status, problem["type"]) == (503, "busy")
    assert response.headers["Retry-After"] == "1"
    await bench.desk.put(offer(AWKWARD))
    await bench.desk.put(offer(AWKWARD))
    assert {r.status for r, _ in await asyncio.gather(*polls)} == {200}


async def test_stopping_sends_waiting_requests_away(bench: Bench) -> None:
    """A poll of a minute does not hold up the end of the process."""
    poll = asyncio.create_task(post(bench, "/v1/pages", {"wait_seconds": 60}))
    await bench.desk.until("waiting", 1)
    await bench.server.stop()
    response, problem = await poll
    assert (response.status, problem["type"]) == (503, "draining")


@pytest.mark.parametrize("media_type", [JSON, MSGPACK])
@pytest.mark.parametrize(
    ("body", "report"),
    [
        ({"outcome": "applied"}, AllApplied(Outcome.APPLIED)),
        ({"outcome": "dropped", "through": 105}, AllApplied(Outcome.DROPPED, Offset(105))),
        (
            {
                "outcomes": [
                    {"offset": 104, "outcome": "retry", "reason": "later"},
                    {"offset": 105, "outcome": "dead_lettered"},
                ]
            },
            Each([(Offset(104), Outcome.RETRY), (Offset(105), Outcome.DEAD_LETTERED)]),
        ),
        ({"outcomes": []}, Each([])),
    ],
    ids=["all", "through", "each", "none"],
)
async def test_every_form_of_report_is_taken(
    bench: Bench, media_type: str, body: Any, report: Any
) -> None:
    """The three forms of the contract, in both encodings."""
    bench.desk.report_answer = ReportAnswer(
        Offset(103), Offset(104), 13, None, (Offset(104), Offset(105))
    )
    response, answer = await post(bench, "/v1/pages/p-9/outcomes", body, media_type)
    assert (response.status, response.content_type) == (200, media_type)
    assert answer == {
        "applied": 103,
        "next": 104,
        "generation": 13,
        "committed": None,
        "unresolved": [104, 105],
    }
    assert bench.desk.asked == [("p-9", report, False)]


async def test_a_report_can_wait_for_the_commit(bench: Bench) -> None:
    """`?wait=committed` is passed on; anything else there is refused."""
    await post(bench, "/v1/pages/p-9/outcomes?wait=committed", {"outcome": "applied"})
    assert bench.desk.asked == [("p-9", AllApplied(Outcome.APPLIED), True)]
    response, problem = await post(
        bench, "/v1/pages/p-9/outcomes?wait=commited", {"outcome": "applied"}
    )
    assert (response.status, problem["type"]) == (400, "malformed")
    assert len(bench.desk.asked) == 1


@pytest.mark.parametrize(
    ("refused", "status"),
    [
        (Refused.PAGE_LOST, 409),
        (Refused.PAGE_SUPERSEDED, 409),
        (Refused.OFFSETS_UNKNOWN, 422),
        (Refused.STORE_UNAVAILABLE, 503),
    ],
)
async def test_a_refused_report_says_why(bench: Bench, refused: Refused, status: int) -> None:
    """A problem with the bare name as its type, and when to come back where that helps."""
    retry = 0.2 if status == 503 else None
    bench.desk.report_answer = Refusal(refused, "what to do", retry)
    response, problem = await post(bench, "/v1/pages/p-1/outcomes", {"outcome": "applied"})
    assert (response.status, response.content_type) == (status, PROBLEM)
    assert (problem["type"], problem["status"]) == (refused.value, status)
    assert problem["detail"] == "what to do"
    assert response.headers.get("Retry-After") == ("1" if retry else None)


SECRET = "payload-that-nobody-may-read"


@pytest.mark.parametrize(
    "body",
    [
        {"outcome": SECRET},
        {"outcome": "applied", SECRET: 1},
        {"outcomes": [{"offset": SECRET, "outcome": "applied"}]},
        {"outcomes": [{"offset": -1, "outcome": "applied"}]},
        {"outcomes": [{"offset": 1, "outcome": SECRET}]},
        {"outcomes": [{"offset": 1, "outcome": "retry", "reason": SECRET * 100}]},
        {"outcome": "applied", "outcomes": []},
        {"through": 5},
        {},
        [SECRET],
        SECRET,
        {"outcome": "applied", "through": 2**63},
    ],
    ids=str,
)
@pytest.mark.parametrize("media_type", [JSON, MSGPACK])
async def test_malformed_reports_are_refused_without_an_echo(
    bench: Bench, body: Any, media_type: str
) -> None:
    """The desk hears nothing of them, and the answer quotes nothing."""
    response, problem = await post(bench, "/v1/pages/p-1/outcomes", body, media_type)
    assert (response.status, problem["type"]) == (400, "malformed")
    assert SECRET not in str(problem)
    assert problem["detail"]
    assert bench.desk.asked == []


@pytest.mark.parametrize(
    "body",
    [
        {"wait_seconds": 61},
        {"wait_seconds": -1},
        {"wait_seconds": "20"},
        {"records_max": 0},
        {"partition": 0},
        {"topic": ""},
        {"record_max": 3},
    ],
    ids=str,
)
async def test_malformed_polls_are_refused(bench: Bench, body: Any) -> None:
    """Bounds are said, and a misspelt name is not ignored."""
    response, problem = await post(bench, "/v1/pages", body)
    assert (response.status, problem["type"]) == (400, "malformed")
    assert bench.desk.asked == []


@pytest.mark.parametrize("raw", [b"{", b"\xff\xfe", b'{"outcome":"applied"} x', b"[" * 100_000])
async def test_a_body_that_is_no_document_is_refused(bench: Bench, raw: bytes) -> None:
    """Also one that nests without end."""
    async with bench.client.post(
        "/v1/pages/p-1/outcomes", data=raw, headers={"Content-Type": JSON}
    ) as response:
        problem = await response.json(content_type=PROBLEM)
        assert (response.status, problem["type"]) == (400, "malformed")
    assert bench.desk.asked == []


async def test_a_body_of_another_type_is_refused(bench: Bench) -> None:
    """What a browser's form can send to any address is never taken for a request."""
    async with bench.client.post("/v1/pages/p-1/outcomes", data={"outcome": "applied"}) as response:
        problem = await response.json(content_type=PROBLEM)
        assert (response.status, problem["type"]) == (415, "unsupported-media-type")
    assert bench.desk.asked == []


async def test_a_body_beyond_the_limit_is_refused(bench: Bench) -> None:
    """It is not read to the end first."""
    async with bench.client.post(
        "/v1/pages/p-1/outcomes",
        data=io.BytesIO(b" " * (Limits().body_bytes_max + 1)),
        headers={"Content-Type": JSON},
    ) as response:
        problem = await response.json(content_type=PROBLEM)
        assert (response.status, problem["type"]) == (413, "too-large")
    assert bench.desk.asked == []


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        ("text/html, application/xhtml+xml, */*;q=0.8", JSON),
        (MSGPACK, MSGPACK),
        ("application/x-msgpack", MSGPACK),
        ("application/json;q=0.5, application/msgpack", MSGPACK),
        ("application/msgpack;q=0, application/json", JSON),
    ],
)
async def test_the_answer_comes_as_accepted(
    bench: Bench, accept: str | None, expected: str
) -> None:
    """Quality values count; anything means JSON."""
    headers = {} if accept is None else {"Accept": accept}
    async with bench.client.get("/v1/status", headers=headers) as response:
        assert (response.status, response.content_type) == (200, expected)


async def test_a_msgpack_body_is_answered_in_kind(bench: Bench) -> None:
    """Where any answer will do."""
    async with bench.client.post(
        "/v1/pages/p/outcomes",
        data=msgspec.msgpack.encode({"outcome": "applied"}),
        headers={"Content-Type": "application/vnd.msgpack"},
    ) as response:
        assert (response.status, response.content_type) == (200, MSGPACK)


async def test_an_answer_nobody_accepts_is_refused_before_a_page_is_taken(bench: Bench) -> None:
    """A page that could not be sent must not be taken."""
    await bench.desk.put(offer(AWKWARD))
    async with bench.client.post("/v1/pages", headers={"Accept": "text/csv"}) as response:
        assert (response.status, response.content_type) == (406, PROBLEM)
    assert bench.desk.asked == []


async def test_a_broken_invariant_stops_the_process_and_leaks_nothing(bench: Bench) -> None:
    """The request is answered 500, whoever runs the process is told, the text is kept back."""
    bench.desk.report_answer = InvariantBroken("applied_monotone", SECRET)
    response, problem = await post(bench, "/v1/pages/p-1/outcomes", {"outcome": "applied"})
    assert (response.status, problem["type"]) == (500, "internal")
    assert SECRET not in str(problem)
    assert bench.broke == [bench.desk.report_answer]


async def test_an_ordinary_bug_is_answered_and_does_not_stop_the_process(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the place, not the text."""
    bench.desk.report_answer = ValueError(SECRET)
    response, problem = await post(bench, "/v1/pages/p-1/outcomes", {"outcome": "applied"})
    assert (response.status, problem["type"]) == (500, "internal")
    assert bench.broke == []
    assert "FakeDesk.report" in caplog.text
    assert SECRET not in caplog.text


async def test_one_listener_serves_many_clients_at_once(bench: Bench) -> None:
    """Fifty clients, fifty pages, each once."""
    records: list[Record] = [(1, os.urandom(8), os.urandom(100), None)]
    polls = [asyncio.create_task(post(bench, "/v1/pages", {"wait_seconds": 30})) for _ in range(50)]
    for index in range(50):
        await bench.desk.put(offer(records, first=index, page=f"p-{index}"))
    pages = [page["page"] for _, page in await asyncio.gather(*polls)]
    assert sorted(pages) == sorted(f"p-{index}" for index in range(50))


async def test_a_page_of_several_megabytes_is_sent_whole(bench: Bench) -> None:
    """A record larger than a page travels alone."""
    value = os.urandom(6_000_000)
    await bench.desk.put(offer([(1, None, value, None)]))
    _, page = await post(bench, "/v1/pages")
    assert base64.b64decode(page["records"][0]["value"]) == value


async def test_a_draining_sidecar_hands_out_nothing(bench: Bench) -> None:
    """A refusal of the desk's is passed on with its own advice."""
    await bench.desk.drain()
    response, problem = await post(bench, "/v1/pages", {"wait_seconds": 60})
    assert (response.status, problem["type"]) == (503, "draining")
    assert response.headers["Retry-After"] == "5"
