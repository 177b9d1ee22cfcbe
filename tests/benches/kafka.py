"""Apache Kafka from its jars: KRaft brokers on free ports, quick to start and made to be broken.

A broker is one JVM in front of one data directory, so everything a test inflicts is done to these
two: stop, kill, freeze, or put an older copy of the directory back (`save_data`, `restore_data`:
the same offsets then get other bytes).

What makes it fast: the directory is formatted by hand (`meta.properties`, and on controllers a
snapshot of the feature levels that Kafka's own tool wrote once; without it the new group protocol
is refused), an archive of the loaded classes (AppCDS), and a log cleaner that does not zero 128 MB.
Jars, snapshot and archive live in `build/kafka`, made by whoever comes first.
"""

import base64
import contextlib
import fcntl
import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without __all__
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ClusterMetadata,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.benches.process import (
    REPOSITORY,
    BenchError,
    PortTakenError,
    Process,
    accepts,
    free_port,
    release_port,
)

HERE = Path(__file__).resolve().parent
CACHE = REPOSITORY / "build" / "kafka"
LIBS = CACHE / "libs"
ADMIN_TIMEOUT_SECONDS = 10

_JVM = [
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Xshare:auto",
]

_FAST: dict[str, object] = {
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "auto.create.topics.enable": "false",
    # A broker that was killed may register again only when its old session has ended.
    "broker.session.timeout.ms": 2000,
    "broker.heartbeat.interval.ms": 300,
    "log.initial.task.delay.ms": 500,
    "log.retention.check.interval.ms": 1000,
    "log.segment.delete.delay.ms": 1000,
    "log.cleaner.backoff.ms": 500,
    "log.cleaner.dedupe.buffer.size": 2097152,
    "log.cleaner.io.buffer.size": 65536,
    "transaction.max.timeout.ms": 900000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    "num.network.threads": 2,
    "num.io.threads": 2,
    "background.threads": 2,
}

# What three nodes add: a lagging replica soon leaves the ISR, an unclean leader is soon elected.
_TRIO: dict[str, object] = {
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "min.insync.replicas": 1,
    "replica.lag.time.max.ms": 1500,
    "replica.fetch.wait.max.ms": 100,
    "replica.high.watermark.checkpoint.interval.ms": 200,
    "unclean.leader.election.interval.ms": 500,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


# --- what brokers start from: jars, feature snapshot, class archive -------------------------------


def _tool_path(command: str, remedy: str) -> str:
    path = shutil.which(command)
    if path is None:
        raise BenchError(f"{command} is not installed, and a real broker needs it: {remedy}")
    return path


def _java() -> str:
    return _tool_path("java", "install Java 17 or newer (Debian: openjdk-17-jre-headless)")


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Only one process at a time prepares `build/kafka`; the others then find it prepared."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _command(main: str, *args: str | Path, heap: str, archive: str = "") -> list[str]:
    return [
        _java(),
        f"-Xmx{heap}",
        *_JVM,
        *([archive] if archive else []),
        f"-Dlog4j2.configurationFile={HERE / 'log4j2.yaml'}",
        "-cp",
        f"{LIBS}/*",
        main,
        *map(str, args),
    ]


def _output(command: list[str], problem: str, *, timeout_seconds: float) -> str:
    """What a command prints; a `BenchError` that begins with `problem` when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{problem}: not done within {timeout_seconds:g} s") from None
    if done.returncode:
        words = (done.stdout + done.stderr)[-2000:]
        raise BenchError(f"{problem}: exit code {done.returncode}\n{words}")
    return done.stdout


def _kafka_version() -> str:
    found = re.search(r"<kafka\.version>(.+?)<", (HERE / "pom.xml").read_text())
    assert found is not None
    return found[1]


def _fetch_jars() -> None:
    if (LIBS / f"kafka_2.13-{_kafka_version()}.jar").exists():
        return
    maven = _tool_path("mvn", "install Maven, which fetches the jars of Kafka (Debian: maven)")
    fresh = CACHE / "libs.new"
    shutil.rmtree(fresh, ignore_errors=True)
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={fresh}"]
    pom = ["--batch-mode", "-q", "-f", str(HERE / "pom.xml")]
    _output([maven, *pom, *goal], "mvn could not fetch the jars of Kafka", timeout_seconds=600)
    shutil.rmtree(LIBS, ignore_errors=True)
    fresh.rename(LIBS)


def _write_features(target: Path) -> None:
    """Let Kafka's own tool format a directory once, and keep the one file that matters of it."""
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch, "s.properties")
        config.write_text(
            "process.roles=controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:1\n"
            "listeners=CONTROLLER://127.0.0.1:1\ncontroller.listener.names=CONTROLLER\n"
            f"log.dirs={scratch}/data\n"
        )
        tool = ["kafka.tools.StorageTool", "format", "-t", _new_id(), "-c", str(config)]
        _output(_command(*tool, heap="128m"), "Kafka's StorageTool failed", timeout_seconds=60)
        (written,) = Path(scratch, "data", "__cluster_metadata-0").glob("*.checkpoint")
        shutil.copyfile(written, target.with_suffix(".new"))
        target.with_suffix(".new").rename(target)


