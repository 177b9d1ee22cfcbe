"""The import contracts of pyproject.toml keep up with the package.

`make check` enforces the contracts themselves. import-linter wants the source modules of a
"forbidden" contract to exist, so each is listed when it lands; these tests notice one that was
forgotten.
"""

import tomllib
from pathlib import Path
from typing import Any

import pytest

IMPORTED_AS = {"pyyaml": "yaml"}
"""Where a distribution and its package differ in name."""
ROOT = Path(__file__).resolve().parent.parent
INNER = ("core", "errors", "ports", "engine")


def contract(name: str) -> dict[str, Any]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (found,) = (c for c in config["tool"]["importlinter"]["contracts"] if c["id"] == name)
    return dict(found)


def present(names: tuple[str, ...]) -> set[str]:
    package = ROOT / "sidecar"
    return {
        f"sidecar.{name}"
        for name in names
        if (package / f"{name}.py").exists() or (package / name / "__init__.py").exists()
    }


@pytest.mark.parametrize(
    ("name", "inner"),
    [("vendors", INNER), ("purity", ("core", "engine"))],
    ids=["vendors", "purity"],
)
def test_every_inner_module_is_under_the_contract(name: str, inner: tuple[str, ...]) -> None:
    """A module that must not know vendors, clocks or chance is listed as soon as it exists."""
    assert set(contract(name)["source_modules"]) == present(inner)


def test_every_runtime_dependency_is_barred() -> None:
    """A dependency that is added is barred from the inner modules, too."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    names = {
        dependency.split(";")[0].split(">")[0].split("[")[0].replace("-", "_")
        for dependency in config["project"]["dependencies"]
    }
    names = {IMPORTED_AS.get(name, name) for name in names}
    assert names <= set(contract("vendors")["forbidden_modules"])
