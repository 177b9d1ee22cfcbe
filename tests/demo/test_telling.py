"""How it looks where it is read: a terminal, a file, a terminal of the last century."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sidecar.demo.telling import Span, Teller

SPANS = [
    Span(0, 200, "═", "green", "applied"),
    Span(200, 270, "░", "red", "gone"),
    Span(270, 400, "█", "cyan", "still there"),
]
MARKS = [(200, "next"), (270, "log start"), (400, "log end")]


def told(encoding: str = "utf-8", *, terminal: bool = False) -> str:
    """Everything a teller can say, as it arrives."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    tell = Teller(Console(file=out, width=80, force_terminal=terminal, highlight=False))
    tell.title("A title", "1.0", "A text. " * 20)
    tell.cast([("somebody", "does something " * 8)])
    tell.step("A step → on")
    tell.doing("something " * 15)
    tell.seen(True, "[b]3[/] × kept")
    tell.seen(False, "broken")
    tell.picture("orders/1", SPANS, MARKS)
    tell.table(("", "records"), [("orders/0", "3"), ("all", "3")], total=True)
    tell.failed("[it] failed", ["orders/0: next 3"], "sidecar", ["[b]raw[/] line"])
    out.flush()
    return raw.getvalue().decode(encoding)


def test_a_file_gets_plain_text_of_eighty_columns() -> None:
    """No colour codes, nothing wider, no blanks at the ends of lines."""
    text = told()
    assert "\x1b" not in text
    assert all(len(line) <= 80 and line == line.rstrip() for line in text.splitlines())
    assert "[it] failed" in text
    assert "[b]raw[/] line" in text  # a log's own brackets are no markup
    assert "✗ broken" in text


def test_a_terminal_gets_colour() -> None:
    """The same, painted."""
    assert "\x1b[1;32m✓" in told(terminal=True)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_other_encodings_get_plain_letters(encoding: str) -> None:
    """Never a UnicodeEncodeError, and the picture is still one."""
    text = told(encoding)
    assert "|===" in text
    assert "?" not in text


def test_numbers_and_words_stand_below_the_boundaries_they_name() -> None:
    """Each boundary's number begins below it; the last one's ends there."""
    lines = told().splitlines()
    at = next(n for n, line in enumerate(lines) if "├" in line)
    bar, numbers, words = lines[at : at + 3]
    first, second = (n for n, glyph in enumerate(bar) if glyph == "┼")
    assert numbers.index("200") == first == words.index("next")
    assert numbers.index("270") == second == words.index("log start")
    assert len(numbers) == len(words) == len(bar) <= 80


def test_a_short_gap_is_still_seen() -> None:
    """One lost record of a million has a place in the picture."""
    out = io.StringIO()
    tell = Teller(Console(file=out, width=80, highlight=False))
    spans = [Span(0, 999_999, "═", "", "a"), Span(999_999, 1_000_000, "░", "", "b")]
    tell.picture("orders/1", spans, [(999_999, "next"), (1_000_000, "log start")])
    assert "░" in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= 80