def _write_archive(target: Path, features: Path) -> None:
    """Run a broker once so that the JVM archives the classes it loaded."""
    fresh = target.with_suffix(".new")
    # Only speed is lost without it; the JVM itself ignores an archive that does not fit.
    with contextlib.suppress(BenchError, KafkaException, OSError):
        with KafkaBroker(
            name="archive", prepared=(features, f"-XX:ArchiveClassesAtExit={fresh}")
        ) as broker:
            broker.start()
            broker.stop()
        fresh.rename(target)


@functools.cache
def prepare() -> tuple[Path, str]:
    """Fill `build/kafka` with what a broker starts from: the feature snapshot, and a JVM option."""
    java = Path(_java()).resolve()
    with _locked():
        _fetch_jars()
        features = CACHE / f"features-{_kafka_version()}.checkpoint"
        if not features.exists():
            _write_features(features)
        jars = sorted((jar.name, jar.stat().st_mtime) for jar in LIBS.glob("*.jar"))
        fit = hashlib.sha256(
            repr((str(java), java.stat().st_mtime, str(LIBS), jars, _JVM)).encode()
        )
        archive = CACHE / f"classes-{fit.hexdigest()[:12]}.jsa"
        if not archive.exists():
            for outdated in CACHE.glob("classes-*"):
                outdated.unlink()
            _write_archive(archive, features)
        return features, f"-XX:SharedArchiveFile={archive}" if archive.exists() else ""


