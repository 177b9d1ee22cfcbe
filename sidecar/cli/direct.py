"""For commands that ask Redis and Kafka themselves: a desk, and how it is left when it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from sidecar.cli.options import fail, load_settings, refuse, settings_options

if TYPE_CHECKING:
    from sidecar.core.faults import Answer, Fault
    from sidecar.standalone import Standalone

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

QUESTION_SECONDS = 5.0

timeout_option = click.option(
    "--timeout",
    "timeout_seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=QUESTION_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for each answer.",
)


def direct_options(function: F) -> F:
    """The settings of the sidecar whose group it is about."""
    return settings_options(timeout_option(function))


def at_desk(where: dict[str, Any], work: Callable[[Standalone], Awaitable[T]]) -> T:
    """What `work` answers at a desk made from the options in `where`. Wrong settings are exit 2."""
    settings = load_settings(where["config"], where["flags"], where["client"])
    from sidecar.errors import SettingsError
    from sidecar.standalone import standalone

    async def run() -> T:
        async with standalone(settings, timeout_seconds=where["timeout_seconds"]) as desk:
            return await work(desk)

    try:
        return asyncio.run(run())
    except SettingsError as error:
        refuse(error)


def known(answer: Answer[T]) -> T:
    """The value, or the end of the command with what mends it."""
    from sidecar.core.faults import Known

    if isinstance(answer, Known):
        return answer.value
    unanswered(answer.fault)


def unanswered(fault: Fault) -> NoReturn:
    fail(told(fault))


def told(fault: Fault) -> str:
    from sidecar.standalone import mended_by

    return f"{fault.component}: {fault.detail} ({fault.code})\n  look at {mended_by(fault)}"
