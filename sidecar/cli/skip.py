"""`skip`: one record is passed, because a person says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sidecar.cli.decisions import assent_options, change
from sidecar.cli.direct import direct_options
from sidecar.cli.options import fail, output_option

if TYPE_CHECKING:
    from sidecar.standalone import Standalone


@click.command("skip")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("offset", type=click.IntRange(min=0))
@assent_options
@direct_options
@output_option
def command(
    topic: str,
    partition: int,
    offset: int,
    by: str,
    why: str,
    execute: bool,
    output: str,
    **where: Any,
) -> None:
    """Pass one record: the first without an outcome, or the one that cannot be read.

    A record that was read is kept as dropped; one that cannot be read as a gap that was accepted.
    """
    from sidecar.core.request import RequestKind
    from sidecar.core.types import Partition

    asked = Partition(topic, partition)

    async def shown(desk: Standalone) -> tuple[str, str]:
        from sidecar.cli.direct import unanswered
        from sidecar.core.faults import Known, Unreadable

        reading = (await desk.store.read(desk.group, [asked]))[asked]
        if isinstance(reading, Unreadable):
            unanswered(reading.fault)
        if not isinstance(reading, Known):
            fail(f"request-refused: {asked} was never claimed; there is nothing to skip")
        next_ = reading.value.checkpoint.token.next
        if offset < next_:
            fail(f"request-refused: {offset} is applied already; the position is {next_}")
        return f"next {next_}", f"behind the record at {offset}"

    change(
        where,
        asked,
        RequestKind.SKIP,
        by=by,
        why=why,
        arguments={"offset": offset},
        execute=execute,
        output=output,
        shown=shown,
    )
