"""Reading the places that settings come from, each into the same shape, the higher over the lower.

Nothing is validated here but what is said about names and files; a value is passed on as it was
found, with the place.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sidecar.errors import SettingFault
from sidecar.settings.known import PREFIX, spelled, spellings
from sidecar.settings.sections import SECTIONS

SECRET_BYTES_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Given:
    raw: Any
    source: str


Raw: TypeAlias = dict[tuple[str, str], Given]


def _unknown(name: str, where: str) -> SettingFault:
    near = difflib.get_close_matches(name.upper(), spellings(), n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return SettingFault(name, f"a known setting{where}{hint}")


def _from_environment(
    environ: Mapping[str, str], faults: list[SettingFault]
) -> Iterator[tuple[str, Any]]:
    for name, text in environ.items():
        # Kubernetes injects CURSOR_SIDECAR_PORT and the like for a Service of that name.
        if name.startswith(PREFIX) and "__" in name.removeprefix(PREFIX):
            if name not in spellings():
                faults.append(_unknown(name, ""))
            elif text:
                yield name, text


def _from_flags(flags: Mapping[str, str], faults: list[SettingFault]) -> Iterator[tuple[str, Any]]:
    for flag, text in flags.items():
        name = PREFIX + flag.upper().removeprefix(PREFIX)
        if name not in spellings():
            faults.append(_unknown(name, " (in a flag)"))
        else:
            yield name, text


def _from_file(path: Path, faults: list[SettingFault]) -> Iterator[tuple[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        loaded = tomllib.loads(text) if path.suffix == ".toml" else _yaml(text)
    except OSError as error:
        faults.append(SettingFault("--config", f"a readable file: {error.strerror}: {path}"))
        return
    except ValueError as error:
        # Only where, never what: the line may hold a secret.
        where = re.search(r"line \d+(, column \d+)?", str(error))
        kind = "TOML" if path.suffix == ".toml" else "YAML"
        faults.append(
            SettingFault(
                "--config", f"{kind}, readable to the end: {path} {where[0] if where else ''}"
            )
        )
        return
    for section, values in (loaded or {}).items() if isinstance(loaded or {}, dict) else ():
        if section not in SECTIONS or not isinstance(values, dict):
            near = difflib.get_close_matches(str(section), SECTIONS, n=1)
            hint = f"; did you mean {near[0]}?" if near and near[0] != section else ""
            expected = f"one of the sections {', '.join(SECTIONS)}, each a map (in {path}){hint}"
            faults.append(SettingFault(str(section), expected))
            continue
        for name, value in values.items():
            full = spelled(section, str(name))
            if full not in spellings() or str(name) != str(name).lower():
                faults.append(_unknown(full, f" (in {path})"))
            elif value is not None:
                yield full, value
    if not isinstance(loaded or {}, dict):
        faults.append(SettingFault("--config", f"a map of sections at the top of {path}"))


def _yaml(text: str) -> Any:
    import yaml  # only a process with a YAML file pays for it

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError("" if mark is None else f"line {mark.line + 1}") from None


def _place(
    values: Iterator[tuple[str, Any]], source: str, into: Raw, faults: list[SettingFault]
) -> None:
    """One place over the lower ones; `…_FILE` is opened here, so a place is settled in itself."""
    seen: dict[tuple[str, str], str] = {}
    for full, value in values:
        one, is_path = spellings()[full]
        key = (one.section, one.name)
        given = _opened(full, str(value), source, faults) if is_path else Given(value, source)
        if key in seen:
            faults.append(SettingFault(full, f"either this or {seen[key]}, not both ({source})"))
        seen[key] = full
        into[key] = given


def _opened(full: str, path: str, source: str, faults: list[SettingFault]) -> Given:
    said = f"{source}, {path}"
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(SECRET_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        faults.append(SettingFault(full, f"a readable file: {reason}: {said}"))
        return Given(None, said)
    text = text.removesuffix("\n").removesuffix("\r")
    if not text or len(text) > SECRET_BYTES_MAX:
        faults.append(SettingFault(full, f"a file of 1 to {SECRET_BYTES_MAX} bytes: {said}"))
        return Given(None, said)
    return Given(text, said)


def gathered(
    environ: Mapping[str, str],
    config: Path | None,
    flags: Mapping[str, str] | None,
    faults: list[SettingFault],
) -> Raw:
    raw: Raw = {}
    if config is not None:
        _place(_from_file(config, faults), str(config), raw, faults)
    _place(_from_environment(environ, faults), "environment", raw, faults)
    _place(_from_flags(flags or {}, faults), "flag", raw, faults)
    return raw


def with_client(raw: Raw, client: Mapping[str, str]) -> None:
    given = raw.get(("kafka", "client"))
    below: Any = {} if given is None else given.raw
    if isinstance(below, str):
        try:
            below = json.loads(below)
        except ValueError:
            return  # told when the map itself is checked
    if isinstance(below, dict):
        raw["kafka", "client"] = Given({**below, **client}, "flag")
