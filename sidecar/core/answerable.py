"""The holds of a partition, as whoever looks at it finds them: its owner, or a command beside it.

Both make them by these functions, so that an id that was read on one side is known on the other.
What only an owner meets (a record that cannot be read) is shown by the owner alone.
"""

from __future__ import annotations

from sidecar.core.checkpoint import Checkpoint
from sidecar.core.evidence import Evidence
from sidecar.core.faults import Known
from sidecar.core.holds import Held, hold_id
from sidecar.core.types import Condition, Fields, GroupId, HoldId, Partition
from sidecar.core.verdict import Hold, Judgement, Wait, describe
from sidecar.core.views import HoldView


def hold_of(judged: Hold | Wait, group: GroupId, partition: Partition) -> HoldId | None:
    """None: what waits passes by itself."""
    if isinstance(judged, Hold):
        return judged.id(group, partition)
    if not judged.latched:
        return None
    return hold_id(group, partition, judged.verdict, judged.fault.code)


def replay_asked(
    checkpoint: Checkpoint | None, evidence: Fields, *, since: float
) -> HoldView | None:
    """What a foreign hand asked for by committing a lower offset, until somebody answers."""
    if checkpoint is None or checkpoint.replay is None:
        return None
    asked, identity = checkpoint.replay, checkpoint.identity
    held: Held = Condition.REPLAY_REQUESTED
    return HoldView(
        id=hold_id(identity.group, identity.partition, held, str(asked)),
        partition=identity.partition,
        verdict=held,
        evidence=evidence,
        since=since,
        detail=f"somebody committed {asked.first}, below the position at {asked.end}",
    )


def conditions_of(checkpoint: Checkpoint | None) -> tuple[Condition, ...]:
    """Those that stand in the checkpoint, for whoever looks."""
    if checkpoint is None:
        return ()
    standing = {
        Condition.PAUSED: checkpoint.paused,
        Condition.REPLAY_REQUESTED: checkpoint.replay,
        Condition.REPLAYING: checkpoint.replaying,
    }
    return tuple(sorted(one for one, since in standing.items() if since is not None))


def found(evidence: Evidence, judged: Judgement) -> list[HoldView]:
    """By one who looks, and has no attempt of his own."""
    shown, at = describe(evidence), evidence.asked_at
    views = []
    if isinstance(judged, Hold | Wait):
        named = hold_of(judged, evidence.group, evidence.partition)
        detail = judged.detail if isinstance(judged, Hold) else judged.fault.detail
        if named is not None:
            views.append(HoldView(named, evidence.partition, judged.verdict, shown, at, detail))
    checkpoint = evidence.stored.value.checkpoint if isinstance(evidence.stored, Known) else None
    asked = replay_asked(checkpoint, shown, since=at)
    return views if asked is None else [*views, asked]
