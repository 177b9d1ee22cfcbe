"""`gaps`: see them, and decide them.

What is read comes from the store itself, with no sidecar running; with `--url`, from one that runs.

What changes something is a dry run unless `--execute` is given: it shows what stands now and what
would stand afterwards. The sidecar asks the evidence again at that moment and may refuse.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from sidecar.cli.direct import at_desk, known
from sidecar.cli.options import client_option, fail, output_option
from sidecar.cli.output import Column, emit, interval, table
from sidecar.cli.service import Service, service, service_options

if TYPE_CHECKING:
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

_by = click.option("--by", required=True, metavar="WHO", help="Who decides; kept with the gap.")
_why = click.option("--why", required=True, metavar="TEXT", help="Why; kept with the gap.")
_execute = click.option("--execute", is_flag=True, help="Do it. Without: show what would be done.")


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
        fail(f"gap-unknown: the group has no gap {id!r}; `gaps list --all` lists what is kept")
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
@_by
@_why
@_execute
@service_options
@output_option
def acknowledge(id: str, by: str, why: str, execute: bool, output: str, **where: Any) -> None:
    """Say that a gap was seen. It goes on holding its partition."""
    body = {"by": by, "why": why}
    _change(_service(where), id, "acknowledge", body, "acknowledged", execute, output)


@command.command("resolve")
@click.argument("id")
@click.option("--resolution", required=True, type=click.Choice(RESOLUTIONS))
@_by
@_why
@click.option("--evidence", metavar="TEXT", help="What it rests on; kept with the gap.")
@click.option("--fence", type=int, help="The end offset taken before the snapshot was read.")
@click.option("--resume-at", type=int, help="Where reading goes on, if a person has to say.")
@click.option("--end-max", type=int, help="The most that may be accepted as lost.")
@_execute
@service_options
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
    _change(_service(where), id, "resolve", body, "resolved", execute, output)


def _gaps(where: dict[str, Any]) -> list[dict[str, Any]]:
    if where["url"] is not None:
        found: list[dict[str, Any]] = _service(where).get("/v1/gaps")["gaps"]
        return found

    async def kept(desk: Standalone) -> list[dict[str, Any]]:
        import msgspec

        from sidecar.api.messages import GapItem

        return [msgspec.to_builtins(GapItem.of(gap)) for gap in known(await desk.gaps())]

    return at_desk(where, kept)


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
    if output != "table":
        emit({"executed": execute, "request": body, "prior": prior, "new": new}, output)
        return
    where = f"{prior['topic']}/{prior['partition']} {interval(prior['first'], prior['end'])}"
    click.echo(f"{id} ({prior['reason']}, {where}): {prior['state']} → {new['state']}")
    decided = new["resolution"] if execute else None
    if decided is not None:
        click.echo(f"{decided['resolution']}: reading goes on at {decided['resume_at']}")
    if not execute:
        for name, value in body.items():
            click.echo(f"  {name}: {value}")
        click.echo("Dry run: nothing was changed. Add --execute to do it.")


def _service(where: dict[str, Any]) -> Service:
    url: str | None = where["url"]
    config: Path | None = where["config"]
    return service(url, where["timeout_seconds"], config, where["flags"], admin=False)
