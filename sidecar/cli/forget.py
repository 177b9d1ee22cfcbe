"""`forget`: what the store keeps of a retired topic, or of a whole retired group, is removed.

Partition by partition, each by a comparison with the checkpoint that was shown; the registry last,
so that what is left by a run that was cut short still says that there was a history, and running
again finishes it. The group's commits in Kafka are not touched: those of a topic that is deleted
go with it, and any other remains a testimony, from which a sidecar would rebuild the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from sidecar.cli.direct import at_desk, direct_options, known, told
from sidecar.cli.options import FAILED, fail, output_option
from sidecar.cli.output import emit, interval

if TYPE_CHECKING:
    from sidecar.core.checkpoint import Checkpoint
    from sidecar.core.gap import Gap
    from sidecar.core.types import Fields, Partition
    from sidecar.standalone import Standalone


@dataclass(slots=True)
class Forgetting:
    """`held_by`: members that have what would go. `left`: what could not be removed, and why."""

    group: str
    topics: Sequence[str] | None
    checkpoints: Mapping[Partition, Checkpoint | None]
    gaps: Sequence[Gap]
    held_by: Sequence[str]
    executed: bool = False
    left: dict[str, str] = field(default_factory=dict)


@click.command("forget")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="A topic; repeatable.")
@click.option("--whole-group", is_flag=True, help="The group KAFKA__GROUP_ID, all of it.")
@click.option("--even-with-open-gaps", is_flag=True, help="Also where a gap was never decided.")
@click.option("--by", required=True, metavar="WHO", help="Who decides; kept with the group.")
@click.option("--why", required=True, metavar="TEXT", help="Why; kept with the group.")
@click.option("--execute", is_flag=True, help="Do it. Without: show what would go.")
@direct_options
@output_option
def command(
    topics: tuple[str, ...],
    whole_group: bool,
    even_with_open_gaps: bool,
    by: str,
    why: str,
    execute: bool,
    output: str,
    **where: Any,
) -> None:
    """Remove what the store keeps of a retired topic or group.

    Refused while a member of the group has the partitions, and, unless told otherwise, while a gap
    among them is undecided. Kafka is not changed. Exit 1 when something could not be removed;
    running it again goes on from there.
    """
    if bool(topics) == whole_group:
        raise click.UsageError("give --topic, or --whole-group")
    wanted = None if whole_group else topics

    async def work(desk: Standalone) -> Forgetting:
        found = await _found(desk, wanted)
        if execute:
            _refuse(found, even_with_open_gaps)
            await _forget(desk, found, by, why)
        return found

    found = at_desk(where, work)
    if output == "table":
        _print(found, even_with_open_gaps)
    else:
        emit(_document(found), output)
    if found.left:
        raise SystemExit(FAILED)


async def _found(desk: Standalone, topics: Sequence[str] | None) -> Forgetting:
    from sidecar.core.faults import Known, Unreadable

    members = known(await desk.group_members())
    partitions = [
        partition
        for partition in known(await desk.store.partitions(desk.group))
        if topics is None or partition.topic in topics
    ]
    known(await desk.registry_or_none())
    stored = await desk.store.read(desk.group, partitions)
    for reading in stored.values():
        if isinstance(reading, Unreadable):
            fail(told(reading.fault))
    kept = {
        partition: reading.value.checkpoint if isinstance(reading, Known) else None
        for partition, reading in stored.items()
    }
    undecided = [
        gap
        for gap in known(await desk.gaps())
        if gap.state.holds and (topics is None or gap.partition.topic in topics)
    ]
    holders = [
        member.id
        for member in members.members
        if topics is None or any(one.topic in topics for one in member.partitions)
    ]
    return Forgetting(desk.group, topics, kept, undecided, holders)


def _refuse(found: Forgetting, even_with_open_gaps: bool) -> None:
    if found.held_by:
        fail(f"refused: {_held(found)}; stop them first")
    if found.gaps and not even_with_open_gaps:
        names = ", ".join(_named(gap) for gap in found.gaps)
        fail(f"refused: undecided gaps ({names}); decide them, or add --even-with-open-gaps")


async def _forget(desk: Standalone, found: Forgetting, by: str, why: str) -> None:
    from sidecar.core.checkpoint import Audit
    from sidecar.core.faults import Unreadable

    registry = known(await desk.registry_or_none())
    for partition, checkpoint in found.checkpoints.items():
        expected = None if checkpoint is None else checkpoint.expected
        answer = await desk.store.forget_partition(desk.group, partition, expected)
        if isinstance(answer, Unreadable):
            found.left[str(partition)] = told(answer.fault)
        elif not answer.value:
            found.left[str(partition)] = "somebody wrote it meanwhile: look, and run this again"
    found.executed = True
    if found.left:
        return  # the registry is last
    store = None if registry is None else registry.store
    if found.topics is None:
        gone = await desk.store.forget_group(desk.group, store)
    elif store is None:
        return
    else:
        fields: Fields = {
            "topics": [*found.topics],
            "partitions": {
                str(p): None if c is None else c.token.next for p, c in found.checkpoints.items()
            },
            "undecided_gaps": [_named(gap) for gap in found.gaps],
        }
        entry = Audit(desk.now(), "forgot topics", by, why, fields)
        gone = await desk.store.forget_topics(desk.group, store, found.topics, entry)
    if isinstance(gone, Unreadable):
        found.left["registry"] = told(gone.fault)
    elif not gone.value:
        found.left["registry"] = "it is another store's by now: look, and run this again"


def _print(found: Forgetting, even_with_open_gaps: bool) -> None:
    if not found.checkpoints:
        click.echo(f"the store keeps nothing of it for the group {found.group}")
    for partition, checkpoint in found.checkpoints.items():
        prior = (
            "no checkpoint"
            if checkpoint is None
            else f"applied {checkpoint.applied}, generation {checkpoint.generation}"
        )
        left = found.left.get(str(partition))
        click.echo(f"{partition}: {prior} → {'nothing' if left is None else f'as it was: {left}'}")
    registered = found.group if found.topics is None else ", ".join(found.topics)
    left = found.left.get("registry")
    if not found.executed or not found.left:
        click.echo(f"registry: {registered} → nothing")
    elif left is None:
        click.echo(f"registry: {registered} → as it was, until the partitions are gone")
    else:
        click.echo(f"registry: {registered} → as it was: {left}")
    for gap in found.gaps:
        click.echo(f"undecided gap {_named(gap)} goes with it")
    if found.executed:
        return
    if found.held_by:
        click.echo(f"would be refused: {_held(found)}")
    if found.gaps and not even_with_open_gaps:
        click.echo("would be refused without --even-with-open-gaps")
    click.echo("Dry run: nothing was changed. Add --execute to do it.")


def _document(found: Forgetting) -> dict[str, Any]:
    import msgspec

    from sidecar.api.messages import GapItem

    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.index,
            "prior": None
            if checkpoint is None
            else {
                "applied": checkpoint.applied,
                "next": checkpoint.token.next,
                "generation": checkpoint.generation,
            },
            "new": None,
            "left": found.left.get(str(partition)),
        }
        for partition, checkpoint in found.checkpoints.items()
    ]
    return {
        "executed": found.executed,
        "group": found.group,
        "topics": None if found.topics is None else [*found.topics],
        "partitions": partitions,
        "registry_left": found.left.get("registry"),
        "gaps": [msgspec.to_builtins(GapItem.of(gap)) for gap in found.gaps],
        "held_by": [*found.held_by],
    }


def _held(found: Forgetting) -> str:
    count = len(found.held_by)
    return f"{count} member{'s' if count > 1 else ''} of the group: {', '.join(found.held_by[:3])}"


def _named(gap: Gap) -> str:
    return f"{gap.id} {gap.partition} {interval(gap.interval.first, gap.interval.end)}"
