"""Any name that Kafka allows, and then some, is a key of its own in one slot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from sidecar.core.types import GroupId, Partition
from sidecar.store.keys import (
    checked_prefix,
    escape,
    group_keys,
    groups_key,
    parse_partition_field,
    partition_field,
    partition_keys,
)

NAMES = st.text(st.characters(), min_size=1) | st.sampled_from(
    ["{", "}", "{}", "a}b", "%7B", "a/0", "a:b", " ", "\x00", "ü", "\ud800", "*?[x]"]
)
PARTITIONS = st.builds(Partition, NAMES, st.integers(0, 2**31))


def all_keys(group: str, partition: Partition) -> list[bytes]:
    keys = partition_keys("p", GroupId(group), partition)
    return [
        *(keys.checkpoint, keys.receipts, keys.ahead, keys.gaps),
        *(keys.audit, keys.history, keys.requests),
    ]


@given(NAMES, PARTITIONS)
def test_all_keys_of_a_partition_share_one_slot(group: str, partition: Partition) -> None:
    """Whatever the names are: the hash tag is neither ended early nor empty."""
    keys = all_keys(group, partition)
    assert len({*keys}) == 7
    assert len({*map(key_slot, keys)}) == 1
    for key in keys:
        assert key.count(b"{") == key.count(b"}") == 1


@given(NAMES, PARTITIONS, NAMES, PARTITIONS)
def test_no_two_partitions_share_a_key(
    group: str, partition: Partition, other_group: str, other: Partition
) -> None:
    """Nor does a partition's key equal one of a group."""
    groups = group_keys("p", GroupId(group))
    others = group_keys("p", GroupId(other_group))
    mine, theirs = {*all_keys(group, partition)}, {*all_keys(other_group, other)}
    same = (group, partition) == (other_group, other)
    assert (mine == theirs) if same else not (mine & theirs)
    of_groups = {groups.registry, groups.partitions, others.registry, others.partitions}
    assert not mine & {*of_groups, groups_key("p")}


@given(PARTITIONS)
def test_a_partition_is_read_back_from_its_field(partition: Partition) -> None:
    assert parse_partition_field(partition_field(partition)) == partition


@pytest.mark.parametrize("field", ["", "t", "/1", "t/", "t/x", "t/-1", "t/²"])
def test_a_field_that_is_no_partition_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match="not a partition"):
        parse_partition_field(field)


def test_ordinary_names_stay_readable() -> None:
    assert escape("orders.v2-eu_west~1") == "orders.v2-eu_west~1"
    keys = partition_keys("cursor-sidecar", GroupId("billing"), Partition("orders", 3))
    assert keys.checkpoint == b"cursor-sidecar:{billing/orders/3}:checkpoint"


@pytest.mark.parametrize("prefix", ["", "a{b", "a}b", "a b", "a\n"])
def test_a_prefix_that_would_spoil_the_tag_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        checked_prefix(prefix)
