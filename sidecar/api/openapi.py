"""`/openapi.json`: OpenAPI 3.1, made from the same table and Structs as the routes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from sidecar import __version__
from sidecar.api.operations import OPERATIONS, Operation
from sidecar.api.problems import MEDIA_TYPE, TITLES, ProblemBody

_REF = "#/components/schemas/{name}"
_MEDIA_TYPES = ("application/json", "application/msgpack")
_PATH_PARAMETERS = {
    "page": ("The page's id, as handed out.", {"type": "string"}),
    "id": ("As listed.", {"type": "string"}),
    "topic": ("The topic's name.", {"type": "string"}),
    "partition": ("The partition's index.", {"type": "integer", "minimum": 0}),
}


@cache
def openapi_document() -> dict[str, Any]:
    """The whole document. Cached: treat it as read-only."""
    structs: list[type] = [ProblemBody]
    for operation in OPERATIONS:
        structs += operation.body
        if isinstance(operation.answer, type):
            structs.append(operation.answer)
    unique = list(dict.fromkeys(structs))
    _, components = msgspec.json.schema_components(unique, ref_template=_REF)
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "cursor-sidecar",
            "version": __version__,
            "summary": "Pages of Kafka records, their outcomes, and the gaps between them.",
            "description": "In JSON, bytes are base64; in MessagePack they are bytes. Every error "
            "is a problem (RFC 9457) whose `type` is stable.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [
            {"url": "http://127.0.0.1:8460", "description": "The application API"},
            {"url": "http://127.0.0.1:8461", "description": "The admin listener"},
        ],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "adminToken": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Needed for mutations on the admin listener alone.",
                }
            },
        },
        "tags": [
            {"name": "application", "description": "For the application beside the sidecar."},
            {
                "name": "state",
                "description": "State, gaps and holds, for application and operator.",
            },
            {"name": "admin", "description": "On the admin listener alone."},
        ],
    }


def openapi_bytes() -> bytes:
    return msgspec.json.format(msgspec.json.encode(openapi_document()), indent=2)


def _operation(operation: Operation) -> dict[str, Any]:
    tag = "application" if not operation.admin else "state" if operation.app else "admin"
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [tag],
        "parameters": [*_parameters(operation)],
        "responses": _responses(operation),
    }
    if operation.body:
        schemas: list[dict[str, Any]] = [
            {"$ref": _REF.format(name=b.__name__)} for b in operation.body
        ]
        schema = schemas[0] if len(schemas) == 1 else {"oneOf": schemas}
        described["requestBody"] = {
            "required": operation.body_required,
            "content": _content(schema, operation.examples_body),
        }
    if operation.mutates and operation.admin:
        described["security"] = [{}, {"adminToken": []}]
    return described


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part in operation.path.split("/"):
        if part.startswith("{"):
            name = part.strip("{}")
            meaning, schema = _PATH_PARAMETERS[name]
            found.append(
                {
                    "name": name,
                    "in": "path",
                    "required": True,
                    "description": meaning,
                    "schema": schema,
                }
            )
    found += [
        {
            "name": query.name,
            "in": "query",
            "required": False,
            "description": query.meaning,
            "schema": {"type": "string", "enum": [*query.values]},
        }
        for query in operation.query
    ]
    if operation.answer == "text/event-stream":
        found.append(
            {
                "name": "Last-Event-ID",
                "in": "header",
                "required": False,
                "description": "Begin with the kept events after this one.",
                "schema": {"type": "integer", "minimum": 0},
            }
        )
    return found


def _content(schema: dict[str, Any], examples: Mapping[str, Any]) -> dict[str, Any]:
    """Both encodings; examples in JSON alone, since bytes cannot be written in this document."""
    json, msgpack = _MEDIA_TYPES
    return {json: {"schema": schema} | _examples(examples), msgpack: {"schema": schema}}


def _examples(examples: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: {"value": value} for name, value in examples.items()}
    return {"examples": named} if named else {}


def _responses(operation: Operation) -> dict[str, Any]:
    examples = {} if operation.example is None else {"answer": operation.example}
    if isinstance(operation.answer, type):
        content = _content({"$ref": _REF.format(name=operation.answer.__name__)}, examples)
    else:
        kind = "object" if "json" in operation.answer else "string"
        content = {operation.answer: {"schema": {"type": kind}} | _examples(examples)}
    responses: dict[str, Any] = {"200": {"description": "Done.", "content": content}}
    if operation.answers_nothing is not None:
        responses["204"] = {"description": operation.answers_nothing}
    if operation.id in ("readiness", "liveness"):
        responses["503"] = {"description": "Not so, and why.", "content": content}
    by_status: dict[int, list[str]] = {}
    for problem in operation.problems:
        by_status.setdefault(problem.status, []).append(f"`{problem.value}`: {TITLES[problem]}.")
    for status, lines in sorted(by_status.items()):
        response: dict[str, Any] = {
            "description": "\n".join(dict.fromkeys(lines)),
            "content": {MEDIA_TYPE: {"schema": {"$ref": _REF.format(name="ProblemBody")}}},
        }
        if status == 503:
            response["headers"] = {
                "Retry-After": {
                    "description": "Seconds to wait, where it is known.",
                    "schema": {"type": "integer", "minimum": 1},
                }
            }
        responses.setdefault(str(status), response)
    return responses
