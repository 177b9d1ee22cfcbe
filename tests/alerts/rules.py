"""The rules, their promtool tests and their runbooks, as values."""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus" / "alerts.yaml"
RULE_TESTS = ROOT / "deploy" / "prometheus" / "alerts_test.yaml"
RUNBOOKS = ROOT / "docs" / "operating"
CHART_COPY = ROOT / "helm" / "cursor-sidecar" / "files" / "alerts.yaml"

PROMTOOL = os.environ.get("PROMTOOL") or shutil.which("promtool")
PROMETHEUS = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
MISSING = "needs {} (Debian: apt-get install --no-install-recommends prometheus)"

_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_SELECTOR = re.compile(r"\b(cursor_sidecar_\w+)(?:\{((?:[^}\"]|\"(?:\\.|[^\"\\])*\")*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*("(?:\\.|[^"\\])*"|%q)')
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")


@dataclass(frozen=True)
class Alert:
    name: str
    expression: str
    labels: dict[str, str]
    annotations: dict[str, str]

    @property
    def texts(self) -> str:
        """What a person reads, and the queries in it."""
        return "\n".join(self.annotations.values())

    @property
    def queries(self) -> list[str]:
        """PromQL: the expression, and what the annotations ask."""
        asked = re.findall(r'printf ("(?:\\.|[^"\\])*")[^|]*\|\s*query', self.texts)
        return [self.expression, *(text[1:-1] for text in asked)]

    @property
    def outcome_labels(self) -> set[str]:
        """Those that the expression's aggregations keep."""
        kept = re.findall(r"\bby \(([^)]*)\)", self.expression)
        return {label.strip() for group in kept for label in group.split(",") if label.strip()}


@dataclass(frozen=True)
class Selector:
    metric: str
    matchers: dict[str, tuple[str, str]]


def selectors(query: str) -> list[Selector]:
    return [
        Selector(metric, {name: (how, value) for name, how, value in _MATCHER.findall(inside)})
        for metric, inside in _SELECTOR.findall(query)
    ]


def grouped_by(query: str) -> set[str]:
    without_strings = _STRING.sub('""', query)
    groups = _GROUPING.findall(without_strings)
    return {label.strip() for group in groups for label in group.split(",") if label.strip()}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def alerts() -> list[Alert]:
    return [
        Alert(rule["alert"], rule["expr"], rule["labels"], rule["annotations"])
        for group in load(RULES)["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]


def recorded() -> dict[str, str]:
    """Expressions by the names that they are recorded under."""
    rules = [rule for group in load(RULES)["groups"] for rule in group["rules"]]
    return {rule["record"]: rule["expr"] for rule in rules if "record" in rule}
