"""The document is valid, complete, and what the server really answers."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator, FormatChecker
from openapi_spec_validator import OpenAPIV31SpecValidator

from sidecar.api.handlers import Handlers, handler_name
from sidecar.api.openapi import openapi_bytes, openapi_document
from sidecar.api.operations import OPERATIONS, Operation
from sidecar.api.problems import TITLES, Misuse
from sidecar.core.views import Refused
from tests.api.conftest import Bench
from tests.api.desk import offer

DOCUMENT: dict[str, Any] = msgspec.json.decode(openapi_bytes())
JSON = "application/json"
IDS = [operation.id for operation in OPERATIONS]


def described(operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][operation.path][operation.method.lower()]
    return found


def validate(value: Any, schema: dict[str, Any]) -> None:
    Draft202012Validator(
        {**schema, "components": DOCUMENT["components"]}, format_checker=FormatChecker()
    ).validate(value)


def answered(operation_id: str, status: int, content_type: str) -> dict[str, Any]:
    (operation,) = (op for op in OPERATIONS if op.id == operation_id)
    schema: dict[str, Any] = described(operation)["responses"][str(status)]["content"][
        content_type
    ]["schema"]
    return schema


def test_the_document_is_valid_openapi() -> None:
    """By the validator of the specification's own schemas."""
    assert DOCUMENT["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_every_operation_has_one_stable_id_and_a_handler() -> None:
    """An id that appears twice, or a route nobody answers, is found here."""
    assert len(set(IDS)) == len(IDS)
    own = {"startup", "liveness", "readiness", "metrics"}
    assert {i for i in IDS if not hasattr(Handlers, handler_name(i))} == own


CONTRACT = """
POST /v1/pages, POST /v1/pages/{page}/outcomes, GET /v1/status, GET /v1/partitions,
GET /v1/partitions/{topic}/{partition}, GET /v1/gaps, GET /v1/gaps/{id}, POST /v1/gaps/{id}/fence,
POST /v1/gaps/{id}/acknowledge, POST /v1/gaps/{id}/resolve, GET /v1/holds,
POST /v1/holds/{id}/answer, GET /v1/events, POST /v1/drain, GET /openapi.json, GET /startupz,
GET /livez, GET /readyz, GET /metrics
"""


def test_every_route_of_the_contract_is_there() -> None:
    """The outside contract, by name."""
    routes = {f"{operation.method} {operation.path}" for operation in OPERATIONS}
    assert routes == set(re.split(r",\s+", CONTRACT.strip()))


def test_every_problem_has_a_title_and_a_place() -> None:
    """A refusal that the desk can give is documented where it can be given."""
    every = {*Refused, *Misuse}
    assert set(TITLES) == every
    documented = {problem for operation in OPERATIONS for problem in operation.problems}
    # What no operation answers is what HTTP refuses before there is one.
    assert every - documented == {Misuse.NOT_FOUND, Misuse.METHOD_NOT_ALLOWED}


@pytest.mark.parametrize("operation", OPERATIONS, ids=IDS)
def test_the_examples_are_what_their_schemas_say(operation: Operation) -> None:
    """An example that is wrong is copied all the same."""
    found = described(operation)
    contents = [response.get("content", {}) for response in found["responses"].values()]
    contents.append(found.get("requestBody", {}).get("content", {}))
    checked = 0
    for content in contents:
        for media_type, described_as in content.items():
            for example in described_as.get("examples", {}).values():
                assert "msgpack" not in media_type  # bytes cannot be written in this document
                validate(example["value"], described_as["schema"])
                checked += 1
    assert checked or operation.id in ("metrics", "getOpenApi")


@pytest.mark.parametrize("operation", OPERATIONS, ids=IDS)
def test_the_examples_of_requests_are_taken(operation: Operation) -> None:
    """By the Struct that the handler decodes with, not only by its schema."""
    for example in operation.examples_body.values():
        took = 0
        for body in operation.body:
            try:
                msgspec.convert(example, body)
            except msgspec.ValidationError:
                continue
            took += 1
        assert took == 1


@pytest.mark.parametrize(
    ("operation_id", "path"),
    [
        ("getStatus", "/v1/status"),
        ("listPartitions", "/v1/partitions"),
        ("getPartition", "/v1/partitions/orders/0"),
        ("listGaps", "/v1/gaps"),
        ("getGap", "/v1/gaps/g-1"),
        ("listHolds", "/v1/holds"),
    ],
)
async def test_answers_are_what_the_document_says(
    bench: Bench, operation_id: str, path: str
) -> None:
    """What the server sends, against the schema it serves itself."""
    async with bench.client.get("/openapi.json") as response:
        assert await response.json() == DOCUMENT
    async with bench.client.get(path) as response:
        validate(await response.json(), answered(operation_id, response.status, JSON))


async def test_pages_and_reports_are_what_the_document_says(bench: Bench) -> None:
    """Tombstones, nulls and bytes included; problems, too."""
    await bench.desk.put(
        offer([(None, None, None, None), (1, b"\xff", b"", [("a", None), ("a", b"\x00")])])
    )
    async with bench.client.post("/v1/pages", json={}) as response:
        validate(await response.json(), answered("takePage", 200, JSON))
    path = "/v1/pages/p-1/outcomes"
    async with bench.client.post(path, json={"outcome": "applied"}) as response:
        validate(await response.json(), answered("reportOutcomes", 200, JSON))
    async with bench.client.post(path, json={}) as response:
        problem = await response.json(content_type=None)
        validate(problem, answered("reportOutcomes", 400, "application/problem+json"))


async def test_decisions_are_what_the_document_says(bench: Bench) -> None:
    """Gaps and holds as they stand afterwards."""
    assent = {"by": "on-call", "why": "restored"}
    for operation_id, path, body in (
        ("fenceGap", "/v1/gaps/g-1/fence", None),
        ("acknowledgeGap", "/v1/gaps/g-1/acknowledge", assent),
        ("resolveGap", "/v1/gaps/g-1/resolve", {"resolution": "accepted", **assent}),
        ("answerHold", "/v1/holds/h-1/answer", {"answer": "look", **assent}),
        ("drain", "/v1/drain", None),
    ):
        async with bench.client.post(path, json=body) as response:
            validate(await response.json(), answered(operation_id, 200, JSON))


def test_the_document_is_made_once() -> None:
    """It is asked for at every start of a client generator, not on the path of a page."""
    assert openapi_document() is openapi_document()
