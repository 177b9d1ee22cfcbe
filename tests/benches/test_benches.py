"""Each bench does what the other tests rely on; if one of these fails, look here first."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without __all__
    AclOperation,
    AdminClient,
    ResourceType,
)
from redis.exceptions import ClusterDownError, ClusterError, MovedError

from tests.benches.kafka import KafkaBroker, KafkaTrio, SecureKafka
from tests.benches.names import Names
from tests.benches.process import REPOSITORY, BenchError, free_port, release_port
from tests.benches.proxy import KafkaApi, Proxy
from tests.benches.redis import Sentinels, Valkey, ValkeyCluster
from tests.benches.topics import Committed, Outsider, Record
from tests.benches.waiting import wait_until

# --- processes and waiting ------------------------------------------------------------------------


def test_a_condition_that_never_holds_names_what_was_awaited_and_last_seen() -> None:
    with pytest.raises(TimeoutError, match=r"the moon.*last seen: \[\]"):
        wait_until(list, "the moon", timeout_seconds=0.05)


def test_ports_are_reserved_and_not_ephemeral() -> None:
    ports = [free_port() for _ in range(20)]
    try:
        assert len(set(ports)) == 20
        assert max(ports) < 32768
    finally:
        for port in ports:
            release_port(port)


def test_servers_die_with_the_tests_even_by_sigkill() -> None:
    """The guard outlives its parent for a moment, and takes the servers and their data along."""
    script = (
        "import os, signal\n"
        "from tests.benches.redis import Valkey\n"
        "server = Valkey(); server.start()\n"
        "print(server.pid, server.directory, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, timeout=30
    )
    pid, directory = done.stdout.split()
    wait_until(lambda: not _alive(int(pid)), "the orphan is gone")
    wait_until(lambda: not Path(directory).exists(), "its data is gone")


def _alive(pid: int) -> bool:
    """Zombies do not count: nobody may be there to reap an orphan in a container."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[0] != "Z"
    except OSError:
        return False


def test_a_server_that_cannot_start_says_why() -> None:
    with Valkey(settings={"no-such-directive": 1}) as server, pytest.raises(BenchError) as caught:
        server.start()
    assert "no-such-directive" in str(caught.value)


def test_a_port_that_was_taken_meanwhile_is_exchanged() -> None:
    with Valkey() as server, socket.create_server(("127.0.0.1", server.port)) as other:
        server.start()
        assert server.port != other.getsockname()[1]
        assert server.client().ping()


# --- R1 -------------------------------------------------------------------------------------------


def test_valkey_starts_at_once_and_keeps_its_data(valkey_server: Callable[..., Valkey]) -> None:
    server = valkey_server()
    client = server.client()
    client.set("key", "kept")
    assert server.restart() < 5
    assert client.get("key") == "kept"
    server.kill()
    server.start()
    assert client.get("key") == "kept"


def test_valkey_is_rewound_and_reborn_empty(valkey_server: Callable[..., Valkey]) -> None:
    server = valkey_server()
    client = server.client()
    client.set("key", "old")
    server.stop()
    saved = server.save_data()
    server.start()
    client.set("key", "new")
    server.kill()
    server.restore_data(saved)
    server.start()
    assert client.get("key") == "old"
    server.kill()
    server.restore_data(None)
    server.start()
    assert client.get("key") is None


def test_valkey_answers_on_a_unix_socket(valkey: Valkey, names: Names) -> None:
    with redis.Redis.from_url(valkey.socket_url) as client:
        assert client.set(names.prefix, 1)
    assert valkey.client().get(names.prefix) == "1"


def test_a_frozen_valkey_times_out_and_goes_on(valkey_server: Callable[..., Valkey]) -> None:
    server = valkey_server()
    client = server.client(socket_timeout=0.2)
    client.ping()
    server.pause()
    with pytest.raises(redis.TimeoutError):
        client.get("key")
    server.resume()
    assert client.ping()


def test_valkey_takes_settings(valkey_server: Callable[..., Valkey]) -> None:
    server = valkey_server(settings={"maxmemory-policy": "allkeys-lru", "appendfsync": "always"})
    assert server.command("CONFIG GET", "maxmemory-policy") == {"maxmemory-policy": "allkeys-lru"}
    server.command("SET", "key", 1)
    server.flush()
    assert server.command("DBSIZE") == 0


