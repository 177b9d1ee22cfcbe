"""A group's registry, as the fields of one hash.

    format, store, head      which format, whose it is, and the rest that never changes, as JSON
    topic:NAME               the topic's id, or nothing
    partitions:NAME          how many partitions it has; `first:NAME` how many it had at first
    baseline:NAME/INDEX      the offset that a partition's history begins at
    started:NAME/INDEX       its first page was about to be offered

Fields of their own, because each is set once and by itself: registering a partition must not
rewrite what somebody else registered at the same moment.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sidecar.core.checkpoint import RegisteredTopic, Registry
from sidecar.core.types import GroupId, Offset, Partition, StoreId, TopicId
from sidecar.store.formats import check_format, decode, encode, number, text
from sidecar.store.keys import escape, parse_partition_field, partition_field, unescape
from sidecar.store.receipts import Malformed

REGISTRY_FORMAT = 1


class _Head(msgspec.Struct):
    """A registry's own facts; topics, baselines and the started are fields of their own."""

    format: int
    group: str
    created_at: float
    rebuilt: bool
    predecessors: tuple[str, ...]


_head_decoder = msgspec.json.Decoder(_Head)


def encode_registry(registry: Registry) -> list[str | bytes | int]:
    """Fields and values in turn."""
    fields: list[str | bytes | int] = [
        "format",
        REGISTRY_FORMAT,
        "store",
        registry.store,
        "head",
        encode(
            _Head(
                REGISTRY_FORMAT,
                registry.group,
                registry.created_at,
                registry.rebuilt,
                registry.predecessors,
            )
        ),
    ]
    for name, topic in registry.topics.items():
        fields += (f"topic:{escape(name)}", topic.topic_id or "")
        fields += (f"partitions:{escape(name)}", topic.partitions)
        fields += (f"first:{escape(name)}", topic.partitions_first)
    for partition, baseline in registry.baselines.items():
        fields += (f"baseline:{partition_field(partition)}", baseline)
    for partition in registry.started:
        fields += (f"started:{partition_field(partition)}", 1)
    return fields


def decode_registry(group: GroupId, fields: Mapping[bytes, bytes]) -> Registry:
    """Raises `NewerFormat` or `Malformed`."""
    check_format(
        number(fields.get(b"format"), "the registry's format"),
        REGISTRY_FORMAT,
        "the registry",
    )
    if b"head" not in fields or b"store" not in fields:
        raise Malformed("the registry lacks its head or its store")
    head = decode(_head_decoder, fields[b"head"], REGISTRY_FORMAT, "the registry")
    topics: dict[str, TopicId | None] = {}
    counts: dict[str, int] = {}
    firsts: dict[str, int] = {}
    baselines: dict[Partition, Offset] = {}
    started: set[Partition] = set()
    for name, value in fields.items():
        field = text(name, "a field of the registry")
        kind, _, rest = field.partition(":")
        try:
            match kind:
                case "topic":
                    topics[unescape(rest)] = TopicId(value.decode()) if value else None
                case "partitions":
                    counts[unescape(rest)] = int(value)
                case "first":
                    firsts[unescape(rest)] = int(value)
                case "baseline":
                    baselines[parse_partition_field(rest)] = Offset(int(value))
                case "started":
                    started.add(parse_partition_field(rest))
                case _:
                    pass
        except ValueError:
            raise Malformed(f"the registry's {field} cannot be read") from None
    return Registry(
        group=group,
        store=StoreId(text(fields[b"store"], "store")),
        created_at=head.created_at,
        rebuilt=head.rebuilt,
        predecessors=tuple(map(StoreId, head.predecessors)),
        topics={
            name: RegisteredTopic(
                topic_id, counts.get(name, 0), firsts.get(name, counts.get(name, 0))
            )
            for name, topic_id in topics.items()
        },
        baselines=baselines,
        started=frozenset(started),
    )


def partitions_of(registry: Registry) -> set[Partition]:
    found = {
        Partition(name, index)
        for name, topic in registry.topics.items()
        for index in range(topic.partitions)
    }
    return found | registry.baselines.keys() | registry.started
