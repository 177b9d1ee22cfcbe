"""`drain`: what a pod's preStop hook runs.

A native sidecar learns of its pod's end only through this hook; SIGTERM comes once the application
has gone. So it is the moment to stop fetching and to take what the application still reports.
"""

from __future__ import annotations

from pathlib import Path

import click

from sidecar.cli.options import config_option, load_listeners, set_option
from sidecar.cli.service import Service

GRACE_SECONDS = 5.0
"""Beyond the sidecar's own deadline, for its last commit and the way back."""


@click.command("drain")
@click.option("--url", metavar="URL", help="host:port or unix:/path; by default API__LISTEN.")
@click.option(
    "--timeout",
    "timeout_seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help=f"By default SHUTDOWN__DEADLINE_SECONDS and {GRACE_SECONDS:g}.",
)
@config_option
@set_option
def command(
    url: str | None, timeout_seconds: float | None, config: Path | None, flags: dict[str, str]
) -> None:
    """Tell a running sidecar to stop fetching, settle what is out, and flush.

    It keeps its group membership and goes on taking outcomes. Ends when that is done: exit 0, or
    124 when it took longer.
    """
    listeners = load_listeners(config, flags)
    timeout = timeout_seconds or listeners.shutdown.deadline_seconds + GRACE_SECONDS
    Service(url or listeners.api.listen, timeout_seconds=timeout).post("/v1/drain")
    click.echo("drained")