# --- R2, RC ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_failover_to_a_lagging_replica_loses_acknowledged_writes(
    sentinels: Callable[..., Sentinels],
) -> None:
    r2 = sentinels()
    client, old = r2.client(), r2.master
    client.set("generation", 7)
    wait_until(lambda: r2.replica.command("GET", "generation") == "7", "replicated")
    r2.cut_replica()
    client.set("generation", 8)
    assert old.command("WAITAOF", 1, 0, 1000)[0] == 1
    r2.fail_over_by_kill()
    assert r2.client().get("generation") == "7"

    # The old master comes back as one, writable, until the sentinels make it follow.
    old.start()
    assert old.client().set("split", "brain")
    r2.await_following(old)
    assert old.client().get("split") is None


@pytest.mark.slow
def test_a_clean_failover_loses_nothing(sentinels: Callable[..., Sentinels]) -> None:
    r2 = sentinels()
    old = r2.master
    r2.client().set("key", "kept")
    wait_until(lambda: r2.replica.command("GET", "key") == "kept", "replicated")
    r2.fail_over()
    assert r2.master is not old
    assert r2.client().get("key") == "kept"
    with pytest.raises(redis.ReadOnlyError):
        old.client().set("key", "refused")


@pytest.mark.slow
def test_a_cluster_moves_a_slot_and_goes_down_with_a_node(
    valkey_cluster: Callable[..., ValkeyCluster],
) -> None:
    rc = valkey_cluster()
    client = rc.client()
    for key in ("{tag}1", "{tag}2"):
        client.set(key, key)
    source = rc.node_of("{tag}1")
    target = next(node for node in rc.nodes if node is not source)
    with rc.moving_slot("{tag}1", target) as move:
        move("{tag}1")
        assert client.get("{tag}1") == "{tag}1"
        with pytest.raises(ClusterError):
            client.eval("return 1", 2, "{tag}1", "{tag}2")
    assert rc.node_of("{tag}1") is target
    assert client.get("{tag}2") == "{tag}2"
    with pytest.raises(MovedError):
        source.client().get("{tag}1")

    source.kill()

    def refuses() -> bool:
        try:
            target.client().get("{tag}1")
        except ClusterDownError:
            return True
        return False

    wait_until(refuses, "the cluster is down")
    client.close()


# --- K1 -------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def outsider(kafka: KafkaBroker) -> Outsider:
    return Outsider(kafka)


@pytest.mark.kafka
def test_a_broker_starts_soon_and_keeps_its_data(kafka_broker: Callable[..., KafkaBroker]) -> None:
    broker = kafka_broker()
    outsider = Outsider(broker)
    topic_id = outsider.create("t")
    assert outsider.produce("t", 3) == [0, 1, 2]
    assert broker.restart() < 20
    assert outsider.produce("t", 1) == [3]
    broker.kill()
    broker.start()
    assert [m.value() for m in outsider.read("t")] == [b"v0", b"v1", b"v2", b"v0"]
    assert outsider.topic_id("t") == topic_id
    epochs = [m.leader_epoch() for m in outsider.read("t")]
    assert epochs == [0, 0, 0, 2]
    assert broker.rss_mb < 300


@pytest.mark.kafka
def test_a_rewound_log_gives_other_bytes_at_the_same_offset_and_epoch(
    kafka_broker: Callable[..., KafkaBroker],
) -> None:
    broker = kafka_broker()
    outsider = Outsider(broker)
    topic_id = outsider.create("t")
    outsider.produce("t", 10)
    outsider.commit("g", "t", 0, 10, "at ten")
    broker.stop()
    saved = broker.save_data()
    broker.start()
    outsider.produce("t", 5, tag="A")
    outsider.commit("g", "t", 0, 15, "at fifteen")
    lost = outsider.read("t")[12]
    broker.kill()
    broker.restore_data(saved)
    broker.start()
    outsider.produce("t", 5, tag="B")
    found = outsider.read("t")[12]
    assert (lost.offset(), lost.value()) == (12, b"A2")
    assert (found.offset(), found.value()) == (12, b"B2")
    assert found.leader_epoch() == lost.leader_epoch()
    assert outsider.topic_id("t") == topic_id
    assert outsider.committed("g", "t") == Committed(10, "at ten", None)


