"""Every alert is complete, asks for series that exist, and is tested firing, silent, pods gone."""

import re
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from sidecar.cli import main
from sidecar.telemetry.catalogue import CATALOGUE, FIXED_LABELS, Kind, Metric
from tests.alerts.rules import (
    CHART_COPY,
    MISSING,
    PROMTOOL,
    RULE_TESTS,
    RULES,
    RUNBOOKS,
    Alert,
    alerts,
    grouped_by,
    load,
    recorded,
    selectors,
)

ALERTS = alerts()
NAMES = [alert.name for alert in ALERTS]
METRICS = {metric.full_name: metric for metric in CATALOGUE}
each_alert = pytest.mark.parametrize("alert", ALERTS, ids=NAMES)


# --- complete -------------------------------------------------------------------------------------


def test_names_are_unique_and_say_whose_they_are() -> None:
    """CamelCase with our prefix, since they meet other people's alerts in one place."""
    assert len(set(NAMES)) == len(NAMES)
    assert [name for name in NAMES if not re.fullmatch(r"CursorSidecar([A-Z][a-z]+)+", name)] == []


@each_alert
def test_it_says_what_a_person_needs(alert: Alert) -> None:
    """Severity, summary, description and runbook; two severities, so that routing is simple."""
    assert alert.labels["severity"] in {"critical", "warning"}
    assert set(alert.annotations) == {"summary", "description", "runbook_url"}
    assert all(text.strip() for text in alert.annotations.values())
    assert alert.annotations["runbook_url"] == f"docs/operating/{alert.name}.md"


@each_alert
def test_what_it_tells_is_known_when_it_fires(alert: Alert) -> None:
    """A label that the expression has aggregated away would be told as nothing."""
    told = set(re.findall(r"\$labels\.(\w+)", alert.texts))
    assert told <= alert.outcome_labels
    assert "group" in told or alert.outcome_labels == set()


TOLD = {
    "an unresolved gap": ("GapUnresolved",),
    "a partition that is held": ("PartitionHeld",),
    "no progress with lag": ("NoProgress",),
    "a record nobody finishes": ("HeadOfLineStuck",),
    "a transaction that hangs": ("HangingTransaction",),
    "a commit moved by a foreign hand": ("CommitRewound",),
    "store or broker down": ("StoreDown", "BrokerDown"),
    "a store that may forget": ("StoreMayForget",),
    "a loss that is near": ("LossNear",),
    "series that are gone": ("Absent", "GroupVanished", "PartitionUnwatched"),
}
"""What somebody has to be told of, and the alerts that tell it."""


@pytest.mark.parametrize("what", TOLD)
def test_somebody_is_told(what: str) -> None:
    """An alert that is taken out takes its rule, texts, runbook and tests along; this stays."""
    assert {f"CursorSidecar{name}" for name in TOLD[what]} <= set(NAMES)


# --- series ---------------------------------------------------------------------------------------


def enums(metric: Metric) -> dict[str, set[str]]:
    """The values that a label can take, where it is an enum: the last labels are."""
    labels = metric.labels[len(metric.labels) - len(metric.values) :]
    return {label: set(values) for label, values in zip(labels, metric.values, strict=True)}


@each_alert
def test_its_series_exist(alert: Alert) -> None:
    """Metrics, labels and label values are the catalogue's: a renamed one would never fire."""
    for query in alert.queries:
        found = selectors(query)
        assert found
        known: set[str] = set(FIXED_LABELS)
        for selector in found:
            metric = METRICS[selector.metric]
            assert metric.kind is not Kind.HISTOGRAM
            known |= set(metric.labels)
            for label, (_, value) in selector.matchers.items():
                assert label in {*FIXED_LABELS, *metric.labels}, selector
                values = enums(metric).get(label)
                if values is not None and value != "%q":
                    assert set(value.strip('"').split("|")) <= values, selector
        assert grouped_by(query) <= known


def test_what_is_recorded_is_used_and_keeps_its_labels() -> None:
    """Its name begins with them, as is the custom; its series exist, too."""
    for name, expression in recorded().items():
        labels, metric, how = name.split(":")
        assert [one.metric for one in selectors(expression)] == [metric]
        assert expression.startswith(f"{how} by ({labels.replace('_', ', ')}) (")
        assert metric in METRICS
        assert any(name in alert.expression for alert in ALERTS)


def test_no_alert_stands_on_a_counter_alone() -> None:
    """A counter that is born at 1 has no increase; where one is used, the newborn counts whole."""
    for alert in ALERTS:
        for selector in selectors(alert.expression):
            if METRICS[selector.metric].kind is Kind.COUNTER:
                assert "increase(" in alert.expression
                assert f"unless {selector.metric} offset" in alert.expression


# --- runbooks -------------------------------------------------------------------------------------


def test_each_alert_has_its_runbook_and_no_runbook_is_left_over() -> None:
    """And the index lists them all, with the severity that the rule has."""
    assert {path.stem for path in RUNBOOKS.glob("Cursor*.md")} == set(NAMES)
    index = (RUNBOOKS / "README.md").read_text()
    listed = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\) \| (\w+) \|", index, re.MULTILINE)
    assert listed == [(a.name, a.name, a.labels["severity"]) for a in ALERTS]


@each_alert
def test_a_runbook_has_its_four_parts(alert: Alert) -> None:
    """In the order in which somebody who was woken reads."""
    text = (RUNBOOKS / f"{alert.name}.md").read_text()
    assert text.startswith(f"# {alert.name}\n")
    parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert parts == ["Meaning", "Impact", "Diagnosis", "Mitigation"]
    bodies = re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]
    assert all(len(body.strip()) > 40 for body in bodies)
    assert re.search(r"^    \S", bodies[3], re.MULTILINE), "no command that leads out"


