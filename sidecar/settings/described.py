"""The settings for people and tools: a JSON Schema of the file, and rows for the reference page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import FieldInfo

from sidecar.settings.known import FILE_SUFFIX, PREFIX, declared
from sidecar.settings.sections import SECTIONS
from sidecar.settings.whole import NOT_YET


def _schema_of(kind: type) -> dict[str, Any]:
    return {"type": "string", "writeOnly": True}


def schema() -> dict[str, Any]:
    """JSON Schema of a configuration file. Nothing is required in it, since the environment may
    hold the rest; `x-required` says what must come from somewhere."""
    _, components = msgspec.json.schema_components(
        SECTIONS.values(), schema_hook=_schema_of, ref_template="#/$defs/{name}"
    )
    sections: dict[str, Any] = {}
    for section, model in SECTIONS.items():
        one = components.pop(model.__name__)
        one["x-required"] = one.pop("required", [])
        for setting in declared().values():
            if setting.section != section:
                continue
            one["properties"][setting.name]["x-environment"] = setting.spelled
            if setting.from_file:
                one["properties"][setting.name + FILE_SUFFIX.lower()] = {
                    "type": "string",
                    "description": f"A file to read `{setting.name}` from.",
                    "x-environment": setting.spelled + FILE_SUFFIX,
                }
        sections[section] = one
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "cursor-sidecar settings",
        "type": "object",
        "additionalProperties": False,
        "properties": sections,
        "$defs": components,
    }


@dataclass(frozen=True, slots=True)
class Described:
    """One setting, for the documentation."""

    name: str
    takes: str
    default: str
    meaning: str
    from_file: bool


def reference() -> Iterator[tuple[str, str, Sequence[Described]]]:
    """Each section with its idea and its settings."""
    for section, model in SECTIONS.items():
        rows = []
        for setting in declared().values():
            if setting.section != section:
                continue
            meaning = setting.meaning
            if later := NOT_YET.get((section, setting.name)):
                meaning += f" Not in this release yet: {', '.join(later)}."
            name = setting.spelled.removeprefix(PREFIX)
            rows.append(
                Described(name, setting.expects, _default(setting.info), meaning, setting.from_file)
            )
        yield section, (model.__doc__ or "").strip(), rows


def _default(info: FieldInfo) -> str:
    if info.required:
        return "required"
    if info.default_factory is not msgspec.NODEFAULT:
        return "`{}`"
    match info.default:
        case None:
            return ""
        case float(number):
            return f"`{number:g}`"
        case value:
            return f"`{value}`"
