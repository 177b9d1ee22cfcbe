"""The store is there and says no: each answer by its name, with a whole sidecar under load.

The same for all of them: records flow, the store begins to answer with one error, the sidecar says
so and promotes nothing; the cause is mended, and everything is applied, with no gap, nothing lost
and nothing repeated without its flag. What each answer means, and that nothing is half written, is
the store's own matter: `tests/store/test_faults_inflicted.py`.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis

from tests.benches.kafka import KafkaBroker
from tests.benches.names import Names
from tests.benches.redis import Valkey
from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.world import Load, World

pytestmark = pytest.mark.kafka

RIGHTS = (
    "+eval +evalsha +hmget +hgetall +smembers +sadd +info +wait +exists +type +lrange +rpush"
    " +ltrim +hset +hsetnx +hincrby +hdel +hlen +del +xadd +xdel +xrange +xrevrange"
)


Inflict = Callable[[Valkey], contextlib.AbstractContextManager[None]]


@dataclass(frozen=True)
class Error:
    """`inflict` is the fault while it is entered, and mends it when it is left."""

    kind: str
    code: str
    inflict: Inflict
    settings: dict[str, object] = field(default_factory=dict)
    user: bool = False
    """The sidecar signs in as a user of its own."""
    within_seconds: float = 2.0

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.code}"


def _set(name: str, value: object, back: object) -> Inflict:
    @contextmanager
    def inflict(server: Valkey) -> Iterator[None]:
        server.command("CONFIG", "SET", name, value)
        yield
        server.command("CONFIG", "SET", name, back)

    return inflict


@contextmanager
def _replica(server: Valkey) -> Iterator[None]:
    server.command("REPLICAOF", "127.0.0.1", 1)
    yield
    server.command("REPLICAOF", "NO", "ONE")


@contextmanager
def _disk(server: Valkey) -> Iterator[None]:
    where = server.command("CONFIG", "GET", "dir")["dir"]
    server.command("CONFIG", "SET", "dir", "/proc")
    server.command("BGSAVE")
    yield
    server.command("CONFIG", "SET", "dir", where)
    server.command("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")


@contextmanager
def _busy(server: Valkey) -> Iterator[None]:
    server.command("CONFIG", "SET", "busy-reply-threshold", 1)
    with server.client(socket_timeout=0.05) as loose, contextlib.suppress(redis.RedisError):
        loose.eval("while true do end", 0)
    yield
    server.command("SCRIPT", "KILL")


@contextmanager
def _loading(server: Valkey) -> Iterator[None]:
    """Its append-only file takes some seconds to load."""
    fill = "for i = 1, 8000 do redis.call('SET', 'fill:' .. i, i) end"
    with server.client() as client:
        client.eval(fill, 0)
    server.kill()
    server.settings |= {"key-load-delay": 400, "loading-process-events-interval-bytes": 1024}
    server.start()
    yield


@contextmanager
def _without_right(server: Valkey) -> Iterator[None]:
    server.command("ACL", "SETUSER", "app", "-evalsha")
    yield
    server.command("ACL", "SETUSER", "app", "+evalsha")


@contextmanager
def _without_user(server: Valkey) -> Iterator[None]:
    server.command("ACL", "DELUSER", "app")
    yield
    _grant(server)


@contextmanager
def _full(server: Valkey) -> Iterator[None]:
    server.command("CONFIG", "SET", "maxclients", 1)
    server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    yield
    server.command("CONFIG", "SET", "maxclients", 1000)


@contextmanager
def _killed(server: Valkey) -> Iterator[None]:
    server.kill()
    yield
    server.start()


def _grant(server: Valkey) -> None:
    server.command("ACL", "SETUSER", "app", "reset", "on", ">pw", "~*", *RIGHTS.split())


ERRORS = (
    Error("refused", "OOM", _set("maxmemory", 1, 0)),
    Error("refused", "NOREPLICAS", _set("min-replicas-to-write", 1, 0)),
    Error("refused", "MISCONF", _disk, {"save": "3600 1", "enable-protected-configs": "yes"}),
    Error("unavailable", "READONLY", _replica),
    Error("unavailable", "BUSY", _busy),
    Error("unavailable", "LOADING", _loading, within_seconds=15),
    Error("unavailable", "CONNECTION", _killed),
    Error("unavailable", "MAXCLIENTS", _full),
    Error("authorization", "NOPERM", _without_right, user=True),
    Error("authentication", "AUTHENTICATION", _without_user, user=True),
)


@pytest.mark.timeout(90)
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(
            error,
            id=error.code.lower(),
            marks=pytest.mark.fault(
                row="store-error",
                bench="R1",
                expected=error.name,
                within_seconds=error.within_seconds,
            ),
        )
        for error in ERRORS
    ],
)
def test_a_store_that_says_no_is_named_and_changes_nothing(
    error: Error,
    kafka: KafkaBroker,
    valkey_server: Callable[..., Valkey],
    names: Names,
    tmp_path: Path,
    row: Row,
) -> None:
    """Under load: named, no gap, few lines; mended, it goes on by itself and nothing is lost."""
    server = valkey_server(settings=error.settings)
    with World(kafka, server, names, tmp_path) as world, ExitStack() as fault:
        url = server.url
        if error.user:
            _grant(server)
            url = url.replace("redis://", "redis://app:pw@")
        topic = world.topic()
        load = Load(world, topic, 1)
        sidecar = world.sidecar(REDIS__URL=url)
        application = world.application(sidecar, records_max=20)
        wait_until(lambda: world.ledger.count > 100, "records flow")
        mark, began = sidecar.mark(), time.monotonic()
        row.inflicted()
        fault.enter_context(error.inflict(server))
        row.judged(sidecar.await_store_error(error.code, after=mark))
        fault.close()
        row.cured()
        seen = world.ledger.count
        wait_until(lambda: world.ledger.count > seen + 40, "records flow", timeout_seconds=30)
        row.delivering()
        lines = len([e for e in sidecar.since(mark) if e["event"] != "page_promoted"])
        assert lines <= 12 + 2 * (time.monotonic() - began)
        load.stop()
        world.deliver_all(sidecar, (topic, 0))
        application.stop()
        assert sidecar.api().gaps() == []
        account = row.account(world.account())
        assert account.applied == account.produced


@pytest.mark.fault(
    row="store-error/noscript", bench="R1", expected="delivering", covers=("NOSCRIPT",), cases=(16,)
)
def test_scripts_that_are_flushed_under_load_are_loaded_again(own_store: World, row: Row) -> None:
    """Between any two calls, again and again: nobody notices, and nothing is half done."""
    world = own_store
    topic = world.topic()
    load = Load(world, topic, 1)
    sidecar = world.sidecar()
    application = world.application(sidecar, records_max=20)
    for _ in range(10):
        seen = world.ledger.count
        world.valkey.command("SCRIPT", "FLUSH")
        wait_until(lambda: world.ledger.count > seen + 40, "records flow")  # noqa: B023  # called before the next round
    load.stop()
    world.deliver_all(sidecar, (topic, 0))
    application.stop()
    state = sidecar.await_partition(topic, state="delivering")
    row.observe(state.state, state.state)
    assert not sidecar.events("dependency_lost", component="redis")
    account = row.account(world.account())
    assert (account.applied, account.repeated_flagged) == (account.produced, 0)


@pytest.mark.fault(row="store/config-forbidden", bench="R1", expected="delivering", cases=(14,))
def test_a_store_whose_settings_cannot_be_read_is_used_and_said(
    kafka: KafkaBroker,
    valkey_server: Callable[..., Valkey],
    names: Names,
    tmp_path: Path,
    row: Row,
) -> None:
    """`CONFIG` renamed away, as managed services do: a warning names what could not be checked."""
    server = valkey_server(settings={"rename-command CONFIG": '""'})
    with World(kafka, server, names, tmp_path) as world:
        topic = world.topic()
        world.produce(topic, 10)
        sidecar = world.sidecar()
        row.inflicted()
        judged = sidecar.await_event("store_judged")
        assert any("CONFIG GET is forbidden" in warning for warning in judged["warnings"])
        assert world.apply(sidecar, topic, 10) == 10
        state = sidecar.await_partition(topic, state="delivering")
        row.judged(state.state, state.state)
        row.account(world.account())


@pytest.mark.fault(row="store-error/too-few-replicas", bench="R1", expected="unavailable/WAIT")
def test_promotions_that_too_few_replicas_acknowledge_do_not_count(
    kafka: KafkaBroker,
    valkey_server: Callable[..., Valkey],
    names: Names,
    tmp_path: Path,
    row: Row,
) -> None:
    """`REDIS__REPLICAS_ACK=1`, and the replica frozen: reports are not answered as recorded, and
    nothing is committed; thawed, the same reports are, once."""
    quick = {"repl-diskless-sync-delay": 0}
    master, replica = valkey_server(settings=quick), valkey_server(settings=quick)
    replica.command("REPLICAOF", "127.0.0.1", master.port)
    wait_until(
        lambda: replica.info("replication").get("master_link_status") == "up", "replica follows"
    )
    with World(kafka, master, names, tmp_path) as world:
        topic = world.topic()
        world.produce(topic, 40)
        sidecar = world.sidecar(REDIS__REPLICAS_ACK=1)
        assert world.apply(sidecar, topic, 20) == 20
        mark = sidecar.mark()
        replica.pause()
        row.inflicted()
        application = world.application(sidecar)
        row.judged(sidecar.await_store_error("WAIT", after=mark, timeout_seconds=30))
        assert world.committed(topic) == 20
        replica.resume()
        row.cured()
        sidecar.await_partition(topic, caught_up=True, committed=40)
        row.delivering()
        application.stop()
        assert row.account(world.account()).applied == 40


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(
            ("body", "{"),
            id="corrupt",
            marks=pytest.mark.fault(
                row="format-unknown/checkpoint",
                bench="R1",
                expected="format_unknown",
                covers=("CORRUPT",),
                within_seconds=2,
            ),
        ),
        pytest.param(
            ("format", "99"),
            id="newer",
            marks=pytest.mark.fault(
                row="format-unknown/checkpoint",
                bench="R1",
                expected="format_unknown",
                covers=("FORMAT",),
                within_seconds=2,
            ),
        ),
    ],
)
def test_a_checkpoint_that_cannot_be_read_is_held_and_left_alone(
    own_store: World, words: tuple[str, str], row: Row
) -> None:
    """Spoiled, or written by a later release: held by name, neither replaced nor taken for a first
    run; put right, it goes on by itself."""
    world = own_store
    topic = world.topic()
    world.produce(topic, 40)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 20) == 20
    sidecar.terminate()
    key = f"{world.prefix}:{{{world.group}/{topic}/0}}:checkpoint"
    name, spoiled = words
    right = world.checkpoint(topic)[name]
    world.valkey.command("HSET", key, name, spoiled)
    sidecar.start()
    row.inflicted()
    state = sidecar.await_partition(topic, state="held")
    row.judged(state.reason or "none", state.state)
    assert sidecar.api().take(0.5) is None
    assert world.checkpoint(topic)[name] == spoiled
    assert world.committed(topic) == 20
    world.valkey.command("HSET", key, name, right)
    row.cured()
    assert world.apply(sidecar, topic, 20) == 40
    row.delivering()
    assert row.account(world.account()).applied == 40


@pytest.mark.fault(row="store-error/wrongtype", bench="R1", expected="refused/WRONGTYPE")
def test_a_key_that_holds_something_else_is_named_and_nothing_is_half_written(
    own_store: World, row: Row
) -> None:
    """Somebody's SET on a key of ours: reports are refused, until it is taken away."""
    world = own_store
    topic = world.topic()
    world.produce(topic, 40)
    sidecar = world.sidecar()
    assert world.apply(sidecar, topic, 20) == 20
    mark = sidecar.mark()
    key = f"{world.prefix}:{{{world.group}/{topic}/0}}:receipts"
    world.valkey.command("DEL", key)
    world.valkey.command("SET", key, "x")
    row.inflicted()
    application = world.application(sidecar)
    row.judged(sidecar.await_store_error("WRONGTYPE", after=mark))
    assert world.checkpoint(topic)["next"] == "20"
    world.valkey.command("DEL", key)
    row.cured()
    sidecar.await_partition(topic, caught_up=True, committed=40)
    row.delivering()
    application.stop()
    assert row.account(world.account()).applied == 40
