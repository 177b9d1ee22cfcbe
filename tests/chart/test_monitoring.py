"""The monitor and the rules that the chart renders, off unless asked for."""

import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.chart.rendering import (
    CHART,
    HELM,
    ROOT,
    Object,
    RenderingError,
    nested,
    render,
    sidecar,
)

pytestmark = pytest.mark.chart

MONITORING = CHART / "ci" / "monitoring-values.yaml"
RULES = ROOT / "deploy" / "prometheus" / "alerts.yaml"


@cache
def monitored() -> list[Object]:
    return render(MONITORING)


def only(objects: list[Object], kind: str) -> Object:
    (found,) = (one for one in objects if one["kind"] == kind)
    return found


def test_nothing_is_monitored_unless_asked() -> None:
    """A cluster without the operator does not know the kinds; values decide, not capabilities."""
    assert {one["kind"] for one in render()} == {"Deployment", "ServiceAccount"}


@pytest.mark.parametrize(
    ("part", "kind"), [("podMonitor", "PodMonitor"), ("rules", "PrometheusRule")]
)
def test_each_is_asked_for_by_itself(part: str, kind: str) -> None:
    """One release has the rules, every release its monitor."""
    objects = render(values=nested(("monitoring", part, "enabled"), True))
    assert {one["kind"] for one in objects} == {"Deployment", "ServiceAccount", kind}
    spec = only(objects, kind)["spec"]
    if kind == "PodMonitor":
        assert {"interval", "scrapeTimeout"}.isdisjoint(spec["podMetricsEndpoints"][0])
    else:
        assert spec == yaml.safe_load(RULES.read_text())


def test_the_rules_are_those_that_promtool_tests() -> None:
    """The same groups, letter for letter, but for where the runbooks are published."""
    expected = RULES.read_text().replace(
        "runbook_url: docs/operating/",
        "runbook_url: https://docs.example/cursor-sidecar/operating/",
    )
    spec = only(monitored(), "PrometheusRule")["spec"]
    assert spec == yaml.safe_load(expected)
    assert spec["groups"][0]["rules"]


def test_the_rules_travel_with_the_chart() -> None:
    """A file of its own in the chart: a link would not be in every package."""
    copy = CHART / "files" / "alerts.yaml"
    assert not copy.is_symlink()
    assert copy.read_bytes() == RULES.read_bytes()


def test_the_monitor_selects_the_pods_and_a_port_that_is_there() -> None:
    """By the labels that never change, and by the port's name."""
    monitor = only(monitored(), "PodMonitor")["spec"]
    deployment = only(monitored(), "Deployment")["spec"]
    assert monitor["selector"] == deployment["selector"]
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert endpoint == {
        "port": "admin",
        "path": "/metrics",
        "honorLabels": True,
        "interval": "15s",
        "scrapeTimeout": "10s",
    }
    assert endpoint["port"] in {port["name"] for port in sidecar(monitored())["ports"]}


@pytest.mark.parametrize("kind", ["PodMonitor", "PrometheusRule"])
def test_they_carry_the_labels_that_a_prometheus_selects_by(kind: str) -> None:
    """Beside the usual ones."""
    labels = only(monitored(), kind)["metadata"]["labels"]
    assert labels["release"] == "prometheus"
    assert labels["app.kubernetes.io/instance"] == "orders"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("monitoring", "podMonitor", "interval"), "soon"),
        (("monitoring", "podMonitor", "scrapeTimeout"), "10"),
        (("monitoring", "rules", "runbookBaseUrl"), "docs.example/operating"),
        (("monitoring", "rules", "runbookBaseUrl"), "https://docs.example/#top"),
        (("monitoring", "rules", "additionalLabels"), {"release": 1}),
    ],
)
def test_a_value_that_prometheus_would_refuse_is_refused(
    path: tuple[str, ...], value: object
) -> None:
    """By helm, before anything is installed."""
    with pytest.raises(RenderingError, match=path[-1]):
        render(values=nested(path, value))


def test_the_package_holds_the_rules(tmp_path: Path) -> None:
    """What `helm package` makes renders the same rules."""
    words = [HELM, "package", str(CHART), "--destination", str(tmp_path)]
    subprocess.run(words, check=True, capture_output=True, timeout=30)
    (package,) = tmp_path.glob("*.tgz")
    words = [HELM, "template", "orders", str(package), "--values", str(MONITORING)]
    done = subprocess.run(
        [*words, "--kube-version", "1.37.0"], check=True, capture_output=True, timeout=30
    )
    objects = [one for one in yaml.safe_load_all(done.stdout) if one]
    assert only(objects, "PrometheusRule")["spec"] == only(monitored(), "PrometheusRule")["spec"]
