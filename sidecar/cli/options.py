"""Options that commands share, and how they end when something is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

if TYPE_CHECKING:
    from sidecar.errors import SettingsError
    from sidecar.settings import Listeners, Settings

F = TypeVar("F", bound=Callable[..., Any])

FAILED, USAGE, FENCED, TIMED_OUT = 1, 2, 3, 124


def _pairs(ctx: click.Context, param: click.Parameter, value: Iterable[str]) -> dict[str, str]:
    found = {}
    for item in value:
        name, separator, text = item.partition("=")
        if not separator or not name:
            raise click.BadParameter("expected NAME=VALUE", ctx, param)
        found[name.strip()] = text
    return found


config_option = click.option(
    "--config",
    envvar="CURSOR_SIDECAR_CONFIG",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Settings in YAML or TOML (.toml); below the environment.",
)
set_option = click.option(
    "--set",
    "flags",
    multiple=True,
    callback=_pairs,
    metavar="SECTION__NAME=VALUE",
    help="One setting; above the environment. Others on this machine can read command lines, so "
    "give secrets by file.",
)
client_option = click.option(
    "-X",
    "client",
    multiple=True,
    callback=_pairs,
    metavar="PROPERTY=VALUE",
    help="A librdkafka property, added to KAFKA__CLIENT.",
)
output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print it.",
)


def settings_options(function: F) -> F:
    return config_option(set_option(client_option(function)))


def load_settings(config: Path | None, flags: dict[str, str], client: dict[str, str]) -> Settings:
    """Or exit 2, with every fault."""
    from sidecar.errors import SettingsError
    from sidecar.settings import load

    try:
        return load(environ=os.environ, config=config, flags=flags, client=client)
    except SettingsError as error:
        refuse(error)


def load_listeners(config: Path | None, flags: dict[str, str]) -> Listeners:
    from sidecar.errors import SettingsError
    from sidecar.settings import load_listeners as load

    try:
        return load(environ=os.environ, config=config, flags=flags)
    except SettingsError as error:
        refuse(error)


def refuse(error: SettingsError) -> NoReturn:
    count = len(error.faults)
    click.echo(f"{count} setting{'s' if count > 1 else ''} cannot be used:", err=True)
    for fault in error.faults:
        click.echo(f"  {fault.name}: expected {fault.expected}", err=True)
    raise SystemExit(USAGE)


def fail(message: str, code: int = FAILED) -> NoReturn:
    click.echo(message, err=True)
    raise SystemExit(code)
