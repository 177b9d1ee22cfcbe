"""Tables: everything where a program reads, what there is room for where a person does."""

from sidecar.cli.output import fitting
from sidecar.cli.status import COLUMNS

ROW = (
    *("billing", "orders", "11", "1048576", "1048580", "4"),
    *("cursor-sidecar-5a1d3c7e-3b5c-4d0e-8f37-6d3d3a3e1f0b", "10.0.3.17", "cursor-sidecar"),
    *("delivering", "resume_at_boundary", "1048575", "1048000", "4711", "-"),
    "checkpoint and commit agree",
)


def test_a_wide_terminal_shows_every_column() -> None:
    """Nothing is left out and no name is broken while there is room."""
    assert fitting(COLUMNS, [ROW], 400) == (list(range(len(COLUMNS))), False)


def test_eighty_columns_show_what_a_person_looks_for_first() -> None:
    """Where it is, how far, how much is left, and what is wrong; the line fits."""
    shown, broken = fitting(COLUMNS, [ROW], 80)
    names = [COLUMNS[at].name for at in shown]
    wanted = ["TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "STATE", "VERDICT"]
    assert names == wanted
    heads = [max(len(part) for part in name.replace("-", "- ").split()) for name in names]
    assert broken
    cells = (max(head, len(ROW[at])) for head, at in zip(heads, shown, strict=True))
    assert sum(cells) + 2 * (len(shown) - 1) <= 80


def test_more_room_is_given_to_what_matters_more() -> None:
    """A column is never shown while one that is left out before it would have been kept."""
    for width in range(60, 400, 7):
        shown, _ = fitting(COLUMNS, [ROW], width)
        left_out = [one.drop for at, one in enumerate(COLUMNS) if at not in shown]
        kept = [COLUMNS[at].drop for at in shown if COLUMNS[at].drop]
        assert not left_out or not kept or max(kept) < min(left_out)
