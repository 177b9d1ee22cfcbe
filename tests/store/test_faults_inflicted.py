"""Each fault inflicted on a real server: what is answered, and that nothing is half done."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from redis.exceptions import ResponseError

from sidecar.core.checkpoint import (
    Ambiguous,
    Audit,
    Checkpoint,
    Install,
    Installed,
    InstallResult,
    Lost,
    NotInstalled,
)
from sidecar.core.faults import ABSENT, Fault, FaultKind, Known, Unreadable
from sidecar.core.gap import Decision, GapState, Resolution, acknowledge, fenced, resolve
from sidecar.core.types import AttemptId, GroupId, Offset, Outcome, Receipt
from sidecar.errors import InvariantBroken
from sidecar.store.connect import connect
from sidecar.store.connections import Client
from sidecar.store.keys import group_keys, partition_keys
from sidecar.store.redis import RedisStore
from tests.benches.proxy import Proxy
from tests.benches.redis import Valkey
from tests.benches.waiting import wait_until
from tests.store.rights import least
from tests.store.values import (
    STORE,
    T0,
    checkpoint,
    digest,
    first,
    flat,
    gap_of,
    known,
    promotion,
    registry,
)

G = GroupId("group")
KEYS = partition_keys("cs", G, T0)
TIMEOUT_SECONDS = 5.0
"""More than a busy machine needs."""
QUICK_SECONDS = 0.3
"""Where it is to pass."""

Open = Callable[..., RedisStore]


@pytest.fixture
async def open_store() -> AsyncIterator[Open]:
    """Stores that are closed with the test."""
    opened: list[RedisStore] = []

    def make(
        url: str, *, replicas_ack: int = 0, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> RedisStore:
        client = connect(url, timeout_seconds=timeout_seconds)
        opened.append(
            RedisStore(client, "cs", replicas_ack=replicas_ack, timeout_seconds=timeout_seconds)
        )
        return opened[-1]

    yield make
    for store in opened:
        await store.close()


@pytest.fixture
def server(valkey_server: Callable[..., Valkey]) -> Valkey:
    return valkey_server()


@pytest.fixture
async def store(server: Valkey, open_store: Open) -> RedisStore:
    return open_store(server.url)


async def claimed(store: RedisStore) -> Checkpoint:
    """A checkpoint that stands."""
    new = checkpoint(G)
    assert await store.install(first(new)) == Installed()
    return new


def everything(install: Install) -> Install:
    """An install that writes every key."""
    at = install.checkpoint
    return replace(
        install,
        ahead=[Receipt(Offset(at.token.next + 5), digest(1), Outcome.APPLIED)],
        gaps=[gap_of(at)],
        audit=[Audit(1.0, "a", "b", "c")],
    )


def contents(server: Valkey) -> dict[str, object]:
    """Every key with its value: whether anything at all was written."""
    client = server.client(encoding_errors="backslashreplace")
    readers: dict[str, Callable[[str], object]] = {
        "hash": client.hgetall,
        "list": lambda key: client.lrange(key, 0, -1),
        "stream": client.xrange,
        "set": client.smembers,
        "string": client.get,
    }
    return {str(key): readers[str(client.type(key))](str(key)) for key in client.keys("*")}


async def heard() -> None:
    """The loop, which a test has kept busy, hears of what became of its connections."""
    for _ in range(5):
        await asyncio.sleep(0)


def fault_of(answer: object) -> Fault:
    assert isinstance(answer, Unreadable | NotInstalled | Ambiguous), answer
    return answer.fault


async def refused_whole(
    server: Valkey, store: RedisStore, install: Install, *, kind: FaultKind, code: str
) -> Fault:
    """The install is refused for certain, and nothing of it is there."""
    before = contents(server)
    result = await store.install(install)
    assert isinstance(result, NotInstalled), result
    assert (result.fault.kind, result.fault.code) == (kind, code)
    assert contents(server) == before
    return result.fault


# --- the server says no ---------------------------------------------------------------------------


async def test_out_of_memory(server: Valkey, store: RedisStore) -> None:
    """Nothing is half written; reading goes on; with room again, so does writing."""
    at = await claimed(store)
    server.command("CONFIG", "SET", "maxmemory", 1)
    for replaced in (False, True):
        install = replace(everything(promotion(at, 5)), receipts_replaced=replaced)
        await refused_whole(server, store, install, kind=FaultKind.REFUSED, code="OOM")
    fresh = first(checkpoint(G, partition=T0._replace(index=1)))
    await refused_whole(server, store, fresh, kind=FaultKind.REFUSED, code="OOM")
    answer = await store.create_registry(registry(G))
    assert fault_of(answer).code == "OOM"
    assert isinstance((await store.read(G, [T0]))[T0], Known)
    server.command("CONFIG", "SET", "maxmemory", 0)
    assert await store.install(promotion(at, 5)) == Installed()


async def test_a_server_that_became_a_replica(server: Valkey, store: RedisStore) -> None:
    """Transient; its connections are given up, so that a name is resolved anew."""
    at = await claimed(store)
    own = server.command("CLIENT", "ID")
    before = {int(client["id"]) for client in server.command("CLIENT LIST")} - {own}
    server.command("REPLICAOF", "127.0.0.1", 1)
    await refused_whole(
        server, store, promotion(at, 5), kind=FaultKind.UNAVAILABLE, code="READONLY"
    )
    await heard()
    wait_until(
        lambda: before.isdisjoint(int(client["id"]) for client in server.command("CLIENT LIST")),
        "connections given up",
    )
    server.command("REPLICAOF", "NO", "ONE")
    assert await store.install(promotion(at, 5)) == Installed()


async def test_too_few_replicas_attached(server: Valkey, store: RedisStore) -> None:
    at = await claimed(store)
    server.command("CONFIG", "SET", "min-replicas-to-write", 1)
    await refused_whole(server, store, promotion(at, 5), kind=FaultKind.REFUSED, code="NOREPLICAS")


async def test_a_disk_that_cannot_be_written(
    valkey_server: Callable[..., Valkey], open_store: Open
) -> None:
    """MISCONF: writes are refused, and health names the failed snapshot."""
    server = valkey_server(settings={"save": "3600 1", "enable-protected-configs": "yes"})
    store = open_store(server.url)
    at = await claimed(store)
    server.command("CONFIG", "SET", "dir", "/proc")
    server.command("BGSAVE")
    wait_until(
        lambda: server.info("persistence")["rdb_last_bgsave_status"] == "err", "snapshot failed"
    )
    await refused_whole(server, store, promotion(at, 5), kind=FaultKind.REFUSED, code="MISCONF")
    assert any("snapshot failed" in w for w in known(await store.health()).warnings)


async def test_a_busy_script(server: Valkey, store: RedisStore) -> None:
    """Somebody's endless script: transient, over when it is killed."""
    at = await claimed(store)
    server.command("CONFIG", "SET", "busy-reply-threshold", 1)
    loose = server.client(socket_timeout=0.05)
    with contextlib.suppress(Exception):
        loose.eval("while true do end", 0)
    answer = await store.install(promotion(at, 5))
    assert isinstance(answer, NotInstalled)
    assert (answer.fault.kind, answer.fault.code) == (FaultKind.UNAVAILABLE, "BUSY")
    server.command("SCRIPT", "KILL")
    wait_until(lambda: server.command("PING"), "no longer busy", ignoring=(ResponseError,))
    assert await store.install(promotion(at, 5)) == Installed()


