"""`rebind`: the group moved to another cluster, and its settings name that one now.

One answer for the whole group, and a dry run first, because it is given once and cannot be given
back: per partition a new incarnation, installed by compare-and-swap on the checkpoint that was
shown, then its commit in the new cluster. What was done stays done when a partition cannot be moved
or the command is cut short; running it again does what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, assert_never

import click

from sidecar.cli.direct import at_desk, direct_options, known, told
from sidecar.cli.options import FAILED, fail, output_option
from sidecar.cli.output import emit

if TYPE_CHECKING:
    from sidecar.core.checkpoint import Checkpoint, Install
    from sidecar.core.evidence import Evidence
    from sidecar.core.moving import Beginning, TailSearch
    from sidecar.core.types import Offset, Partition
    from sidecar.kafka.search import RecordReader
    from sidecar.standalone import Standalone

SEARCH_RECORDS = 100_000
SEARCH_SECONDS = 30.0


def _places(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[Any, Any]:
    from sidecar.core.moving import parse_place

    try:
        return dict(map(parse_place, value))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


@dataclass(slots=True)
class Moving:
    """One partition. `outcome`: what was, or would be, done; `cannot`: why it was not."""

    prior: Checkpoint | None = None
    new: Checkpoint | None = None
    outcome: str = ""
    cannot: str | None = None
    install: Install | None = None
    commit: Checkpoint | None = None


@dataclass(slots=True)
class Rebinding:
    group: str
    cluster_id: str
    partitions: dict[Partition, Moving]
    evidence: Mapping[Partition, Evidence]
    baselines: dict[Partition, Offset] = field(default_factory=dict)
    executed: bool = False
    registry: str | None = None
    """Why the registry was not written."""


@click.command("rebind")
@click.option(
    "--at",
    multiple=True,
    callback=_places,
    metavar="TOPIC/INDEX=N",
    help="Where a partition begins in the new cluster, where no offset of the group tells.",
)
@click.option("--accept-open-gaps", is_flag=True, help="Undecided gaps are accepted as lost.")
@click.option(
    "--search-records",
    type=click.IntRange(min=0),
    default=SEARCH_RECORDS,
    show_default=True,
    metavar="N",
    help="How far to look for the records that were applied last, per partition.",
)
@click.option("--by", required=True, metavar="WHO", help="Who decides; kept with each partition.")
@click.option("--why", required=True, metavar="TEXT", help="Why; kept with each partition.")
@click.option("--execute", is_flag=True, help="Do it. Without: show what would be done.")
@direct_options
@output_option
def command(
    at: dict[Partition, Offset],
    accept_open_gaps: bool,
    search_records: int,
    by: str,
    why: str,
    execute: bool,
    output: str,
    **where: Any,
) -> None:
    """Say that the group moved to the cluster that the settings name now.

    Each partition begins at the group's committed offset there, or at --at, and goes on behind the
    last record that is recognised as applied; everything up to the log's end is flagged as possibly
    delivered. Idempotency keys change with the topic's ID. Refused while the group has members.
    Exit 1 when a partition could not be moved; running it again does what is left.
    """

    async def work(desk: Standalone) -> Rebinding:
        found = await _planned(desk, at, accept_open_gaps, search_records, by, why)
        if execute:
            await _execute(desk, found, by, why)
        return found

    found = at_desk(where, work)
    if output == "table":
        _print(found)
    else:
        emit(_document(found), output)
    if found.registry is not None or any(one.cannot for one in found.partitions.values()):
        raise SystemExit(FAILED)


async def _planned(
    desk: Standalone,
    at: Mapping[Partition, Offset],
    accept_open_gaps: bool,
    search_records: int,
    by: str,
    why: str,
) -> Rebinding:
    import secrets

    from sidecar.core import moving

    cluster = known(await desk.log.cluster_id())
    members = known(await desk.group_members())
    if members.members:
        count = len(members.members)
        many = f"{count} member{'' if count == 1 else 's'}"
        fail(f"refused: the group has {many} in this cluster; stop them")
    partitions = known(await desk.store.partitions(desk.group))
    if not partitions:
        fail(f"the store keeps nothing of the group {desk.group}: nothing was moved")
    for unknown in sorted(at.keys() - set(partitions)):
        fail(f"--at {unknown}: the store keeps nothing of it")
    evidence = await desk.look(partitions)
    found = Rebinding(desk.group, cluster, {}, evidence)
    with desk.reader(seconds_max=SEARCH_SECONDS) as reader:
        for partition, looked in evidence.items():
            one = found.partitions[partition] = Moving()
            planned = moving.begin(looked, at.get(partition), accept_open_gaps=accept_open_gaps)
            match planned:
                case moving.CannotMove(reason):
                    one.cannot = reason
                case moving.Unstarted(baseline):
                    one.outcome = f"nothing was kept of it; its history would begin at {baseline}"
                    found.baselines[partition] = baseline
                case moving.Settled(checkpoint, commit_missing):
                    one.prior = one.new = checkpoint
                    one.outcome = "is of this cluster already"
                    found.baselines[partition] = checkpoint.baseline
                    if commit_missing:
                        one.outcome += "; its commit is made again"
                        one.commit = checkpoint
                case moving.Beginning() as beginning:
                    one.prior = beginning.checkpoint
                    search = await _search(desk, reader, partition, beginning, search_records)
                    if isinstance(search, str):
                        one.cannot = search
                        continue
                    name = secrets.token_hex(6)
                    one.install = moving.move(looked, beginning, search, by=by, why=why, name=name)
                    one.commit = one.new = one.install.checkpoint
                    one.outcome = _told(beginning, search)
                    found.baselines[partition] = beginning.baseline
                case _:
                    assert_never(planned)
    return found


async def _search(
    desk: Standalone,
    reader: RecordReader,
    partition: Partition,
    beginning: Beginning,
    records_max: int,
) -> TailSearch | str:
    """Or why the log could not be read."""
    from sidecar.core.faults import Unreadable
    from sidecar.core.moving import TailSearch
    from sidecar.core.types import UNREAD

    memory = await desk.store.memory(desk.group, partition, desk.policy.overlap_records)
    if isinstance(memory, Unreadable):
        return told(memory.fault)
    next_ = beginning.checkpoint.token.next
    receipts = [one for run in memory.value.receipts for one in run if one.offset < next_]
    search = TailSearch([one.digest for one in receipts if one.digest != UNREAD])

    def take(offsets: Any, digests: Any) -> bool:
        search.take(offsets, digests)
        return search.complete

    if receipts and records_max and beginning.baseline < beginning.log_end:
        read = await reader.read(
            partition, beginning.baseline, beginning.log_end, records_max, take
        )
        if isinstance(read, Unreadable):
            return f"the log cannot be read: {told(read.fault)}"
    return search


def _told(beginning: Beginning, search: TailSearch) -> str:
    source = "given" if beginning.given else "committed"
    basis = f"begins at {beginning.baseline} ({source})"
    if search.complete and search.last_found is not None:
        return f"{basis}; the last record that was applied is found at {search.last_found}"
    many = len(search.remembered)
    if search.last_found is None:
        looked = "" if search.read_to is None else f" up to {search.read_to}"
        return f"{basis}; none of {many} remembered records is found{looked}"
    return (
        f"{basis}; {search.found} of {many} remembered records are found, the newest at "
        f"{search.last_found}, and not the last that was applied"
    )


async def _execute(desk: Standalone, found: Rebinding, by: str, why: str) -> None:
    from sidecar.core.checkpoint import Ambiguous, AnsweredBefore, Installed, Lost, NotInstalled
    from sidecar.core.types import DIGEST_SCHEME
    from sidecar.core.witness import encode, witness_of
    from sidecar.ports import CommitRequest

    found.executed = True
    for one in found.partitions.values():
        if one.install is None:
            continue
        result = await desk.store.install(one.install)
        if isinstance(result, Ambiguous):  # the same write again settles it
            result = await desk.store.install(one.install)
        match result:
            case Installed():
                continue
            case Lost() | AnsweredBefore():
                one.cannot = "somebody wrote it meanwhile: look, and run this again"
            case NotInstalled():
                one.cannot = told(result.fault)
            case Ambiguous():
                one.cannot = f"not known to be written, run this again: {told(result.fault)}"
            case _:
                assert_never(result)
        one.new = one.commit = None
    requests = {
        partition: CommitRequest(
            one.commit.token.next,
            one.commit.token.epoch,
            encode(witness_of(one.commit, digest_scheme=DIGEST_SCHEME)),
        )
        for partition, one in found.partitions.items()
        if one.commit is not None
    }
    for partition, fault in (await desk.log.commit(requests)).items():
        if fault is not None:
            found.partitions[
                partition
            ].cannot = f"moved, but its commit was not made, run this again: {told(fault)}"
    await _register(desk, found, by, why)


async def _register(desk: Standalone, found: Rebinding, by: str, why: str) -> None:
    """The registry's topics are those of this cluster, if they are not already."""
    from sidecar.core.checkpoint import Audit, RegisteredTopic
    from sidecar.core.faults import Known, Unreadable

    registry = known(await desk.registry_or_none())
    if registry is None:
        return
    topics: dict[str, RegisteredTopic] = {}
    for partition, looked in found.evidence.items():
        registered = registry.topics.get(partition.topic)
        if registered is None or not isinstance(looked.topic, Known):
            continue
        described = looked.topic.value
        if registered.topic_id != described.topic_id:
            topics[partition.topic] = RegisteredTopic(
                described.topic_id, described.partitions, described.partitions
            )
    if not topics:
        return
    baselines = {p: at for p, at in found.baselines.items() if p.topic in topics}
    left = [str(p) for p, one in found.partitions.items() if one.cannot]
    fields = {"to_cluster": found.cluster_id, "topics": sorted(topics), "left": left}
    entry = Audit(desk.now(), "rebound to another cluster", by, why, fields)  # type: ignore[arg-type]  # lists of text are JSON
    done = await desk.store.rebind_topics(desk.group, registry.store, topics, baselines, entry)
    if isinstance(done, Unreadable):
        found.registry = told(done.fault)
    elif not done.value:
        found.registry = "it is another store's by now: look, and run this again"


