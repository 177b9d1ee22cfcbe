"""Worlds to be killed in: a real broker and a real store."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.benches.kafka import KafkaBroker
from tests.benches.names import Names
from tests.benches.redis import Valkey
from tests.harness.world import World


@pytest.fixture
def world(kafka: KafkaBroker, valkey: Valkey, names: Names, tmp_path: Path) -> Iterator[World]:
    """On the shared servers: only sidecars and applications are killed."""
    with World(kafka, valkey, names, tmp_path) as made:
        yield made


@pytest.fixture
def own_servers(
    kafka_broker: Callable[..., KafkaBroker],
    valkey_server: Callable[..., Valkey],
    names: Names,
    tmp_path: Path,
) -> Iterator[World]:
    """With servers of its own, to be killed as well."""
    with World(kafka_broker(), valkey_server(), names, tmp_path) as made:
        yield made
