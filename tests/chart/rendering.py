"""Run helm on the chart and read what it renders."""

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
CHART = ROOT / "helm" / "cursor-sidecar"
HELM = os.environ.get("HELM", str(ROOT / "build" / "tools" / "bin" / "helm"))

VALUES_FILES = sorted((CHART / "ci").glob("*-values.yaml"))
MINIMAL = CHART / "ci" / "minimal-values.yaml"
FULL = CHART / "ci" / "full-values.yaml"

Object = dict[str, Any]


class RenderingError(Exception):
    """Helm refused; the message is what it said."""


def load(path: Path) -> Object:
    values = yaml.safe_load(path.read_text())
    assert isinstance(values, dict)
    return values


def merged(base: Object, over: Object) -> Object:
    """`over` laid upon `base`, as helm merges values files: maps merge, all else replaces."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            result[key] = merged(below, value)
        else:
            result[key] = value
    return result


def nested(path: Iterable[str], value: Any) -> Object:
    """`{"a": {"b": value}}` for the path `a`, `b`."""
    result = value
    for key in reversed(list(path)):
        result = {key: result}
    assert isinstance(result, dict)
    return result


def render(
    base: Path = MINIMAL, values: Object | None = None, *, kubernetes: str = "1.37.0"
) -> list[Object]:
    """Every object that `helm template` renders from a values file with `values` laid upon it."""
    command = [HELM, "template", "orders", str(CHART), "--namespace", "shop"]
    command += ["--kube-version", kubernetes, "--values", str(base), "--values", "-"]
    done = subprocess.run(
        command, input=json.dumps(values or {}), capture_output=True, text=True, timeout=30
    )
    if done.returncode != 0:
        raise RenderingError(done.stderr)
    return [found for found in yaml.safe_load_all(done.stdout) if found is not None]


def pod(objects: list[Object]) -> Object:
    """The pod's spec of the one Deployment among the objects."""
    (deployment,) = (found for found in objects if found["kind"] == "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


def sidecar(objects: list[Object]) -> Object:
    (container,) = pod(objects)["initContainers"]
    assert isinstance(container, dict)
    return container


def application(objects: list[Object]) -> Object:
    (container,) = pod(objects)["containers"]
    assert isinstance(container, dict)
    return container


def environment(container: Object) -> dict[str, Any]:
    """A container's variables: the text, or where it is taken from."""
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}
