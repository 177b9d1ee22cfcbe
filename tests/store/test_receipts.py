"""Receipts survive as bytes, cost little, and what cannot be read is refused by name."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.checkpoint import ReceiptRun
from sidecar.core.types import Digest, Offset, Outcome, Receipt
from sidecar.store.receipts import (
    Malformed,
    NewerFormat,
    decode_ahead,
    decode_run,
    encode_ahead,
    encode_run,
)
from tests.store.values import run

TERMINAL = [outcome for outcome in Outcome if outcome.terminal]
U64 = st.integers(0, 2**64 - 1)


@st.composite
def runs(draw: st.DrawFn) -> ReceiptRun:
    first = draw(st.integers(0, 2**53))
    steps = draw(
        st.lists(st.just(1) | st.integers(1, 300) | st.integers(1, 2**20) | st.integers(1, 2**40))
    )
    offsets = [first]
    for step in steps:
        offsets.append(offsets[-1] + step)
    count = len(offsets)
    digests = draw(st.lists(U64, min_size=count, max_size=count))
    outcomes = draw(
        st.sampled_from(TERMINAL)
        | st.lists(st.sampled_from(TERMINAL), min_size=count, max_size=count)
    )
    return ReceiptRun(offsets, digests, outcomes)


@given(runs())
def test_a_run_survives(original: ReceiptRun) -> None:
    blob = encode_run(original)
    assert list(decode_run(original.offsets[0], blob)) == list(original)


@given(runs(), st.data())
def test_bytes_that_are_cut_or_grown_are_refused(original: ReceiptRun, data: st.DataObject) -> None:
    """Never read as fewer or other receipts."""
    blob = encode_run(original)
    cut = data.draw(st.integers(0, len(blob) - 1))
    for spoiled in (blob[:cut], blob + b"\0"):
        with pytest.raises((Malformed, NewerFormat)):
            decode_run(original.offsets[0], spoiled)


@given(st.binary(max_size=64))
def test_noise_is_refused_or_read_but_never_crashes(noise: bytes) -> None:
    for decode in (decode_run, decode_ahead):
        with contextlib.suppress(Malformed, NewerFormat):
            decode(0, noise)


@given(U64, st.sampled_from(TERMINAL))
def test_a_receipt_ahead_survives(digest: int, outcome: Outcome) -> None:
    receipt = Receipt(Offset(7), Digest(digest), outcome)
    assert decode_ahead(7, encode_ahead(receipt)) == receipt


@pytest.mark.parametrize("byte", [0, 1])
def test_a_newer_format_or_digest_scheme_is_refused_by_name(byte: int) -> None:
    blob = bytearray(encode_run(run(0, 3)))
    ahead = bytearray(encode_ahead(next(iter(run(0, 1)))))
    blob[byte] = ahead[byte] = 2
    with pytest.raises(NewerFormat, match="this release reads up to 1"):
        decode_run(0, bytes(blob))
    with pytest.raises(NewerFormat, match="this release reads up to 1"):
        decode_ahead(0, bytes(ahead))


@pytest.mark.parametrize(
    "wrong",
    [
        ReceiptRun([], [], Outcome.APPLIED),
        ReceiptRun([1, 2], [1], Outcome.APPLIED),
        ReceiptRun([1, 2], [1, 2], [Outcome.APPLIED]),
        ReceiptRun([1, 1], [1, 2], Outcome.APPLIED),
        ReceiptRun([2, 1], [1, 2], Outcome.APPLIED),
        ReceiptRun([1, 3, 2, 4], [1, 2, 3, 4], Outcome.APPLIED),
        ReceiptRun([1], [1], Outcome.RETRY),
        ReceiptRun([1, 2], [1, 2], [Outcome.APPLIED, Outcome.RETRY]),
    ],
    ids=lambda wrong: f"{list(wrong.offsets)}-{wrong.outcomes}",
)
def test_what_is_no_run_of_receipts_is_not_written(wrong: ReceiptRun) -> None:
    with pytest.raises(ValueError, match=r"run|terminal"):
        encode_run(wrong)


@pytest.mark.parametrize(
    ("offsets", "bytes_each"),
    [(range(1000, 1500), 8.1), ([i + i // 9 for i in range(500)], 10.1)],
    ids=["consecutive", "with holes"],
)
def test_a_page_is_small_and_quickly_converted(
    offsets: range | list[int], bytes_each: float
) -> None:
    """The best of some tries, with room for a busy machine: 30 µs is the target on a quiet one."""
    page = ReceiptRun(list(offsets), [2**63 + i for i in range(500)], Outcome.APPLIED)
    blob = encode_run(page)
    assert len(blob) <= bytes_each * 500

    def best(work: object) -> float:
        assert callable(work)
        spent = []
        for _ in range(200):
            began = time.perf_counter()
            work()
            spent.append(time.perf_counter() - began)
        return min(spent)

    assert best(lambda: encode_run(page)) < 100e-6
    assert best(lambda: decode_run(page.offsets[0], blob)) < 100e-6
