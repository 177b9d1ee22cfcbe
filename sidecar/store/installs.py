"""An `Install` as the arguments of its script, and the script's answer as a result."""

from __future__ import annotations

from typing import Any

from sidecar.core.checkpoint import (
    AnsweredBefore,
    Expected,
    Install,
    Installed,
    InstallResult,
    Lost,
)
from sidecar.core.faults import Component, Fault, FaultKind
from sidecar.core.request import RequestId
from sidecar.errors import InvariantBroken
from sidecar.store import formats
from sidecar.store.connections import Reply
from sidecar.store.faults import StoreFailed, refused
from sidecar.store.formats import EXACT_MAX
from sidecar.store.gaps import encode_gap
from sidecar.store.receipts import Malformed, NewerFormat, encode_ahead, encode_run
from sidecar.store.requests import encode_request
from sidecar.store.scripts import Code


def install_words(
    install: Install, *, retained: tuple[str, str], waiting: bool
) -> list[str | bytes | int]:
    """ARGV of the script. `waiting`: replicas are waited for, so that it always writes."""
    new, expected = install.checkpoint, install.expected
    token = new.token
    _check_install(install)
    words: list[str | bytes | int] = [install.attempt, *expected_words(expected)]
    words += (
        token.next,
        "" if token.epoch is None else token.epoch,
        new.generation,
        new.owner,
        new.horizon,
    )
    if install.body or expected is None:
        words += (formats.encode_body(new), new.gap or "")
    else:
        words += ("", "")
    words += retained
    words.append(("r" if install.receipts_replaced else "") + ("w" if waiting else ""))
    words.append(len(install.receipts))
    for run in install.receipts:
        words += (run.offsets[0], len(run.offsets), run.offsets[-1], encode_run(run))
    words.append(len(install.ahead))
    for receipt in install.ahead:
        words += (receipt.offset, encode_ahead(receipt))
    words.append(len(install.ahead_done))
    words += install.ahead_done
    words.append(len(install.gaps))
    for gap in install.gaps:
        words += (gap.id, encode_gap(gap))
    words.append(len(install.audit))
    for entry in install.audit:
        words.append(formats.encode_audit(entry))
    words.append(len(install.requests))
    for request in install.requests:
        words += (request.id, encode_request(request))
    return words


def expected_words(expected: Expected | None) -> tuple[str | int, ...]:
    """What must stand there: next, epoch, generation, owner; all '' for nothing."""
    if expected is None:
        return ("", "", "", "")
    token = expected.token
    epoch = "" if token.epoch is None else token.epoch
    return (token.next, epoch, expected.generation, expected.owner)


def install_result(reply: Reply) -> InstallResult:
    match code_of(reply):
        case Code.INSTALLED | Code.INSTALLED_BEFORE as code:
            return Installed(earlier=code is Code.INSTALLED_BEFORE)
        case Code.LOST:
            return Lost(formats.decode_checkpoint(reply[1:]) if len(reply) > 1 else None)
        case Code.FORMAT_NEWER:
            raise NewerFormat(f"the checkpoint is written in format {shown(reply[1])}")
        case Code.CORRUPT:
            raise Malformed("there is a checkpoint without a generation")
        case Code.DENIED:
            raise denied(reply)
        case Code.MISPLACED:
            raise misplaced(reply)
        case Code.DISORDERED:
            raise refused(
                "DISORDERED", f"receipts do not follow upon those kept ({shown(reply[1])})"
            )
        case Code.STANDS:
            return AnsweredBefore(RequestId(reply[1].decode()))
        case Code.CHANGED | Code.FULL:
            raise InvariantBroken("script_codes", f"install answered {reply!r}")


def _check_install(install: Install) -> None:
    """What no caller may ask for is a bug; what cannot be kept exactly is refused."""
    new, expected = install.checkpoint, install.expected
    if expected is not None and new.generation <= expected.generation:
        raise InvariantBroken("generation_rises", f"{expected.generation} to {new.generation}")
    if " " in install.attempt or not install.attempt:
        raise InvariantBroken("attempt_is_one_word", repr(install.attempt))
    last = -1
    for run in install.receipts:
        if run.offsets[0] <= last:
            raise InvariantBroken("receipts_rise", f"{run.offsets[0]} after {last}")
        last = run.offsets[-1]
    if max(new.token.next, new.generation, new.horizon, last) > EXACT_MAX:
        raise refused("TOO_LARGE", f"offsets and generations end at {EXACT_MAX}")


def misplaced(reply: Reply) -> StoreFailed:
    return refused("WRONGTYPE", f"{shown(reply[1])} holds a {shown(reply[2])}")


def denied(reply: Reply) -> StoreFailed:
    return StoreFailed(
        Fault(
            Component.REDIS,
            FaultKind.AUTHORIZATION,
            "NOPERM",
            f"the right to {shown(reply[1])} is missing",
        ),
        False,
    )


def code_of(reply: Reply) -> Code:
    return Code(reply[0] if isinstance(reply, list) else reply)


def shown(value: Any) -> str:
    return value.decode(errors="replace")[:80] if isinstance(value, bytes) else str(value)
