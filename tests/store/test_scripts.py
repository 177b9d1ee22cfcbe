"""Header, enum and file name of each script agree, so that none drifts from the others."""

import re
from pathlib import Path

import pytest

import sidecar.store
from sidecar.store import scripts
from sidecar.store.scripts import ALL, Code, Script

DIRECTORY = Path(sidecar.store.__file__).parent / "scripts"
CODES = "|".join(code.name for code in Code)


def header(script: Script) -> str:
    match = re.match(r"--\[\[\n(.*?)\n\]\]\n", script.source.decode(), re.DOTALL)
    assert match, f"{script.name} opens with its contract"
    return match[1]


def section(script: Script, name: str) -> str:
    """The text under KEYS, ARGV or Answers."""
    match = re.search(
        rf"^{name}\b(.*?)(?=^(?:KEYS|ARGV|Answers)\b|\Z)", header(script), re.M | re.S
    )
    assert match, f"{script.name} has a section {name}"
    return match[1]


@pytest.fixture(params=ALL, ids=lambda script: script.name)
def script(request: pytest.FixtureRequest) -> Script:
    assert isinstance(request.param, Script)
    return request.param


def test_every_file_is_a_script_and_every_script_a_file() -> None:
    files = {path.name for path in DIRECTORY.iterdir()}
    assert files == {f"{script.name}-{script.keys}.lua" for script in ALL}


def test_the_number_of_keys_is_said_thrice_and_used(script: Script) -> None:
    """In the file's name, in the header, and in the code, which uses no key beyond."""
    listed = [int(n) for n in re.findall(r"(?<!\w)(\d+) \w+", section(script, "KEYS"))]
    assert listed == list(range(1, script.keys + 1))
    body = script.source.decode().split("]]\n", 1)[1]
    used = {int(n) for n in re.findall(r"KEYS\[(\d+)\]", body)}
    assert used == set(listed)


def test_keys_never_come_through_arguments(script: Script) -> None:
    """A key in ARGV would not be checked against the slot, nor by access lists."""
    body = script.source.decode().split("]]\n", 1)[1]
    keyed = re.findall(r"call\('[A-Z]+', (?!KEYS\[|[a-z]+[,)])([^,)]+)", body)
    assert keyed == []


def test_every_code_answered_is_documented_and_one_of_the_enum(script: Script) -> None:
    """The numbers in the script are those of `Code`, and its header names those it uses."""
    body = script.source.decode().split("]]\n", 1)[1]
    declared: dict[str, int] = {}
    for names, values in re.findall(r"^local ((?:[A-Z_]+, )*[A-Z_]+) = ([\d, ]+)\b", body, re.M):
        declared |= dict(
            zip(names.split(", "), map(int, values.replace(" ", "").split(",")), strict=True)
        )
    codes = {name: value for name, value in declared.items() if name in Code.__members__}
    assert codes == {name: Code[name].value for name in codes}
    documented = {*re.findall(rf"\b({CODES})\b", section(script, "Answers"))}
    assert documented == set(codes)
    for name in codes:
        assert len(re.findall(rf"\b{name}\b", body)) > 1, f"{name} is declared and not answered"


def test_every_code_is_answered_by_some_script() -> None:
    assert set(Code.__members__) == {
        name for script in ALL for name in re.findall(rf"\b({CODES})\b", header(script))
    }


def test_scripts_are_named_by_the_module_that_holds_them() -> None:
    named = {value for value in vars(scripts).values() if isinstance(value, Script)}
    assert named == {*ALL}
