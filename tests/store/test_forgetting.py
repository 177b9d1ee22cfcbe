"""Removing what is kept, on a real store: by comparison, and nothing of the neighbours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sidecar.core.checkpoint import Audit, Installed, RegisteredTopic
from sidecar.core.faults import ABSENT, Known
from sidecar.core.request import Request, RequestId, RequestKind
from sidecar.core.types import GroupId, Offset, Partition, StoreId, TopicId
from sidecar.store.connect import connect
from sidecar.store.redis import RedisStore
from tests.benches.names import Names
from tests.benches.redis import Valkey
from tests.store.values import STORE, T0, checkpoint, first, promotion, registry

ODD = Partition("or:ders}/50%", 1)
ENTRY = Audit(1.0, "forgot topics", "on-call", "retired")


@pytest.fixture
async def store(valkey: Valkey, names: Names) -> AsyncIterator[RedisStore]:
    made = RedisStore(connect(valkey.url), names.prefix)
    yield made
    await made.close()


async def test_a_partition_is_forgotten_only_as_it_was_shown(
    store: RedisStore, names: Names, valkey: Valkey
) -> None:
    """Another generation by now: nothing is removed. The same: no key is left. Again: done."""
    group = GroupId(names.group())
    shown = checkpoint(group, next=5, generation=1)
    assert await store.install(first(shown)) == Installed()
    promoted = promotion(shown, 3)
    assert await store.install(promoted) == Installed()
    newer = promoted.checkpoint
    asked = Request(
        *(RequestId("asked"), group, T0, RequestKind.PAUSE, "", "on-call", "a test", 1.0)
    )
    assert isinstance(await store.leave(asked), Known)
    assert await store.forget_partition(group, T0, shown.expected) == Known(False)
    assert await store.forget_partition(group, T0, None) == Known(False)
    assert isinstance((await store.read(group, [T0]))[T0], Known)
    assert await store.forget_partition(group, T0, newer.expected) == Known(True)
    assert (await store.read(group, [T0]))[T0] == ABSENT
    kept: Any = valkey.client().keys(f"{names.prefix}:*/*")
    assert kept == []
    assert await store.forget_partition(group, T0, None) == Known(True)


async def test_topics_leave_the_registry_whole_whatever_their_names(
    store: RedisStore, names: Names
) -> None:
    """A topic whose name is another's beginning, or holds what separates keys, is told apart."""
    group = GroupId(names.group())
    await store.create_registry(registry(group))
    others = {ODD.topic: 2, "orders-2": 1}
    added = {name: RegisteredTopic(TopicId(name[:2]), n, n) for name, n in others.items()}
    baselines = {ODD: Offset(3), Partition("orders-2", 0): Offset(4)}
    await store.register(group, STORE, added, baselines, seen={})
    await store.mark_started(group, STORE, [ODD, Partition("orders-2", 0)])
    assert await store.forget_topics(group, STORE, ["orders", ODD.topic], ENTRY) == Known(True)
    left = await store.registry(group)
    assert isinstance(left, Known)
    assert set(left.value.topics) == {"orders-2"}
    assert set(left.value.baselines) == set(left.value.started) == {Partition("orders-2", 0)}
    assert await store.group_audit(group) == Known([ENTRY])
    assert await store.partitions(group) == Known([Partition("orders-2", 0)])


async def test_another_stores_registry_is_left_alone(store: RedisStore, names: Names) -> None:
    """False, and nothing removed; the right one's goes, with its place among the groups."""
    group = GroupId(names.group())
    await store.create_registry(registry(group))
    assert await store.forget_group(group, StoreId("another")) == Known(False)
    assert await store.groups() == Known([group])
    assert await store.forget_group(group, STORE) == Known(True)
    assert await store.registry(group) == ABSENT
    assert await store.groups() == Known([])