async def test_scripts_that_were_flushed(server: Valkey, store: RedisStore) -> None:
    """Loaded again by themselves, in writing, in reading many, and with WAIT."""
    at = await claimed(store)
    server.command("SCRIPT", "FLUSH")
    assert await store.install(promotion(at, 5)) == Installed()
    server.command("SCRIPT", "FLUSH")
    partitions = [T0, T0._replace(index=1), T0._replace(index=2)]
    readings = await store.read(G, partitions)
    assert [type(readings[p]).__name__ for p in partitions] == ["Known", "Absent", "Absent"]
    server.command("SCRIPT", "FLUSH")
    assert len(flat(known(await store.memory(G, T0, 10)).receipts)) == 5


async def test_a_command_that_was_renamed_away(
    valkey_server: Callable[..., Valkey], open_store: Open
) -> None:
    """As managed services do with CONFIG: health says what could not be checked."""
    server = valkey_server(settings={"rename-command CONFIG": '""'})
    health = known(await open_store(server.url).health())
    assert health.refused is None
    assert any(w.startswith("CONFIG GET is forbidden") for w in health.warnings)


# --- rights ---------------------------------------------------------------------------------------


def grant(server: Valkey, *rules: str) -> str:
    """A user with these rules; returns a URL with it."""
    server.command("ACL", "SETUSER", "app", "reset", "on", ">pw", *rules)
    return server.url.replace("redis://", "redis://app:pw@")


