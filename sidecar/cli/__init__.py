"""`cursor-sidecar`: one command for the process and for people.

Each subcommand is a module that is imported when it is named, and imports what it needs when it
runs: a preStop hook that drains must not pay for a Kafka client.

Exit codes: 0 done, 1 failed or unhealthy, 2 usage or settings, 3 fenced, 124 timed out.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import click

from sidecar import __version__

_COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("sidecar.cli.run", "Be the sidecar: join the group, hand out pages, keep the cursor."),
    "drain": ("sidecar.cli.drain", "Tell a running sidecar to stop fetching and flush."),
    "doctor": ("sidecar.cli.doctor", "Check settings, servers, rights and the group's state."),
    "status": ("sidecar.cli.status", "Show where a group stands, partition by partition."),
    "explain": ("sidecar.cli.explain", "Explain where a partition stands, and what may be done."),
    "gaps": ("sidecar.cli.gaps", "List, show, acknowledge and resolve gaps."),
    "forget": ("sidecar.cli.forget", "Remove what is kept of a retired topic or group."),
    "holds": ("sidecar.cli.holds", "List, show and answer holds that are no gaps."),
    "pause": ("sidecar.cli.pause:pause", "Deliver nothing of a partition for a while."),
    "continue": ("sidecar.cli.pause:resume", "Deliver a paused partition again."),
    "replay": ("sidecar.cli.replay", "Deliver again what was applied."),
    "skip": ("sidecar.cli.skip", "Pass one record, because a person says so."),
    "rebind": ("sidecar.cli.rebind", "Say that the group moved to another cluster."),
    "config": ("sidecar.cli.config", "Show the effective settings, their schema or reference."),
    "openapi": ("sidecar.cli.openapi", "Print the OpenAPI document of the HTTP API."),
    "demo": ("sidecar.cli.demo", "Tell the story of a broken cursor, with nothing to start."),
}


class _Lazy(click.Group):
    """Help is written from the table above, so that it imports nothing."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        place, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        module = importlib.import_module(place)
        command: click.Command = getattr(module, attribute or "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cursor-sidecar")
def main() -> None:
    """A Kafka consumer sidecar that recovers cursors it can prove.

    Exit codes: 0 done, 1 failed or unhealthy, 2 usage or settings, 3 fenced (another member took
    the identity), 124 timed out.
    """
