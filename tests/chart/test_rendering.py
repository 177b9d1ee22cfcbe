"""What the chart renders, for each claim that its README and values make."""

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

import sidecar as package
from tests.chart.rendering import (
    CHART,
    FULL,
    ROOT,
    VALUES_FILES,
    Object,
    RenderingError,
    application,
    environment,
    pod,
    render,
    sidecar,
)

pytestmark = pytest.mark.chart


@cache
def minimal() -> list[Object]:
    return render()


@cache
def full() -> list[Object]:
    return render(FULL)


@pytest.mark.parametrize("version", ["1.29", "1.33", "1.37"])
@pytest.mark.parametrize("path", VALUES_FILES, ids=lambda path: path.name)
def test_every_object_is_valid_in_kubernetes(path: Path, version: str) -> None:
    """No unknown field and no wrong type, in the oldest, a middle and the newest version."""
    for found in render(path, kubernetes=f"{version}.0"):
        if found["apiVersion"].startswith("monitoring.coreos.com/"):
            continue  # the operator's kinds have no schema in Kubernetes
        kubernetes_validate.validate(found, version, strict=True)


def test_an_older_kubernetes_is_refused() -> None:
    """Before 1.29 it would be an init container that never ends, and the pod would hang."""
    with pytest.raises(RenderingError, match="kubeVersion"):
        render(kubernetes="1.28.0")


def test_a_vendors_version_suffix_is_no_obstacle() -> None:
    """Managed clusters append to the version; that is not a pre-release of Kubernetes."""
    assert render(kubernetes="1.29.1-gke.100")


def test_the_sidecar_is_native_and_drains_first() -> None:
    """It starts before the application, and preStop drains while the application is still there."""
    container = sidecar(minimal())
    assert container["restartPolicy"] == "Always"
    assert container["args"] == ["run"]
    assert "command" not in container
    assert container["lifecycle"]["preStop"]["exec"]["command"] == ["cursor-sidecar", "drain"]