async def test_the_fewest_rights_are_enough(server: Valkey, open_store: Open) -> None:
    """Everything works with these; without CONFIG only what it would tell is missing."""
    store = open_store(grant(server, "~cs:*", *least()))
    await store.create_registry(registry(G))
    assert isinstance(await store.register(G, STORE, {}, {T0: Offset(1)}, seen={}), Known)
    assert await store.mark_started(G, STORE, [T0]) is None
    at = await claimed(store)
    gap = gap_of(at)
    install = everything(promotion(at, 5))
    assert await store.install(install) == Installed()
    assert await store.install(install) == Installed()
    assert isinstance(await store.update_gap(replace(gap), was=gap), Known)
    assert isinstance(await store.gaps(G), Known)
    assert isinstance(await store.memory(G, T0, 5), Known)
    assert isinstance((await store.watch(G, [T0]))[T0], Known)
    health = known(await store.health())
    assert any("CONFIG" in w for w in health.warnings)


@pytest.mark.parametrize(
    "missing",
    [
        *("evalsha", "hmget", "hset", "rpush", "ltrim", "xadd", "xdel", "xrange", "del"),
        *("hdel", "hlen", "type"),
    ],
)
async def test_each_missing_right_is_refused_whole_and_named(
    server: Valkey, store: RedisStore, open_store: Open, missing: str
) -> None:
    """Also rights that a script would need only after its first write."""
    at = await claimed(store)
    limited = open_store(grant(server, "~cs:*", *least(), f"-{missing}"))
    before = contents(server)
    result = await limited.install(everything(promotion(at, 5)))
    fault = fault_of(result)
    assert (fault.kind, fault.code) == (FaultKind.AUTHORIZATION, "NOPERM")
    assert missing in fault.detail.lower()
    assert contents(server) == before
    # Granted, it is noticed at once, on the same connections.
    server.command("ACL", "SETUSER", "app", f"+{missing}")
    assert await limited.install(everything(promotion(at, 5))) == Installed()


async def test_keys_that_are_not_ours_to_touch(server: Valkey, open_store: Open) -> None:
    store = open_store(grant(server, "~other:*", "+@all"))
    await refused_whole(
        server, store, first(checkpoint(G)), kind=FaultKind.AUTHORIZATION, code="NOPERM"
    )
    assert fault_of((await store.read(G, [T0]))[T0]).kind is FaultKind.AUTHORIZATION
    assert fault_of((await store.watch(G, [T0]))[T0]).kind is FaultKind.AUTHORIZATION
    assert fault_of(await store.registry(G)).kind is FaultKind.AUTHORIZATION
    assert fault_of(await store.gaps(G)).kind is FaultKind.AUTHORIZATION


@pytest.mark.parametrize("who", ["app:wrong", "nobody:pw", ""])
async def test_wrong_credentials(server: Valkey, open_store: Open, who: str) -> None:
    """Authentication, not a lost connection; and no word of the password."""
    grant(server, "~cs:*", "+@all")
    server.command("ACL", "SETUSER", "default", "resetpass", ">main")
    url = server.url.replace("redis://", f"redis://{who}@" if who else "redis://")
    fault = await refused_whole_blind(open_store(url), first(checkpoint(G)))
    assert fault.kind is FaultKind.AUTHENTICATION
    assert "wrong" not in fault.detail
    assert ":pw" not in fault.detail


async def refused_whole_blind(store: RedisStore, install: Install) -> Fault:
    result = await store.install(install)
    assert isinstance(result, NotInstalled), result
    return result.fault


