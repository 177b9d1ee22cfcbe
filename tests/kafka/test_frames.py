"""The frame tells records apart, and the digest is what it says."""

import struct
import time

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.types import DIGEST_SCHEME, Record
from sidecar.kafka.frames import digest, digests, frame, sizes

_bytes = st.none() | st.binary(max_size=12)
_headers = st.lists(st.tuples(st.text(max_size=4), _bytes), min_size=1, max_size=3)
_records: st.SearchStrategy[Record] = st.tuples(
    st.none() | st.integers(0, 2**62), _bytes, _bytes, st.none() | _headers
)


@given(_records, _records)
def test_distinct_records_have_distinct_frames(one: Record, two: Record) -> None:
    """Injective: equal frames mean equal records, and the other way round."""
    assert (frame(one) == frame(two)) == (one == two)


@given(st.lists(_records, max_size=8))
def test_the_fast_way_and_the_plain_way_agree(records: list[Record]) -> None:
    assert digests(records) == [digest(record) for record in records]
    assert digests(records) == [xxhash.xxh3_64_intdigest(frame(r)) for r in records]


@given(st.lists(_records, max_size=8))
def test_a_size_counts_key_value_and_headers(records: list[Record]) -> None:
    assert sizes(records) == [
        len(key or b"")
        + len(value or b"")
        + sum(len(name.encode()) + len(content or b"") for name, content in headers or ())
        for _, key, value, headers in records
    ]


VARIANTS: dict[str, Record] = {
    "plain": (5, b"k", b"v", None),
    "no timestamp": (None, b"k", b"v", None),
    "timestamp zero": (0, b"k", b"v", None),
    "null key": (5, None, b"v", None),
    "empty key": (5, b"", b"v", None),
    "tombstone": (5, b"k", None, None),
    "empty value": (5, b"k", b"", None),
    "moved boundary": (5, b"kv", b"", None),
    "moved back": (5, b"", b"kv", None),
    "header": (5, b"k", b"v", [("a", b"1")]),
    "null header": (5, b"k", b"v", [("a", None)]),
    "empty header": (5, b"k", b"v", [("a", b"")]),
    "nameless header": (5, b"k", b"v", [("", b"1")]),
    "twice": (5, b"k", b"v", [("a", b"1"), ("a", b"1")]),
    "in order": (5, b"k", b"v", [("a", b"1"), ("b", b"2")]),
    "out of order": (5, b"k", b"v", [("b", b"2"), ("a", b"1")]),
    "header in value": (5, b"k", b"va1", None),
}


def test_null_empty_and_absent_differ() -> None:
    """Every variant of one record has a digest of its own."""
    seen = {digest(record): name for name, record in VARIANTS.items()}
    assert len(seen) == len(VARIANTS)


def test_no_headers_and_zero_headers_are_one_record() -> None:
    """Kafka's format cannot tell them apart, so a client that says it otherwise changes nothing."""
    assert frame((5, b"k", b"v", None)) == frame((5, b"k", b"v", []))


def test_scheme_1_is_laid_out_as_documented() -> None:
    """The bytes are a promise to every receipt that was written: this test is never changed, a new
    scheme gets its own."""
    assert DIGEST_SCHEME == 1
    record: Record = (1_764_495_600_000, b"key", None, [("hé", b"x"), ("n", None)])
    expected = (
        struct.pack("<q", 1_764_495_600_000)
        + struct.pack("<iii", 3, -1, 2)
        + b"key"
        + struct.pack("<ii", 3, 1)
        + "hé".encode()
        + b"x"
        + struct.pack("<ii", 1, -1)
        + b"n"
    )
    assert frame(record) == expected
    assert frame((None, None, None, None)) == struct.pack("<qiii", -1, -1, -1, 0)
    assert digest((None, None, None, None)) == 0xC4AE9EF8E06A3843
    assert digest(record) == 0xF2AD95306E3097BE


@pytest.mark.slow
def test_a_digest_costs_little() -> None:
    """Far below 0.6 µs at 100 bytes without headers; generous, for a loaded machine."""
    records: list[Record] = [(n, b"k%07d" % n, b"x" * 100, None) for n in range(1000)]
    best = float("inf")
    for _ in range(20):
        started = time.perf_counter()
        digests(records)
        best = min(best, time.perf_counter() - started)
    assert best / len(records) < 1.5e-6
