"""Receipts as bytes: a run is one blob, so that a receipt costs about eight bytes of Redis memory.

A blob of format 1, little-endian throughout:

    byte 0     format of the blob
    byte 1     scheme of the digests (which frame, which hash: `sidecar.kafka.frames`)
    byte 2     how offsets are written: 0 not at all (they are consecutive), else the width in
               bytes of the differences between neighbours (2, 4 or 8)
    byte 3     the outcome of all, or 0: a byte for each follows at the end
    4 .. 8     number of receipts
    then       the digests, 8 bytes each; the differences; the outcomes

The first offset is not repeated: it is the id of the stream entry that carries the blob. Nearly
every page is consecutive and has one outcome, so that nearly every blob is its digests.

Speed matters, since this happens for every page: whole columns are converted by `array`, never
record by record. Rejected: a hash or sorted set with a field for each receipt (60 to 90 bytes
each); compression (digests are noise).
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from operator import sub

from sidecar.core.checkpoint import ReceiptRun
from sidecar.core.types import DIGEST_SCHEME, Digest, Offset, Outcome, Receipt

RECEIPTS_FORMAT = 1

_CODES = {
    Outcome.APPLIED: 1,
    Outcome.DUPLICATE: 2,
    Outcome.DEAD_LETTERED: 3,
    Outcome.DROPPED: 4,
}
_OUTCOMES = {code: outcome for outcome, code in _CODES.items()}
_EACH = 0
_HEADER = struct.Struct("<BBBBI")
_AHEAD = struct.Struct("<BBBQ")
_TYPES = {2: "H", 4: "I", 8: "Q"}
_SWAP = sys.byteorder == "big"


class NewerFormat(ValueError):
    """Written by a release that knows more than this one."""


class Malformed(ValueError):
    """Not what any release writes."""


def encode_run(run: ReceiptRun) -> bytes:
    """Raises `ValueError` when offsets do not rise, or an outcome is not terminal."""
    offsets, count = run.offsets, len(run.offsets)
    if count == 0 or len(run.digests) != count:
        raise ValueError("a run has at least one receipt, and a digest for each")
    width, gaps = _differences(offsets, count)
    outcomes = run.outcomes
    if isinstance(outcomes, Outcome):
        code, each = _code(outcomes), b""
    elif len(outcomes) != count:
        raise ValueError("a run has one outcome for all, or one for each")
    elif outcomes.count(outcomes[0]) == count:
        code, each = _code(outcomes[0]), b""
    else:
        code, each = _EACH, bytes(map(_code, outcomes))
    digests = array("Q", run.digests)
    if _SWAP:
        digests.byteswap()
    return b"".join(
        (
            _HEADER.pack(RECEIPTS_FORMAT, DIGEST_SCHEME, width, code, count),
            digests.tobytes(),
            gaps,
            each,
        )
    )


def decode_run(first: int, blob: bytes) -> ReceiptRun:
    """Raises `NewerFormat` or `Malformed`. Consecutive offsets come back as a `range`."""
    try:
        version, scheme, width, code, count = _HEADER.unpack_from(blob)
    except struct.error:
        raise Malformed("a run of receipts is too short to be one") from None
    _check_format(version, scheme)
    digests_end = _HEADER.size + 8 * count
    offsets_end = digests_end + width * (count - 1)
    end = offsets_end + (count if code == _EACH else 0)
    if count == 0 or len(blob) != end or width not in (0, 2, 4, 8):
        raise Malformed(f"a run of receipts at {first} has {len(blob)} bytes, not {end}")
    digests = _array("Q", blob[_HEADER.size : digests_end])
    offsets: Sequence[int]
    if width == 0:
        offsets = range(first, first + count)
    else:
        differences = _array(_TYPES[width], blob[digests_end:offsets_end])
        offsets = list(accumulate(chain((first,), differences)))
    try:
        outcomes: Outcome | Sequence[Outcome] = (
            [_OUTCOMES[c] for c in blob[offsets_end:]] if code == _EACH else _OUTCOMES[code]
        )
    except KeyError as unknown:
        raise Malformed(f"a run of receipts at {first} has an outcome {unknown}") from None
    return ReceiptRun(offsets, digests, outcomes)


def encode_ahead(receipt: Receipt) -> bytes:
    """One receipt beyond the applied position: format, scheme, outcome, digest."""
    return _AHEAD.pack(RECEIPTS_FORMAT, DIGEST_SCHEME, _code(receipt.outcome), receipt.digest)


def decode_ahead(offset: int, value: bytes) -> Receipt:
    """Raises `NewerFormat` or `Malformed`."""
    if len(value) < 2:
        raise Malformed(f"the receipt ahead at {offset} is too short to be one")
    _check_format(value[0], value[1])
    try:
        _, _, code, digest = _AHEAD.unpack(value)
        return Receipt(Offset(offset), Digest(digest), _OUTCOMES[code])
    except (struct.error, KeyError):
        raise Malformed(f"the receipt ahead at {offset} cannot be read") from None


def _differences(offsets: Sequence[int], count: int) -> tuple[int, bytes]:
    first = offsets[0]
    if isinstance(offsets, range):
        if offsets.step == 1:
            return 0, b""
    elif offsets[-1] - first == count - 1 and list(range(first, first + count)) == (
        offsets if type(offsets) is list else list(offsets)
    ):
        return 0, b""
    for width, kind in _TYPES.items():
        try:
            column = array(kind, map(sub, offsets[1:], offsets))
        except OverflowError:  # too wide, or negative
            continue
        if 0 in column:
            break
        if _SWAP:
            column.byteswap()
        return width, column.tobytes()
    raise ValueError("offsets of a run rise")


def _array(kind: str, data: bytes) -> array[int]:
    column = array(kind)
    column.frombytes(data)
    if _SWAP:
        column.byteswap()
    return column


def _code(outcome: Outcome) -> int:
    try:
        return _CODES[outcome]
    except KeyError:
        raise ValueError(f"{outcome} is not terminal: it has no receipt") from None


def _check_format(version: int, scheme: int) -> None:
    if version > RECEIPTS_FORMAT or scheme > DIGEST_SCHEME:
        raise NewerFormat(
            f"receipts are written in format {version}, digest scheme {scheme};"
            f" this release reads up to {RECEIPTS_FORMAT} and {DIGEST_SCHEME}"
        )
    if version < 1 or scheme < 1:
        raise Malformed(f"receipts of format {version}, digest scheme {scheme}")