async def test_a_user_that_is_deleted_live(server: Valkey, open_store: Open) -> None:
    store = open_store(grant(server, "~cs:*", "+@all"))
    at = await claimed(store)
    server.command("ACL", "DELUSER", "app")
    result = await store.install(promotion(at, 5))
    if isinstance(result, Ambiguous):  # its connection was cut under the request
        result = await store.install(promotion(at, 5))
    assert isinstance(result, NotInstalled)
    assert result.fault.kind is FaultKind.AUTHENTICATION
    grant(server, "~cs:*", "+@all")
    assert await store.install(promotion(at, 5)) == Installed()


# --- the server is away ---------------------------------------------------------------------------


async def test_a_server_that_was_killed(server: Valkey, store: RedisStore) -> None:
    """Refused connections are certain; and all is well once it is back."""
    at = await claimed(store)
    server.kill()
    await heard()
    result = await store.install(promotion(at, 5))
    assert isinstance(result, NotInstalled)
    assert result.fault.kind is FaultKind.UNAVAILABLE
    assert result.fault.code == "CONNECTION"
    for reading in (
        (await store.read(G, [T0]))[T0],
        (await store.watch(G, [T0]))[T0],
        await store.registry(G),
        await store.create_registry(registry(G)),
        await store.memory(G, T0, 1),
        await store.gaps(G),
        await store.health(),
        await store.update_gap(gap_of(at), was=gap_of(at)),
    ):
        assert fault_of(reading).kind is FaultKind.UNAVAILABLE
    assert (await store.mark_started(G, STORE, [T0])) is not None
    server.start()
    assert await store.install(promotion(at, 5)) == Installed()


async def test_a_server_that_freezes_and_thaws(
    server: Valkey, store: RedisStore, open_store: Open
) -> None:
    """Ambiguous, within the time-out; it was seen to be applied afterwards, once."""
    at = await claimed(store)
    install = promotion(at, 5)
    quick = open_store(server.url, timeout_seconds=QUICK_SECONDS)
    await settle(quick, first(at))  # connected
    server.pause()
    began = time.monotonic()
    result = await quick.install(install)
    spent = time.monotonic() - began
    assert isinstance(result, Ambiguous)
    assert result.fault.code == "TIMEOUT"
    assert spent < QUICK_SECONDS + 1.0
    server.resume()
    assert await store.install(install) == Installed()
    assert known((await store.watch(G, [T0]))[T0]).generation == 2
    assert len(flat(known(await store.memory(G, T0, 99)).receipts)) == 5


async def test_answers_that_come_too_late_are_nobodys(
    server: Valkey, store: RedisStore, open_store: Open
) -> None:
    """After a time-out, and after a cancelled call, an answer belongs to its own question."""
    at = await claimed(store)
    quick = open_store(server.url, timeout_seconds=QUICK_SECONDS)
    await settle(quick, first(at))  # connected
    server.pause()
    assert isinstance(await quick.install(promotion(at, 5)), Ambiguous)
    task = asyncio.create_task(quick.watch(G, [T0]))
    await heard()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    server.resume()
    reading = (await quick.read(G, [T0]))[T0]
    while isinstance(reading, Unreadable):  # a busy machine thaws slowly
        assert reading.fault.code == "TIMEOUT"
        reading = (await quick.read(G, [T0]))[T0]
    assert known(reading).checkpoint.token.next == 5


async def test_a_server_that_loads(valkey_server: Callable[..., Valkey], open_store: Open) -> None:
    """Transient, certain, and told from an empty store."""
    server = valkey_server(settings={"appendonly": "no"})
    store = open_store(server.url)
    at = await claimed(store)
    server.command("DEBUG", "POPULATE", 6_000)
    server.command("SAVE")
    server.kill()
    await heard()
    server.settings |= {"key-load-delay": 100, "loading-process-events-interval-bytes": 1024}
    starting = asyncio.create_task(asyncio.to_thread(server.start))
    seen: set[str] = set()
    while not starting.done() and "LOADING" not in seen:
        result = await store.install(promotion(at, 5))
        assert isinstance(result, NotInstalled), result
        assert result.fault.kind is FaultKind.UNAVAILABLE
        seen.add(result.fault.code)
        reading = (await store.read(G, [T0]))[T0]
        assert fault_of(reading).kind is FaultKind.UNAVAILABLE
    await starting
    assert "LOADING" in seen
    assert await store.install(promotion(at, 5)) == Installed()


