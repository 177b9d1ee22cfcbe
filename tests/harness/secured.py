"""A world whose broker asks who is there, and what he may do."""

from collections.abc import Sequence

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without __all__
    AclOperation,
    ResourceType,
)

from tests.benches.kafka import SecureKafka
from tests.harness.sidecar import SidecarProcess
from tests.harness.world import World

READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE


class SecuredWorld(World):
    """Its sidecars sign in as `user`, who may do what was granted, and at first nothing."""

    user, password, mechanism = "app", "apppw", "PLAIN"
    kafka: SecureKafka

    def sidecar(
        self,
        topics: Sequence[str] = (),
        *,
        start: bool = True,
        static: bool = False,
        **settings: object,
    ) -> SidecarProcess:
        login = {
            "KAFKA__SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "KAFKA__SASL_MECHANISM": self.mechanism,
            "KAFKA__SASL_USERNAME": self.user,
            "KAFKA__SASL_PASSWORD": self.password,
        }
        return super().sidecar(topics, start=start, static=static, **{**login, **settings})

    def grant_topic(self, topic: str, *operations: AclOperation) -> None:
        self.kafka.grant(ResourceType.TOPIC, topic, *operations, user=self.user)

    def revoke_topic(self, topic: str, *operations: AclOperation) -> None:
        self.kafka.revoke(ResourceType.TOPIC, topic, *operations, user=self.user)

    def grant_group(self, *operations: AclOperation) -> None:
        self.kafka.grant(ResourceType.GROUP, self.group, *operations, user=self.user)

    def revoke_group(self, *operations: AclOperation) -> None:
        self.kafka.revoke(ResourceType.GROUP, self.group, *operations, user=self.user)
