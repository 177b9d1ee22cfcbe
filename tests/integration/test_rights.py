"""Rights and credentials: taken away while running, given back, or never there.

The client is silent about most of it: of a topic that it may not read it fetches nothing, and of a
group that it may not read it goes on fetching until its session ends. So each test takes the time
from the fault to the verdict, and demands that the verdict names what to grant.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.benches.kafka import SecureKafka
from tests.benches.names import Names
from tests.benches.redis import Valkey
from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.api import PartitionState, Status
from tests.harness.patience import lies_still
from tests.harness.secured import DESCRIBE, READ, SecuredWorld
from tests.harness.sidecar import SidecarProcess
from tests.harness.world import Load, values

pytestmark = pytest.mark.kafka

REFRESHING = '{"topic.metadata.refresh.interval.ms": 500}'


@pytest.fixture
def own_secured(
    secure_kafka: Callable[..., SecureKafka],
    valkey_server: Callable[..., Valkey],
    names: Names,
    tmp_path: Path,
) -> Iterator[SecuredWorld]:
    """Servers of its own, and a SCRAM user; connections sign in again every three seconds."""
    kafka = secure_kafka(properties={"connections.max.reauth.ms": 3000})
    with SecuredWorld(kafka, valkey_server(), names, tmp_path) as world:
        world.user, world.password, world.mechanism = "scrammer", "secret-one", "SCRAM-SHA-256"
        yield world


def kafka_fault(sidecar: SidecarProcess, reason: str) -> Status:
    """Until the sidecar says that of Kafka, whatever is assigned."""
    api = sidecar.api()

    def said() -> Status | None:
        status = api.status()
        return status if status.dependencies["kafka"].reason == reason else None

    return wait_until(said, f"kafka: {reason}")


def detail_of(status: Status) -> str:
    return str(status.dependencies["kafka"].detail)


def names_the_right(detail: str, operation: str, kind: str, name: str) -> None:
    assert f"{operation} on {kind} {name} is denied" in detail
    assert f"kafka-acls --add --operation Read --{kind} {name}" in detail


def unmoved(world: SecuredWorld, topic: str, was: dict[str, str], partition: int = 0) -> None:
    """No gap, no cursor moved, neither here nor there."""
    now = world.checkpoint(topic, partition)
    for name in ("next", "epoch", "gap"):
        assert now.get(name) == was.get(name), name
    assert world.sidecars[0].api().gaps() == []


# --- topics ---------------------------------------------------------------------------------------


@pytest.mark.fault(
    row="rights/topic-read-revoked",
    bench="K1a",
    expected="authorization",
    cases=(24,),
    within_seconds=2.0,
)
@pytest.mark.parametrize("flow", ["busy", "idle"])
def test_topic_read_taken_away_is_told_and_given_back_delivers_again(
    secured: SecuredWorld, row: Row, flow: str
) -> None:
    """READ alone, DESCRIBE kept: every question is still answered, and nothing can be read. Told
    within two seconds, also of a partition that is idle and of which the client says nothing; it
    is no lag and no gap, another topic goes on, and the grant alone mends it."""
    world = secured
    topic, other = world.topic(), world.topic()
    for name in (topic, other):
        world.grant_topic(name, READ, DESCRIBE)
    world.grant_group(READ)
    world.produce(topic, 20)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 20) == 20
    sidecar.await_partition(topic, caught_up=True, committed=20)
    was = world.checkpoint(topic)
    world.revoke_topic(topic, READ)
    row.inflicted()
    if flow == "busy":
        world.produce(topic, values(10, "denied"))
    state = sidecar.await_partition(topic, state="held", reason="authorization")
    row.judged(str(state.reason), state.state)
    names_the_right(state.detail, "READ", "topic", topic)
    lies_still(sidecar, 4.0)
    world.produce(other, values(10, "other"))
    assert world.apply(sidecar, other, 10) == 10
    unmoved(world, topic, was)
    assert world.committed(topic) == 20
    world.grant_topic(topic, READ)
    row.cured()
    world.produce(topic, values(10, "granted"))
    assert world.apply(sidecar, topic, 10) > 20
    row.delivering()
    application = world.application(sidecar)
    world.deliver_all(sidecar, (topic, 0), (other, 0))
    application.stop()
    row.account(world.account())
    assert sidecar.api().gaps() == []


@pytest.mark.fault(
    row="rights/topic-read-and-describe-revoked",
    bench="K1a",
    expected="authorization",
    cases=(24,),
    within_seconds=2.0,
)
@pytest.mark.parametrize("client", ["assigned", "unassigned"])
def test_a_topic_that_may_not_even_be_described_is_told(
    secured: SecuredWorld, row: Row, client: str
) -> None:
    """Neither READ nor DESCRIBE: held, not "the topic is gone". Where the client refreshes its
    metadata meanwhile it gives the partition up, and then the member as a whole says so; given
    back, everything is delivered once."""
    world = secured
    topic = world.topic()
    world.grant_topic(topic, READ, DESCRIBE)
    world.grant_group(READ)
    world.produce(topic, 30)
    sidecar = world.sidecar(KAFKA__CLIENT=REFRESHING if client == "unassigned" else "{}")
    assert world.apply(sidecar, topic, 10) == 10
    was = world.checkpoint(topic)
    world.revoke_topic(topic, READ, DESCRIBE)
    row.inflicted()
    if client == "assigned":
        state = sidecar.await_partition(topic, state="held", reason="authorization")
        row.judged(str(state.reason), state.state)
        names_the_right(state.detail, "DESCRIBE", "topic", topic)
    else:
        status = kafka_fault(sidecar, "authorization")
        row.judged(str(status.dependencies["kafka"].reason))
        names_the_right(detail_of(status), "DESCRIBE", "topic", topic)
        wait_until(lambda: sidecar.api().status().assigned == 0, "the partition is given up")
        assert not sidecar.api().status().ready
    lies_still(sidecar, 3.0)
    unmoved(world, topic, was)
    world.grant_topic(topic, READ)
    row.cured()
    assert world.apply(sidecar, topic, 20) == 30
    row.delivering()
    row.account(world.account())
    assert sidecar.api().gaps() == []


@pytest.mark.fault(
    row="rights/topic-describe-revoked", bench="K1a", expected="caught_up", cases=(24,)
)
def test_describe_alone_taken_away_changes_nothing(secured: SecuredWorld, row: Row) -> None:
    """READ includes it."""
    world = secured
    topic = world.topic()
    world.grant_topic(topic, READ, DESCRIBE)
    world.grant_group(READ)
    world.produce(topic, 10)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 10) == 10
    mark = sidecar.mark()
    world.revoke_topic(topic, DESCRIBE)
    row.inflicted()
    world.produce(topic, 10)
    assert world.apply(sidecar, topic, 10) == 20
    lies_still(sidecar, 2.0)
    state = sidecar.await_partition(topic, caught_up=True)
    row.judged("caught_up", state.state)
    assert not sidecar.since(mark, "fault_met")
    row.account(world.account())


@pytest.mark.fault(
    row="rights/never-granted",
    bench="K1a",
    expected="authorization",
    cases=(24,),
    within_seconds=10.0,  # a process starts, and the client looks for the topic, within these
)
@pytest.mark.parametrize("missing", ["all-of-the-topic", "topic-read", "group-read"])
def test_a_right_that_was_never_granted_is_named_at_the_start(
    secured: SecuredWorld, row: Row, missing: str
) -> None:
    """Each alone; nothing begins without it (no baseline, no commit), and the grant begins it."""
    world = secured
    topic = world.topic()
    world.produce(topic, 10)
    if missing == "topic-read":
        world.grant_topic(topic, DESCRIBE)
    if missing != "group-read":
        world.grant_group(READ)
    else:
        world.grant_topic(topic, READ)
    sidecar = world.sidecar()
    row.inflicted()
    if missing == "topic-read":  # may be described, so it is assigned
        state = sidecar.await_partition(topic, state="held", reason="authorization")
        row.judged(str(state.reason), state.state)
        names_the_right(state.detail, "READ", "topic", topic)
    else:
        status = kafka_fault(sidecar, "authorization")
        row.judged(str(status.dependencies["kafka"].reason))
        assert not status.ready
        assert status.assigned == 0
        if missing == "group-read":
            names_the_right(detail_of(status), "READ", "group", world.group)
        else:
            names_the_right(detail_of(status), "DESCRIBE", "topic", topic)
    lies_still(sidecar, 3.0)
    assert world.committed(topic) is None
    assert world.checkpoint(topic) == {}
    assert sidecar.api().gaps() == []
    if missing == "group-read":
        world.grant_group(READ)
    else:
        world.grant_topic(topic, READ)
    row.cured()
    assert world.apply(sidecar, topic, 10) == 10
    row.delivering()
    assert sidecar.verdicts(topic)[0] == "new_group"
    row.account(world.account())


# --- the group ------------------------------------------------------------------------------------


@pytest.mark.fault(
    row="rights/group-read-revoked",
    bench="K1a",
    expected="commit_refused",
    cases=(24,),
    within_seconds=2.0,
)
def test_a_commit_that_is_refused_is_a_condition_and_delivery_goes_on(
    secured: SecuredWorld, row: Row
) -> None:
    """The client fetches on, until its session ends; what is applied meanwhile stands in the store,
    and is committed once the right is back."""
    world = secured
    topic = world.topic()
    world.grant_topic(topic, READ)
    world.grant_group(READ)
    world.produce(topic, 40)
    sidecar = world.sidecar(KAFKA__SESSION_TIMEOUT_SECONDS=30)
    assert world.apply(sidecar, topic, 10) == 10
    world.revoke_group(READ)
    row.inflicted()
    api = sidecar.api()
    page = api.take(30.0, records_max=10)
    assert page is not None
    world.ledger.write(page, "test")
    assert api.applied(page).next == 20
    state = refused(sidecar, topic)
    row.judged("commit_refused", state.state)
    assert state.state == "delivering"
    event = sidecar.await_event("condition_appeared", condition="commit_refused")
    names_the_right(str(event["detail"]), "READ", "group", world.group)
    lies_still(sidecar, 4.0)
    page = api.take(30.0, records_max=10)
    assert page is not None
    world.ledger.write(page, "test")
    assert api.applied(page).next == 30
    assert world.committed(topic) == 10
    world.grant_group(READ)
    row.cured()
    sidecar.await_partition(topic, committed=30, conditions=[])
    assert world.apply(sidecar, topic, 10) == 40
    row.delivering()
    assert sidecar.verdicts(topic) == ["new_group"]
    assert row.account(world.account()).repeated_flagged == 0


def refused(sidecar: SidecarProcess, topic: str) -> PartitionState:
    return sidecar.await_partition(topic, conditions=["commit_refused"])


@pytest.mark.fault(
    row="rights/group-read-revoked-for-a-session",
    bench="K1a",
    expected="authorization",
    cases=(24,),
    within_seconds=6.0,  # the session, which the client takes for well until it ends
)
def test_a_group_that_may_not_be_read_for_a_session_is_left_and_joined_again(
    secured: SecuredWorld, row: Row
) -> None:
    """Heartbeats are refused in silence, so nobody hears of it before the session ends: then
    nothing is assigned, and the member says which right of which group. Under load, and with the
    right back, everything is delivered; what is repeated is flagged."""
    world = secured
    topic = world.topic(2)
    world.grant_topic(topic, READ)
    world.grant_group(READ)
    load = Load(world, topic, 2)
    sidecar = world.sidecar(KAFKA__SESSION_TIMEOUT_SECONDS=3)
    application = world.application(sidecar, records_max=20)
    wait_until(lambda: world.ledger.count > 200, "records flow")
    world.revoke_group(READ)
    row.inflicted()
    status = kafka_fault(sidecar, "authorization")
    row.judged(str(status.dependencies["kafka"].reason))
    names_the_right(detail_of(status), "READ", "group", world.group)
    assert (status.ready, status.assigned) == (False, 0)
    lies_still(sidecar, 3.0)
    known = world.ledger.count
    world.grant_group(READ)
    row.cured()
    wait_until(lambda: world.ledger.count > known, "records flow again")
    row.delivering()
    load.stop()
    world.deliver_all(sidecar, (topic, 0), (topic, 1))
    application.stop()
    assert sidecar.api().gaps() == []
    account = row.account(world.account())
    assert account.applied == account.produced


@pytest.mark.fault(
    row="rights/group-denied-and-store-flushed",
    bench="K1a+R1",
    expected="authorization",
    cases=(8, 24),
    within_seconds=2.0,
)
def test_a_commit_that_may_not_be_read_is_not_a_missing_one(
    shared_secure_kafka: SecureKafka,
    valkey_server: Callable[..., Valkey],
    names: Names,
    tmp_path: Path,
    row: Row,
) -> None:
    """The store forgot, and the commit that remembers may not be read: an error is not "no offset",
    so no start policy runs and nothing is replayed. With the right back, the witness is read, and
    the cursor stands where it stood."""
    with SecuredWorld(shared_secure_kafka, valkey_server(), names, tmp_path) as world:
        topic = world.topic()
        world.grant_topic(topic, READ)
        world.grant_group(READ)
        world.produce(topic, 30)
        sidecar = world.sidecar(KAFKA__SESSION_TIMEOUT_SECONDS=30)
        assert world.apply(sidecar, topic, 20) == 20
        mark = sidecar.mark()
        world.revoke_group(READ)
        world.valkey.flush()
        row.inflicted()
        state = sidecar.await_partition(topic, state="held", reason="authorization")
        row.judged(str(state.reason), state.state)
        names_the_right(state.detail, "DESCRIBE", "group", world.group)
        lies_still(sidecar, 3.0)
        assert world.valkey.client().keys("*") == []
        assert sidecar.api().take(0.2) is None
        world.grant_group(READ)
        row.cured()
        assert world.apply(sidecar, topic, 10) == 30
        row.delivering()
        assert sidecar.verdicts(topic, after=mark) == ["store_lost"]
        assert sidecar.api().gaps() == []
        row.account(world.account())


# --- credentials ----------------------------------------------------------------------------------


@pytest.mark.fault(
    row="credentials/wrong-at-the-start",
    bench="K1a",
    expected="authentication",
    within_seconds=5.0,  # a process starts within these
)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_at_the_start_is_told_and_never_shown(
    secured: SecuredWorld, row: Row, mechanism: str
) -> None:
    """Alive, not ready, not "the broker is away"; which settings to look at, and no word of the
    password anywhere. A user that is made later is found by itself; a password that is a setting
    of ours takes a restart."""
    world = secured
    world.mechanism = mechanism
    if mechanism != "PLAIN":
        world.user = f"user-{world.group}"
    topic = world.topic()
    world.produce(topic, 10)
    world.grant_topic(topic, READ)
    world.grant_group(READ)
    sidecar = world.sidecar(KAFKA__SASL_PASSWORD="hunter2")
    row.inflicted()
    status = kafka_fault(sidecar, "authentication")
    row.judged(str(status.dependencies["kafka"].reason))
    assert not status.ready
    assert "KAFKA__SASL_PASSWORD" in detail_of(status)
    lies_still(sidecar, 4.0)
    assert b"hunter2" not in sidecar.log.read_bytes()
    assert world.outside.members(world.group) == 0
    if mechanism == "PLAIN":
        sidecar.terminate()
        sidecar.start(KAFKA__SASL_PASSWORD=world.password)
    else:
        world.kafka.scram_user(world.user, "hunter2")
    row.cured()
    assert world.apply(sidecar, topic, 10) == 10
    row.delivering()
    row.account(world.account())


@pytest.mark.fault(
    row="credentials/changed-under-live-connections",
    bench="K1a",
    expected="authentication",
    # Nobody asks for it before a connection signs in again, here every three seconds; the client
    # begins to do so after some of them, and the question is open for one second more.
    within_seconds=7.0,
)
@pytest.mark.timeout(90)
def test_a_password_that_is_changed_under_live_connections_holds_and_comes_back(
    own_secured: SecuredWorld, row: Row
) -> None:
    """Each partition says so, nothing moves; with the old password back it goes on by itself."""
    world = own_secured
    topic = world.topic(2)
    world.kafka.scram_user(world.user, world.password)
    world.grant_topic(topic, READ)
    world.grant_group(READ)
    load = Load(world, topic, 2)
    sidecar = world.sidecar(KAFKA__SESSION_TIMEOUT_SECONDS=30)
    application = world.application(sidecar, records_max=20)
    wait_until(lambda: world.ledger.count > 200, "records flow")
    world.kafka.scram_user(world.user, "secret-two")
    row.inflicted()
    state = sidecar.await_partition(topic, 0, state="held", reason="authentication")
    assert "KAFKA__SASL_PASSWORD" in state.detail
    sidecar.await_partition(topic, 1, state="held", reason="authentication")
    row.judged(str(state.reason), state.state)
    status = kafka_fault(sidecar, "authentication")
    assert not status.ready
    lies_still(sidecar, 4.0)
    assert b"secret-" not in sidecar.log.read_bytes()
    assert sidecar.api().gaps() == []
    known = world.ledger.count
    world.kafka.scram_user(world.user, world.password)
    row.cured()
    wait_until(lambda: world.ledger.count > known, "records flow again", timeout_seconds=40)
    row.delivering()
    load.stop()
    world.deliver_all(sidecar, (topic, 0), (topic, 1))
    application.stop()
    assert sidecar.api().gaps() == []
    account = row.account(world.account())
    assert account.applied == account.produced
