"""What a server's own settings promise: may it evict, and what may it forget.

Decided here: any eviction policy but `noeviction` is refused, also the `volatile-` ones and also
without a memory limit. The keys here never expire, so that a `volatile-` policy would spare them,
but a limit and a policy are changed on a live server with one command, and a store that evicts
loses checkpoints in silence. `noeviction` is Redis's own default.

Where CONFIG is forbidden (managed services do so), INFO tells the policy as well; what it does not
tell is named in a warning, as everything that could not be checked is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from redis.exceptions import ResponseError

from sidecar.ports import StoreHealth

VERSION_MIN = (6, 2)
"""XRANGE with exclusive ids, and more, came with Redis 6.2."""
MEMORY_NEAR_LIMIT = 0.9

SECTIONS = ("server", "memory", "persistence", "replication")
SETTINGS = ("maxmemory-policy", "maxmemory", "appendonly", "appendfsync", "save")


def parse_info(text: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in text.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon and not name.startswith("#")}


LIFE_SECTIONS = ("server", "replication")
"""What `epoch_of` needs."""


def epoch_of(info: Mapping[str, str]) -> str:
    """Which life of which server answers."""
    return "/".join(filter(None, (info.get("run_id"), info.get("master_replid")))) or "unknown"


def combined_epoch(epochs: Iterable[str]) -> str:
    return " ".join(sorted(epochs))


def judge(answers: Sequence[Any], *, replicas_ack: int, failover_possible: bool) -> StoreHealth:
    """From the answers to INFO for each of `SECTIONS`, then CONFIG GET for each of `SETTINGS`.

    An answer may be a `ResponseError`: a right is missing, or the command is renamed away.
    """
    info: dict[str, str] = {}
    unread: list[str] = []
    for section, answer in zip(SECTIONS, answers, strict=False):
        if isinstance(answer, ResponseError):
            unread.append(f"INFO {section}")
        else:
            info |= parse_info(answer)
    settings: dict[str, str] = {}
    config_forbidden = False
    for name, answer in zip(SETTINGS, answers[len(SECTIONS) :], strict=True):
        if isinstance(answer, ResponseError):
            config_forbidden = True
        elif len(answer) >= 2:
            settings[name] = bytes(answer[1]).decode(errors="replace")
    if config_forbidden:
        unread.append("CONFIG GET")

    warnings = [
        f"{what} is forbidden, so that {_unknown(what)} cannot be checked" for what in unread
    ]
    policy = settings.get("maxmemory-policy") or info.get("maxmemory_policy")
    memory_max = _int(settings.get("maxmemory")) or _int(info.get("maxmemory"))
    memory_used = _int(info.get("used_memory"))
    version = info.get("valkey_version") or info.get("redis_version") or ""
    if policy is None:
        warnings.append("the eviction policy cannot be read: it must be noeviction")
    warnings += _persistence(info, settings)
    warnings += _replication(info, replicas_ack, failover_possible)
    if memory_max and memory_used and memory_used > MEMORY_NEAR_LIMIT * memory_max:
        warnings.append(
            f"{memory_used / memory_max:.0%} of maxmemory is in use: writes will be refused at 100%"
        )
    return StoreHealth(
        version=version,
        epoch=epoch_of(info),
        refused=_refusal(policy, info),
        warnings=tuple(warnings),
        memory_used_bytes=memory_used,
        memory_max_bytes=memory_max or None,
    )


def combine(healths: Mapping[str, StoreHealth]) -> StoreHealth:
    """Of several masters: refused if one is, and what each may forget, said once."""
    ordered = [healths[name] for name in sorted(healths)]
    by_warning: dict[str, list[str]] = {}
    for name, health in sorted(healths.items()):
        for warning in health.warnings:
            by_warning.setdefault(warning, []).append(name)
    everywhere = len(healths)
    return StoreHealth(
        version=min((h.version for h in ordered), key=_version),
        epoch=combined_epoch(h.epoch for h in ordered),
        refused=next((f"{n}: {h.refused}" for n, h in sorted(healths.items()) if h.refused), None),
        warnings=tuple(
            warning if len(names) == everywhere else f"{', '.join(names)}: {warning}"
            for warning, names in by_warning.items()
        ),
        memory_used_bytes=_sum([h.memory_used_bytes for h in ordered]),
        memory_max_bytes=_sum([h.memory_max_bytes for h in ordered]),
    )


def _refusal(policy: str | None, info: Mapping[str, str]) -> str | None:
    if policy is not None and policy != "noeviction":
        return (
            f"maxmemory-policy is {policy}, so that this store may evict checkpoints:"
            " set it to noeviction"
        )
    # What Valkey calls redis_version is the Redis it is compatible with.
    version = info.get("redis_version", "")
    if version and _version(version) < VERSION_MIN:
        return f"version {version} is too old: at least {'.'.join(map(str, VERSION_MIN))}"
    return None


def _persistence(info: Mapping[str, str], settings: Mapping[str, str]) -> list[str]:
    found = []
    appendonly = settings.get("appendonly") or _yes_no(info.get("aof_enabled"))
    save = settings.get("save")
    match appendonly, settings.get("appendfsync"):
        case "no", _:
            if save == "":
                found.append("nothing is persisted (appendonly no, no save): a restart forgets all")
            else:
                found.append(
                    "only snapshots are kept (appendonly no): a crash forgets what is newer"
                )
        case "yes", "everysec":
            found.append("appendfsync everysec: a power cut may forget the last seconds")
        case "yes", "no":
            found.append("appendfsync no: a power cut may forget what the disk has not yet")
        case "yes", None:
            found.append("appendfsync cannot be read: unless it is always, a power cut may forget")
        case _:
            pass
    if info.get("aof_last_write_status") == "err":
        found.append("the last write to the append-only file failed: is the disk full?")
    if info.get("aof_last_bgrewrite_status") == "err":
        found.append("the last rewrite of the append-only file failed")
    if info.get("rdb_last_bgsave_status") == "err":
        found.append("the last snapshot failed")
    return found


def _replication(info: Mapping[str, str], replicas_ack: int, failover_possible: bool) -> list[str]:
    found = []
    replicas = _int(info.get("connected_slaves")) or 0
    if info.get("role") == "slave":
        found.append("this server is a replica: writes are refused until it is promoted")
    elif replicas < replicas_ack:
        found.append(
            f"{replicas} replicas are attached, and {replicas_ack} must acknowledge a promotion:"
            " none will count"
        )
    elif (replicas or failover_possible) and replicas_ack == 0:
        found.append(
            "replication is not waited for: a failover may forget what the replica had not yet"
        )
    return found


def _unknown(what: str) -> str:
    return {
        "CONFIG GET": "how writes reach the disk",
        "INFO server": "the version and restarts",
        "INFO memory": "memory",
        "INFO persistence": "persistence",
        "INFO replication": "replication",
    }[what]


def _yes_no(flag: str | None) -> str | None:
    return {"0": "no", "1": "yes"}.get(flag or "")


def _int(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])
