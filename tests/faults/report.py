"""The matrix as it is read: JSON for machines, a table for a terminal, a page of the docs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.table import Table

from tests.faults.rows import Line, Status

COLUMNS = (
    *("fault", "bench", "expected", "observed", "status", "held"),
    *("lost", "repeated unflagged", "s to verdict", "s to first delivery", "field cases"),
)

HEAD = """\
# The fault matrix

Written by `make faults`, which inflicts each fault on real servers and replaces this page after
every whole run; a run of some rows (`make faults ROWS='retention*'`) leaves it as it is. Where a
row could not be run it says so. `build/faults.json` has the same rows for machines, with the test
of each.

Benches: **K1** one Kafka broker · **K1a** with SASL and ACLs · **K3** three brokers · **R1** one
Valkey · **R2** master, replica and three Sentinels · **RC** a cluster of three nodes. A row that
names one kind of server has a healthy one of the other kind beside it, where a whole sidecar
takes part.

*Lost* and *repeated unflagged* are an independent checker's counts, of what the application
itself wrote down; both must be 0. *s to verdict*: from the moment the fault and a running sidecar
met to the moment its verdict could be read. *s to first delivery*: from the moment the cause was
gone, or was decided, to the first record that had not been delivered before. A dash: the row has
no such moment. The figures were taken with three rows at a time on one machine, so they are upper
bounds. *field cases*: the numbers in [field-cases.md](field-cases.md), reports that the row is the
test of.
"""


def summary(lines: Sequence[Line], *, whole: bool) -> bytes:
    """What `build/faults.json` holds."""
    counts = Counter(line.status for line in lines)
    wanted = counts[Status.PASSED] > 0 and not counts[Status.FAILED]
    data = {
        "ok": wanted,
        "whole": whole,
        **{status.value: counts[status] for status in Status},
        "rows": lines,
    }
    return msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n"


def cells(line: Line) -> tuple[str, ...]:
    return (
        line.fault,
        line.bench,
        line.expected,
        line.observed or "—",
        line.status.value.replace("_", " "),
        line.state or "—",
        _number(line.lost),
        _number(line.repeated_unflagged),
        _number(line.seconds_to_verdict),
        _number(line.seconds_to_first_delivery),
        ", ".join(map(str, line.cases)) or "—",
    )


def _number(value: float | None) -> str:
    return "—" if value is None else str(value)


def show(lines: Sequence[Line]) -> None:
    table = Table(title="fault matrix", title_justify="left", show_lines=False)
    for column in COLUMNS:
        table.add_column(column, overflow="fold")
    colours = {Status.PASSED: "", Status.FAILED: "bold red", Status.NOT_RUN: "yellow"}
    for line in lines:
        table.add_row(*cells(line), style=colours[line.status])
    console = Console(width=None if Console().is_terminal else 190)
    console.print()
    console.print(table)
    for line in lines:
        if line.reason:
            console.print(f"{line.status.value}: {line.fault}: {line.reason}", markup=False)
    counts = Counter(line.status.value.replace("_", " ") for line in lines)
    console.print(", ".join(f"{count} {status}" for status, count in sorted(counts.items())))


def page(lines: Sequence[Line]) -> str:
    counts = Counter(line.status for line in lines)
    rows = [
        f"{counts[Status.PASSED]} passed, {counts[Status.FAILED]} failed, "
        f"{counts[Status.NOT_RUN]} not run.",
        "",
        _markdown(COLUMNS),
        _markdown(["---"] * len(COLUMNS)),
        *(_markdown(cells(line)) for line in lines),
    ]
    missing = [line for line in lines if line.status is not Status.PASSED]
    if missing:
        rows += ["", "## Not passed", ""]
        rows += [f"- `{line.fault}`, {line.status.value}: {line.reason}" for line in missing]
    return "\n".join([HEAD, *rows]) + "\n"


def _markdown(words: Sequence[str]) -> str:
    return "| " + " | ".join(word.replace("|", "\\|") for word in words) + " |"
