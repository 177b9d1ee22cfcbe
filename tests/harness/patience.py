"""What a sidecar is like while a server is away."""

import time

from tests.harness.sidecar import SidecarProcess


def lies_still(sidecar: SidecarProcess, seconds: float) -> None:
    """For a while, with a fault that lasts and has been told: alive, at most a line a second, and
    no busy loop."""
    mark, cpu, began = sidecar.mark(), sidecar.cpu_seconds, time.monotonic()
    admin = sidecar.admin()
    while time.monotonic() - began < seconds:
        assert admin.text("/livez")[0] == 200
        time.sleep(0.25)  # that time passes is the matter here
    lines = sidecar.since(mark)
    assert len(lines) <= seconds, [line["event"] for line in lines]
    assert sidecar.cpu_seconds - cpu < 0.4 * seconds


def waits_in_peace(sidecar: SidecarProcess, component: str, seconds: float) -> None:
    """For a while: alive, not ready, the reason named; few lines, little CPU."""
    mark, cpu, began = sidecar.mark(), sidecar.cpu_seconds, time.monotonic()
    admin, api = sidecar.admin(), sidecar.api()
    while time.monotonic() - began < seconds:
        status, detail = admin.text("/readyz")
        assert status == 503, detail
        assert admin.text("/livez")[0] == 200
        assert any(component in reason for reason in api.status().reasons)
        time.sleep(0.25)  # that time passes is the matter here
    lines = sidecar.since(mark)
    assert len(lines) <= seconds + 4, [line["event"] for line in lines]
    assert sidecar.cpu_seconds - cpu < 0.4 * seconds
