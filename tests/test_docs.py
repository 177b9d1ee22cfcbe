"""What the pages say can be followed, and is said once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PASSAGE_CHARACTERS = 120
PATH = re.compile(r"`((?:sidecar|tests|tools|bench|docs|helm|deploy|found)/[\w./-]*\w)`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_says_nothing_twice(page: Path) -> None:
    passages = Counter(re.split(r"\n\s*\n", page.read_text()))
    twice = [p for p, count in passages.items() if count > 1 and len(p) >= PASSAGE_CHARACTERS]
    assert not twice


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_file_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    named = [
        ROOT / (f"tests/simulation/{p}" if p.startswith("found/") else p)
        for p in PATH.findall(text)
    ]
    linked = [page.parent / link for link in LINK.findall(text)]
    missing = [str(path) for path in (*named, *linked) if not path.exists()]
    assert not missing
