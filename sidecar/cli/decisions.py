"""What a person decides, carried out with the store and Kafka alone.

With a live owner the command leaves a request and waits, bounded, for its answer. Without one there
is nobody to wait for. A request then stands until the next owner claims the partition; a gap's
resolution needs no owner: the command asks the same evidence, plans by the same function and
installs by the same comparison as an owner does, and the next owner commits. Only where the log has
to be read first is it left to the next owner.

Nothing is changed without `--execute`; what would be is shown as prior → new.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from sidecar.cli.direct import at_desk, known, told
from sidecar.cli.options import TIMED_OUT, fail
from sidecar.cli.output import emit

if TYPE_CHECKING:
    from sidecar.core.evidence import Stored
    from sidecar.core.gap import Gap
    from sidecar.core.request import Request, RequestKind
    from sidecar.core.resolution import Settled
    from sidecar.core.types import Fields, Partition
    from sidecar.core.views import Refusal, ResolveRequest
    from sidecar.standalone import Standalone

F = TypeVar("F", bound=Callable[..., Any])

WAIT_SECONDS = 15.0
LOOK_SECONDS = 0.1
DRY_RUN = "Dry run: nothing was changed. Add --execute to do it."


def _at_most(length: int) -> Callable[[click.Context, click.Parameter, str], str]:
    def checked(context: click.Context, parameter: click.Parameter, value: str) -> str:
        if not 0 < len(value) <= length:
            raise click.BadParameter(f"1 to {length} characters", context, parameter)
        return value

    return checked


def assent_options(function: F) -> F:
    """Who, why, and whether it is meant."""
    for option in (
        click.option("--execute", is_flag=True, help="Do it. Without: show what would be done."),
        click.option(
            "--why", required=True, metavar="TEXT", callback=_at_most(2_000), help="Why; kept."
        ),
        click.option(
            "--by", required=True, metavar="WHO", callback=_at_most(200), help="Who; kept."
        ),
    ):
        function = option(function)
    return function


def refused(refusal: Refusal) -> NoReturn:
    fail(f"{refusal.refused}: {refusal.detail}")


async def ask(
    desk: Standalone,
    partition: Partition,
    kind: RequestKind,
    *,
    target: str = "",
    by: str,
    why: str,
    arguments: Fields,
) -> Request:
    """Leaves a request and waits for its owner; without one it is given back, pending."""
    from sidecar.core.request import Request, RequestId

    owned = known(await desk.group_members()).owner_of(partition) is not None
    request = Request(
        RequestId(f"r-{secrets.token_hex(8)}"),
        desk.group,
        partition,
        kind,
        target,
        by,
        why,
        desk.now(),
        arguments,
    )
    await _leave(desk, request)
    return await _settled(desk, request) if owned else request


async def _leave(desk: Standalone, request: Request) -> None:
    from sidecar.core.faults import Unreadable

    left = await desk.store.leave(request)
    if isinstance(left, Unreadable) and left.fault.transient:
        left = await desk.store.leave(request)  # it is left once, however often it is sent
    known(left)


async def _settled(desk: Standalone, request: Request) -> Request:
    from sidecar.core.faults import Known
    from sidecar.core.request import RequestKind

    loop = asyncio.get_running_loop()
    end = loop.time() + WAIT_SECONDS
    while loop.time() < end:
        answer = (await desk.store.requests(desk.group, [request.partition]))[request.partition]
        for one in answer.value if isinstance(answer, Known) else ():
            if one.id == request.id and not one.pending:
                return one
        if request.kind is RequestKind.REPLAY and await _replaying(desk, request):
            return replace(request, detail="it has begun; `status` shows how far it is")
        await asyncio.sleep(LOOK_SECONDS)
    fail(
        f"{request.id} is kept and was not executed in {WAIT_SECONDS:g} s; the owner of "
        f"{request.partition} will execute it when it can: look at its state and the audit",
        TIMED_OUT,
    )


async def _replaying(desk: Standalone, request: Request) -> bool:
    """A replay is settled when it is done, which may take long: that it began is enough."""
    from sidecar.core.faults import Known

    reading = (await desk.store.read(desk.group, [request.partition]))[request.partition]
    replaying = reading.value.checkpoint.replaying if isinstance(reading, Known) else None
    return replaying is not None and replaying.request == request.id


async def resolve(
    desk: Standalone, gap: Gap, wanted: ResolveRequest, *, execute: bool
) -> tuple[Gap, Request | None]:
    """Decides a gap: by its owner if there is one or has to be, else here. The request, if one was
    left and is not done yet. A refusal ends the command."""
    from sidecar.core import resolution
    from sidecar.core.faults import Known
    from sidecar.core.request import RequestKind, resolve_arguments
    from sidecar.core.views import Refusal

    evidence = (await desk.look([gap.partition]))[gap.partition]
    planned = resolution.plan(evidence, wanted, desk.policy, gap_id=gap.id)
    if isinstance(planned, Refusal):
        refused(planned)
    if not execute:
        return planned.gap, None
    owned = known(await desk.group_members()).owner_of(gap.partition) is not None
    if owned or planned.unverified:
        settled = await ask(
            desk,
            gap.partition,
            RequestKind.RESOLVE,
            target=gap.id,
            by=wanted.by,
            why=wanted.why,
            arguments=resolve_arguments(wanted),
        )
        if settled.refusal is not None:
            refused(settled.refusal)
        kept = {one.id: one for one in known(await desk.gaps())}
        return kept.get(gap.id, planned.gap), settled if settled.pending else None
    assert isinstance(evidence.stored, Known)  # the plan rests on it
    await _install(desk, evidence.stored.value, planned, wanted)
    return planned.gap, None


async def _install(
    desk: Standalone, stored: Stored, planned: Settled, wanted: ResolveRequest
) -> None:
    from sidecar.core.checkpoint import Ambiguous, AnsweredBefore, Audit, Install, Installed, Lost
    from sidecar.core.types import AttemptId, OwnerId

    nobody = secrets.token_hex(6)
    install = Install(
        stored.checkpoint.expected,
        planned.checkpoint.succeed(owner=OwnerId(f"command-{nobody}")),
        AttemptId(f"command-{nobody}"),
        receipts_replaced=planned.history_ends,
        gaps=(planned.gap,),
        audit=(
            Audit(
                desk.now(),
                f"resolved with no owner: {wanted.resolution}",
                wanted.by,
                wanted.why,
                {"gap": planned.gap.id},
            ),
        ),
    )
    result = await desk.store.install(install)
    if isinstance(result, Ambiguous):
        result = await desk.store.install(install)  # the attempt is remembered
    match result:
        case Installed():
            return
        case Lost() | AnsweredBefore():
            fail("gap-changed: somebody else wrote to the partition meanwhile; look again")
        case _:
            fail(told(result.fault))


def request_document(request: Request) -> dict[str, Any]:
    from sidecar.api.messages import rfc3339

    return {
        "id": request.id,
        "topic": request.partition.topic,
        "partition": request.partition.index,
        "kind": request.kind.value,
        "target": request.target,
        "arguments": dict(request.arguments),
        "by": request.by,
        "why": request.why,
        "at": rfc3339(request.at),
        "state": request.state.value,
        "code": request.code,
        "detail": request.detail,
    }


def told_of(request: Request) -> str:
    if request.pending and not request.detail:
        return (
            f"kept as {request.id}, and not done yet: whoever has {request.partition}, or has it "
            "next, executes it; `status` shows it"
        )
    return request.detail or request.state.value


def change(
    where: dict[str, Any],
    partition: Partition,
    kind: RequestKind,
    *,
    by: str,
    why: str,
    arguments: Fields,
    execute: bool,
    output: str,
    shown: Callable[[Standalone], Any],
) -> None:
    """One request about one partition, from the command line to its answer. `shown` gives, and
    checks, what stands now and what would stand afterwards."""

    async def work(desk: Standalone) -> tuple[str, str, Request | None]:
        prior, new = await shown(desk)
        if not execute:
            return prior, new, None
        asked = await ask(desk, partition, kind, by=by, why=why, arguments=arguments)
        if asked.refusal is not None:
            refused(asked.refusal)
        return prior, new, asked

    prior, new, asked = at_desk(where, work)
    if output != "table":
        emit(
            {
                "executed": asked is not None,
                "prior": prior,
                "new": new,
                "request": None if asked is None else request_document(asked),
            },
            output,
        )
        return
    click.echo(f"{partition}: {prior} → {new}")
    click.echo(DRY_RUN if asked is None else told_of(asked))
