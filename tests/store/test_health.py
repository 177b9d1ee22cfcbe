"""What a server's settings promise, from what it answers."""

from dataclasses import replace

import pytest
from redis.exceptions import NoPermissionError, ResponseError

from sidecar.ports import StoreHealth
from sidecar.store.health import SECTIONS, SETTINGS, combine, judge

SAFE_INFO = {
    "server": "# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\nrun_id:run\r\n",
    "memory": "used_memory:1000\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n",
    "persistence": "aof_enabled:1\r\naof_last_write_status:ok\r\n",
    "replication": "role:master\r\nconnected_slaves:0\r\nmaster_replid:repl\r\n",
}
SAFE_CONFIG = {
    "maxmemory-policy": "noeviction",
    "maxmemory": "0",
    "appendonly": "yes",
    "appendfsync": "always",
    "save": "",
}
DENIED = NoPermissionError("this user has no permissions")


def judged(
    *,
    replicas_ack: int = 0,
    failover: bool = False,
    info: dict[str, str] | None = None,
    config: dict[str, str] | None = None,
    no_config: ResponseError | None = None,
    no_info: bool = False,
) -> StoreHealth:
    infos = {name: text + (info or {}).get(name, "") for name, text in SAFE_INFO.items()}
    settings = {**SAFE_CONFIG, **(config or {})}
    answers: list[object] = [DENIED if no_info else infos[name].encode() for name in SECTIONS]
    answers += [no_config or [name.encode(), settings[name].encode()] for name in SETTINGS]
    return judge(answers, replicas_ack=replicas_ack, failover_possible=failover)


def test_a_safe_store_is_neither_refused_nor_warned_of() -> None:
    assert judged() == StoreHealth(
        version="9.1.2",
        epoch="run/repl",
        refused=None,
        warnings=(),
        memory_used_bytes=1000,
        memory_max_bytes=None,
    )


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru", "allkeys-random"])
@pytest.mark.parametrize("readable", [True, False])
def test_a_store_that_evicts_is_refused(policy: str, readable: bool) -> None:
    """Also without a limit of memory, and also where CONFIG is forbidden: INFO tells."""
    health = judged(
        info={"memory": f"maxmemory_policy:{policy}\r\n"},
        config={"maxmemory-policy": policy},
        no_config=None if readable else DENIED,
    )
    assert health.refused is not None
    assert policy in health.refused
    assert "noeviction" in health.refused


def test_an_old_version_is_refused() -> None:
    health = judged(info={"server": "redis_version:6.0.16\r\n"})
    assert health.refused is not None
    assert "6.2" in health.refused


@pytest.mark.parametrize(
    ("config", "info", "word"),
    [
        ({"appendonly": "no"}, {}, "nothing is persisted"),
        ({"appendonly": "no", "save": "3600 1"}, {}, "only snapshots"),
        ({"appendfsync": "everysec"}, {}, "power cut"),
        ({"appendfsync": "no"}, {}, "power cut"),
        ({}, {"persistence": "aof_last_write_status:err\r\n"}, "append-only file failed"),
        ({}, {"persistence": "aof_last_bgrewrite_status:err\r\n"}, "rewrite"),
        ({}, {"persistence": "rdb_last_bgsave_status:err\r\n"}, "snapshot failed"),
        ({}, {"replication": "connected_slaves:1\r\n"}, "failover may forget"),
        ({}, {"replication": "role:slave\r\n"}, "replica"),
        ({"maxmemory": "1050"}, {}, "95% of maxmemory"),
    ],
)
def test_what_may_be_forgotten_is_named(
    config: dict[str, str], info: dict[str, str], word: str
) -> None:
    health = judged(config=config, info=info)
    assert health.refused is None
    (warning,) = health.warnings
    assert word in warning


def test_replicas_that_are_waited_for_and_missing_are_named() -> None:
    health = judged(replicas_ack=1)
    assert any("must acknowledge" in warning for warning in health.warnings)
    enough = judged(replicas_ack=1, info={"replication": "connected_slaves:1\r\n"})
    assert enough.warnings == ()


def test_what_cannot_be_checked_is_named() -> None:
    """A right that is missing never passes for a promise."""
    health = judged(no_config=DENIED)
    assert any(warning.startswith("CONFIG GET is forbidden") for warning in health.warnings)
    assert any("appendfsync" in warning for warning in health.warnings)
    renamed = judged(no_config=ResponseError("unknown command 'CONFIG'"))
    assert renamed.warnings == health.warnings
    blind = judged(no_config=DENIED, no_info=True)
    assert blind.epoch == "unknown"
    assert any("eviction policy" in warning for warning in blind.warnings)
    assert sum("is forbidden" in warning for warning in blind.warnings) == 5


def test_several_masters_are_one_store() -> None:
    """Refused if one is; a warning of all is said once, one of some names them."""
    one = judged(config={"appendfsync": "everysec"})
    two = replace(one, epoch="other", version="8.0.1", warnings=(*one.warnings, "more"))
    both = combine({"a:1": one, "b:2": two})
    assert both.epoch == "other run/repl"
    assert both.version == "8.0.1"
    assert both.refused is None
    assert both.warnings == (*one.warnings, "b:2: more")
    assert both.memory_used_bytes == 2000
    assert both.memory_max_bytes is None
    refused = combine({"a:1": one, "b:2": replace(two, refused="evicts")})
    assert refused.refused == "b:2: evicts"
    moved = combine({"b:2": one, "a:1": two})
    assert moved.epoch == both.epoch
