"""What is known of a setting from its declaration: how the environment spells it, what it takes in
words, whether it may come from a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from msgspec import inspect
from msgspec.structs import FieldInfo, fields

from sidecar.settings.sections import SECTIONS

PREFIX = "CURSOR_SIDECAR_"
FILE_SUFFIX = "_FILE"


def spelled(section: str, name: str) -> str:
    """As the environment spells it."""
    return f"{PREFIX}{section.upper()}__{name.upper()}"


@dataclass(frozen=True, slots=True)
class Known:
    """One setting, as its declaration says."""

    section: str
    name: str
    info: FieldInfo
    bare: inspect.Type
    """Its type without `| None` and without what was said about it."""
    about: Mapping[str, Any]
    meaning: str

    @property
    def spelled(self) -> str:
        return spelled(self.section, self.name)

    @property
    def secret(self) -> bool:
        return isinstance(self.bare, inspect.CustomType)

    @property
    def from_file(self) -> bool:
        return self.secret or "from_file" in self.about

    @property
    def expects(self) -> str:
        if "expects" in self.about:
            return str(self.about["expects"])
        match self.bare:
            case inspect.LiteralType(values):
                return f"one of {', '.join(map(str, values))}"
            case inspect.EnumType(cls):
                return f"one of {', '.join(one.value for one in cls)}"
            case inspect.IntType(gt, ge, _, le) | inspect.FloatType(gt, ge, _, le):
                what = "a whole number" if isinstance(self.bare, inspect.IntType) else "a number"
                unit = " of seconds" if self.name.endswith("_seconds") else ""
                least = f"> {gt:g}" if ge is None else f"≥ {ge:g}"
                return f"{what}{unit} {least} and ≤ {le}"
            case _:
                return "text"


def _bare(found: inspect.Type) -> tuple[inspect.Type, dict[str, Any], str]:
    about: dict[str, Any] = {}
    meaning = ""
    while True:
        match found:
            case inspect.Metadata(inner, schema, extra):
                about |= extra or {}
                meaning = (schema or {}).get("description", meaning)
                found = inner
            case inspect.UnionType(types) if len(types) == 2:
                (found,) = (one for one in types if not isinstance(one, inspect.NoneType))
            case _:
                return found, about, meaning


@cache
def declared() -> Mapping[tuple[str, str], Known]:
    found = {}
    for section, model in SECTIONS.items():
        for info in fields(model):
            described = _bare(inspect.type_info(info.type))
            found[section, info.name] = Known(section, info.name, info, *described)
    return found


@cache
def spellings() -> Mapping[str, tuple[Known, bool]]:
    """By its name in the environment; whether that is the `…_FILE` of it."""
    names = {}
    for one in declared().values():
        names[one.spelled] = (one, False)
        if one.from_file:
            names[one.spelled + FILE_SUFFIX] = (one, True)
    return names
