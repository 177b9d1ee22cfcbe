"""Three brokers: leaders that move, that come back, that freeze, and one that should not have been
elected.

The topic lies on nodes 2 and 3; node 1 is the controller and stays. An unclean election loses what
the new leader had not copied: records that were acknowledged, read and applied.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import KafkaException

from tests.benches.kafka import KafkaBroker, KafkaTrio
from tests.benches.names import Names
from tests.benches.redis import Valkey
from tests.benches.topics import Outsider
from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.patience import lies_still
from tests.harness.world import Load, World, values

pytestmark = [pytest.mark.kafka, pytest.mark.faults_only, pytest.mark.timeout(240)]


class Trio(World):
    """Its topics lie on nodes 2 and 3; `cluster` is all three."""

    cluster: KafkaTrio

    def placed(self, *nodes: int, **config: str) -> str:
        """A topic on these nodes (else 2 and 3), led by the first of them."""
        nodes = nodes or (2, 3)
        topic = self.names.topic()
        settings = {name.replace("_", "."): value for name, value in config.items()}
        self.outside.create(topic, replicas=[list(nodes)], config=settings)
        self.topics.append(topic)
        self.await_in_sync(topic, *nodes)
        return topic

    def await_in_sync(self, topic: str, *nodes: int) -> None:
        outside = self.somebody()
        self._until(lambda: outside.in_sync(topic) == set(nodes), f"in sync: {nodes}")

    def await_leader(self, topic: str, node: int | None) -> None:
        outside = self.somebody()
        self._until(lambda: outside.leader(topic) == node, f"leader: {node}")

    def somebody(self) -> Outsider:
        """A client that knew a node before it froze or was deposed may ask it for ever, or with an
        epoch of before; a new one does not."""
        return Outsider(self.cluster)

    def end(self, topic: str) -> int:
        """Metadata may come from a node that was deposed and does not know yet."""
        return wait_until(
            lambda: self.somebody().bounds(topic).end,
            "the log's end",
            timeout_seconds=60,
            every_seconds=0.2,
            ignoring=(KafkaException,),
        )

    def _until(self, there: Callable[[], bool], what: str) -> None:
        wait_until(there, what, timeout_seconds=60, ignoring=(KafkaException, KeyError))


@pytest.fixture
def world(
    kafka_trio: Callable[..., KafkaTrio], valkey: Valkey, names: Names, tmp_path: Path
) -> Iterator[Trio]:
    cluster = kafka_trio()
    with Trio(cast(KafkaBroker, cluster), valkey, names, tmp_path) as made:
        made.cluster = cluster
        yield made


UNCLEAN = {"unclean_leader_election_enable": "true"}


@pytest.mark.fault(
    row="election/unclean",
    bench="K3",
    expected="log_diverged",
    cases=(7,),
    # From the first other record on: the client compares epochs when it hears of the new leader.
    within_seconds=10.0,
)
def test_an_unclean_leader_whose_log_grew_past_the_cursor_has_diverged(
    world: Trio, row: Row
) -> None:
    """The position is in range again by the time somebody looks, and other bytes stand below it:
    told live, with the last offset that matches and the first that does not. Nothing of the other
    records is delivered before somebody decides; accepted, reading goes on behind the last match,
    under keys of a new lineage."""
    topic = world.placed(**UNCLEAN)
    world.produce(topic, values(100, "base"), conf={"acks": "all"})
    world.cluster[3].kill()
    world.await_in_sync(topic, 2)
    world.produce(topic, values(50, "lost"), conf={"acks": "all"})
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 150) == 150
    assert world.checkpoint(topic)["epoch"] == "0"
    sidecar.pause()  # it must not see the log while that is short: that is another test
    world.cluster[2].kill()
    world.await_leader(topic, None)
    world.cluster[3].start()
    world.await_leader(topic, 3)
    world.produce(topic, values(100, "other"), noted=False, conf={"acks": "all"})
    # Until a leader knows how far its log is safe, it names an end below; that is the other test.
    wait_until(lambda: world.end(topic) == 200, "the log has grown")
    sidecar.resume()
    row.inflicted()
    gap = sidecar.await_gap(topic, timeout_seconds=60)
    row.judged(gap.reason, "gap")
    assert (gap.evidence["last_matching"], gap.evidence["first_differing"]) == (99, 100)
    assert gap.first == 100
    api = sidecar.api()
    assert api.take(0.5) is None
    row.account(world.account())
    lies_still(sidecar, 3.0)
    world.cluster[2].start()
    api.resolve(gap.id, "accepted")
    row.cured()
    page = api.take(30.0, records_max=10)
    assert page is not None
    row.delivering()
    assert page.first == 100
    assert page.records[0].value == b"other0"
    assert "/1/0/100" in page.records[0].idempotency_key
    assert api.applied(page, committed=True).next == 110


@pytest.mark.fault(
    row="election/unclean-and-short",
    bench="K3",
    expected="log_truncated",
    cases=(3, 7),
    within_seconds=10.0,  # from the election on
)
def test_an_unclean_leader_whose_log_is_shorter_has_truncated(world: Trio, row: Row) -> None:
    """The cursor lies beyond the new end: told live, no offset moved in either direction, also
    when the log has grown past the cursor later and when the process begins anew. A person says
    where to go on."""
    topic = world.placed(**UNCLEAN)
    world.produce(topic, values(100, "base"), conf={"acks": "all"})
    world.cluster[3].kill()
    world.await_in_sync(topic, 2)
    world.produce(topic, values(50, "lost"), conf={"acks": "all"})
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 150) == 150
    assert world.checkpoint(topic)["epoch"] == "0"
    world.cluster[2].kill()
    world.await_leader(topic, None)
    world.cluster[3].start()
    world.await_leader(topic, 3)
    row.inflicted()
    gap = sidecar.await_gap(topic, timeout_seconds=60)
    row.judged(gap.reason, "gap")
    assert (gap.first, gap.end) == (100, 150)
    world.produce(topic, values(100, "other"), noted=False, conf={"acks": "all"})
    api = sidecar.api()
    assert api.take(1.0) is None
    state = sidecar.await_partition(topic, state="gap", next=150)
    assert state.reason == "log_truncated"
    row.account(world.account())
    assert world.committed(topic) == 150
    api.resolve(gap.id, "accepted", resume_at=100)
    row.cured()
    page = api.take(30.0, records_max=10)
    assert page is not None
    row.delivering()
    assert (page.first, page.records[0].value) == (100, b"other0")
    assert "/1/0/100" in page.records[0].idempotency_key


def changes_nothing(world: Trio, topic: str, row: Row, *inflict: Callable[[], Any]) -> None:
    """Under load, each of these: no gap, no verdict but `resume`, every record once."""
    sidecar = world.sidecar()
    application = world.application(sidecar, records_max=50)
    load = Load(world, topic, 1)
    wait_until(lambda: world.ledger.count > 200, "records flow")
    mark = sidecar.mark()
    for harm in inflict:
        row.inflicted()
        harm()
        known = world.ledger.count
        row.cured()
        wait_until(
            lambda: world.ledger.count > known + 100,  # noqa: B023  # called before the next round
            "records flow again",
            timeout_seconds=60,
        )
        row.delivering()
    load.stop()
    sidecar.await_partition(topic, caught_up=True, timeout_seconds=60)
    row.judged("caught_up", "delivering")
    application.stop()
    end = world.end(topic)
    sidecar.await_partition(topic, committed=end, timeout_seconds=30)
    assert sidecar.api().gaps() == []
    assert set(sidecar.verdicts(topic, after=mark)) <= {"resume", "resume_at_boundary"}
    account = row.account(world.account())
    assert account.applied == account.produced


@pytest.mark.fault(row="election/clean", bench="K3", expected="caught_up")
def test_leaders_that_move_and_restart_change_nothing(world: Trio, row: Row) -> None:
    """The leader is killed, and comes back as a follower; then stopped in order, and comes back:
    epochs rise, the overlap is read again, delivery goes on."""
    topic = world.placed()

    def killed() -> None:
        world.cluster[2].kill()
        world.await_leader(topic, 3)
        world.cluster[2].start()
        world.await_in_sync(topic, 2, 3)

    def restarted() -> None:
        world.cluster[3].restart()
        world.await_in_sync(topic, 2, 3)

    changes_nothing(world, topic, row, killed, restarted)


@pytest.mark.fault(row="election/frozen-leader", bench="K3", expected="caught_up")
def test_a_leader_that_freezes_and_is_deposed_changes_nothing(world: Trio, row: Row) -> None:
    """It wakes up believing that it leads, with an older epoch than was seen meanwhile: whoever
    asks it then is told an old answer, which counts for nothing."""
    topic = world.placed()

    def frozen() -> None:
        world.cluster[2].pause()
        world.await_leader(topic, 3)
        world.cluster[2].resume()
        world.await_in_sync(topic, 2, 3)

    changes_nothing(world, topic, row, frozen)


@pytest.mark.fault(
    row="election/frozen-follower", bench="K3", expected="caught_up", covers=("no_progress",)
)
def test_a_frozen_follower_that_is_read_from_starves_and_loses_nothing(
    world: Trio, row: Row
) -> None:
    """With `client.rack` the nearest replica is read. Frozen, it gives neither records nor an
    error until `socket.timeout.ms` (here 20 s); then the leader is read. Meanwhile the lag shows,
    and that nothing comes is a condition; the partition never counts as caught up, no cursor moves
    and nothing is lost."""
    world.outside.create(other := world.names.topic())
    # Frozen, a coordinator stops more than reading: that is another fault.
    follower = 2 if world.outside.coordinator(other) == 3 else 3
    leader = 5 - follower
    topic = world.placed(leader, follower)
    world.produce(topic, values(50, "before"), conf={"acks": "all"})
    client = f'{{"client.rack": "r{follower}", "socket.timeout.ms": 20000}}'
    sidecar = world.sidecar(KAFKA__CLIENT=client, RECOVERY__NO_PROGRESS_SECONDS=2)
    assert world.apply(sidecar, topic, 50) == 50
    sidecar.await_partition(topic, caught_up=True)
    world.cluster[follower].pause()
    row.inflicted()
    world.await_in_sync(topic, leader)
    world.produce(topic, values(50, "after"))
    state = sidecar.await_partition(
        topic, lag_records=50, conditions=["no_progress"], timeout_seconds=30
    )
    assert (state.state, state.caught_up) == ("delivering", False)
    row.cured()
    assert world.apply(sidecar, topic, 50) == 100  # with the follower frozen all the while
    row.delivering()
    world.cluster[follower].resume()
    sidecar.await_partition(topic, caught_up=True, committed=100, conditions=[], timeout_seconds=60)
    row.judged("caught_up", "delivering")
    assert sidecar.api().gaps() == []
    assert row.account(world.account()).repeated_flagged == 0
