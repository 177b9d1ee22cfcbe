"""`status`: the columns of `kafka-consumer-groups`, then ours, for a whole group.

Asked of Redis and Kafka themselves, because the question comes up when sidecars are not well, and
because one sidecar knows only its own partitions. `--url` asks one running sidecar what it says of
itself instead. Chosen over asking a sidecar where there is one: a command that answers from two
places, without saying which, cannot be trusted at night.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sidecar.cli.direct import at_desk, known, told
from sidecar.cli.options import FAILED, client_option, output_option
from sidecar.cli.output import Column, emit, notes, table
from sidecar.cli.service import service, service_options

if TYPE_CHECKING:
    from sidecar.kafka.group_members import GroupMember
    from sidecar.standalone import Standalone

COLUMNS: Sequence[Column] = (
    Column("GROUP", drop=9),
    Column("TOPIC"),
    Column("PARTITION"),
    Column("CURRENT-OFFSET"),
    Column("LOG-END-OFFSET"),
    Column("LAG"),
    Column("CONSUMER-ID", drop=6),
    Column("HOST", drop=5),
    Column("CLIENT-ID", drop=8),
    Column("STATE"),
    Column("VERDICT"),
    Column("APPLIED", drop=2),
    Column("LOG-START-OFFSET", drop=3),
    Column("GENERATION", drop=4),
    Column("GAP", drop=7),
    Column("DETAIL", drop=10),
)


@click.command("status")
@service_options
@client_option
@output_option
def command(url: str | None, output: str, **where: Any) -> None:
    """Show where a group stands, partition by partition.

    Asks Redis and Kafka, with the sidecar's own settings and no sidecar running; joins nothing.
    With --url, asks one running sidecar about itself. Exit 1 when a question was not answered, or
    when that sidecar is not ready.
    """
    if url is None:
        document = at_desk(where, _asked)
    else:
        document = _told(url, where["timeout_seconds"], where["config"], where["flags"])
    status = document["status"]
    if output == "table":
        rows = [_row(status, partition) for partition in document["partitions"]]
        table(COLUMNS, rows)
        notes(
            (f"{one['topic']}/{one['partition']}", _note(one))
            for one in document["partitions"]
            if one["gap"] is not None or one["state"] in ("gap", "held")
        )
        for reason in status["reasons"]:
            click.echo(f"not ready: {reason}", err=True)
    else:
        emit(document, output)
    if not status["ready"]:
        raise SystemExit(FAILED)


def _told(
    url: str, timeout_seconds: float, config: Path | None, flags: dict[str, str]
) -> dict[str, Any]:
    sidecar = service(url, timeout_seconds, config, flags, admin=True)
    status = sidecar.get("/v1/status")
    return {"status": status, "partitions": sidecar.get("/v1/partitions")["partitions"]}


async def _asked(desk: Standalone) -> dict[str, Any]:
    """In the shape that a sidecar answers in, with the member of each partition beside it."""
    import msgspec

    from sidecar.api.messages import PartitionItem, Status
    from sidecar.core.faults import Known, Unreadable
    from sidecar.core.survey import survey
    from sidecar.core.verdict import judge
    from sidecar.core.views import DependencyView, StatusView

    cluster = known(await desk.log.cluster_id())
    partitions = known(await desk.partitions())
    members = await desk.group_members()
    looked = await desk.look(partitions)
    reasons: list[str] = []
    shown = []
    for partition, evidence in looked.items():
        for reading in (evidence.committed, evidence.stored, evidence.topic, evidence.log_end):
            if isinstance(reading, Unreadable) and (text := told(reading.fault)) not in reasons:
                reasons.append(text)
        member = members.value.owner_of(partition) if isinstance(members, Known) else None
        view = survey(evidence, judge(evidence, desk.policy), owned=member is not None)
        item = msgspec.to_builtins(PartitionItem.of(view))
        shown.append({**item, **_member(member)})
    if isinstance(members, Unreadable):
        reasons.append(told(members.fault))
    up = DependencyView(True, desk.now(), None, None)
    status = StatusView(
        ready=not reasons,
        reasons=tuple(reasons),
        group=desk.group,
        member=None,
        cluster_id=cluster,
        assigned=sum(one["consumer_id"] is not None for one in shown),
        dependencies={"kafka": up, "redis": up},
    )
    return {"status": msgspec.to_builtins(Status.of(status)), "partitions": shown}


def _member(member: GroupMember | None) -> dict[str, Any]:
    if member is None:
        return {"consumer_id": None, "host": None, "client_id": None}
    return {"consumer_id": member.id, "host": member.host, "client_id": member.client}


def _row(status: Mapping[str, Any], partition: Mapping[str, Any]) -> list[Any]:
    return [
        status["group"],
        partition["topic"],
        partition["partition"],
        partition["committed"],
        partition["log_end"],
        partition["lag_records"],
        partition.get("consumer_id", status["member"]),
        partition.get("host"),
        partition.get("client_id"),
        partition["state"],
        partition["verdict"],
        partition["applied"],
        partition["log_start"],
        partition["generation"],
        partition["gap"],
        partition["detail"] or None,
    ]


def _note(partition: Mapping[str, Any]) -> str:
    gap = "" if partition["gap"] is None else f", gap {partition['gap']}"
    return f"{partition['verdict']}{gap}: {partition['detail']}"