def test_startup_and_liveness_are_probed_and_readiness_is_opt_in() -> None:
    """A failing readiness of the sidecar would take the whole pod out of its Services."""
    by_default, opted_in = sidecar(minimal()), sidecar(full())
    assert by_default["startupProbe"]["httpGet"] == {"path": "/startupz", "port": "admin"}
    assert by_default["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "admin"}
    assert "readinessProbe" not in by_default
    assert opted_in["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "admin"}
    assert "enabled" not in opted_in["readinessProbe"]


@pytest.mark.parametrize(("objects", "port"), [(minimal, 8461), (full, 9461)])
def test_the_admin_port_and_its_listener_agree(objects: Any, port: int) -> None:
    """One value moves the listener and the port that the probes use."""
    container = sidecar(objects())
    assert container["ports"] == [{"name": "admin", "containerPort": port, "protocol": "TCP"}]
    assert environment(container)["CURSOR_SIDECAR_ADMIN__LISTEN"].endswith(f":{port}")


def test_the_sidecar_is_confined() -> None:
    """Not root, nothing writable but /tmp, no capability, the default seccomp profile."""
    container = sidecar(minimal())
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsGroup": 65532,
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_memory_is_limited_and_cpu_is_not() -> None:
    """A CPU limit throttles, and that shows as lag."""
    resources = sidecar(minimal())["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}


def test_the_pod_has_no_kubernetes_token_unless_asked() -> None:
    """Neither the pod nor its ServiceAccount mounts one."""
    (account,) = (found for found in minimal() if found["kind"] == "ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    assert pod(minimal())["automountServiceAccountToken"] is False
    assert pod(minimal())["serviceAccountName"] == account["metadata"]["name"]


def test_an_existing_account_is_used_and_none_is_made() -> None:
    """The account that is named appears in the pod, and the chart leaves it alone."""
    objects = render(CHART / "ci" / "existing-account-values.yaml")
    assert [found["kind"] for found in objects] == ["Deployment"]
    assert pod(objects)["serviceAccountName"] == "orders"
    assert pod(objects)["automountServiceAccountToken"] is True


def test_secrets_are_references() -> None:
    """The chart makes no Secret and holds no secret's value; each is named by secret and key."""
    assert {found["kind"] for found in full()} == {"Deployment", "ServiceAccount"}
    variables = environment(sidecar(full()))
    named = {
        "CURSOR_SIDECAR_REDIS__URL": ("orders-redis", "url"),
        "CURSOR_SIDECAR_KAFKA__SASL_PASSWORD": ("orders-kafka", "password"),
        "CURSOR_SIDECAR_ADMIN__TOKEN": ("orders-admin", "admin-token"),
    }
    for variable, (name, key) in named.items():
        assert variables[variable] == {"secretKeyRef": {"name": name, "key": key}}


def test_secrets_that_are_not_named_are_left_out() -> None:
    """Without a SASL password or a token there is no variable that points nowhere."""
    variables = environment(sidecar(minimal()))
    assert "CURSOR_SIDECAR_REDIS__URL" in variables
    assert "CURSOR_SIDECAR_KAFKA__SASL_PASSWORD" not in variables
    assert "CURSOR_SIDECAR_ADMIN__TOKEN" not in variables


def test_settings_become_variables() -> None:
    """Each setting has its section and name in its variable; lists and maps are JSON."""
    variables = environment(sidecar(full()))
    assert variables["CURSOR_SIDECAR_KAFKA__GROUP_ID"] == "orders"
    assert variables["CURSOR_SIDECAR_KAFKA__COMMIT_INTERVAL_SECONDS"] == "0.25"
    topics = json.loads(variables["CURSOR_SIDECAR_KAFKA__TOPICS"])
    assert topics == ["orders", r"^payments\..*"]
    client = json.loads(variables["CURSOR_SIDECAR_KAFKA__CLIENT"])
    assert client == {"client.rack": "a", "fetch.max.bytes": 52428800}
    assert json.loads(variables["CURSOR_SIDECAR_RECOVERY__ON_GAP"]) == {"retention_loss": "accept"}


def test_every_variable_is_text() -> None:
    """Kubernetes refuses a number or a boolean where a variable's text belongs."""
    values = {"config": {"kafka": {"client": {"enable.metrics.push": False}, "group_id": "0123"}}}
    variables = environment(sidecar(render(values=values)))
    assert variables["CURSOR_SIDECAR_KAFKA__GROUP_ID"] == "0123"
    assert variables["CURSOR_SIDECAR_KAFKA__CLIENT"] == '{"enable.metrics.push":false}'


def test_integers_render_whole() -> None:
    """No number is written in the floating-point form that a template makes of it by itself."""
    large = 1_000_650_000
    values = {
        "config": {
            "delivery": {"page_bytes_max": large},
            "kafka": {"client": {"fetch.max.bytes": large}},
            "recovery": {"receipts_retained_max": large},
        },
        "sidecar": {"securityContext": {"runAsUser": large}},
        "terminationGracePeriodSeconds": large,
    }
    objects = render(values=values)
    variables = environment(sidecar(objects))
    assert variables["CURSOR_SIDECAR_DELIVERY__PAGE_BYTES_MAX"] == str(large)
    assert variables["CURSOR_SIDECAR_RECOVERY__RECEIPTS_RETAINED_MAX"] == str(large)
    assert variables["CURSOR_SIDECAR_KAFKA__CLIENT"] == f'{{"fetch.max.bytes":{large}}}'
    assert pod(objects)["terminationGracePeriodSeconds"] == large
    user = sidecar(objects)["securityContext"]["runAsUser"]
    assert (user, type(user)) == (large, int)


def test_a_pattern_is_not_expanded_by_kubernetes() -> None:
    """`$(NAME)` in a variable's text would be replaced; the escaped form is handed on as it was."""
    values = {"config": {"kafka": {"topics": ["^a$(B)"]}}}
    text = environment(sidecar(render(values=values)))["CURSOR_SIDECAR_KAFKA__TOPICS"]
    assert json.loads(text.replace("$$(", "$(")) == ["^a$(B)"]
    assert not re.search(r"(?<!\$)\$\(", text)


def test_the_application_is_taken_from_the_values() -> None:
    """Its image, command, ports, probes and mounts are the user's; an empty field is left out."""
    container = application(full())
    assert container["image"].startswith("registry.example/shop/orders:2.1@sha256:")
    assert container["command"] == ["/app/orders"]
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]
    assert container["readinessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["volumeMounts"] == [{"name": "data", "mountPath": "/data"}]
    assert "livenessProbe" not in application(minimal())


def test_selectors_do_not_change_with_the_version() -> None:
    """A Deployment's selector is immutable, so nothing that moves between releases is in it."""
    (deployment,) = (found for found in full() if found["kind"] == "Deployment")
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert set(selector) == {"app.kubernetes.io/name", "app.kubernetes.io/instance"}
    assert selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_a_grace_period_too_short_for_the_last_commit_is_refused() -> None:
    """The pod would be killed before the sidecar could commit; equal is too short."""
    values = {
        "terminationGracePeriodSeconds": 30,
        "config": {"shutdown": {"deadline_seconds": 30}},
    }
    with pytest.raises(RenderingError, match="before the last commit"):
        render(values=values)
    assert render(values=values | {"terminationGracePeriodSeconds": 31})
    with pytest.raises(RenderingError, match="before the last commit"):
        render(values={"terminationGracePeriodSeconds": 20})


def test_versions_agree() -> None:
    """The chart and the image carry the package's version."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == package.__version__
    assert f"ARG VERSION={package.__version__}\n" in (ROOT / "Dockerfile").read_text()
    assert sidecar(minimal())["image"].endswith(f":{package.__version__}")


def test_the_command_is_the_one_that_the_package_installs() -> None:
    """What preStop runs exists in the image under that name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (command, *_) = sidecar(minimal())["lifecycle"]["preStop"]["exec"]["command"]
    assert command in project["scripts"]
