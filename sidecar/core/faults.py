"""Faults as values, and the three answers a question can have.

"No value" and "could not read" are different answers everywhere: for Redis, for committed
offsets, for watermarks. A question therefore returns `Known`, `Absent` or `Unreadable`, and the
type checker refuses code that mixes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")


class Component(StrEnum):
    KAFKA = "kafka"
    REDIS = "redis"


class FaultKind(StrEnum):
    """What to do about it: wait, ask a person, or ask another question first."""

    UNAVAILABLE = "unavailable"
    """Transient: a time-out, a lost connection, an election, a store that loads. Wait."""
    AUTHORIZATION = "authorization"
    """A right is missing. Latched until a question that needs it is answered."""
    AUTHENTICATION = "authentication"
    """The credentials were refused. Latched likewise."""
    TOPIC_UNKNOWN = "topic_unknown"
    """A broker that restarts says so too, so it counts only after a while."""
    EPOCH_SUSPECT = "epoch_suspect"
    """The leader epoch asked with is unknown there, or fell: ask for the topic's identity."""
    REFUSED = "refused"
    """The server is there and will not do it: out of memory, read-only, a wrong request."""
    FORMAT_UNKNOWN = "format_unknown"
    """State written in a format newer than this release reads."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`code` is the vendor's name for it; `detail` is one sentence for a person."""

    component: Component
    kind: FaultKind
    code: str
    detail: str

    @property
    def denied(self) -> bool:
        """Somebody has to grant something, or to give the right password."""
        return self.kind in (FaultKind.AUTHORIZATION, FaultKind.AUTHENTICATION)

    @property
    def transient(self) -> bool:
        return self.kind in (FaultKind.UNAVAILABLE, FaultKind.REFUSED, FaultKind.EPOCH_SUSPECT)


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class Absent:
    """The question was answered: there is no value."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The question was not answered."""

    fault: Fault


ABSENT = Absent()

Reading: TypeAlias = Known[T] | Absent | Unreadable
Answer: TypeAlias = Known[T] | Unreadable
"""A question whose answer cannot be absent."""
