"""Printing: tables for people, JSON and YAML for programs.

On a terminal a table is drawn by rich, in the columns that it has room for; anywhere else it is
plain columns, all of them, as `kafka-consumer-groups` prints them, so that `awk` reads it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

STYLES: Mapping[str, str] = {
    "delivering": "green",
    "recovering": "yellow",
    "waiting": "yellow",
    "held": "bold red",
    "gap": "bold red",
    "ok": "green",
    "warning": "yellow",
    "failed": "bold red",
}
"""A cell that is one of these words."""


@dataclass(frozen=True, slots=True)
class Column:
    """`drop`: the greater, the sooner it is left out where there is no room; 0: never."""

    name: str
    drop: int = 0


def emit(document: Any, output: str) -> None:
    if output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
    else:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def table(columns: Sequence[str | Column], rows: Sequence[Sequence[Any]]) -> None:
    """A value that is unknown is a dash."""
    named = [one if isinstance(one, Column) else Column(one) for one in columns]
    texts = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        console = Console(highlight=False)
        shown, broken = fitting(named, texts, console.width)
        drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for at in shown:
            name = named[at].name
            drawn.add_column(name.replace("-", "-\n") if broken else name, overflow="fold")
        for text in texts:
            drawn.add_row(*(Text(text[at], STYLES.get(text[at], "")) for at in shown))
        console.print(drawn)
        return
    header = [one.name for one in named]
    widths = [max(len(row[at]) for row in [header, *texts]) for at in range(len(named))]
    for row in [header, *texts]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


def fitting(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> tuple[list[int], bool]:
    """Which columns there is room for, and whether their names are broken at a hyphen for it."""

    def wide(at: int, broken: bool) -> int:
        name = columns[at].name
        heads = name.replace("-", "- ").split() if broken else [name]
        return max(len(text) for text in (*heads, *(row[at] for row in rows))) + 2

    def room(shown: Iterable[int], broken: bool) -> bool:
        return sum(wide(at, broken) for at in shown) - 2 <= width

    shown = list(range(len(columns)))
    if room(shown, False):
        return shown, False
    for leaving in sorted({one.drop for one in columns if one.drop}, reverse=True):
        if room(shown, True):
            break
        shown = [at for at in shown if columns[at].drop != leaving]
    return shown, True


def notes(lines: Iterable[tuple[str, str]]) -> None:
    """On a terminal, beneath a table that may have had no room for them."""
    if not sys.stdout.isatty():
        return
    for name, text in lines:
        click.echo(f"{click.style(name, bold=True)}  {text}")


def interval(first: int, end: int | None) -> str:
    return f"[{first}, {'?' if end is None else end})"