async def test_a_name_that_nobody_has(open_store: Open) -> None:
    store = open_store("redis://no-such-host.invalid:6379")
    fault = await refused_whole_blind(store, first(checkpoint(G)))
    assert fault.kind is FaultKind.UNAVAILABLE


async def test_too_many_clients(server: Valkey, open_store: Open) -> None:
    store = open_store(server.url)
    server.command("CONFIG", "SET", "maxclients", 1)
    result = await store.install(first(checkpoint(G)))
    assert fault_of(result).kind is FaultKind.UNAVAILABLE
    server.command("CONFIG", "SET", "maxclients", 100)
    assert await store.install(first(checkpoint(G))) == Installed()


# --- answers that are lost ------------------------------------------------------------------------


async def settle(store: RedisStore, install: Install) -> InstallResult:
    """What a caller does: send again until it is no longer ambiguous."""
    for _ in range(5):
        result = await store.install(install)
        if not isinstance(result, Ambiguous):
            return result
    raise AssertionError("never settled")


@pytest.mark.parametrize("losses", [1, 2])
async def test_a_lost_answer_is_settled_by_sending_again(
    server: Valkey, open_store: Open, losses: int
) -> None:
    """Once or twice lost: installed once, receipts once, and it wins."""
    with Proxy(server.port) as proxy:
        store = open_store(proxy.url)
        at = await claimed(store)
        install = promotion(at, 5)
        for _ in range(losses):
            lost = proxy.lose_reply(lambda sent: b"EVAL" in sent)
            result = await store.install(install)
            assert isinstance(result, Ambiguous)
            assert result.fault.kind is FaultKind.UNAVAILABLE
            assert lost.happened
        assert await settle(store, install) == Installed()
        assert known((await store.watch(G, [T0]))[T0]).generation == 2
        assert len(flat(known(await store.memory(G, T0, 99)).receipts)) == 5
        # And a writer that lost meanwhile is told so.
        assert isinstance(await store.install(promotion(at, 7, attempt="other")), Lost)


async def test_a_lost_answer_to_a_lost_race_is_settled_as_lost(
    server: Valkey, open_store: Open
) -> None:
    with Proxy(server.port) as proxy:
        store, other = open_store(proxy.url), open_store(server.url)
        at = await claimed(store)
        winner = promotion(at, 3, attempt="theirs", owner="owner-2")
        assert await other.install(winner) == Installed()
        proxy.lose_reply(lambda sent: b"EVAL" in sent)
        mine = promotion(at, 5)
        assert isinstance(await store.install(mine), Ambiguous)
        assert await settle(store, mine) == Lost(winner.checkpoint)


async def test_a_network_that_swallows_everything(server: Valkey, open_store: Open) -> None:
    """Bounded, ambiguous; what was swallowed may arrive later and is then recognised."""
    with Proxy(server.port) as proxy:
        store = open_store(proxy.url)
        quick = open_store(proxy.url, timeout_seconds=QUICK_SECONDS)
        at = await claimed(store)
        await settle(quick, first(at))  # connected
        proxy.blackhole()
        install = promotion(at, 5)
        assert isinstance(await quick.install(install), Ambiguous)
        proxy.heal()
        assert await settle(store, install) == Installed()
        assert known((await store.watch(G, [T0]))[T0]).generation == 2


async def test_connections_that_were_cut_while_idle(server: Valkey, open_store: Open) -> None:
    """A connection that ended is not used: nothing is ambiguous that need not be."""
    with Proxy(server.port) as proxy:
        store = open_store(proxy.url)
        at = await claimed(store)
        proxy.cut()
        wait_until(lambda: proxy.connections == 0, "cut")
        await heard()
        assert await store.install(promotion(at, 5)) == Installed()


# --- replicas that are waited for -----------------------------------------------------------------