def test_runbooks_name_only_commands_that_exist() -> None:
    """Each is parsed by the command line itself, with every option that it needs; where a number is
    to be filled in, with a number."""
    numbers = {"PARTITION": "0", "OFFSET": "4711"}
    seen = 0
    for path in RUNBOOKS.glob("*.md"):
        for line in re.findall(r"^    (?:.* -- )?(cursor-sidecar .+)$", path.read_text(), re.M):
            command: click.Command = main
            context = click.Context(main)
            words = [numbers.get(word, word) for word in line.split()[1:]]
            while isinstance(command, click.Group):
                found = command.get_command(context, words.pop(0))
                assert found is not None, f"{path.name}: {line}"
                command, context = found, click.Context(found, parent=context)
            command.make_context(command.name, words, parent=context)
            seen += 1
        for name in re.findall(r"`cursor-sidecar (\w+)", path.read_text()):
            assert main.get_command(click.Context(main), name), f"{path.name}: {name}"
    assert seen > len(NAMES)


def test_links_of_runbooks_lead_somewhere() -> None:
    """Within the repository."""
    for path in RUNBOOKS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


# --- the chart ------------------------------------------------------------------------------------


def test_the_chart_has_the_same_file() -> None:
    """Helm packages only what lies in the chart: cp deploy/prometheus/alerts.yaml there."""
    assert CHART_COPY.read_bytes() == RULES.read_bytes()


# --- promtool -------------------------------------------------------------------------------------


def rule_tests(alert: str) -> list[dict[str, Any]]:
    tests: list[dict[str, Any]] = load(RULE_TESTS)["tests"]
    return [one for one in tests if one["name"].split()[0] == alert]


def expectations(test: dict[str, Any]) -> list[list[Any]]:
    return [check["exp_alerts"] for check in test["alert_rule_test"]]


@each_alert
def test_it_is_tested_firing_silent_and_with_its_pods_gone(alert: Alert) -> None:
    """By tests whose names say so, and that do what their names say."""
    tests = rule_tests(alert.name)
    for one in tests:
        assert {check["alertname"] for check in one["alert_rule_test"]} == {alert.name}
    fires = [one for one in tests if "fires" in one["name"]]
    silent = [one for one in tests if "stays silent" in one["name"]]
    vanish = [one for one in tests if re.search(r"pods? vanish", one["name"])]
    assert any(any(expectations(one)) for one in fires)
    assert any(not any(expectations(one)) for one in silent)
    assert vanish
    for one in vanish:
        assert any("stale" in series["values"] for series in one["input_series"])


def test_every_rule_test_is_of_an_alert() -> None:
    """None is left behind by a renamed one."""
    assert {one["name"].split()[0] for one in load(RULE_TESTS)["tests"]} == set(NAMES)


def test_rule_tests_use_series_that_exist() -> None:
    """A misspelt series would be a test that stays silent for the wrong reason."""
    for one in load(RULE_TESTS)["tests"]:
        for series in one["input_series"]:
            (selector,) = selectors(series["series"])
            labels = set(selector.matchers) - {"instance"}
            assert labels == {*FIXED_LABELS, *METRICS[selector.metric].labels}, series["series"]


@pytest.mark.skipif(PROMTOOL is None, reason=MISSING.format("promtool"))
class TestPromtool:
    def test_it_accepts_the_rules(self) -> None:
        """Syntax, and PromQL."""
        assert "SUCCESS" in promtool("check", "rules", RULES)

    def test_the_rules_do_what_their_tests_say(self) -> None:
        """Each fires, stays silent, and behaves when its pods vanish."""
        assert "SUCCESS" in promtool("test", "rules", RULE_TESTS)

    @each_alert
    def test_its_tests_notice_an_alert_that_never_fires(self, alert: Alert, tmp_path: Path) -> None:
        """Or its silence would prove nothing."""
        rules = load(RULES)
        (mine,) = (one for one in rules["groups"][0]["rules"] if one.get("alert") == alert.name)
        mine["expr"] = "vector(1) > 2"
        assert not passes(rules, rule_tests(alert.name), tmp_path)

    @each_alert
    def test_its_tests_notice_an_alert_that_always_fires(
        self, alert: Alert, tmp_path: Path
    ) -> None:
        """Labels and texts stay as they were, so that only its silence is asked."""
        rules = load(RULES)
        (mine,) = (one for one in rules["groups"][0]["rules"] if one.get("alert") == alert.name)
        mine["expr"] = f"({mine['expr']}) or vector(1)"
        silent = [one for one in rule_tests(alert.name) if "stays silent" in one["name"]]
        assert not passes(rules, silent, tmp_path)


def promtool(*words: str | Path) -> str:
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, *map(str, words)], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def passes(rules: Any, tests: list[dict[str, Any]], directory: Path) -> bool:
    (directory / "alerts.yaml").write_text(yaml.safe_dump(rules))
    suite = {"rule_files": ["alerts.yaml"], "evaluation_interval": "30s", "tests": tests}
    (directory / "test.yaml").write_text(yaml.safe_dump(suite))
    assert PROMTOOL is not None
    words = [PROMTOOL, "test", "rules", str(directory / "test.yaml")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=50, check=False)
    assert "FAILED" in done.stdout + done.stderr or done.returncode == 0, done.stderr
    return done.returncode == 0
