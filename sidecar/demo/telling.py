"""How the story looks: steps, what is done, what was seen, and small pictures of offsets.

With colour on a terminal, plain text anywhere else, and plain letters where the terminal has no
others. Eighty columns are enough; wider ones are not used up.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WIDTH_MAX = 92
PICTURE_MARGIN = 6
"""Columns of a picture that are neither its bar nor its name."""

_PLAIN = str.maketrans(
    {
        "▸": ">", "✓": "+", "✗": "!", "·": "-", "…": ".", "×": "x", "−": "-", "→": ">",
        "═": "=", "░": ":", "█": "#", "▒": "~", "├": "|", "┼": "|", "┤": "|", "│": "|",
        "─": "-", "–": "-", "━": "-",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets `[first, end)` in a picture: how they are drawn, and what they are."""

    first: int
    end: int
    glyph: str
    style: str
    meaning: str


class Teller:
    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=False)
        self._width = min(self._console.width, WIDTH_MAX)
        self._plain = not self._console.encoding.lower().startswith("utf")
        self._steps = 0
        self._began = time.monotonic()

    # What a person reads

    def title(self, title: str, beside: str, text: str) -> None:
        self._print("")
        self._print(f"[bold]{title}[/]  {beside}")
        self._print(text)

    def cast(self, rows: Sequence[tuple[str, str]]) -> None:
        """Who takes part."""
        grid = self._grid(12)
        for who, what in rows:
            grid.add_row(f"[cyan]{who}[/]", what)
        self._print("")
        self._print(Padding(grid, (0, 0, 0, 2)))

    def step(self, heading: str) -> None:
        self._steps += 1
        spent = f"{time.monotonic() - self._began:.0f} s"
        line = "─" * (self._width - len(heading) - len(spent) - 5)
        self._print("")
        self._print(f"[bold]{self._steps}  {heading}[/] [dim]{line} {spent}[/]")

    def doing(self, text: str) -> None:
        """What is done to the system."""
        self._say("[bold blue]▸[/]", text)

    def seen(self, held: bool, text: str) -> None:
        """What came of it: a promise, kept or broken."""
        self._say("[bold green]✓[/]" if held else "[bold red]✗[/]", text)

    def note(self, text: str) -> None:
        self._say(" ", f"[dim]{text}[/]")

    def failed(
        self,
        text: str,
        details: Sequence[str] = (),
        who: str | None = None,
        tail: Sequence[str] = (),
    ) -> None:
        """The story ends here. `tail` is the end of `who`'s log."""
        self._print("")
        self._say("[bold red]✗[/]", f"[bold]{escape(text)}[/]")
        for detail in details:
            self._say(" ", escape(detail))
        if tail:
            self._say(" ", f"The last lines of {who}'s log:")
            for line in tail:
                self._print(Text(f"    {line}", "dim"))

    def end(self, kept: bool, text: str) -> None:
        self._print("")
        self._say("[bold green]✓[/]" if kept else "[bold red]✗[/]", f"[bold]{text}[/]")
        self._print("")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], total: bool) -> None:
        """`total`: the last row is a sum of the others."""
        table = Table(box=None, header_style="dim", pad_edge=False)
        for nth, column in enumerate(columns):
            table.add_column(column, justify="right" if nth else "left")
        for nth, row in enumerate(rows):
            table.add_row(*row, style="bold" if total and nth == len(rows) - 1 else None)
        self._print("")
        self._print(Padding(table, (0, 0, 0, 4)))
        self._print("")

    def picture(self, name: str, spans: Sequence[Span], marks: Sequence[tuple[int, str]]) -> None:
        """A partition's offsets from left to right; `marks` name boundaries under their numbers."""
        names = dict(marks)
        shown = [span for span in spans if span.end > span.first]
        last = shown[-1].end
        words = [(str(span.first), names.get(span.first, "")) for span in shown]
        ends = (str(last), names.get(last, ""))
        room = [max(map(len, word)) + 2 for word in words]
        room[-1] += max(map(len, ends))
        free = self._width - len(name) - PICTURE_MARGIN - len(shown) - 1
        widths = _widths([span.end - span.first for span in shown], room, free)
        bar, numbers, below, at = Text("├"), Text(), Text(), 0
        for span, width, (number, word) in zip(shown, widths, words, strict=True):
            numbers.append(number.ljust(width + 1))
            below.append(word.ljust(width + 1))
            bar.append(span.glyph * width, span.style)
            bar.append("┼")
            at += width + 1
        bar.right_crop(1)
        bar.append("┤")
        for row, end in ((numbers, ends[0]), (below, ends[1])):
            row.right_crop(max(0, len(end) - 1))
            row.append(end)
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True)
        grid.add_row(f"[bold]{name}[/]", bar)
        grid.add_row("", numbers)
        if any(names.values()):
            below.stylize("dim")
            grid.add_row("", below)
        for span in shown:
            meaning = Text(span.glyph * 2, span.style)
            grid.add_row("", meaning.append(f" {span.meaning}", "not bold default"))
        self._print("")
        self._print(Padding(grid, (0, 0, 0, 2)))
        self._print("")

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[Callable[[], float]]:
        """Something that takes a while; gives how many seconds it has taken."""
        began = time.monotonic()
        spinning: AbstractContextManager[object] = contextlib.nullcontext()
        if self._console.is_terminal and not self._plain:
            spinning = self._console.status(f"[dim]{text}…[/]")
        with spinning:
            yield lambda: time.monotonic() - began

    # How it gets there

    def _say(self, mark: str, text: str) -> None:
        grid = self._grid(1)
        grid.add_row(mark, text)
        self._print(grid)

    def _grid(self, first: int) -> Table:
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=first, no_wrap=True)
        grid.add_column(overflow="fold")
        return grid

    def _print(self, what: RenderableType) -> None:
        if self._console.is_terminal and not self._plain:
            self._console.print(what, width=self._width)
            return
        with self._console.capture() as drawn:
            self._console.print(what, width=self._width)
        text = "\n".join(line.rstrip() for line in drawn.get().split("\n"))
        if self._plain:
            encoding = self._console.encoding
            text = text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
        self._console.file.write(text)
        self._console.file.flush()


def _widths(records: Sequence[int], room: Sequence[int], free: int) -> list[int]:
    """Of each span's bar: room for the words below it, and of what is left its share."""
    spare = max(0, free - sum(room))
    return [least + spare * one // sum(records) for one, least in zip(records, room, strict=True)]
