"""`pause` and `continue`: whether a partition is delivered, until somebody says otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sidecar.cli.decisions import assent_options, change
from sidecar.cli.direct import direct_options
from sidecar.cli.options import output_option

if TYPE_CHECKING:
    from sidecar.standalone import Standalone


@click.command("pause")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@assent_options
@direct_options
@output_option
def pause(topic: str, partition: int, **options: Any) -> None:
    """Deliver nothing of a partition until `continue`; it survives restarts and rebalances.

    What is out with the application is taken, promoted and committed.
    """
    _flag(topic, partition, paused=True, **options)


@click.command("continue")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@assent_options
@direct_options
@output_option
def resume(topic: str, partition: int, **options: Any) -> None:
    """Deliver a paused partition again, from where it stood."""
    _flag(topic, partition, paused=False, **options)


def _flag(
    topic: str,
    index: int,
    *,
    paused: bool,
    by: str,
    why: str,
    execute: bool,
    output: str,
    **where: Any,
) -> None:
    from sidecar.core.faults import Known, Unreadable
    from sidecar.core.request import RequestKind
    from sidecar.core.types import Partition

    partition = Partition(topic, index)

    async def shown(desk: Standalone) -> tuple[str, str]:
        from sidecar.cli.direct import unanswered

        reading = (await desk.store.read(desk.group, [partition]))[partition]
        if isinstance(reading, Unreadable):
            unanswered(reading.fault)
        standing = reading.value.checkpoint.paused if isinstance(reading, Known) else None
        prior = "delivered" if standing is None else str(standing)
        return prior, f"paused by {by}: {why}" if paused else "delivered"

    change(
        where,
        partition,
        RequestKind.PAUSE if paused else RequestKind.CONTINUE,
        by=by,
        why=why,
        arguments={},
        execute=execute,
        output=output,
        shown=shown,
    )
