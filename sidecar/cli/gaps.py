"""`gaps`: see them, and decide them.

All of it works on the store and Kafka themselves, with no sidecar running and beside a live one;
with `--url` it asks one that runs.

What changes something is a dry run unless `--execute` is given: it shows what stands now and what
would stand afterwards. The evidence is asked again at that moment, and may refuse it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from sidecar.cli import decisions
from sidecar.cli.decisions import assent_options
from sidecar.cli.direct import at_desk, known
from sidecar.cli.options import client_option, fail, output_option
from sidecar.cli.output import Column, emit, interval, table
from sidecar.cli.service import Service, service, service_options

if TYPE_CHECKING:
    from sidecar.core.gap import Gap
    from sidecar.core.request import Request
    from sidecar.standalone import Standalone

COLUMNS = (
    Column("ID"),
    Column("TOPIC"),
    Column("PARTITION"),
    Column("OFFSETS"),
    Column("RECORDS", drop=2),
    Column("REASON"),
    Column("STATE", drop=1),
    Column("OPENED-AT", drop=3),
)
STATES = ("open", "acknowledged", "resolved", "superseded")
UNDECIDED = ("open", "acknowledged")
RESOLUTIONS = ("snapshot", "backfilled", "accepted", "ignored", "retracted")

UNKNOWN = "gap-unknown: the group has no gap {!r}; `gaps list --all` lists what is kept"


@click.group("gaps")
def command() -> None:
    """List, show, acknowledge and resolve gaps: offsets nobody can show were covered.

    A gap holds its partition until it is resolved.
    """


@command.command("list")
@click.option("--state", type=click.Choice(STATES), help="Only these; by default the undecided.")
@click.option("--all", "everything", is_flag=True, help="Decided ones, too.")
@service_options
@client_option
@output_option
def list_(state: str | None, everything: bool, output: str, **where: Any) -> None:
    """List the group's gaps, as the store keeps them."""
    wanted = STATES if everything else UNDECIDED if state is None else (state,)
    found = [gap for gap in _gaps(where) if gap["state"] in wanted]
    if output != "table":
        emit({"gaps": found}, output)
        return
    rows = [
        [
            gap["id"],
            gap["topic"],
            gap["partition"],
            interval(gap["first"], gap["end"]),
            None if gap["end"] is None else gap["end"] - gap["first"],
            gap["reason"],
            gap["state"],
            gap["opened_at"],
        ]
        for gap in found
    ]
    table(COLUMNS, rows)


@command.command("show")
@click.argument("id")
@service_options
@client_option
@output_option
def show(id: str, output: str, **where: Any) -> None:
    """Show one gap with its evidence and history."""
    gap = next((one for one in _gaps(where) if one["id"] == id), None)
    if gap is None:
        fail(UNKNOWN.format(id))
    if output != "table":
        emit(gap, output)
        return
    fields = [(name, gap[name]) for name in ("id", "topic", "partition", "reason", "state")]
    fields.append(("offsets", interval(gap["first"], gap["end"])))
    fields.append(("opened_at", gap["opened_at"]))
    fields += [(f"evidence.{name}", value) for name, value in gap["evidence"].items()]
    fields += [(f"fence at {fence['at']}", fence["fence"]) for fence in gap["fences"]]
    if (decided := gap["resolution"]) is not None:
        fields += [(f"resolution.{name}", value) for name, value in decided.items()]
    table(("FIELD", "VALUE"), fields)
    if gap["audit"]:
        click.echo()
        audit = [[entry[name] for name in ("at", "what", "by", "why")] for entry in gap["audit"]]
        table(("AT", "WHAT", "BY", "WHY"), audit)


@command.command("ack")
@click.argument("id")
@assent_options
@service_options
@client_option
@output_option
def acknowledge(id: str, by: str, why: str, execute: bool, output: str, **where: Any) -> None:
    """Say that a gap was seen. It goes on holding its partition."""
    body = {"by": by, "why": why}
    if where["url"] is not None:
        _change(_service(where), id, "acknowledge", body, "acknowledged", execute, output)
        return

    async def work(desk: Standalone) -> tuple[Gap, Gap]:
        from sidecar.core.gap import acknowledge

        standing = _find(known(await desk.gaps()), id)
        seen = acknowledge(standing, by=by, why=why, at=desk.now())
        if seen is None:
            fail(f"gap-changed: the gap is {standing.state} already")
        if not execute:
            return standing, seen
        # It needs no owner; one that is there hears of it by the counter in its mark.
        updated = known(await desk.store.update_gap(seen, was=standing))
        if updated is None:
            fail("gap-changed: the gap is another by now; look at it again")
        return standing, updated

    prior, new = at_desk(where, work)
    _changed(_item(prior), _item(new), body, execute, output)