async def test_too_few_acknowledgements_are_ambiguous(server: Valkey, open_store: Open) -> None:
    """It stands on the master and may be forgotten; sending again does not make it sure."""
    store = open_store(server.url, replicas_ack=1, timeout_seconds=2 * QUICK_SECONDS)
    result = await store.install(first(checkpoint(G)))
    assert isinstance(result, Ambiguous)
    assert result.fault.code == "WAIT"
    assert "0 of 1" in result.fault.detail
    assert isinstance(await store.install(first(checkpoint(G))), Ambiguous)
    assert known((await store.watch(G, [T0]))[T0]).generation == 1


async def test_an_acknowledged_write_counts_also_when_it_was_there_before(
    valkey_server: Callable[..., Valkey], open_store: Open
) -> None:
    """`WAIT` counts only what its connection wrote, so the second sending writes, too."""
    quick = {"repl-diskless-sync-delay": 0}
    master, replica = valkey_server(settings=quick), valkey_server(settings=quick)
    replica.command("REPLICAOF", "127.0.0.1", master.port)
    wait_until(
        lambda: replica.info("replication").get("master_link_status") == "up", "replica follows"
    )
    store = open_store(master.url, replicas_ack=1, timeout_seconds=3 * QUICK_SECONDS)
    install = first(checkpoint(G))
    assert await settle(store, install) == Installed()
    replica.pause()
    newer = promotion(install.checkpoint, 5)
    assert isinstance(await store.install(newer), Ambiguous)
    # On a connection of its own, which has written nothing: it must not pass for acknowledged.
    again = open_store(master.url, replicas_ack=1, timeout_seconds=3 * QUICK_SECONDS)
    assert isinstance(await again.install(newer), Ambiguous)
    replica.resume()
    assert await settle(store, newer) == Installed()
    assert await settle(again, newer) == Installed()


# --- state that cannot be read --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("DEL", KEYS.checkpoint, "SET", KEYS.checkpoint, "x"), "WRONGTYPE"),
        (("HSET", KEYS.checkpoint, "body", "{"), "CORRUPT"),
        (("HSET", KEYS.checkpoint, "next", "many"), "CORRUPT"),
        (("HDEL", KEYS.checkpoint, "generation"), "CORRUPT"),
        (("HDEL", KEYS.checkpoint, "body"), "CORRUPT"),
        (("HSET", KEYS.checkpoint, "format", "2"), "FORMAT"),
    ],
    ids=str,
)
async def test_a_spoiled_checkpoint_is_unreadable_and_never_absent(
    server: Valkey, store: RedisStore, words: tuple[Any, ...], code: str
) -> None:
    """Read, watched and written to: named, and left alone."""
    at = await claimed(store)
    if words[0] == "DEL":
        server.command(*words[:2])
        server.command(*words[2:])
    else:
        server.command(*words)
    assert fault_of((await store.read(G, [T0]))[T0]).code == code
    before = contents(server)
    if words[1:3] not in ((KEYS.checkpoint, "body"),) and words[2] != "next":
        assert fault_of((await store.watch(G, [T0]))[T0]).code == code
        # An install that expects nothing must not take it for nothing.
        assert fault_of(await store.install(first(checkpoint(G), "new"))).code == code
    if words[2] != "body":
        result = await store.install(promotion(at, 5))
        assert isinstance(result, NotInstalled | Lost)
    assert contents(server) == before


@pytest.mark.parametrize("key", ["receipts", "ahead", "gaps", "audit", "history"])
async def test_a_key_that_holds_something_else_is_refused_before_anything_is_written(
    server: Valkey, store: RedisStore, key: str
) -> None:
    at = await claimed(store)
    server.command("DEL", getattr(KEYS, key))
    server.command("SET", getattr(KEYS, key), "x")
    install = everything(promotion(at, 5))
    fault = await refused_whole(server, store, install, kind=FaultKind.REFUSED, code="WRONGTYPE")
    assert key in fault.detail


