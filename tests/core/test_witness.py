"""What a commit's metadata testifies, and whose it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.types import (
    DIGEST_SCHEME,
    Digest,
    GapId,
    GapReason,
    GroupId,
    Interval,
    Lineage,
    Offset,
    Partition,
)
from sidecar.core.witness import (
    METADATA_CHARACTERS_MAX,
    Foreign,
    NewerFormat,
    Ours,
    WitnessGap,
    decode,
    encode,
)
from tests.core.situations import GROUP, PARTITION, witness

offsets = st.integers(0, 2**53).map(Offset)
digests = st.integers(0, 2**64 - 1).map(Digest)
tails = st.lists(st.tuples(offsets, digests), max_size=8).map(tuple)


@given(tail=tails, next_=offsets, topic=st.text(min_size=1, max_size=20))
def test_it_comes_back_whole(
    tail: tuple[tuple[Offset, Digest], ...], next_: Offset, topic: str
) -> None:
    partition = Partition(topic, 3)
    made = replace(witness(), tail=tail, next=next_, partition=partition)
    text = encode(made)
    assert decode(text, group=GROUP, partition=partition, committed=next_) == Ours(made)
    assert text.isascii()


def test_eight_digests_take_about_a_thousand_characters() -> None:
    tail = tuple((Offset(10**12 + i), Digest(2**64 - 1 - i)) for i in range(8))
    gap = WitnessGap(GapId("a" * 20), GapReason.RETENTION_LOSS, Interval(Offset(1), None))
    assert len(encode(replace(witness(), tail=tail, gap=gap))) <= 1000


def test_digests_are_dropped_oldest_first_until_it_fits() -> None:
    tail = tuple((Offset(10**12 + i), Digest(2**64 - 1 - i)) for i in range(500))
    text = encode(replace(witness(), tail=tail))
    assert len(text) <= METADATA_CHARACTERS_MAX
    read = decode(text, group=GROUP, partition=PARTITION, committed=witness().next)
    assert isinstance(read, Ours)
    assert 0 < len(read.witness.tail) < 500
    assert read.witness.tail == tail[-len(read.witness.tail) :]


def test_the_newest_lineages_are_kept() -> None:
    lines = tuple(Lineage(n, Offset(n)) for n in range(100))
    text = encode(replace(witness(), lineages=lines))
    read = decode(text, group=GROUP, partition=PARTITION, committed=witness().next)
    assert isinstance(read, Ours)
    assert read.witness.lineages == lines[-16:]


@pytest.mark.parametrize(
    ("text", "committed"),
    [
        (None, 100),
        ("", 100),
        ("deployed by hand", 100),
        (encode(witness())[:-1], 100),
        (encode(witness()).replace('"o":100', '"o":101'), 101),
        (encode(witness()), 99),
        ("csw1:00000000:{}", 100),
    ],
)
def test_what_is_not_ours_is_foreign(text: str | None, committed: int) -> None:
    """No witness, somebody's text, a damaged one, or one that does not fit its offset."""
    read = decode(text, group=GROUP, partition=PARTITION, committed=Offset(committed))
    assert isinstance(read, Foreign)


def test_another_group_or_partition_is_foreign() -> None:
    text = encode(witness())
    at = witness().next
    assert isinstance(decode(text, group=GroupId("x"), partition=PARTITION, committed=at), Foreign)
    other = Partition("orders", 1)
    assert isinstance(decode(text, group=GROUP, partition=other, committed=at), Foreign)


def test_a_later_format_is_not_ours_to_overwrite() -> None:
    body = encode(witness()).split(":", 1)[1]
    read = decode(f"csw2:{body}", group=GROUP, partition=PARTITION, committed=witness().next)
    assert read == NewerFormat("csw2")


def test_digests_of_another_scheme_are_never_compared() -> None:
    """A later scheme is not ours to overwrite; an earlier one leaves nothing to compare with."""
    later = encode(replace(witness(), digest_scheme=DIGEST_SCHEME + 1))
    at = witness().next
    read = decode(later, group=GROUP, partition=PARTITION, committed=at)
    assert read == NewerFormat(f"csw1, digests of scheme {DIGEST_SCHEME + 1}")
    earlier = encode(replace(witness(), digest_scheme=DIGEST_SCHEME - 1))
    known = decode(earlier, group=GROUP, partition=PARTITION, committed=at)
    assert isinstance(known, Ours)
    assert known.witness.tail == ()


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    assert not isinstance(
        decode(text, group=GROUP, partition=PARTITION, committed=Offset(100)), Ours
    )
