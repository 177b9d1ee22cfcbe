"""Worlds: a real broker, a real store, and whatever sidecars a test starts on them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.benches.kafka import KafkaBroker, SecureKafka
from tests.benches.names import Names
from tests.benches.redis import Valkey
from tests.harness.secured import SecuredWorld
from tests.harness.world import World


@pytest.fixture
def world(kafka: KafkaBroker, valkey: Valkey, names: Names, tmp_path: Path) -> Iterator[World]:
    """On the shared servers, which must not be broken."""
    with World(kafka, valkey, names, tmp_path) as made:
        yield made


@pytest.fixture
def own_store(
    kafka: KafkaBroker, valkey_server: Callable[..., Valkey], names: Names, tmp_path: Path
) -> Iterator[World]:
    """On the shared broker, with a store to be broken."""
    with World(kafka, valkey_server(), names, tmp_path) as made:
        yield made


@pytest.fixture
def own_broker(
    kafka_broker: Callable[..., KafkaBroker], valkey: Valkey, names: Names, tmp_path: Path
) -> Iterator[World]:
    """With a broker to be broken, on the shared store."""
    with World(kafka_broker(), valkey, names, tmp_path) as made:
        yield made


@pytest.fixture
def secured(
    shared_secure_kafka: SecureKafka, valkey: Valkey, names: Names, tmp_path: Path
) -> Iterator[SecuredWorld]:
    """On a broker that asks for passwords and rights, shared, and the shared store."""
    with SecuredWorld(shared_secure_kafka, valkey, names, tmp_path) as made:
        yield made


@pytest.fixture
def own_servers(
    kafka_broker: Callable[..., KafkaBroker],
    valkey_server: Callable[..., Valkey],
    names: Names,
    tmp_path: Path,
) -> Iterator[World]:
    """With both to be broken."""
    with World(kafka_broker(), valkey_server(), names, tmp_path) as made:
        yield made
