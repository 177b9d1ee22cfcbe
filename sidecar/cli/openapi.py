"""`openapi`: the document that `/openapi.json` serves."""

from __future__ import annotations

import click


@click.command("openapi")
def command() -> None:
    """Print the OpenAPI document of the HTTP API."""
    from sidecar.api.openapi import openapi_bytes

    click.echo(openapi_bytes().decode())