def _new_id() -> str:
    """A UUID as Kafka writes it: URL-safe base64, unpadded, and not led by a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


# --- one broker -----------------------------------------------------------------------------------


class KafkaBroker(Process):
    """K1: one node that is broker and controller (or, in a cluster, a broker alone).

    `bootstrap` is what the client under test is given. With `advertised`, the port of a proxy in
    front of `port`, it leads through the proxy, and `direct` is the way around it; otherwise both
    are the same. A broker that was paused for more than its session of two seconds is fenced for a
    moment when it resumes, which raises the leader epochs.
    """

    def __init__(
        self,
        *,
        properties: Mapping[str, object] | None = None,
        port: int | None = None,
        advertised: int | None = None,
        name: str = "kafka",
        node_id: int = 1,
        cluster_id: str | None = None,
        voters: str | None = None,
        heap: str = "128m",
        prepared: tuple[Path, str] | None = None,
    ) -> None:
        self._features, self._archive = prepared or prepare()
        super().__init__(name)
        self.node_id = node_id
        self.cluster_id = cluster_id or _new_id()
        self.properties: dict[str, object] = dict(properties or {})
        self.data = self.directory / "data"
        self._heap = heap
        self._given_port = port
        self._advertised = advertised
        self._voters = voters
        self._ports: dict[str, int] = {}
        self._known = port is not None  # do clients know the ports already?
        self._choose_ports()
        self._format()

    @property
    def port(self) -> int:
        """Where the broker listens for clients."""
        return self._ports["PLAINTEXT"]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._advertised or self.port}"

    @property
    def direct(self) -> str:
        return f"127.0.0.1:{self._ports.get('DIRECT', self.port)}"

    @property
    def voters(self) -> str:
        return self._voters or f"{self.node_id}@127.0.0.1:{self._ports['CONTROLLER']}"

    def start(self, timeout_seconds: float = 60.0) -> float:
        """Start and wait until it serves metadata; returns the seconds that took."""
        for _ in range(3):
            self.launch_broker()
            try:
                seconds = self.await_ready(self._serves, timeout_seconds=timeout_seconds)
                self._known = True
                return seconds
            except PortTakenError:
                if self._known:
                    raise
                self._choose_ports()
                shutil.rmtree(self.data)
                self._format()
        raise PortTakenError(self.describe("found no free port in three attempts"))

    def launch_broker(self) -> None:
        """Start without waiting, for nodes that need one another."""
        lines = [f"{key}={value}" for key, value in self._settings().items() if value is not None]
        config = self.directory / "server.properties"
        config.write_text("\n".join(lines) + "\n")
        self.launch(_command("kafka.Kafka", config, heap=self._heap, archive=self._archive))

    def restart(self, timeout_seconds: float = 60.0) -> float:
        """A clean stop and start (each raises the leader epochs by two)."""
        self.stop()
        return self.start(timeout_seconds)

    def save_data(self) -> Path:
        """Copy the data directory of the stopped broker; give the copy to `restore_data`."""
        assert not self.running, "stop the broker first"
        copy = Path(tempfile.mkdtemp(prefix="saved-", dir=self.directory)) / "data"
        return Path(shutil.copytree(self.data, copy))

    def restore_data(self, copy: Path) -> None:
        """Rewind the stopped broker to a saved copy: log, group offsets, topics and all."""
        assert not self.running, "kill the broker first"
        shutil.rmtree(self.data)
        shutil.copytree(copy, self.data)

    def tool(self, main: str, *args: str, timeout_seconds: float = 30.0) -> str:
        """Run one of Kafka's own command line tools against this broker; returns its output."""
        command = _command(
            main, "--bootstrap-server", self.direct, *args, heap="96m", archive=self._archive
        )
        return _output(command, f"{main} {' '.join(args)}", timeout_seconds=timeout_seconds)

    def close(self) -> None:
        super().close()
        for port in self._ports.values():
            if port != self._given_port:
                release_port(port)
        self._ports.clear()

    def _listeners(self) -> dict[str, str]:
        """Name and security protocol of each listener of this node."""
        clients = {"PLAINTEXT": "PLAINTEXT"}
        if self._advertised:
            clients["DIRECT"] = "PLAINTEXT"
        return clients if self._voters else {**clients, "CONTROLLER": "PLAINTEXT"}

    def _choose_ports(self) -> None:
        for port in self._ports.values():
            release_port(port)
        self._ports = {name: free_port() for name in self._listeners()}
        if self._given_port is not None:
            release_port(self._ports["PLAINTEXT"])
            self._ports["PLAINTEXT"] = self._given_port

    def _settings(self) -> dict[str, object]:
        own = {name: f"{name}://127.0.0.1:{port}" for name, port in self._ports.items()}
        shown = {name: address for name, address in own.items() if name != "CONTROLLER"}
        if self._advertised:
            shown["PLAINTEXT"] = f"PLAINTEXT://127.0.0.1:{self._advertised}"
        protocols = {**self._listeners(), "CONTROLLER": "PLAINTEXT"}
        return {
            **_FAST,
            "process.roles": "broker" if self._voters else "broker,controller",
            "node.id": self.node_id,
            "controller.quorum.voters": self.voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(own.values()),
            "advertised.listeners": ",".join(shown.values()),
            "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in protocols.items()),
            "inter.broker.listener.name": "DIRECT" if self._advertised else "PLAINTEXT",
            "log.dirs": self.data,
            **self.properties,
        }

    def _format(self) -> None:
        self.data.mkdir()
        (self.data / "meta.properties").write_text(
            f"version=1\ncluster.id={self.cluster_id}\n"
            f"node.id={self.node_id}\ndirectory.id={_new_id()}\n"
        )
        if not self._voters:
            metadata = self.data / "__cluster_metadata-0"
            metadata.mkdir()
            shutil.copyfile(self._features, metadata / "00000000000000000000-0000000000.checkpoint")

    def _serves(self) -> bool:
        if not accepts(self.port) or (seen := metadata(self.direct)) is None:
            return False
        if self._voters:
            return self.node_id in seen.brokers
        led = [p.leader >= 0 for topic in seen.topics.values() for p in topic.partitions.values()]
        return bool(seen.brokers) and all(led)


