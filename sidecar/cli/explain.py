"""`explain`: one partition, its line drawn, and what may be done next.

The evidence is asked now, and judged by the sidecar's own function; what may be done next is found
by asking the function that will decide it. The one thing that is not looked at here are the records
themselves: whether they are the ones that were applied, the sidecar's overlap finds out.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, assert_never

import click

from sidecar.cli.direct import at_desk, direct_options
from sidecar.cli.options import output_option
from sidecar.cli.output import STYLES, emit, table

if TYPE_CHECKING:
    from sidecar.core.checkpoint import Audit, Checkpoint
    from sidecar.core.evidence import Evidence
    from sidecar.core.faults import Answer
    from sidecar.core.gap import Gap, GapEvent
    from sidecar.core.line import Line
    from sidecar.core.request import Request
    from sidecar.core.types import Offset, Partition
    from sidecar.core.verdict import Judgement
    from sidecar.standalone import Standalone

AUDIT_ENTRIES = 5
WHO_AND_WHY = ("--by", "WHO", "--why", "TEXT")

STRETCHES: Mapping[str, tuple[str, str, str]] = {
    "before": ("┊", "dim", "before this history began"),
    "gone": ("┊", "dim", "applied, and no longer in the log"),
    "applied": ("│", "green", "applied"),
    "overlap": ("┃", "green", "applied, and read again before anything is delivered"),
    "gap": ("░", "bold red", "not known to be covered"),
    "waiting": ("│", "cyan", "not yet applied"),
    "beyond": ("┊", "dim", "the log does not go so far"),
    "log": ("│", "cyan", "in the log"),
}
"""How each stretch is drawn, coloured and called."""


@click.command("explain")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.option(
    "--audit",
    "entries",
    type=click.IntRange(0, 1000),
    default=AUDIT_ENTRIES,
    show_default=True,
    metavar="N",
    help="How many of the last audit entries.",
)
@direct_options
@output_option
def command(topic: str, partition: int, entries: int, output: str, **where: Any) -> None:
    """Explain where a partition stands, why, and what may be done next.

    Asks Redis and Kafka now, with no sidecar running or beside a live one, and joins nothing.
    """
    document = at_desk(where, lambda desk: _explained(desk, topic, partition, entries))
    if output == "table":
        _print(document)
    else:
        emit(document, output)


@dataclass(frozen=True, slots=True)
class Next:
    """`command` as it is typed, capitals to be filled in; `leads_to` what it does."""

    command: str
    leads_to: str


async def _explained(desk: Standalone, topic: str, index: int, entries: int) -> dict[str, Any]:
    import msgspec

    from sidecar.api.messages import GapItem, PartitionItem, rfc3339
    from sidecar.cli.meanings import MEANINGS, NOT_REGISTERED
    from sidecar.core.faults import Known
    from sidecar.core.line import lines
    from sidecar.core.survey import checkpoint_of, survey, verdict_of
    from sidecar.core.types import Partition
    from sidecar.core.verdict import describe, judge

    partition = Partition(topic, index)
    evidence = (await desk.look([partition]))[partition]
    members = await desk.group_members()
    judgement = judge(evidence, desk.policy)
    checkpoint = checkpoint_of(evidence, judgement)
    anchor = await _anchor(desk, evidence, checkpoint)
    audit = await desk.audit(partition)
    member = members.value.owner_of(partition) if isinstance(members, Known) else None
    view = survey(evidence, judgement, owned=member is not None)
    verdict = verdict_of(judgement)
    gap = evidence.stored.value.gap if isinstance(evidence.stored, Known) else None
    drawn = lines(evidence, judgement, checkpoint, anchor)
    document: dict[str, Any] = {
        "group": desk.group,
        "partition": msgspec.to_builtins(PartitionItem.of(view)),
        "member": None if member is None else {"id": member.id, "host": member.host},
        "members_read": isinstance(members, Known),
        "lines": [_line(line) for line in drawn],
        "evidence": {
            **{name: value for name, value in describe(evidence).items() if name != "cue"},
            **_more(evidence, checkpoint, anchor),
        },
        "asked_at": rfc3339(evidence.asked_at),
        "verdict": verdict,
        "why": view.detail,
        "meaning": NOT_REGISTERED if verdict is None else MEANINGS[verdict],
        "gap": None if gap is None else msgspec.to_builtins(GapItem.of(gap)),
        "next": [
            {"command": one.command, "leads_to": one.leads_to}
            for one in _next(desk, evidence, judgement, gap, owned=member is not None)
        ],
        "requests": [
            {"kind": one.kind.value, "by": one.by, "why": one.why, "at": rfc3339(one.at)}
            for one in await _pending(desk, partition)
        ],
        "audit": [
            {"at": rfc3339(entry.at), "what": entry.what, "by": entry.by, "why": entry.why}
            for entry in _newest(audit, gap, entries)
        ],
    }
    plain: dict[str, Any] = msgspec.to_builtins(document)  # names of enums as text
    return plain


def _newest(
    audit: Answer[Sequence[Audit]], gap: Gap | None, entries: int
) -> Sequence[Audit | GapEvent]:
    """Of the partition and of its open gap."""
    from sidecar.core.faults import Known

    found: list[Audit | GapEvent] = [*audit.value] if isinstance(audit, Known) else []
    if gap is not None:
        found += (replace(event, what=f"gap {event.what}") for event in gap.audit)
    return sorted(found, key=lambda entry: entry.at)[-entries:] if entries else ()


async def _anchor(
    desk: Standalone, evidence: Evidence, checkpoint: Checkpoint | None
) -> Offset | None:
    """Where a recovery would begin to read, as the sidecar chooses it."""
    from sidecar.core import overlap
    from sidecar.core.faults import Known

    if checkpoint is None or not isinstance(evidence.log_start, Known):
        return None
    records = desk.policy.overlap_records
    memory = await desk.store.memory(desk.group, evidence.partition, records)
    if not isinstance(memory, Known):
        return None
    next_ = checkpoint.token.next
    tail = [
        (receipt.offset, receipt.digest)
        for run in memory.value.receipts
        for receipt in run
        if receipt.offset < next_
    ]
    floor = evidence.log_start.value
    return overlap.begin(tail, position=next_, floor=floor, records=records).anchor


def _more(
    evidence: Evidence, checkpoint: Checkpoint | None, anchor: Offset | None
) -> dict[str, Any]:
    from sidecar.core.faults import Known
    from sidecar.core.witness import Ours, decode

    found: dict[str, Any] = {"anchor": anchor}
    if isinstance(evidence.committed, Known):
        commit = evidence.committed.value
        testimony = decode(
            commit.metadata,
            group=evidence.group,
            partition=evidence.partition,
            committed=commit.next,
        )
        match testimony:
            case Ours(witness):
                found["witness"] = f"ours, of generation {witness.generation}"
            case _:
                found["witness"] = getattr(testimony, "why", "of a later release")
    if checkpoint is not None:
        found["horizon"] = checkpoint.horizon
        found["lineage"] = checkpoint.lineage.number
        found["owner_mark"] = checkpoint.owner or None
        if checkpoint.replay is not None:
            found["replay_requested"] = str(checkpoint.replay)
    return found


async def _pending(desk: Standalone, partition: Partition) -> list[Request]:
    """What people asked of it and nobody has executed yet."""
    from sidecar.core.faults import Known

    left = (await desk.store.requests(desk.group, [partition]))[partition]
    return [one for one in left.value if one.pending] if isinstance(left, Known) else []


def _line(line: Line) -> dict[str, Any]:
    marks = [
        {"offset": one.offset, "names": list(one.names), "then": one.then} for one in line.marks
    ]
    return {"title": line.title, "marks": marks}


# What may be done next


def _next(
    desk: Standalone, evidence: Evidence, judgement: Judgement, gap: Gap | None, *, owned: bool
) -> Iterator[Next]:
    from sidecar.core.answerable import found
    from sidecar.core.holds import ANSWERS, MENDS
    from sidecar.core.survey import checkpoint_of
    from sidecar.core.types import Verdict
    from sidecar.core.verdict import Enrol, Go, Hold, Open, Stand, Wait
    from sidecar.standalone import mended_by

    run = Next("cursor-sidecar run", "nobody of the group has this partition: start a sidecar")
    match judgement:
        case Stand(gap=standing):
            yield from _decisions(desk, evidence, standing)
        case Open():
            if gap is not None and gap.state.holds:
                yield from _decisions(desk, evidence, gap)
            leads = "a sidecar that has the partition opens the gap; then it can be decided"
            yield replace(run, leads_to=leads)
        case Hold(verdict=verdict):
            if verdict is Verdict.FOREIGN_CHECKPOINT:
                moved = _typed("rebind", *WHO_AND_WHY[:4])
                yield Next(moved, "dry run: if the group moved to this cluster")
        case Wait(verdict=verdict, fault=fault):
            yield Next("cursor-sidecar doctor", f"what does not answer; look at {mended_by(fault)}")
            if verdict is Verdict.TOPIC_UNKNOWN or fault.kind.value == "topic_unknown":
                topic = evidence.partition.topic
                yield Next(
                    _typed("forget", "--topic", topic, *WHO_AND_WHY[:4]),
                    "dry run: if the topic is retired",
                )
        case Enrol():
            if not owned:
                yield run
        case Go():
            if not owned:
                yield run
        case _:
            assert_never(judgement)
    for hold in found(evidence, judgement):
        for answer, does in ANSWERS.get(hold.verdict, {}).items():
            chosen = ("holds", "answer", hold.id, "--answer", answer)
            yield Next(_typed(*chosen, *WHO_AND_WHY, "--execute"), does)
        if (mends := MENDS.get(hold.verdict)) is not None:
            yield Next("cursor-sidecar doctor", mends)
    checkpoint = checkpoint_of(evidence, judgement)
    if checkpoint is not None and checkpoint.paused is not None:
        partition = evidence.partition
        given = ("continue", partition.topic, str(partition.index))
        words = _typed(*given, *WHO_AND_WHY, "--execute")
        yield Next(words, f"lets it be delivered again: it was {checkpoint.paused}")


def _decisions(desk: Standalone, evidence: Evidence, gap: Gap) -> Iterator[Next]:
    """Each resolution, asked of the function that will decide it."""
    from sidecar.core.gap import GapState, Resolution
    from sidecar.core.resolution import Settled, plan
    from sidecar.core.views import ResolveRequest

    if gap.state is GapState.OPEN:
        seen = _typed("gaps", "ack", gap.id, *WHO_AND_WHY, "--execute")
        yield Next(seen, "says that it was seen; it goes on holding the partition")
    for resolution in Resolution:
        request = ResolveRequest(resolution, "WHO", "TEXT")
        given: tuple[str, ...] = ()
        leads: str | None = None
        match resolution:
            case Resolution.SNAPSHOT:
                if gap.fences:
                    request = replace(request, fence=gap.fences[-1][0])
                    given = ("--fence", str(gap.fences[-1][0]))
                else:
                    given = ("--fence", "FENCE")
                    leads = (
                        f"after POST /v1/gaps/{gap.id}/fence, and a snapshot that is loaded after "
                        "its answer"
                    )
            case Resolution.BACKFILLED:
                end = gap.interval.end
                if end is None:
                    given = ("--resume-at", "END")
                    leads = "the end of what was backfilled, which only you know"
                else:
                    request = replace(request, resume_at=end)
                    given = ("--resume-at", str(end))
            case Resolution.ACCEPTED | Resolution.IGNORED | Resolution.RETRACTED:
                pass
            case _:
                assert_never(resolution)
        if leads is None:
            planned = plan(evidence, request, desk.policy, gap_id=gap.id)
            if isinstance(planned, Settled):
                leads = f"reading goes on at {planned.checkpoint.token.next}"
            elif resolution is Resolution.ACCEPTED and "resume_at" in planned.detail:
                given = ("--resume-at", "N")
                leads = planned.detail
            else:
                continue
        words = ("--resolution", resolution.value, *given, *WHO_AND_WHY, "--execute")
        yield Next(_typed("gaps", "resolve", gap.id, *words), leads)


def _typed(*words: str) -> str:
    return shlex.join(("cursor-sidecar", *words))


# Printed


def _print(document: Mapping[str, Any]) -> None:
    partition = document["partition"]
    coloured = sys.stdout.isatty()

    def style(text: str, how: str) -> str:
        if not coloured or not how:
            return text
        words = how.split()
        colour = next((word for word in words if word not in ("bold", "dim")), None)
        return click.style(
            text, fg=colour, bold="bold" in words or None, dim="dim" in words or None
        )

    def head(text: str) -> None:
        click.echo(f"\n{style(text, 'bold')}")

    state = style(partition["state"], STYLES.get(partition["state"], ""))
    verdict = document["verdict"] or "not registered"
    click.echo(
        f"{partition['topic']}/{partition['partition']} of {document['group']}: {state}, {verdict}"
    )
    member = document["member"]
    if member is not None:
        click.echo(f"{member['id']} at {member['host']} has it")
    elif document["members_read"]:
        click.echo("no member of the group has it")
    for line in document["lines"]:
        click.echo()
        if line["title"]:
            click.echo(f"  {line['title']}:")
        width = max(len(str(mark["offset"])) for mark in line["marks"])
        for at, mark in enumerate(line["marks"]):
            names = ", ".join(name.replace("_", " ") for name in mark["names"])
            click.echo(f"  {mark['offset']:>{width}} ┼ {names}")
            if mark["then"] is None:
                continue
            following = line["marks"][at + 1 :]
            count = following[0]["offset"] - mark["offset"] if following else None
            sign, how, what = STRETCHES[mark["then"]]
            if mark["names"] == ["applied"] and count == 1:
                continue  # the last record that was applied: it counts to those before it
            if count is not None and "applied" in following[0]["names"]:
                count += 1
            size = "end unknown" if count is None else str(count)
            click.echo(f"  {' ' * width} {style(sign, how)}   {style(f'{what}: {size}', how)}")
    head(f"Evidence, asked at {document['asked_at']}")
    for name, value in document["evidence"].items():
        click.echo(f"  {name:<18} {'-' if value is None else value}")
    head(f"Why {verdict}")
    for text in (document["why"], document["meaning"]):
        click.echo(click.wrap_text(text, 78, "  ", "  "))
    head("What may be done")
    if not document["next"]:
        click.echo("  nothing has to be done")
    for one in document["next"]:
        click.echo(f"  {one['command']}")
        click.echo(f"      {one['leads_to']}")
    if document["requests"]:
        head("Asked, and not yet executed")
        asked = [
            [one[name] for name in ("at", "kind", "by", "why")] for one in document["requests"]
        ]
        table(("AT", "WHAT", "BY", "WHY"), asked)
    if document["audit"]:
        head("Last audit entries")
        rows = [
            [entry[name] for name in ("at", "what", "by", "why")] for entry in document["audit"]
        ]
        table(("AT", "WHAT", "BY", "WHY"), rows)