@pytest.mark.kafka
def test_a_frozen_broker_answers_nobody_and_then_everybody(
    kafka_broker: Callable[..., KafkaBroker],
) -> None:
    broker = kafka_broker()
    client = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    client.list_topics(timeout=5)
    broker.pause()
    with pytest.raises(KafkaException):
        client.list_topics(timeout=0.3)
    broker.resume()
    assert client.list_topics(timeout=10).brokers


@pytest.mark.kafka
def test_a_broker_whose_port_was_taken_chooses_another() -> None:
    with KafkaBroker() as broker, socket.create_server(("127.0.0.1", broker.port)) as other:
        broker.start()
        assert broker.port != other.getsockname()[1]


@pytest.mark.kafka
def test_records_are_produced_as_given(outsider: Outsider, names: Names) -> None:
    topic = names.topic()
    outsider.create(topic, 2)
    given = Record(None, b"\xff", [("h", b"1"), ("h", None)], timestamp_ms=5)
    assert outsider.produce(topic, [given, Record(b"")], partition=1) == [0, 1]
    first, second = outsider.read(topic, 1)
    assert (first.value(), first.key(), first.timestamp()[1]) == (None, b"\xff", 5)
    assert first.headers() == [("h", b"1"), ("h", None)]
    assert (second.value(), second.key(), second.headers()) == (b"", None, None)
    assert outsider.read(topic, 0) == []


@pytest.mark.kafka
def test_deleted_records_move_the_log_start(outsider: Outsider, names: Names) -> None:
    topic = names.topic()
    outsider.create(topic)
    outsider.produce(topic, 10)
    assert outsider.delete_records(topic, 0, 4) == 4
    bounds = outsider.bounds(topic)
    assert (bounds.start, bounds.end, bounds.stable) == (4, 10, 10)
    assert outsider.read(topic)[0].offset() == 4


@pytest.mark.kafka
def test_a_topic_is_recreated_with_another_id_and_without_commits(
    outsider: Outsider, names: Names
) -> None:
    topic, group = names.topic(), names.group()
    old = outsider.create(topic)
    outsider.produce(topic, 2)
    outsider.commit(group, topic, 0, 2)
    new = outsider.recreate(topic, 3)
    assert new != old
    assert outsider.bounds(topic, 2).end == 0
    assert outsider.committed(group, topic) is None
    outsider.add_partitions(topic, 4)
    wait_until(lambda: outsider.bounds(topic, 3), "fourth", ignoring=(KafkaException,))
    outsider.configure(topic, retention_ms=1000)


@pytest.mark.kafka
def test_commits_are_seen_and_taken_away(outsider: Outsider, names: Names) -> None:
    topic, group = names.topic(), names.group()
    outsider.create(topic, 2)
    outsider.commit(group, topic, 0, 7, "witness", leader_epoch=3)
    outsider.commit(group, topic, 1, 9)
    assert outsider.committed(group, topic) == Committed(7, "witness", 3)
    assert outsider.committed(group, topic, 1) == Committed(9, None, None)
    outsider.reset_offsets(group, topic, "--to-offset", "0")
    assert outsider.committed(group, topic) == Committed(0, None, None)
    outsider.delete_offsets(group, topic)
    assert outsider.committed(group, topic) is None
    outsider.commit(group, topic, 0, 7)
    outsider.delete_group(group)
    assert outsider.committed(group, topic) is None


@pytest.mark.kafka
def test_an_outsider_cannot_commit_for_a_live_group(
    kafka: KafkaBroker, outsider: Outsider, names: Names
) -> None:
    topic, group = names.topic(), names.group()
    outsider.create(topic)
    member = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    try:
        member.subscribe([topic])
        wait_until(lambda: member.poll(0.1) is None and member.assignment(), "assigned")
        assert outsider.members(group) == 1
        with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
            outsider.commit(group, topic, 0, 1)
    finally:
        member.close()
    wait_until(lambda: outsider.members(group) == 0, "left")


