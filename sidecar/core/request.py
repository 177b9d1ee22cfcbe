"""What a person asks of a partition, as a value that outlives whoever is its owner.

A request is left beside the partition, and the owner executes it: at once if there is one, after
its claim if there is none yet. So it needs no address of a sidecar, it works while none runs, and
two people who ask different things are answered one after the other by somebody who looks at the
evidence at that moment. Leaving one is idempotent by its id; it is answered once.

Rejected: commands that go to the owner's port and nowhere else. They are lost with the process, and
whoever sends one must know which member has the partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NewType

from sidecar.core.gap import Resolution
from sidecar.core.types import Fields, GroupId, Offset, Partition
from sidecar.core.views import Refusal, Refused, ResolveRequest

RequestId = NewType("RequestId", str)

PENDING_MAX = 8
"""Requests of one kind that may wait at one partition; one more is refused. Each kind has a line of
its own: what waits until a partition goes on must never keep out what lets it go on."""
KEPT_MAX = 64
"""Requests of one partition that are kept; the oldest that are answered go first."""


class RequestKind(StrEnum):
    RESOLVE = "resolve"
    """`target` is the gap."""
    ANSWER = "answer"
    """`target` is the hold."""
    PAUSE = "pause"
    CONTINUE = "continue"
    SKIP = "skip"
    REPLAY = "replay"


class RequestState(StrEnum):
    PENDING = "pending"
    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Request:
    """`at`, `settled_at` in Unix seconds. `code` names why it was refused, `detail` is for people.
    What `arguments` holds is the kind's business. `order` is the store's, given when it is left:
    clocks differ, and two people who ask for opposite things are heard in the order of leaving."""

    id: RequestId
    group: GroupId
    partition: Partition
    kind: RequestKind
    target: str
    by: str
    why: str
    at: float
    arguments: Fields = field(default_factory=dict)
    state: RequestState = RequestState.PENDING
    code: str = ""
    detail: str = ""
    settled_at: float | None = None
    order: int = field(default=0, compare=False)

    @property
    def place(self) -> tuple[int, float, str]:
        """In the line of a partition's requests; those of a release without orders come first."""
        return self.order, self.at, self.id

    @property
    def pending(self) -> bool:
        return self.state is RequestState.PENDING

    def done(self, detail: str, *, at: float) -> Request:
        return replace(self, state=RequestState.DONE, detail=detail, settled_at=at)

    def refused(self, refusal: Refusal, *, at: float) -> Request:
        return replace(
            self,
            state=RequestState.REFUSED,
            code=refusal.refused.value,
            detail=refusal.detail,
            settled_at=at,
        )

    @property
    def refusal(self) -> Refusal | None:
        if self.state is not RequestState.REFUSED:
            return None
        known = {refused.value: refused for refused in Refused}
        return Refusal(known.get(self.code, Refused.REQUEST_REFUSED), self.detail)


def resolving(request: Request) -> ResolveRequest | None:
    """What a request to resolve asks for; None when it is written in no way we know."""
    given = request.arguments
    try:
        return ResolveRequest(
            resolution=Resolution(str(given.get("resolution"))),
            by=request.by,
            why=request.why,
            evidence=_text(given, "evidence"),
            fence=offset(given, "fence"),
            resume_at=offset(given, "resume_at"),
            end_max=offset(given, "end_max"),
        )
    except ValueError:
        return None


def resolve_arguments(request: ResolveRequest) -> Fields:
    given = {
        "resolution": request.resolution.value,
        "evidence": request.evidence,
        "fence": request.fence,
        "resume_at": request.resume_at,
        "end_max": request.end_max,
    }
    return {name: value for name, value in given.items() if value is not None}


def position(request: Request, name: str) -> Offset | None:
    """None, too, when it is written in no way we know."""
    try:
        return offset(request.arguments, name)
    except ValueError:
        return None


def offset(given: Fields, name: str) -> Offset | None:
    """Raises `ValueError` for what is there and is none."""
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(name)
    return Offset(value)


def _text(given: Mapping[str, object], name: str) -> str | None:
    value = given.get(name)
    if value is None or isinstance(value, str):
        return value
    raise ValueError(name)
