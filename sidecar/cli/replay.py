"""`replay`: what was applied is delivered again, because a person asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sidecar.cli.decisions import assent_options, change
from sidecar.cli.direct import direct_options
from sidecar.cli.options import fail, output_option

if TYPE_CHECKING:
    from sidecar.standalone import Standalone


@click.command("replay")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.option("--from", "first", type=click.IntRange(min=0), required=True, help="First offset.")
@click.option("--to", "end", type=click.IntRange(min=1), required=True, help="Behind the last.")
@assent_options
@direct_options
@output_option
def command(
    topic: str,
    partition: int,
    first: int,
    end: int,
    by: str,
    why: str,
    execute: bool,
    output: str,
    **where: Any,
) -> None:
    """Deliver the records of [FROM, TO) again, flagged, under the keys they had.

    The owner does it before anything new; the position, receipts and commits do not move. It goes
    on across restarts. The command ends once it has begun; `status` shows how far it is.
    """
    from sidecar.core.request import RequestKind
    from sidecar.core.types import Partition

    asked = Partition(topic, partition)

    async def shown(desk: Standalone) -> tuple[str, str]:
        from sidecar.core.faults import Known

        evidence = (await desk.look([asked]))[asked]
        if not isinstance(evidence.stored, Known):
            fail(f"request-refused: no checkpoint of {asked} could be read; see `status`")
        checkpoint = evidence.stored.value.checkpoint
        if first >= end:
            fail("request-refused: --from has to be below --to")
        if first < checkpoint.baseline:
            fail(f"request-refused: the history of it begins at {checkpoint.baseline}")
        if end > checkpoint.token.next:
            fail(
                "request-refused: only what was applied can be delivered again, and the position "
                f"is {checkpoint.token.next}"
            )
        floor = evidence.log_start.value if isinstance(evidence.log_start, Known) else first
        if end <= floor:
            fail(f"request-refused: nothing of it is left: the log begins at {floor}")
        gone = f", of which [{first}, {floor}) is gone" if first < floor else ""
        return f"next {checkpoint.token.next}", f"[{first}, {end}) delivered again{gone}"

    change(
        where,
        asked,
        RequestKind.REPLAY,
        by=by,
        why=why,
        arguments={"from": first, "to": end},
        execute=execute,
        output=output,
        shown=shown,
    )
