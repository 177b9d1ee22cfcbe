"""What a sidecar is like while a server is away."""

import time

from tests.harness.sidecar import SidecarProcess


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