def metadata(bootstrap: str) -> ClusterMetadata | None:
    """What a fresh client learns of the cluster, or None when nobody answers."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    with contextlib.suppress(KafkaException):
        return admin.list_topics(timeout=2)
    return None


# --- three brokers --------------------------------------------------------------------------------


class KafkaTrio:
    """K3: nodes 1, 2 and 3 in racks r1, r2, r3; node 1 is the controller too, so leave it alive.

    Place a topic with `Outsider.create(..., replicas=[[2, 3]])`. Watch leaders and ISR by metadata
    (`leader`, `in_sync`): other admin calls may hang for 20 s on a broker that has just died.
    """

    def __init__(
        self, *, properties: Mapping[str, object] | None = None, heap: str = "256m"
    ) -> None:
        self._properties = {**_TRIO, **(properties or {})}
        self._heap = heap
        self.nodes: dict[int, KafkaBroker] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    @property
    def direct(self) -> str:
        return self.bootstrap

    def __getitem__(self, node_id: int) -> KafkaBroker:
        return self.nodes[node_id]

    def start(self, timeout_seconds: float = 90.0) -> None:
        """Start all three and wait until each knows the others."""
        for attempt in range(3):
            try:
                self._build()
                for node in self.nodes.values():
                    node.launch_broker()
                for node in self.nodes.values():
                    node.await_ready(
                        functools.partial(self._complete, node), timeout_seconds=timeout_seconds
                    )
                return
            except PortTakenError:
                self.close()
                if attempt == 2:
                    raise

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()
        self.nodes = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _complete(self, node: KafkaBroker) -> bool:
        seen = metadata(node.direct) if accepts(node.port) else None
        return seen is not None and set(seen.brokers) == set(self.nodes)

    def _build(self) -> None:
        cluster_id, voters = _new_id(), None
        for node_id in (1, 2, 3):
            node = KafkaBroker(
                name=f"kafka{node_id}",
                node_id=node_id,
                cluster_id=cluster_id,
                voters=voters,
                heap=self._heap,
                properties={**self._properties, "broker.rack": f"r{node_id}"},
            )
            self.nodes[node_id] = node
            voters = self.nodes[1].voters


# --- one broker with passwords and rights ---------------------------------------------------------


class SecureKafka(KafkaBroker):
    """K1a: users sign in through SASL and may do what ACLs grant; `direct` is a super-user's door.

    PLAIN knows admin/adminpw (a super-user) and app/apppw; SCRAM users are made by `scram_user`.
    READ implies DESCRIBE: to take READ alone, grant DESCRIBE as well.
    """

    _LOGIN = "org.apache.kafka.common.security"

    def __init__(
        self, *, properties: Mapping[str, object] | None = None, name: str = "secure"
    ) -> None:
        plain = (
            f'{self._LOGIN}.plain.PlainLoginModule required user_admin="adminpw" user_app="apppw";'
        )
        scram = f"{self._LOGIN}.scram.ScramLoginModule required;"
        rules: dict[str, object] = {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sasl.plain.sasl.jaas.config": plain,
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": scram,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
        }
        super().__init__(properties={**rules, **(properties or {})}, name=name)

    def _listeners(self) -> dict[str, str]:
        return {**super()._listeners(), "SASL": "SASL_PLAINTEXT"}

    @property
    def bootstrap(self) -> str:
        """Where users sign in."""
        return f"127.0.0.1:{self._ports['SASL']}"

    def client(
        self, user: str = "app", password: str = "apppw", mechanism: str = "PLAIN"
    ) -> dict[str, Any]:
        """librdkafka's settings for a user."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }

    def grant(
        self, resource: ResourceType, name: str, *operations: AclOperation, user: str = "app"
    ) -> None:
        """Allow a user some operations on one topic or group."""
        self._done(
            self._admin.create_acls(
                [self._acl(AclBinding, resource, name, o, user) for o in operations]
            )
        )

    def revoke(
        self, resource: ResourceType, name: str, *operations: AclOperation, user: str = "app"
    ) -> None:
        """Take these grants back, which must exist."""
        filters = [self._acl(AclBindingFilter, resource, name, o, user) for o in operations]
        gone = self._done(self._admin.delete_acls(filters))
        assert all(gone), f"{user} had not all of {operations} on {name}"

    def scram_user(self, user: str, password: str) -> None:
        """Create a SCRAM user or change its password; live at once for new connections."""
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion(user, how, password.encode())
        self._done(self._admin.alter_user_scram_credentials([change]))

    @functools.cached_property
    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.direct, "log_level": 0})

    @staticmethod
    def _acl(
        kind: Any, resource: ResourceType, name: str, operation: AclOperation, user: str
    ) -> Any:
        allow, literal = AclPermissionType.ALLOW, ResourcePatternType.LITERAL
        return kind(resource, name, literal, f"User:{user}", "*", operation, allow)

    @staticmethod
    def _done(futures: Mapping[Any, Any]) -> list[Any]:
        return [future.result(ADMIN_TIMEOUT_SECONDS) for future in futures.values()]


if __name__ == "__main__":
    prepare()
