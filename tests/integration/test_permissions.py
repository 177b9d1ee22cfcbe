"""`docs/permissions.md`: the fewest rights are enough, and what each missing one of the store does.

Those of Kafka are in `test_rights`. Each row of the page names its test, and a test here says so.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.benches.kafka import KafkaBroker, SecureKafka
from tests.benches.names import Names
from tests.benches.redis import Valkey
from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.api import PartitionState, Refused
from tests.harness.patience import lies_still, waits_in_peace
from tests.harness.secured import READ, SecuredWorld
from tests.harness.sidecar import SidecarProcess
from tests.harness.world import World, values
from tests.store.rights import PAGE, PASSWORD, USER, limited

pytestmark = pytest.mark.kafka


class Limited(World):
    """Its sidecars come to the store as the documented user."""

    def begin(self, *rules: str, **settings: object) -> SidecarProcess:
        return self.sidecar(
            (),
            REDIS__URL=limited(self.valkey, self.prefix, *rules),
            start=True,
            static=False,
            **settings,
        )

    def change(self, *rules: str) -> None:
        self.valkey.command("ACL", "SETUSER", USER, *rules)


@pytest.fixture
def world(
    kafka: KafkaBroker, valkey_server: Callable[..., Valkey], names: Names, tmp_path: Path
) -> Iterator[Limited]:
    with Limited(kafka, valkey_server(), names, tmp_path) as made:
        yield made


def test_the_fewest_rights_are_enough_for_a_life(
    shared_secure_kafka: SecureKafka,
    valkey_server: Callable[..., Valkey],
    names: Names,
    tmp_path: Path,
) -> None:
    """READ on topic and group, and the documented user of the store: a first day, a crash, a loss
    that is declared, fenced and accepted, a clean end. No right is missed; that a topic's settings
    cannot be read is said once, and no more once they can."""
    with SecuredWorld(shared_secure_kafka, valkey_server(), names, tmp_path) as world:
        topic = world.topic()
        world.grant_topic(topic, READ)
        world.grant_group(READ)
        world.produce(topic, 40)
        url = limited(world.valkey, world.prefix)
        sidecar = world.sidecar(REDIS__URL=url, static=True)
        assert world.apply(sidecar, topic, 20) == 20
        said = sidecar.await_event("kafka_client_spoke")
        assert "DESCRIBE_CONFIGS" in said["text"]
        assert "--operation DescribeConfigs" in said["text"]
        sidecar.kill()
        world.outside.delete_records(topic, 0, 30)
        sidecar.start()
        gap = sidecar.await_gap(topic, timeout_seconds=30)
        api = sidecar.api()
        api.acknowledge(gap.id)
        api.resolve(gap.id, "accepted")
        assert world.apply(sidecar, topic, 10) == 40
        world.account(api.gaps()).check()
        assert sidecar.terminate()[0] == 0
        assert not sidecar.events("fault_met", kind="authorization")
        assert not sidecar.events("commit_refused")


# --- the store ------------------------------------------------------------------------------------


@pytest.mark.fault(
    row="redis-rights/info-and-config", bench="R1", expected="delivering", cases=(14,)
)
def test_without_info_and_config_a_warning_says_what_is_not_checked(
    world: Limited, row: Row
) -> None:
    """They are forbidden by many who run Redis for others: everything works, and each thing that
    cannot be checked is named."""
    topic = world.topic()
    world.produce(topic, 20)
    sidecar = world.begin("-info")
    row.inflicted()
    judged = sidecar.await_event("store_judged")
    warnings = " ".join(judged["warnings"])
    for what in (
        "CONFIG GET",
        "INFO server",
        "INFO memory",
        "INFO persistence",
        "INFO replication",
    ):
        assert f"{what} is forbidden" in warnings
    assert "the eviction policy cannot be read: it must be noeviction" in warnings
    assert world.apply(sidecar, topic, 10) == 10
    row.judged("delivering", "delivering")
    sidecar.terminate()
    sidecar.start()
    assert world.apply(sidecar, topic, 10) == 20
    row.account(world.account())


def held(sidecar: SidecarProcess, topic: str) -> PartitionState:
    return sidecar.await_partition(topic, state="held", reason="authorization")


LIVE = {
    # what is taken away, and what the detail must name
    "evalsha": (("-evalsha",), "evalsha"),
    "eval": (("-eval",), "eval"),
    "hmget": (("-hmget",), "hmget"),
    "xrevrange": (("-xrevrange",), "xrevrange"),
    "hset": (("-hset",), "hset"),
    "xadd": (("-xadd",), "xadd"),
    "rpush": (("-rpush",), "rpush"),
    "type": (("-type",), "type"),
    "key-pattern": (("resetkeys", "~elsewhere:*"), "key"),
}


@pytest.mark.fault(
    row="redis-rights/taken-away",
    bench="R1",
    expected="authorization",
    covers=("NOPERM",),
    within_seconds=3.0,  # of which one may be an application's report
)
@pytest.mark.parametrize("what", LIVE)
def test_a_right_that_the_store_takes_away_is_named(world: Limited, row: Row, what: str) -> None:
    """Under live connections, and while records flow: held, with what is missing; a report is
    answered 503 and never lost; no gap, no cursor moves, and the grant alone mends it. (A right to
    read again what was applied is needed when a partition begins, so there it is taken before.)"""
    rules, named = LIVE[what]
    topic = world.topic()
    world.produce(topic, values(60))
    sidecar = world.begin()
    assert world.apply(sidecar, topic, 20) == 20
    if what == "xrevrange":
        sidecar.terminate()
    was = world.checkpoint(topic)
    world.change(*rules)
    if what == "eval":
        world.valkey.command("SCRIPT", "FLUSH")
    if what == "xrevrange":
        sidecar.start()
    row.inflicted()
    application = world.application(sidecar, records_max=20)
    state = held(sidecar, topic)
    row.judged(str(state.reason), state.state)
    assert named in state.detail.lower()
    assert PASSWORD not in state.detail
    lies_still(sidecar, 4.0)
    now = world.checkpoint(topic)
    assert now["next"] == was["next"]
    world.change("resetkeys", f"~{world.prefix}:*", *(f"+{r[1:]}" for r in rules if r[0] == "-"))
    row.cured()
    world.deliver_all(sidecar, (topic, 0))
    row.delivering()
    application.stop()
    assert sidecar.api().gaps() == []
    account = row.account(world.account())
    assert account.applied == 60


@pytest.mark.fault(
    row="redis-rights/never-granted",
    bench="R1",
    expected="authorization",
    covers=("NOPERM",),
    within_seconds=15.0,  # a process starts and joins within these
)
@pytest.mark.parametrize("what", ["sadd", "hsetnx", "hgetall", "exists", "wait"])
def test_a_right_that_the_store_never_gave_is_named_at_the_start(
    world: Limited, row: Row, what: str
) -> None:
    """Nothing begins without it, and the grant begins it."""
    topic = world.topic()
    world.produce(topic, 10)
    settings = {"REDIS__REPLICAS_ACK": 1} if what == "wait" else {}
    sidecar = world.begin(f"-{what}", **settings)
    row.inflicted()
    state = held(sidecar, topic)
    row.judged(str(state.reason), state.state)
    assert what in state.detail.lower()
    lies_still(sidecar, 4.0)
    assert sidecar.api().take(0.2) is None
    assert world.committed(topic) in (None, 0)  # where the history begins, at most
    if what == "wait":
        sidecar.terminate()
        sidecar = world.begin()  # nobody replicates here
    else:
        world.change(f"+{what}")
    row.cured()
    assert world.apply(sidecar, topic, 10) == 10
    row.delivering()
    row.account(world.account())


@pytest.mark.fault(row="redis-rights/smembers", bench="R1", expected="delivering")
def test_gaps_that_may_not_be_listed_are_not_shown_as_none(world: Limited, row: Row) -> None:
    """Delivery goes on; the list is refused rather than empty, and the log says why."""
    topic = world.topic()
    world.produce(topic, 20)
    sidecar = world.begin()
    assert world.apply(sidecar, topic, 10) == 10
    mark = sidecar.mark()
    world.change("-smembers")
    row.inflicted()
    met = sidecar.await_event("fault_met", after=mark, kind="authorization")
    assert "smembers" in met["detail"].lower()
    assert world.apply(sidecar, topic, 10) == 20
    row.judged("delivering", "delivering")
    with pytest.raises(Refused) as refused:
        sidecar.api().gaps()
    assert refused.value.status == 503
    lies_still(sidecar, 4.0)
    world.change("+smembers")
    assert sidecar.api().gaps() == []
    row.account(world.account())


@pytest.mark.fault(
    row="redis-rights/user", bench="R1", expected="authentication", within_seconds=5.0
)
@pytest.mark.parametrize("what", ["deleted", "password"])
def test_a_user_that_the_store_takes_away_is_told(world: Limited, row: Row, what: str) -> None:
    """Its connections are cut with it: not ready, the partition held, no word of the password;
    given back, everything is delivered."""
    topic = world.topic()
    world.produce(topic, 60)
    sidecar = world.begin()
    assert world.apply(sidecar, topic, 20) == 20
    if what == "deleted":
        world.valkey.command("ACL", "DELUSER", USER)
    else:
        world.change("resetpass", ">another")
        world.valkey.command("CLIENT", "KILL", "USER", USER)
    row.inflicted()
    state = sidecar.await_partition(topic, state="held", reason="authentication")
    row.judged(str(state.reason), state.state)
    assert "REDIS__URL" in state.detail
    api = sidecar.api()
    wait_until(
        lambda: api.status().dependencies["redis"].reason == "authentication",
        "the dependency says so",
    )
    waits_in_peace(sidecar, "redis", 4.0)
    assert PASSWORD.encode() not in sidecar.log.read_bytes()
    limited(world.valkey, world.prefix)
    row.cured()
    assert world.apply(sidecar, topic, 40) == 60
    row.delivering()
    assert sidecar.api().gaps() == []
    row.account(world.account())


def test_each_row_of_the_page_is_a_test() -> None:
    """What is documented is what is shown."""
    rows = re.findall(r"^\|.*\| `(\w+)` \|$", PAGE.read_text(), re.M)
    tables = re.findall(r"^\| (?!missing|---).*\|$", PAGE.read_text(), re.M)
    assert len(rows) == len(tables) > 15
    here = Path(__file__).parent
    written = "".join((here / f).read_text() for f in ("test_rights.py", "test_permissions.py"))
    assert [name for name in rows if f"def {name}(" not in written] == []