async def test_receipts_that_cannot_be_read(server: Valkey, store: RedisStore) -> None:
    at = await claimed(store)
    server.command("XADD", KEYS.receipts, "5-1", "d", "noise")
    assert fault_of(await store.memory(G, T0, 1)).kind is FaultKind.FORMAT_UNKNOWN
    # A stranger's entry also stands in the way of ours: refused, not half written.
    before = contents(server)
    result = await store.install(promotion(at, 5))
    assert fault_of(result).code == "DISORDERED"
    assert contents(server) == before
    server.command("DEL", KEYS.receipts)
    server.command("HSET", KEYS.ahead, "7", b"\x09\x01\x01........")
    assert fault_of(await store.memory(G, T0, 1)).code == "FORMAT"


async def test_a_gap_or_registry_that_cannot_be_read(server: Valkey, store: RedisStore) -> None:
    at = checkpoint(G, gap="gap-1")
    gap = gap_of(at)
    await store.install(replace(first(at), gaps=[gap]))
    server.command("HSET", KEYS.gaps, "gap-1", '{"format": 9}')
    assert fault_of((await store.read(G, [T0]))[T0]).code == "FORMAT"
    assert fault_of(await store.gaps(G)).code == "FORMAT"
    assert fault_of(await store.update_gap(gap, was=gap)).code == "FORMAT"
    server.command("HSET", KEYS.gaps, "gap-1", "noise")
    assert fault_of((await store.read(G, [T0]))[T0]).code == "CORRUPT"
    assert fault_of(await store.gaps(G)).code == "CORRUPT"
    await store.create_registry(registry(G))
    key = group_keys("cs", G).registry
    for field, value, code in (
        ("baseline:orders/0", "x", "CORRUPT"),
        ("head", "{", "CORRUPT"),
        ("format", "2", "FORMAT"),
    ):
        server.command("HSET", key, field, value)
        assert fault_of(await store.registry(G)).code == code
    before = contents(server)
    more = {T0: Offset(1), T0._replace(index=9): Offset(1)}
    assert fault_of(await store.register(G, STORE, {}, more, seen={})).code == "FORMAT"
    assert contents(server) == before
    assert fault_of(await store.create_registry(registry(G))).code == "FORMAT"


async def test_a_checkpoint_deleted_by_hand_leaves_nothing_to_its_successor(
    server: Valkey, store: RedisStore
) -> None:
    """Receipts and attempts of a lost history must not pass for those of a new one. Gaps stay."""
    at = await claimed(store)
    install = everything(promotion(at, 5))
    assert await store.install(install) == Installed()
    server.command("DEL", KEYS.checkpoint)
    acknowledged = acknowledge(install.gaps[0], by="on-call", why="", at=1.0)
    assert acknowledged is not None
    assert await store.update_gap(acknowledged, was=install.gaps[0]) == Known(acknowledged)
    assert (await store.read(G, [T0]))[T0] == ABSENT
    anew = first(checkpoint(G, generation=7, owner="owner-2"), "anew")
    assert await store.install(anew) == Installed()
    memory = known(await store.memory(G, T0, 99))
    assert (memory.receipts, memory.ahead) == ([], [])
    assert isinstance(await store.install(install), Lost)
    assert [gap.id for gap in known(await store.gaps(G))] == ["gap-1"]
    assert await store.install(promotion(anew.checkpoint, 2)) == Installed()


async def test_the_newest_run_is_kept_whatever_its_size(server: Valkey) -> None:
    store = RedisStore(connect(server.url), "cs", receipts_retained_max=3, receipts_retained_min=0)
    try:
        at = await claimed(store)
        for size in (5, 7):
            install = promotion(at, size)
            assert await store.install(install) == Installed()
            at = install.checkpoint
            assert len(flat(known(await store.memory(G, T0, 99)).receipts)) == size
    finally:
        await store.close()


async def test_a_gap_that_is_dropped_takes_its_additions_along(
    server: Valkey, store: RedisStore
) -> None:
    at = checkpoint(G)
    oldest = gap_of(at, "oldest", opened_at=0.0)
    await store.install(replace(first(at), gaps=[oldest]))
    acknowledged = acknowledge(oldest, by="on-call", why="", at=1.0)
    assert acknowledged is not None
    known(await store.update_gap(acknowledged, was=oldest))
    many = [
        gap_of(at, f"gap-{i}", opened_at=float(i), state=GapState.RESOLVED) for i in range(1, 257)
    ]
    resolved = replace(oldest, state=GapState.RESOLVED)
    install = replace(promotion(at, 0), gaps=[resolved, *many])
    assert await store.install(install) == Installed()
    assert len(known(await store.gaps(G))) == 256
    assert server.command("HLEN", KEYS.gaps) == 256


