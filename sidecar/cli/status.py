"""`status`: the columns of `kafka-consumer-groups`, then ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sidecar.cli.options import FAILED, output_option
from sidecar.cli.output import emit, table
from sidecar.cli.service import service, service_options

COLUMNS = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "STATE",
    "REASON",
    "APPLIED",
    "LOG-START-OFFSET",
    "GENERATION",
    "GAP",
    "DETAIL",
)


@click.command("status")
@service_options
@output_option
def command(
    url: str | None,
    timeout_seconds: float,
    config: Path | None,
    flags: dict[str, str],
    output: str,
) -> None:
    """Show what a running sidecar does, partition by partition.

    Asks the admin listener. Exit 1 when the sidecar is not ready.
    """
    sidecar = service(url, timeout_seconds, config, flags, admin=True)
    status = sidecar.get("/v1/status")
    partitions = sidecar.get("/v1/partitions")["partitions"]
    if output == "table":
        table(COLUMNS, [_row(status, partition) for partition in partitions])
        for reason in status["reasons"]:
            click.echo(f"not ready: {reason}", err=True)
    else:
        emit({"status": status, "partitions": partitions}, output)
    if not status["ready"]:
        raise SystemExit(FAILED)


def _row(status: dict[str, Any], partition: dict[str, Any]) -> list[Any]:
    return [
        status["group"],
        partition["topic"],
        partition["partition"],
        partition["committed"],
        partition["log_end"],
        partition["lag_records"],
        status["member"],
        partition["state"],
        partition["reason"],
        partition["applied"],
        partition["log_start"],
        partition["generation"],
        partition["gap"],
        partition["detail"] or None,
    ]