@pytest.mark.kafka
def test_transactions_leave_holes_and_one_that_hangs_holds_the_stable_offset(
    outsider: Outsider, names: Names
) -> None:
    topic = names.topic()
    outsider.create(topic)
    assert outsider.transaction(topic, 2, commit=True) == [0, 1]
    assert outsider.transaction(topic, 2, commit=False) == [3, 4]
    assert outsider.hang_transaction(topic, 2, transactional_id=names.prefix) == [6, 7]
    outsider.produce(topic, 1)
    bounds = outsider.bounds(topic)
    assert (bounds.end, bounds.stable) == (9, 6)
    assert [m.offset() for m in outsider.read(topic, committed=True)] == [0, 1]
    outsider.terminate_transaction(names.prefix)
    wait_until(lambda: outsider.bounds(topic).stable == 10, "released")
    assert [m.offset() for m in outsider.read(topic, committed=True)] == [0, 1, 8]
    assert len(outsider.read(topic)) == 7


# --- K3 -------------------------------------------------------------------------------------------


@pytest.mark.kafka
@pytest.mark.slow
def test_an_unclean_election_truncates_acknowledged_records(
    kafka_trio: Callable[..., KafkaTrio],
) -> None:
    trio = kafka_trio()
    outsider = Outsider(trio)
    config = {"unclean.leader.election.enable": "true"}
    outsider.create("t", config=config, replicas=[[2, 3]])
    wait_until(lambda: outsider.in_sync("t") == {2, 3}, "both in sync")
    acknowledged = {"acks": "all"}
    outsider.produce("t", 10, tag="base", conf=acknowledged)
    trio[3].kill()
    wait_until(lambda: outsider.in_sync("t") == {2}, "3 is out")
    outsider.produce("t", 5, tag="A", conf=acknowledged)
    trio[2].kill()
    wait_until(lambda: outsider.leader("t") is None, "leaderless")
    trio[3].start()
    wait_until(lambda: outsider.leader("t") == 3, "3 leads", timeout_seconds=30)
    outsider.produce("t", 5, tag="B", conf=acknowledged)
    trio[2].start()
    wait_until(lambda: outsider.in_sync("t") == {2, 3}, "2 is back", timeout_seconds=30)
    after = [(m.offset(), m.value(), m.leader_epoch()) for m in outsider.read("t", start=9)]
    assert after[0] == (9, b"base9", 0)
    assert [value for _, value, _ in after[1:]] == [b"B0", b"B1", b"B2", b"B3", b"B4"]
    assert after[1][2] != 0


# --- K1a ------------------------------------------------------------------------------------------


@pytest.mark.kafka
def test_rights_are_granted_and_taken_one_by_one(secure_kafka: Callable[..., SecureKafka]) -> None:
    secure = secure_kafka()
    outsider = Outsider(secure)
    outsider.create("t")
    app = AdminClient({**secure.client(), "log_level": 0})

    def sees_topic() -> bool:
        return "t" in app.list_topics(timeout=5).topics

    assert not sees_topic()
    secure.grant(ResourceType.TOPIC, "t", AclOperation.READ, AclOperation.DESCRIBE)
    wait_until(sees_topic, "granted")
    secure.revoke(ResourceType.TOPIC, "t", AclOperation.READ)
    assert sees_topic()
    secure.revoke(ResourceType.TOPIC, "t", AclOperation.DESCRIBE)
    wait_until(lambda: not sees_topic(), "revoked")

    admin = AdminClient({**secure.client("admin", "adminpw"), "log_level": 0})
    assert "t" in admin.list_topics(timeout=5).topics
    stranger = AdminClient({**secure.client("app", "wrong"), "log_level": 0})
    with pytest.raises(KafkaException):
        stranger.list_topics(timeout=1)
    secure.scram_user("new", "secret")
    scram = AdminClient({**secure.client("new", "secret", "SCRAM-SHA-256"), "log_level": 0})
    assert scram.list_topics(timeout=5).brokers


# --- proxy ----------------------------------------------------------------------------------------


@pytest.fixture
def proxied_valkey(valkey: Valkey) -> Iterator[tuple[Proxy, redis.Redis]]:
    with Proxy(valkey.port) as proxy:
        client = redis.Redis.from_url(proxy.url, retry=None, socket_timeout=5)
        yield proxy, client
        client.close()