class Between:
    """A client that lets something happen between the reading and the script that follows."""

    failover_possible = False

    def __init__(self, client: Client, happens: Callable[[], Awaitable[object]]) -> None:
        self._client = client
        self._happens: Callable[[], Awaitable[object]] | None = happens
        self.many, self.every, self.close = client.many, client.every, client.close

    async def call(self, key: bytes, packed: bytes, replies: int = 1) -> list[Any]:
        if b"EVALSHA" in packed and (happens := self._happens) is not None:
            self._happens = None
            await happens()
        return await self._client.call(key, packed, replies)


@pytest.mark.parametrize("what", ["fenced", "resolved"])
async def test_two_hands_on_one_gap(server: Valkey, store: RedisStore, what: str) -> None:
    """What another adds in between is kept; what another decides in between wins."""
    at = checkpoint(G, gap="gap-1")
    gap = gap_of(at)
    await store.install(replace(first(at), gaps=[gap]))

    async def happens() -> None:
        if what == "fenced":
            theirs = fenced(gap, fence=Offset(120), at=2.0)
            assert theirs is not None
            known(await store.update_gap(theirs, was=gap))
        else:
            decision = Decision(Resolution.ACCEPTED, "bob", "", 2.0, Offset(100))
            theirs = resolve(gap, decision, end=Offset(100), evidence={})
            assert theirs is not None
            await store.install(replace(promotion(at, 0), gaps=[theirs]))

    late = RedisStore(Between(connect(server.url), happens), "cs")
    try:
        mine = fenced(gap, fence=Offset(130), at=3.0)
        assert mine is not None
        result = known(await late.update_gap(mine, was=gap))
        if what == "fenced":
            assert result is not None
            assert result.fences == ((120, 2.0), (130, 3.0))
            assert [event.evidence for event in result.audit] == [{"fence": 120}, {"fence": 130}]
        else:
            assert result is None
            assert known((await store.watch(G, [T0]))[T0]).requests == 0
    finally:
        await late.close()


# --- health ---------------------------------------------------------------------------------------


async def test_a_store_that_evicts_is_refused_and_cleared_by_a_later_look(
    server: Valkey, store: RedisStore
) -> None:
    assert known(await store.health()).refused is None
    server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    assert "allkeys-lru" in (known(await store.health()).refused or "")
    server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert known(await store.health()).refused is None


async def test_another_life_of_the_store_is_another_epoch(
    server: Valkey, store: RedisStore
) -> None:
    before = known(await store.health())
    assert any("everysec" in w for w in before.warnings)
    server.restart()
    await heard()
    assert known(await store.health()).epoch != before.epoch


# --- connections ----------------------------------------------------------------------------------


async def test_connections_are_bounded_and_everybody_gets_a_turn(server: Valkey) -> None:
    store = RedisStore(connect(server.url, connections_max=3), "cs")
    try:
        work: list[Awaitable[object]] = [store.watch(G, [T0._replace(index=i)]) for i in range(60)]
        await asyncio.gather(*work)
        assert server.command("INFO", "clients")["connected_clients"] <= 3 + 1
    finally:
        await store.close()


async def test_a_unix_socket(server: Valkey, open_store: Open) -> None:
    store = open_store(server.socket_url)
    await claimed(store)
    assert isinstance((await store.read(G, [T0]))[T0], Known)


async def test_databases_are_kept_apart(server: Valkey, open_store: Open) -> None:
    await claimed(open_store(server.url))
    other = open_store(server.url.replace("/0", "/1"))
    assert await other.install(first(checkpoint(G), "elsewhere")) == Installed()
    outside = open_store(server.url.replace("/0", "/99"))
    assert fault_of(await outside.registry(G)).kind is FaultKind.REFUSED


async def test_a_caller_with_a_wrong_attempt_is_told(store: RedisStore) -> None:
    with pytest.raises(InvariantBroken):
        await store.install(replace(first(checkpoint(G)), attempt=AttemptId("two words")))
