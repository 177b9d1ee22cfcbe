"""`run`: the sidecar itself."""

from __future__ import annotations

from pathlib import Path

import click

from sidecar.cli.options import load_settings, refuse, settings_options


@click.command("run")
@settings_options
def command(config: Path | None, flags: dict[str, str], client: dict[str, str]) -> None:
    """Be the sidecar: join the group, hand out pages, keep the cursor.

    Settings: defaults, then --config, then CURSOR_SIDECAR_SECTION__NAME in the environment, then
    --set. Nothing is started while one of them is wrong; all are named at once, exit 2.
    """
    settings = load_settings(config, flags, client)
    from sidecar.app import run
    from sidecar.errors import SettingsError

    try:
        code = run(settings)
    except SettingsError as error:
        refuse(error)
    raise SystemExit(code)