def _print(found: Rebinding) -> None:
    click.echo(f"group {found.group} → cluster {found.cluster_id}")
    for partition, one in found.partitions.items():
        if one.cannot is not None:
            click.echo(f"{partition}: cannot be moved: {one.cannot}")
        elif one.install is not None and one.prior is not None and one.new is not None:
            click.echo(
                f"{partition}: next {one.prior.token.next} in {one.prior.identity.cluster_id} → "
                f"next {one.new.token.next}, flagged below {one.new.horizon}\n    {one.outcome}"
            )
        else:
            click.echo(f"{partition}: {one.outcome}")
    if found.registry is not None:
        click.echo(f"registry: as it was: {found.registry}")
    if not found.executed:
        click.echo("Dry run: nothing was changed. Add --execute to do it.")
        return
    left = sum(one.cannot is not None for one in found.partitions.values())
    done = len(found.partitions) - left
    click.echo(f"done: {done} of {len(found.partitions)} partitions")


def _document(found: Rebinding) -> dict[str, Any]:
    def shown(checkpoint: Checkpoint | None) -> dict[str, Any] | None:
        if checkpoint is None:
            return None
        return {
            "cluster_id": checkpoint.identity.cluster_id,
            "topic_id": checkpoint.identity.topic_id,
            "baseline": checkpoint.baseline,
            "next": checkpoint.token.next,
            "horizon": checkpoint.horizon,
            "generation": checkpoint.generation,
        }

    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.index,
            "prior": shown(one.prior),
            "new": shown(one.new),
            "detail": one.outcome or None,
            "cannot": one.cannot,
        }
        for partition, one in found.partitions.items()
    ]
    return {
        "executed": found.executed,
        "group": found.group,
        "cluster_id": found.cluster_id,
        "partitions": partitions,
        "registry_left": found.registry,
    }
