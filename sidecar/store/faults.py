"""The one place where an exception of redis-py becomes a `Fault`.

Two things are said of each: what it means for an operator (wait, grant a right, mend the server),
and whether what was sent may have been done. The second decides between `NotInstalled` and
`Ambiguous`, and it cannot be read off the class tree of redis-py:

- `AuthenticationError`, `BusyLoadingError` and `MasterNotFoundError` are `ConnectionError`s, but
  they are answers (or come before anything was sent), so nothing was done;
- `ConnectionError` and `TimeoutError` say nothing about it: what counts is whether the command had
  left, which only the caller knows (`sent`). A write that timed out while the server was frozen was
  seen to be applied when it thawed;
- `RedisClusterException` is no `RedisError`;
- many refusals are a bare `ResponseError` that only their first word tells apart.

An error *answer* means that the server ran nothing, or that a script ended before its first write:
the scripts here look at everything that could fail before they write. An answer that is not known
here is taken for "may be done", since being wrong the other way would lose a write.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

import redis.asyncio.sentinel
import redis.event
import redis.exceptions as vendor
import redis.sentinel

from sidecar.core.faults import Component, Fault, FaultKind
from sidecar.store.receipts import NewerFormat

DETAIL_MAX = 240


class Done(Enum):
    """May what was sent have been done?"""

    NO = "no"
    MAYBE = "maybe"
    IF_SENT = "if sent"


@dataclass(frozen=True, slots=True)
class Meaning:
    kind: FaultKind
    code: str
    done: Done


class StoreFailed(Exception):
    """A question or a write that failed on its way. Never leaves this package."""

    def __init__(self, fault: Fault, maybe_done: bool) -> None:
        super().__init__(fault.detail)
        self.fault = fault
        self.maybe_done = maybe_done


_WAIT, _REFUSED = FaultKind.UNAVAILABLE, FaultKind.REFUSED

MEANINGS: Final[Mapping[type[BaseException], Meaning]] = MappingProxyType(
    {
        # The way there: what counts is whether the command had left.
        vendor.ConnectionError: Meaning(_WAIT, "CONNECTION", Done.IF_SENT),
        vendor.TimeoutError: Meaning(_WAIT, "TIMEOUT", Done.IF_SENT),
        vendor.InvalidResponse: Meaning(_WAIT, "PROTOCOL", Done.IF_SENT),
        vendor.RedisError: Meaning(_WAIT, "REDIS", Done.IF_SENT),
        asyncio.TimeoutError: Meaning(_WAIT, "TIMEOUT", Done.IF_SENT),
        OSError: Meaning(_WAIT, "CONNECTION", Done.IF_SENT),
        EOFError: Meaning(_WAIT, "CONNECTION", Done.IF_SENT),
        # Before anything was sent.
        vendor.MaxConnectionsError: Meaning(_WAIT, "POOL", Done.NO),
        redis.asyncio.sentinel.MasterNotFoundError: Meaning(_WAIT, "NO_MASTER", Done.NO),
        redis.asyncio.sentinel.SlaveNotFoundError: Meaning(_WAIT, "NO_REPLICA", Done.NO),
        redis.sentinel.MasterNotFoundError: Meaning(_WAIT, "NO_MASTER", Done.NO),
        redis.sentinel.SlaveNotFoundError: Meaning(_WAIT, "NO_REPLICA", Done.NO),
        vendor.DataError: Meaning(_REFUSED, "DATA", Done.NO),
        vendor.ExternalAuthProviderError: Meaning(
            FaultKind.AUTHENTICATION, "AUTH_PROVIDER", Done.NO
        ),
        # Answers.
        vendor.AuthenticationError: Meaning(FaultKind.AUTHENTICATION, "AUTHENTICATION", Done.NO),
        vendor.AuthenticationWrongNumberOfArgsError: Meaning(
            FaultKind.AUTHENTICATION, "AUTHENTICATION", Done.NO
        ),
        vendor.AuthorizationError: Meaning(FaultKind.AUTHORIZATION, "AUTHORIZATION", Done.NO),
        vendor.NoPermissionError: Meaning(FaultKind.AUTHORIZATION, "NOPERM", Done.NO),
        vendor.BusyLoadingError: Meaning(_WAIT, "LOADING", Done.NO),
        vendor.OutOfMemoryError: Meaning(_REFUSED, "OOM", Done.NO),
        vendor.ReadOnlyError: Meaning(_WAIT, "READONLY", Done.NO),
        vendor.NoScriptError: Meaning(_WAIT, "NOSCRIPT", Done.NO),
        vendor.ExecAbortError: Meaning(_REFUSED, "EXECABORT", Done.NO),
        vendor.ModuleError: Meaning(_REFUSED, "MODULE", Done.NO),
        vendor.NoSuchFieldsetError: Meaning(_REFUSED, "FIELDSET", Done.NO),
        vendor.ResponseError: Meaning(_REFUSED, "ERR", Done.MAYBE),
        # Cluster.
        vendor.ClusterDownError: Meaning(_WAIT, "CLUSTERDOWN", Done.NO),
        vendor.MasterDownError: Meaning(_WAIT, "MASTERDOWN", Done.NO),
        vendor.TryAgainError: Meaning(_WAIT, "TRYAGAIN", Done.NO),
        vendor.AskError: Meaning(_REFUSED, "ASK", Done.NO),
        vendor.MovedError: Meaning(_REFUSED, "MOVED", Done.NO),
        vendor.ClusterCrossSlotError: Meaning(_REFUSED, "CROSSSLOT", Done.NO),
        vendor.ClusterError: Meaning(_WAIT, "CLUSTER", Done.IF_SENT),
        vendor.RedisClusterException: Meaning(_WAIT, "CLUSTER", Done.IF_SENT),
        vendor.SlotNotCoveredError: Meaning(_WAIT, "SLOT_NOT_COVERED", Done.NO),
        vendor.CrossSlotTransactionError: Meaning(_REFUSED, "CROSSSLOT", Done.NO),
        vendor.InvalidPipelineStack: Meaning(_WAIT, "PROTOCOL", Done.IF_SENT),
        # Of parts of redis-py that are not used here; mapped so that the table is whole.
        vendor.PubSubError: Meaning(_WAIT, "PUBSUB", Done.NO),
        vendor.WatchError: Meaning(_WAIT, "WATCH", Done.NO),
        vendor.LockError: Meaning(_REFUSED, "LOCK", Done.NO),
        vendor.LockNotOwnedError: Meaning(_REFUSED, "LOCK", Done.NO),
        vendor.ChildDeadlockedError: Meaning(_WAIT, "CHILD_DEADLOCKED", Done.NO),
        vendor.IncorrectPolicyType: Meaning(_REFUSED, "POLICY", Done.NO),
        redis.event.EventException: Meaning(_WAIT, "EVENT", Done.IF_SENT),
    }
)
"""Every exception class of redis-py; a test fails when there is one that is not here."""

ANSWERS: Final[Mapping[str, Meaning]] = MappingProxyType(
    {
        "BUSY": Meaning(_WAIT, "BUSY", Done.NO),
        "CLUSTERDOWN": Meaning(_WAIT, "CLUSTERDOWN", Done.NO),
        "INPROG": Meaning(_WAIT, "INPROG", Done.NO),
        "LOADING": Meaning(_WAIT, "LOADING", Done.NO),
        "MASTERDOWN": Meaning(_WAIT, "MASTERDOWN", Done.NO),
        "MISCONF": Meaning(_REFUSED, "MISCONF", Done.NO),
        "NOREPLICAS": Meaning(_REFUSED, "NOREPLICAS", Done.NO),
        "NOPROTO": Meaning(_REFUSED, "NOPROTO", Done.NO),
        "NOPERM": Meaning(FaultKind.AUTHORIZATION, "NOPERM", Done.NO),
        "OOM": Meaning(_REFUSED, "OOM", Done.NO),
        "READONLY": Meaning(_WAIT, "READONLY", Done.NO),
        "REDIRECT": Meaning(_WAIT, "REDIRECT", Done.NO),
        "TRYAGAIN": Meaning(_WAIT, "TRYAGAIN", Done.NO),
        "UNBLOCKED": Meaning(_WAIT, "UNBLOCKED", Done.MAYBE),
        "WRONGTYPE": Meaning(_REFUSED, "WRONGTYPE", Done.NO),
    }
)
"""What a bare `ResponseError` means, by its first word."""

PHRASES: Final[tuple[tuple[str, Meaning], ...]] = (
    ("unknown command", Meaning(_REFUSED, "UNKNOWN_COMMAND", Done.NO)),
    ("ACL failure in script", Meaning(FaultKind.AUTHORIZATION, "NOPERM", Done.MAYBE)),
    ("can't run this command", Meaning(FaultKind.AUTHORIZATION, "NOPERM", Done.MAYBE)),
    ("Script killed by user", Meaning(_WAIT, "KILLED", Done.NO)),
    ("max number of clients", Meaning(_WAIT, "MAXCLIENTS", Done.NO)),
    ("DB index is out of range", Meaning(_REFUSED, "DATABASE", Done.NO)),
    ("SELECT is not allowed in cluster mode", Meaning(_REFUSED, "DATABASE", Done.NO)),
    ("command not allowed when used memory", Meaning(_REFUSED, "OOM", Done.NO)),
)
"""Answers that begin with a bare `ERR`, or are rephrased on their way."""

_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "NOPERM": "a right is missing in the store: ACL SETUSER grants it",
        "AUTHENTICATION": "the store refuses the user or password of REDIS__URL",
        "MOVED": "this server is part of a Redis Cluster: use a redis+cluster:// URL",
        "OOM": "the store is out of memory, and must not evict: give it more",
        "MISCONF": "the store cannot write to its disk",
        "NOREPLICAS": "too few replicas are attached (min-replicas-to-write)",
        "READONLY": "this server is a replica; its master is looked up again",
        "LOADING": "the store is loading its data",
        "BUSY": "the store is busy with somebody's script",
        "NO_MASTER": "no sentinel knows a master",
    }
)

CAUGHT: Final = (
    vendor.RedisError,
    vendor.RedisClusterException,
    vendor.ChildDeadlockedError,
    vendor.IncorrectPolicyType,
    redis.event.EventException,
    OSError,
    EOFError,
    asyncio.TimeoutError,
)
"""What may come out of redis-py when nothing is wrong with our code."""


_FROM_A_SCRIPT: Final = re.compile(
    # Redis 6 wraps what a command inside a script says; later ones append where it was.
    r"^(?:Error running script \(call to \w+\): @user_script:\d+: )?(?:@user_script: ?\d+: )?-?"
    r"|(?: script: \w*,?)? on @user_script:\d+\.?$"
)


def meaning_of(error: BaseException) -> Meaning:
    if type(error) is vendor.ResponseError or isinstance(error, vendor.ConnectionError):
        words = _FROM_A_SCRIPT.sub("", str(error))
        if (known := ANSWERS.get(words.split(" ", 1)[0])) is not None:
            return known
        for phrase, meaning in PHRASES:
            if phrase in words:
                return meaning
    for kind in type(error).__mro__:
        if (known := MEANINGS.get(kind)) is not None:
            return known
    raise TypeError(f"{type(error).__name__} is not for this table") from error


def failed(error: BaseException, *, sent: bool, during: str = "") -> StoreFailed:
    """`sent`: the command had left, or may have, when this came."""
    meaning = meaning_of(error)
    words = _FROM_A_SCRIPT.sub("", str(error)).split(", with args beginning with", 1)[0]
    words = " ".join(words.split())
    if not words:
        words = "no answer in time" if meaning.code == "TIMEOUT" else type(error).__name__
    hint = _HINTS.get(meaning.code)
    detail = f"{hint} ({words})" if hint else words
    if during:
        detail = f"{during}: {detail}"
    fault = Fault(Component.REDIS, meaning.kind, meaning.code, detail[:DETAIL_MAX])
    maybe = meaning.done is Done.MAYBE or (meaning.done is Done.IF_SENT and sent)
    return StoreFailed(fault, maybe)


def refused(code: str, detail: str) -> StoreFailed:
    """Refused here, before anything was sent."""
    return StoreFailed(Fault(Component.REDIS, FaultKind.REFUSED, code, detail), False)


def unavailable(code: str, detail: str, *, maybe_done: bool) -> StoreFailed:
    return StoreFailed(Fault(Component.REDIS, FaultKind.UNAVAILABLE, code, detail), maybe_done)


def unreadable(error: Exception) -> Fault:
    """State that cannot be read: newer than this release, or spoiled. Held, never guessed at."""
    code = "FORMAT" if isinstance(error, NewerFormat) else "CORRUPT"
    return Fault(Component.REDIS, FaultKind.FORMAT_UNKNOWN, code, str(error)[:DETAIL_MAX])
