"""Who is in the group, as its coordinator describes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sidecar.core.types import Partition


@dataclass(frozen=True, slots=True)
class GroupMember:
    """`id` is Kafka's; `instance` the name of a static member; `host` as the broker saw it."""

    id: str
    client: str
    host: str
    instance: str | None
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """`state` is Kafka's word in lower case: `stable`, `empty`, `dead`, a rebalance."""

    state: str
    members: tuple[GroupMember, ...]

    def owner_of(self, partition: Partition) -> GroupMember | None:
        return next((one for one in self.members if partition in one.partitions), None)


def group_members(description: Any) -> GroupMembers:
    """From librdkafka's description."""
    return GroupMembers(
        description.state.name.lower(),
        tuple(
            GroupMember(
                member.member_id,
                member.client_id,
                member.host.removeprefix("/"),
                member.group_instance_id,
                tuple(
                    sorted(
                        Partition(element.topic, element.partition)
                        for element in member.assignment.topic_partitions
                    )
                ),
            )
            for member in description.members
        ),
    )
