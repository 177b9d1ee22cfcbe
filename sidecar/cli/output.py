"""Printing: tables for people, JSON and YAML for programs.

On a terminal a table is drawn by rich; anywhere else it is plain columns, as
`kafka-consumer-groups` prints them, so that `awk` reads it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click


def emit(document: Any, output: str) -> None:
    if output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
    else:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A value that is unknown is a dash."""
    texts = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        drawn = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            drawn.add_column(column, overflow="fold")
        for text in texts:
            drawn.add_row(*(Text(cell) for cell in text))
        Console().print(drawn)
        return
    widths = [max(len(row[i]) for row in [list(columns), *texts]) for i in range(len(columns))]
    for row in [list(columns), *texts]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


def interval(first: int, end: int | None) -> str:
    return f"[{first}, {'?' if end is None else end})"
