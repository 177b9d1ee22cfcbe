"""Evidence for a thousand partitions is asked in batches: requests are counted on the wire."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

import pytest

from sidecar.core.checkpoint import Installed
from sidecar.core.evidence import Cue
from sidecar.core.faults import Known
from sidecar.core.policy import Policy
from sidecar.core.types import GroupId, Instant, Partition, StoreId
from sidecar.engine import messages as m
from sidecar.kafka.client import ClientSettings
from sidecar.kafka.log import KafkaLog
from sidecar.performer import Performer
from sidecar.store.connect import connect
from sidecar.store.redis import RedisStore
from tests.benches.kafka import KafkaBroker
from tests.benches.names import Names
from tests.benches.proxy import KafkaApi, Proxy
from tests.benches.redis import Valkey
from tests.benches.topics import Outsider
from tests.fakes.kafka import FakeFetcher, FakeKafka
from tests.store.values import checkpoint, first

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(120)]

PARTITIONS = 1_000


async def test_evidence_for_a_thousand_partitions_takes_a_few_requests(
    proxied_kafka: Callable[..., tuple[KafkaBroker, Proxy]], valkey: Valkey, names: Names
) -> None:
    """One question a kind, of the broker that leads them; and of the store, whose answers come in
    runs, no round trip a partition."""
    broker, to_kafka = proxied_kafka()
    topic, group = names.topic(), GroupId(names.group())
    await asyncio.to_thread(Outsider(broker).create, topic, PARTITIONS)
    partitions = [Partition(topic, index) for index in range(PARTITIONS)]
    asked: Counter[KafkaApi] = Counter()
    sent = 0

    def kafka_asked(frame: bytes) -> bool:
        for api in KafkaApi:
            asked[api] += api.requested_by(frame)
        return False

    def store_asked(chunk: bytes) -> bool:
        nonlocal sent
        sent += 1
        return False

    with Proxy(valkey.port) as to_store:
        store = RedisStore(connect(to_store.url), names.prefix)
        log = KafkaLog(ClientSettings(broker.bootstrap, group, (topic,)))
        performer = Performer(
            Policy(group=group),
            store_name=StoreId("store"),
            log=log,
            fetcher=FakeFetcher(FakeKafka(), group, (topic,)),
            store=store,
            now=lambda: Instant(time.monotonic(), time.time()),
            sleep=asyncio.sleep,
        )
        try:
            for partition in partitions:
                install = first(checkpoint(group, partition=partition))
                assert await store.install(install) == Installed()
            look = m.Look(m.Ask(1), dict.fromkeys(partitions, Cue.ASSIGNED), {})
            await performer.answer(look)  # everything is connected and cached
            to_kafka.lose_reply(kafka_asked)
            to_store.lose_reply(store_asked)
            began = time.monotonic()
            looked = await performer.answer(look)
            spent = time.monotonic() - began
        finally:
            await store.close()
            await log.close()
    assert isinstance(looked, m.Looked)
    assert len(looked.evidence) == PARTITIONS
    assert all(
        isinstance(found.log_start, Known) and isinstance(found.stored, Known)
        for found in looked.evidence.values()
    )
    assert asked[KafkaApi.OFFSET_FETCH] == 1
    assert asked[KafkaApi.LIST_OFFSETS] == 3  # the ends, the last stable offsets, the log starts
    assert sent <= 40
    assert spent < 5