@command.command("resolve")
@click.argument("id")
@click.option("--resolution", required=True, type=click.Choice(RESOLUTIONS))
@click.option("--evidence", metavar="TEXT", help="What it rests on; kept with the gap.")
@click.option("--fence", type=int, help="The end offset taken before the snapshot was read.")
@click.option("--resume-at", type=int, help="Where reading goes on, if a person has to say.")
@click.option("--end-max", type=int, help="The most that may be accepted as lost.")
@assent_options
@service_options
@client_option
@output_option
def resolve(
    id: str,
    resolution: str,
    by: str,
    why: str,
    evidence: str | None,
    fence: int | None,
    resume_at: int | None,
    end_max: int | None,
    execute: bool,
    output: str,
    **where: Any,
) -> None:
    """Decide a gap, so that its partition goes on."""
    given = {
        "resolution": resolution,
        "by": by,
        "why": why,
        "evidence": evidence,
        "fence": fence,
        "resume_at": resume_at,
        "end_max": end_max,
    }
    body = {name: value for name, value in given.items() if value is not None}
    if where["url"] is not None:
        _change(_service(where), id, "resolve", body, "resolved", execute, output)
        return

    async def work(desk: Standalone) -> tuple[Gap, Gap, Request | None]:
        from sidecar.core.gap import Resolution
        from sidecar.core.types import Offset
        from sidecar.core.views import ResolveRequest

        def offset(value: int | None) -> Offset | None:
            return None if value is None else Offset(value)

        standing = _find(known(await desk.gaps()), id)
        wanted = ResolveRequest(
            Resolution(resolution),
            by,
            why,
            evidence,
            offset(fence),
            offset(resume_at),
            offset(end_max),
        )
        return standing, *await decisions.resolve(desk, standing, wanted, execute=execute)

    prior, new, left = at_desk(where, work)
    if left is not None:
        click.echo(decisions.told_of(left), err=True)
    _changed(_item(prior), _item(new), body, execute, output, left=left)


def _gaps(where: dict[str, Any]) -> list[dict[str, Any]]:
    if where["url"] is not None:
        found: list[dict[str, Any]] = _service(where).get("/v1/gaps")["gaps"]
        return found

    async def kept(desk: Standalone) -> list[dict[str, Any]]:
        return [_item(gap) for gap in known(await desk.gaps())]

    return at_desk(where, kept)


def _item(gap: Gap) -> dict[str, Any]:
    import msgspec

    from sidecar.api.messages import GapItem

    item: dict[str, Any] = msgspec.to_builtins(GapItem.of(gap))
    return item


def _find(gaps: Sequence[Gap], id: str) -> Gap:
    for gap in gaps:
        if gap.id == id:
            return gap
    fail(UNKNOWN.format(id))


def _change(
    sidecar: Service,
    id: str,
    step: str,
    body: dict[str, Any],
    becomes: str,
    execute: bool,
    output: str,
) -> None:
    path = f"/v1/gaps/{quote(id, safe='')}"
    prior = sidecar.get(path)
    new = sidecar.post(f"{path}/{step}", body) if execute else {**prior, "state": becomes}
    _changed(prior, new, body, execute, output)


def _changed(
    prior: dict[str, Any],
    new: dict[str, Any],
    body: dict[str, Any],
    execute: bool,
    output: str,
    *,
    left: Request | None = None,
) -> None:
    """`left`: the request that whoever has the partition next executes; nothing was changed."""
    if output != "table":
        done = {"executed": execute and left is None, "request": body, "prior": prior, "new": new}
        emit(done if left is None else {**done, "left": left.id}, output)
        return
    where = f"{prior['topic']}/{prior['partition']} {interval(prior['first'], prior['end'])}"
    click.echo(f"{prior['id']} ({prior['reason']}, {where}): {prior['state']} → {new['state']}")
    decided = new["resolution"]
    if decided is not None:
        click.echo(f"{decided['resolution']}: reading goes on at {decided['resume_at']}")
    if not execute:
        for name, value in body.items():
            click.echo(f"  {name}: {value}")
        click.echo(decisions.DRY_RUN)


def _service(where: dict[str, Any]) -> Service:
    url: str | None = where["url"]
    config: Path | None = where["config"]
    return service(url, where["timeout_seconds"], config, where["flags"], admin=False)
