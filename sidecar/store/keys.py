"""Names of keys.

    PREFIX:{GROUP/TOPIC/INDEX}:checkpoint   hash     the checkpoint
    PREFIX:{GROUP/TOPIC/INDEX}:receipts     stream   one entry a run of receipts
    PREFIX:{GROUP/TOPIC/INDEX}:ahead        hash     receipts beyond the applied position
    PREFIX:{GROUP/TOPIC/INDEX}:gaps         hash     gaps by id, and what people added to them
    PREFIX:{GROUP/TOPIC/INDEX}:audit        stream   who did what, the newest thousand
    PREFIX:{GROUP/TOPIC/INDEX}:history      list     the newest attempts
    PREFIX:{GROUP/TOPIC/INDEX}:requests     hash     what people ask for, by id, and the answers
    PREFIX:{GROUP}:registry                 hash     what is known of the group as a whole
    PREFIX:{GROUP}:partitions               set      which partitions have keys
    PREFIX:{GROUP}:audit                    stream   who did what to the group as a whole
    PREFIX:groups                           set      which groups have a registry

What stands in braces is the hash tag: in Redis Cluster all keys of one partition live in one slot,
so that one script may change them together. Group and topic are percent-encoded, since Kafka
allows any character in a group's name: a `}` would end the tag early and spread a partition over
several slots, a `/` or `:` could make two groups meet in one key. A name never holds an encoded
slash, so the tag of a group and the tag of a partition cannot be the same either.

Rejected: one tag for a whole group. It would make the registry and the checkpoints atomic
together, and put the load of a group on one node of a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, unquote

from sidecar.core.types import GroupId, Partition

KEYS_FORMAT = 1
"""Raised when keys are named differently; it is part of no key, since a prefix can be changed."""


def escape(name: str) -> str:
    """Letters, digits and `-._~` stay; everything else becomes %XX of its UTF-8."""
    return quote(name, safe="", errors="surrogatepass")


def unescape(name: str) -> str:
    """Raises `ValueError` for what `escape` does not write."""
    return unquote(name, errors="surrogatepass")


def partition_field(partition: Partition) -> str:
    """A partition inside a group's keys: `TOPIC/INDEX`."""
    return f"{escape(partition.topic)}/{partition.index}"


def parse_partition_field(field: str) -> Partition:
    """Raises `ValueError` for what is none."""
    topic, slash, index = field.rpartition("/")
    if not slash or not topic or not (index.isascii() and index.isdigit()):
        raise ValueError(f"not a partition: {field[:80]!r}")
    return Partition(unescape(topic), int(index))


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    checkpoint: bytes
    receipts: bytes
    ahead: bytes
    gaps: bytes
    audit: bytes
    history: bytes
    requests: bytes


@dataclass(frozen=True, slots=True)
class GroupKeys:
    registry: bytes
    partitions: bytes
    audit: bytes


@lru_cache(maxsize=16_384)
def partition_keys(prefix: str, group: GroupId, partition: Partition) -> PartitionKeys:
    tag = f"{prefix}:{{{escape(group)}/{partition_field(partition)}}}:"
    names = ("checkpoint", "receipts", "ahead", "gaps", "audit", "history", "requests")
    return PartitionKeys(*((tag + name).encode() for name in names))


@lru_cache(maxsize=256)
def group_keys(prefix: str, group: GroupId) -> GroupKeys:
    tag = f"{prefix}:{{{escape(group)}}}:"
    return GroupKeys(*((tag + name).encode() for name in ("registry", "partitions", "audit")))


def groups_key(prefix: str) -> bytes:
    return f"{prefix}:groups".encode()


def checked_prefix(prefix: str) -> str:
    """The prefix, if it cannot spoil the hash tag. Raises `ValueError`."""
    if not prefix or any(c in "{}" or c.isspace() or not c.isprintable() for c in prefix):
        raise ValueError("a key prefix needs at least one character, and no braces or blanks")
    return prefix
