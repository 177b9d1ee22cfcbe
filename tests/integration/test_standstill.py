"""Reading that stands still without any error."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import KafkaException

from tests.benches.kafka import KafkaBroker, KafkaTrio
from tests.benches.names import Names
from tests.benches.redis import Valkey
from tests.benches.topics import Outsider
from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.world import World, values

pytestmark = [pytest.mark.kafka, pytest.mark.faults_only, pytest.mark.timeout(300)]


@pytest.mark.fault(row="condition/no-progress", bench="K3", expected="no_progress", cases=(26,))
def test_a_frozen_follower_is_told_as_no_progress_and_cleared_by_progress(
    kafka_trio: Callable[..., KafkaTrio],
    valkey: Valkey,
    names: Names,
    tmp_path: Path,
    row: Row,
) -> None:
    """A reader near a follower is starved in silence when it freezes: the client waits for it, the
    leader goes on, and nothing reports an error. The condition stands beside `delivering` on the
    partition that starves and on no other, and goes once records come again."""
    trio = kafka_trio()
    # A world asks for no more than an address, and the nodes are this test's to break.
    with World(cast("KafkaBroker", trio), valkey, names, tmp_path) as world:
        # Frozen, a coordinator stops more than reading: that is another fault.
        world.outside.create(other := names.topic())
        follower = 2 if world.outside.coordinator(other) == 3 else 3
        leader = 5 - follower
        topic = names.topic()
        world.outside.create(topic, 2, replicas=[[leader, follower], [leader, 1]])
        world.topics.append(topic)
        sidecar = world.sidecar(
            KAFKA__CLIENT=f'{{"client.rack": "r{follower}"}}', RECOVERY__NO_PROGRESS_SECONDS=5
        )
        application = world.application(sidecar)
        for partition in range(2):
            world.produce(topic, values(20, f"a{partition}-"), partition)
        world.deliver_all(sidecar, (topic, 0), (topic, 1))
        trio[follower].pause()
        somebody = Outsider(trio)  # a client that knew the frozen node may ask that one for ever
        wait_until(
            lambda: somebody.in_sync(topic, 0) == {leader},
            "the follower is out of sync",
            timeout_seconds=60,
            ignoring=(KafkaException, KeyError),
        )
        for partition in range(2):
            world.produce(topic, values(20, f"b{partition}-"), partition)
        row.inflicted()
        state = sidecar.await_partition(
            topic, 0, timeout_seconds=50, conditions=["no_progress"], state="delivering"
        )
        row.judged(state.conditions[0], state.state)
        assert state.next == 20
        assert state.lag_records == 20
        assert sidecar.events("condition_appeared", partition=1) == []
        trio[follower].resume()
        row.cured()
        sidecar.await_partition(topic, 0, timeout_seconds=90, conditions=[], caught_up=True)
        row.delivering()
        world.deliver_all(sidecar, (topic, 1))
        application.stop()
        assert row.account(world.account()).applied == 80