def test_a_reply_is_lost_after_the_server_has_executed(
    proxied_valkey: tuple[Proxy, redis.Redis], valkey: Valkey, names: Names
) -> None:
    proxy, client = proxied_valkey
    assert client.incr(names.prefix) == 1
    lost = proxy.lose_reply(lambda request: b"INCR" in request)
    client.ping()
    assert not lost.happened
    with pytest.raises(redis.ConnectionError):
        client.incr(names.prefix)
    lost.wait()
    assert valkey.client().get(names.prefix) == "2"
    assert client.incr(names.prefix) == 3


def test_connections_are_cut_and_refused(proxied_valkey: tuple[Proxy, redis.Redis]) -> None:
    proxy, client = proxied_valkey
    client.ping()
    proxy.refuse()
    with pytest.raises(redis.ConnectionError):
        client.ping()
    with pytest.raises(redis.ConnectionError, match="refused"):
        client.ping()
    proxy.heal()
    assert client.ping()
    with socket.create_connection(("127.0.0.1", proxy.port), 5) as raw:
        wait_until(lambda: proxy.connections == 2, "connected")
        proxy.cut()
        assert raw.recv(1) == b""
    wait_until(lambda: proxy.connections == 0, "cut")
    assert client.ping()


def test_bytes_are_delayed_without_becoming_fewer(
    proxied_valkey: tuple[Proxy, redis.Redis], names: Names
) -> None:
    proxy, client = proxied_valkey
    value = os.urandom(2_000_000)
    client.ping()
    proxy.delay(0.1)
    started = time.monotonic()
    client.set(names.prefix, value, ex=60)
    assert client.get(names.prefix) == value
    assert 0.4 <= time.monotonic() - started < 4


def test_what_a_blackhole_swallowed_arrives_after_it(
    proxied_valkey: tuple[Proxy, redis.Redis], valkey: Valkey, names: Names
) -> None:
    proxy, client = proxied_valkey
    client.ping()
    proxy.blackhole()
    client.connection_pool.connection_kwargs["socket_timeout"] = 0.2
    with Proxy(valkey.port) as other:
        other.blackhole()
        newcomer = redis.Redis.from_url(other.url, retry=None, socket_timeout=0.2)
        with pytest.raises(redis.TimeoutError):
            newcomer.set(names.prefix, 1)
        newcomer.close()
    with socket.create_connection(("127.0.0.1", proxy.port)) as raw:
        raw.sendall(f"SET {names.prefix} 2\r\n".encode())
        raw.settimeout(0.2)
        with pytest.raises(TimeoutError):
            raw.recv(1)
        proxy.heal()
        raw.settimeout(5)
        assert raw.recv(5) == b"+OK\r\n"


@pytest.mark.kafka
def test_a_commit_whose_reply_is_lost_has_happened(
    proxied_kafka: Callable[..., tuple[KafkaBroker, Proxy]],
) -> None:
    """The broker advertises the proxy, so that nothing of the client goes around it."""
    broker, proxy = proxied_kafka()
    outsider = Outsider(broker)
    outsider.create("t")
    outsider.produce("t", 10)
    assert proxy.connections == 0
    client = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "log_level": 0})
    try:
        client.assign([TopicPartition("t", 0, 0)])
        wait_until(lambda: client.poll(0.1), "a record")
        lost = proxy.lose_reply(KafkaApi.OFFSET_COMMIT.requested_by)
        client.commit(offsets=[TopicPartition("t", 0, 5, "m")], asynchronous=True)
        wait_until(lambda: client.poll(0.1) is None and lost.happened, "lost")
        assert outsider.committed("g", "t") == Committed(5, "m", None)
        proxy.refuse()
        assert outsider.bounds("t").end == 10
    finally:
        proxy.heal()
        client.close()


# --- with_kafka -----------------------------------------------------------------------------------


@pytest.mark.kafka
def test_with_kafka_runs_a_command_beside_a_broker_and_returns_its_exit_code() -> None:
    look = (
        "import sys; from confluent_kafka.admin import AdminClient\n"
        "AdminClient({'bootstrap.servers': sys.argv[1]}).list_topics(timeout=5); sys.exit(3)"
    )
    command = [sys.executable, "-m", "tests.benches.with_kafka", "--"]
    done = subprocess.run(
        [*command, sys.executable, "-c", look, "{bootstrap}"], cwd=REPOSITORY, timeout=50
    )
    assert done.returncode == 3
