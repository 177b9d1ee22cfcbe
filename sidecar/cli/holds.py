"""`holds`: what waits for a person and is no gap, and the answers it permits.

Found by looking, with no sidecar running, by the function that the sidecar judges with; so the ids
are the sidecar's own. What only the sidecar that reads can meet, a record that cannot be read, is
listed by that sidecar (`--url`), and passed with `skip`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sidecar.cli.decisions import DRY_RUN, ask, assent_options, request_document, told_of
from sidecar.cli.direct import at_desk, direct_options, known
from sidecar.cli.options import FAILED, client_option, fail, output_option
from sidecar.cli.output import Column, emit, table
from sidecar.cli.service import service, service_options

if TYPE_CHECKING:
    from sidecar.core.request import Request
    from sidecar.core.views import HoldView
    from sidecar.standalone import Standalone

COLUMNS = (
    Column("ID"),
    Column("TOPIC"),
    Column("PARTITION"),
    Column("VERDICT"),
    Column("ANSWERS"),
    Column("DETAIL", drop=1),
)


@click.group("holds")
def command() -> None:
    """List, show and answer holds: what only a person can let go on, and no gap.

    An answer is kept beside the partition, and executed by whoever has it or has it next.
    """


@command.command("list")
@service_options
@client_option
@output_option
def list_(output: str, **where: Any) -> None:
    """List the group's holds, and replays that a foreign hand asked for."""
    holds = _listed(where)
    if output != "table":
        emit({"holds": holds}, output)
        return
    rows = [
        [
            hold["id"],
            hold["topic"],
            hold["partition"],
            hold["verdict"],
            ",".join(hold["answers"]) or None,
            hold["detail"],
        ]
        for hold in holds
    ]
    table(COLUMNS, rows)


@command.command("show")
@click.argument("id")
@service_options
@client_option
@output_option
def show(id: str, output: str, **where: Any) -> None:
    """Show one hold, with what each answer does or what mends it."""
    hold = next((one for one in _listed(where) if one["id"] == id), None)
    if hold is None:
        fail(_unknown(id))
    if output != "table":
        emit(hold, output)
        return
    fields = [(name, hold[name]) for name in ("id", "topic", "partition", "verdict", "detail")]
    fields += [(f"evidence.{name}", value) for name, value in hold["evidence"].items()]
    fields += [(f"answer {answer}", does) for answer, does in hold["meanings"].items()]
    if hold["mends"]:
        fields.append(("mended by", hold["mends"]))
    table(("FIELD", "VALUE"), fields)


@command.command("answer")
@click.argument("id", required=False)
@click.option("--all", "everything", is_flag=True, help="Every hold that permits the answer.")
@click.option("--verdict", help="With --all: only holds of this verdict.")
@click.option("--answer", required=True, help="One of the hold's answers.")
@assent_options
@direct_options
@output_option
def answer(
    id: str | None,
    everything: bool,
    verdict: str | None,
    answer: str,
    by: str,
    why: str,
    execute: bool,
    output: str,
    **where: Any,
) -> None:
    """Answer a hold, or with --all each of the group's that permits it.

    Each answer counts for its partition and for what was found there. Exit 1 when one was refused.
    """
    if everything == (id is not None):
        raise click.UsageError("give the ID of a hold, or --all")

    async def work(desk: Standalone) -> tuple[Sequence[HoldView], Sequence[Request]]:
        from sidecar.core.request import RequestKind

        found = await holds_of(desk)
        if everything:
            chosen = [
                view
                for view in found
                if answer in view.answers and verdict in (None, view.verdict.value)
            ]
            if not chosen:
                fail(f"hold-unknown: no hold of the group permits {answer!r}; list the holds")
        else:
            chosen = [view for view in found if view.id == id]
            if not chosen:
                fail(_unknown(id or ""))
            if answer not in chosen[0].answers:
                allowed = ", ".join(chosen[0].answers) or f"none: {chosen[0].mends}"
                fail(f"answer-impossible: permitted answers: {allowed}")
        if not execute:
            return chosen, ()
        return chosen, [
            await ask(
                desk,
                view.partition,
                RequestKind.ANSWER,
                target=view.id,
                by=by,
                why=why,
                arguments={"answer": answer},
            )
            for view in chosen
        ]

    chosen, asked = at_desk(where, work)
    if output == "table":
        for i, view in enumerate(chosen):
            told = told_of(asked[i]) if asked else view.meanings[answer]
            click.echo(f"{view.id} ({view.verdict}, {view.partition}): held → {answer}: {told}")
        if not asked:
            click.echo(DRY_RUN)
    else:
        emit(
            {
                "executed": bool(asked),
                "holds": _items(chosen),
                "requests": [request_document(one) for one in asked],
            },
            output,
        )
    if any(one.refusal is not None for one in asked):
        raise SystemExit(FAILED)


def _unknown(id: str) -> str:
    return (
        f"hold-unknown: the group has no hold {id!r} now; `holds list` lists those that are found. "
        "A record that cannot be read is known to the sidecar that met it: `skip`"
    )


def _listed(where: dict[str, Any]) -> list[dict[str, Any]]:
    url: str | None = where["url"]
    config: Path | None = where["config"]
    if url is not None:
        sidecar = service(url, where["timeout_seconds"], config, where["flags"], admin=False)
        found: list[dict[str, Any]] = sidecar.get("/v1/holds")["holds"]
        return found

    async def listed(desk: Standalone) -> list[dict[str, Any]]:
        return _items(await holds_of(desk))

    return at_desk(where, listed)


def _items(views: Sequence[HoldView]) -> list[dict[str, Any]]:
    import msgspec

    from sidecar.api.messages import HoldItem

    return [msgspec.to_builtins(HoldItem.of(view)) for view in views]


async def holds_of(desk: Standalone) -> list[HoldView]:
    """Every hold of the group that can be found by looking."""
    from sidecar.core import answerable, enrolment
    from sidecar.core.types import StoreId
    from sidecar.core.verdict import Enrol, judge, start_refused
    from sidecar.performer import gather_group

    partitions = known(await desk.partitions())
    evidence = await desk.look(partitions)
    judged = {partition: judge(evidence[partition], desk.policy) for partition in partitions}
    fresh = [partition for partition in partitions if isinstance(judged[partition], Enrol)]
    if fresh:
        group = await gather_group(
            desk.policy,
            desk.log,
            desk.store,
            enrolment.topics_of(fresh),
            store_name=StoreId("nobody"),
            asked_at=desk.now(),
        )
        plan = enrolment.enrol(group, desk.policy)
        if isinstance(plan, enrolment.StartRefused):
            for partition in fresh:
                judged[partition] = start_refused()
    return [
        view
        for partition in partitions
        for view in answerable.found(evidence[partition], judged[partition])
    ]
