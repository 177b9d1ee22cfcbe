"""`config`: what is in force, what may be set, and the reference that docs/configuration.md is."""

from __future__ import annotations

from pathlib import Path

import click

from sidecar.cli.options import load_settings, output_option, settings_options
from sidecar.cli.output import emit, table


@click.group("config")
def command() -> None:
    """Show the effective settings, their schema or reference."""


@command.command("show")
@settings_options
@output_option
def show(config: Path | None, flags: dict[str, str], client: dict[str, str], output: str) -> None:
    """Print the effective settings, secrets masked, and where each came from."""
    shown = load_settings(config, flags, client).show()
    if output == "table":
        table(("SETTING", "VALUE", "FROM"), [(one.name, one.value, one.source) for one in shown])
        return
    nested: dict[str, dict[str, object]] = {}
    for one in shown:
        section, _, name = one.name.removeprefix("CURSOR_SIDECAR_").partition("__")
        nested.setdefault(section.lower(), {})[name.lower()] = one.value
    emit(nested, output)


@command.command("schema")
def schema() -> None:
    """Print the JSON Schema of a configuration file."""
    from sidecar.settings import schema as settings_schema

    emit(settings_schema(), "json")


@command.command("reference")
def reference_() -> None:
    """Print the reference of all settings, in Markdown."""
    click.echo(reference_page(), nl=False)


def reference_page() -> str:
    from sidecar.settings import RESERVED, reference

    lines = [
        "# Configuration",
        "",
        "<!-- Written by `cursor-sidecar config reference`; a test keeps it current. -->",
        "",
        "Defaults, then `--config FILE` (YAML, or TOML by its name), then the environment, then",
        "`--set SECTION__NAME=VALUE`. In the environment every name below is preceded by",
        "`CURSOR_SIDECAR_`; in a file it is a section and a name in lower case:",
        "",
        "```yaml",
        "kafka:",
        "  bootstrap_servers: broker-1:9092,broker-2:9092",
        "  group_id: billing",
        "  topics: [orders, payments]",
        "redis:",
        "  url_file: /run/secrets/redis-url",
        "```",
        "",
        "An empty variable counts as not set. A setting marked *file* also takes its name with",
        "`_FILE` (`_file` in a file): a path to read it from, one line end at its end dropped.",
        "Unknown names with `__` are refused, with the nearest known one; names without, such as",
        "the `CURSOR_SIDECAR_PORT` that Kubernetes injects, are ignored.",
        "",
        "All faults are reported at once, exit 2. `cursor-sidecar config show` prints what is in",
        "force and where it came from, secrets masked; `cursor-sidecar config schema` a JSON",
        "Schema of the file.",
    ]
    for section, idea, rows in reference():
        lines += ["", f"## {section}", "", idea, ""]
        lines += ["| setting | takes | default | meaning |", "|---|---|---|---|"]
        for row in rows:
            takes = f"{row.takes} (*file*)" if row.from_file else row.takes
            line = f"| `{row.name}` | {takes} | {row.default} | {row.meaning} |"
            lines.append(line.replace("  ", " "))
    lines += [
        "",
        "## Reserved librdkafka properties",
        "",
        "`KAFKA__CLIENT` and `-X` take any property but these:",
        "",
        "| property | why not |",
        "|---|---|",
    ]
    lines += [f"| `{key}` | {reason} |" for key, reason in RESERVED.items()]
    return "\n".join(lines) + "\n"
