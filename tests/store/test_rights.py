"""The rights that are documented are those that are used."""

from __future__ import annotations

import re
from importlib.resources import files

from tests.store.rights import commands

_PACKED = re.compile(r'\bpack\(\s*b?"([A-Z]+)"(?:, "([A-Z]+)")?')
_CALLED = re.compile(r"\b(?:call|pcall|acl_check_cmd)\('([A-Z]+)'")
_CHECKED = re.compile(r"\{'([A-Z]+)'")

ELSEWHERE = {
    "sentinel|master": "asked of Sentinels, which have users of their own",
    "cluster|info": "of a Redis Cluster only",
    "cluster|slots": "of a Redis Cluster only",
    "asking": "of a Redis Cluster only",
}
NOT_NEEDED = {"config|get": "without it a warning says what could not be checked"}


def used() -> set[str]:
    package = files("sidecar.store")
    found: set[str] = set()
    for file in package.iterdir():
        if file.name.endswith(".py"):
            for command, subcommand in _PACKED.findall(file.read_text()):
                parts = (
                    (command, subcommand)
                    if command in ("CLUSTER", "CONFIG", "SENTINEL")
                    else (command,)
                )
                found.add("|".join(parts).lower())
    for script in (package / "scripts").iterdir():
        text = re.sub(r"--\[\[.*?\]\]", "", script.read_text(), flags=re.S)
        found |= {c.lower() for c in (*_CALLED.findall(text), *_CHECKED.findall(text))}
    return found


def test_the_documented_commands_are_exactly_those_that_are_used() -> None:
    """One more would be a right for nothing, one fewer a fault at night."""
    assert used() >= ELSEWHERE.keys() | NOT_NEEDED.keys(), "remove what is not used any more"
    assert commands() == used() - ELSEWHERE.keys() - NOT_NEEDED.keys()
