"""The schema of the chart's values refuses what it does not know."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from tests.chart.rendering import (
    CHART,
    FULL,
    MINIMAL,
    VALUES_FILES,
    Object,
    RenderingError,
    load,
    merged,
    nested,
    render,
)

pytestmark = pytest.mark.chart

SCHEMA: Object = json.loads((CHART / "values.schema.json").read_text())
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
DEFAULTS = load(CHART / "values.yaml")

Path = tuple[str, ...]


def objects(schema: Object, path: Path = ()) -> Iterator[tuple[Path, Object]]:
    """Every object of the schema whose keys are named, with the way to it."""
    if "properties" in schema and schema.get("type") == "object":
        yield path, schema
        for key, below in schema["properties"].items():
            yield from objects(below, (*path, key))


CLOSED = dict(objects(SCHEMA))
KEYS = [(*path, key) for path, schema in CLOSED.items() for key in schema["properties"]]


def at(values: Any, path: Path) -> Any:
    for key in path:
        values = values[key]
    return values


def name(path: Path) -> str:
    return ".".join(path) or "(top)"


def valid(over: Object) -> bool:
    return VALIDATOR.is_valid(merged(merged(DEFAULTS, load(FULL)), over))


def test_it_is_a_draft_07_schema() -> None:
    """Helm reads draft-07."""
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    jsonschema.Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", VALUES_FILES, ids=lambda path: path.name)
def test_the_example_values_are_valid(path: Any) -> None:
    """What the other tests start from is accepted, so that a refusal has one cause."""
    VALIDATOR.validate(merged(DEFAULTS, load(path)))


@pytest.mark.parametrize("path", CLOSED, ids=name)
def test_an_unknown_key_is_refused(path: Path) -> None:
    """A misspelt key is an error everywhere, never silently the default."""
    assert CLOSED[path]["additionalProperties"] is False
    assert not valid(nested((*path, "misspelt"), "x"))


@pytest.mark.parametrize("path", KEYS, ids=name)
def test_a_wrong_type_is_refused_for_every_key(path: Path) -> None:
    """No key takes whatever it is given: an object is no list, and nothing else is an object."""
    below = at(SCHEMA, tuple(step for key in path for step in ("properties", key)))
    kind = below.get("type") or at(SCHEMA, tuple(below["$ref"].split("/")[1:]))["type"]
    wrong: Any = [] if kind == "object" else {"wrong": "type"}
    assert not valid(nested(path, wrong))


def test_every_default_is_known_and_every_structure_has_its_default() -> None:
    """values.yaml and the schema name the same keys; config alone has more than its defaults."""

    def walk(values: Object, path: Path = ()) -> Iterator[Path]:
        for key, value in values.items():
            yield (*path, key)
            if (*path, key) in CLOSED:
                yield from walk(value, (*path, key))

    defaults, known = set(walk(DEFAULTS)), set(KEYS)
    optional = {key for key in known if key[0] in {"config", "global"} or "Probe" in name(key)}
    assert defaults <= known
    assert known - optional <= defaults


@pytest.mark.parametrize(
    "path",
    [
        ("application", "image", "repository"),
        ("application", "image", "tag"),
        ("sidecar", "image", "repository"),
        ("config", "kafka", "bootstrap_servers"),
        ("config", "kafka", "group_id"),
        ("secrets", "redisUrl", "existingSecret"),
    ],
    ids=name,
)
def test_what_has_no_default_must_be_given(path: Path) -> None:
    """Helm itself refuses, before anything is installed."""
    with pytest.raises(RenderingError, match=path[-1] if path[-1] != "tag" else "anyOf"):
        render(MINIMAL, nested(path, ""))


@pytest.mark.parametrize(
    "path",
    [
        ("config", "redis", "url"),
        ("config", "kafka", "sasl_password"),
        ("config", "admin", "token"),
    ],
    ids=name,
)
def test_a_secret_among_the_settings_is_refused(path: Path) -> None:
    """A secret's value has no place in values, where a release would keep it readable."""
    with pytest.raises(RenderingError, match=r"[Aa]dditional propert(y|ies)"):
        render(MINIMAL, nested(path, "x"))


def test_a_secret_among_the_client_properties_is_refused() -> None:
    """The map of librdkafka's own properties is no way around that."""
    assert valid(nested(("config", "kafka", "client"), {"client.rack": "a"}))
    assert not valid(nested(("config", "kafka", "client"), {"sasl.password": "x"}))
