"""A record's canonical frame, and the 64-bit digest that a receipt remembers of it.

The frame exists so that "the same record" has one meaning that never depends on a client's version
or a process's mood: two records have the same frame exactly when timestamp, key, value and headers
are equal. Every variable part is preceded by its length, so no part can pass for another; null has
a length of its own (−1), so null, empty and absent differ; headers stand in the order they were
written, duplicates included. Offset, partition and topic are not part of it: they say where the
record is, not what it is, and a record must be recognised after a move to another cluster.

Scheme 1 (`sidecar.core.types.DIGEST_SCHEME`), all integers little-endian:

    byte      size  field
    0         8     timestamp in milliseconds, signed; −1: none (Kafka itself writes −1 for none)
    8         4     length of the key, signed; −1: null
    12        4     length of the value, signed; −1: null (a tombstone)
    16        4     number of headers, signed; 0: none
    20        k     key
    20+k      v     value
    then, for each header in order:
    +0        4     length of the name in UTF-8, signed
    +4        4     length of the value, signed; −1: null
    +8        n     name
    +8+n      m     value

Kafka's record format has no "no headers" beside "zero headers", so `None` and `[]` are one frame.

The digest is XXH3-64 of the frame, seed 0. It is no cryptographic hash: it recognises a replay and
a diverged log, and does not defend against somebody who forges records on purpose.

This is the hottest code of the project, so it is written for the interpreter: one comprehension,
no call per record but the two that compute. Rejected: a streaming hash fed part by part (three
more calls a record, twice the time), `b"".join` (no faster than `+` at three parts).
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from xxhash import xxh3_64_intdigest

from sidecar.core.types import Digest, Headers, Record

_HEAD = Struct("<qiii").pack
_HEADER = Struct("<ii").pack


def frame(record: Record) -> bytes:
    """The canonical frame of one record."""
    timestamp, key, value, headers = record
    parts = [
        _HEAD(
            -1 if timestamp is None else timestamp,
            -1 if key is None else len(key),
            -1 if value is None else len(value),
            len(headers) if headers else 0,
        ),
        key or b"",
        value or b"",
    ]
    for name, content in headers or ():
        encoded = name.encode()
        parts.append(_HEADER(len(encoded), -1 if content is None else len(content)))
        parts.append(encoded)
        parts.append(content or b"")
    return b"".join(parts)


def digest(record: Record) -> Digest:
    return Digest(xxh3_64_intdigest(frame(record)))


def digests(records: Iterable[Record]) -> list[int]:
    """The digest of each record: `digest`, unrolled for records without headers."""
    pack, xxh3 = _HEAD, xxh3_64_intdigest
    return [
        xxh3(frame((timestamp, key, value, headers)))
        if headers
        else xxh3(
            pack(
                -1 if timestamp is None else timestamp,
                -1 if key is None else len(key),
                -1 if value is None else len(value),
                0,
            )
            + (key or b"")
            + (value or b"")
        )
        for timestamp, key, value, headers in records
    ]


def sizes(records: Iterable[Record]) -> list[int]:
    """Bytes of key, value and headers of each record."""
    return [
        (len(key) if key else 0)
        + (len(value) if value else 0)
        + (_headers_bytes(headers) if headers else 0)
        for _, key, value, headers in records
    ]


def _headers_bytes(headers: Headers) -> int:
    return sum(len(name.encode()) + len(content or b"") for name, content in headers)
