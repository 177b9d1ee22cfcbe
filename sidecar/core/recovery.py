"""The recovery of one partition as a table: phases, steps, and which step leads where.

The table is the whole truth: an engine that takes a step which is not in it has a bug, and stops.
The diagram in the docs is drawn from it, and the simulator counts which of its rows it reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from sidecar.core.types import PartitionState


class Phase(StrEnum):
    LOOKING = "looking"
    """Evidence is being asked for."""
    WAITING = "waiting"
    """Something transient, or latched; looked at again after a while."""
    ENROLLING = "enrolling"
    """The group's registry does not know the partition yet."""
    CLAIMING = "claiming"
    """The compare-and-swap that makes this attempt the owner."""
    REMEMBERING = "remembering"
    """Receipts are being read."""
    COMMITTING = "committing"
    """A partition without a commit of ours gets one before its first page."""
    VERIFYING = "verifying"
    """The overlap is being read from the anchor."""
    CONCLUDING = "concluding"
    """The overlap was read; the log start is asked after it."""
    DELIVERING = "delivering"
    REPLAYING = "replaying"
    """Records that were applied are delivered again, because somebody asked for it."""
    OPENING = "opening"
    """The compare-and-swap that opens a gap."""
    GAP = "gap"
    HELD = "held"


class Step(StrEnum):
    LOOK = "look"
    ENROL = "enrol"
    WAIT = "wait"
    GO = "go"
    CONFIRMED = "confirmed"
    """A live attempt was looked at and is still the owner: no new claim."""
    HOLD = "hold"
    OPEN = "open"
    STAND = "stand"
    """A gap that was opened before still stands."""
    CHECK = "check"
    """What lies below a gap is verified before a decision moves the position. It needs no claim:
    since the gap was opened, no earlier owner can write, and no later one moves anything."""
    CLAIMED = "claimed"
    LOST = "lost"
    """A comparison was lost, or a write could not be made: look again."""
    REMEMBERED = "remembered"
    COMMITTED = "committed"
    READ = "read"
    WIDEN = "widen"
    """The anchor itself differs: older receipts are read for the last one that matches."""
    VERIFIED = "verified"
    OPENED = "opened"
    REPLAY = "replay"


TRANSITIONS: Mapping[tuple[Phase, Step], Phase] = MappingProxyType(
    {
        (Phase.LOOKING, Step.ENROL): Phase.ENROLLING,
        (Phase.LOOKING, Step.WAIT): Phase.WAITING,
        (Phase.LOOKING, Step.GO): Phase.CLAIMING,
        (Phase.LOOKING, Step.CONFIRMED): Phase.VERIFYING,
        (Phase.LOOKING, Step.HOLD): Phase.HELD,
        (Phase.LOOKING, Step.OPEN): Phase.OPENING,
        (Phase.LOOKING, Step.STAND): Phase.GAP,
        (Phase.LOOKING, Step.CHECK): Phase.REMEMBERING,
        (Phase.ENROLLING, Step.LOOK): Phase.LOOKING,
        (Phase.ENROLLING, Step.WAIT): Phase.WAITING,
        (Phase.ENROLLING, Step.HOLD): Phase.HELD,
        (Phase.WAITING, Step.LOOK): Phase.LOOKING,
        (Phase.CLAIMING, Step.CLAIMED): Phase.REMEMBERING,
        (Phase.CLAIMING, Step.LOST): Phase.WAITING,
        (Phase.REMEMBERING, Step.REMEMBERED): Phase.VERIFYING,
        (Phase.REMEMBERING, Step.LOST): Phase.WAITING,
        (Phase.VERIFYING, Step.READ): Phase.CONCLUDING,
        (Phase.VERIFYING, Step.LOOK): Phase.LOOKING,
        (Phase.VERIFYING, Step.LOST): Phase.WAITING,
        (Phase.VERIFYING, Step.HOLD): Phase.HELD,
        (Phase.CONCLUDING, Step.VERIFIED): Phase.DELIVERING,
        (Phase.CONCLUDING, Step.COMMITTED): Phase.COMMITTING,
        (Phase.CONCLUDING, Step.WIDEN): Phase.REMEMBERING,
        (Phase.CONCLUDING, Step.OPEN): Phase.OPENING,
        (Phase.CONCLUDING, Step.LOOK): Phase.LOOKING,
        (Phase.CONCLUDING, Step.LOST): Phase.WAITING,
        (Phase.COMMITTING, Step.COMMITTED): Phase.DELIVERING,
        (Phase.COMMITTING, Step.LOOK): Phase.LOOKING,
        (Phase.COMMITTING, Step.LOST): Phase.WAITING,
        (Phase.DELIVERING, Step.LOOK): Phase.LOOKING,
        (Phase.DELIVERING, Step.OPEN): Phase.OPENING,
        (Phase.DELIVERING, Step.LOST): Phase.WAITING,
        (Phase.DELIVERING, Step.HOLD): Phase.HELD,
        (Phase.DELIVERING, Step.REPLAY): Phase.REPLAYING,
        (Phase.REPLAYING, Step.LOOK): Phase.LOOKING,
        (Phase.REPLAYING, Step.LOST): Phase.WAITING,
        (Phase.OPENING, Step.OPENED): Phase.GAP,
        (Phase.OPENING, Step.LOST): Phase.WAITING,
        (Phase.GAP, Step.LOOK): Phase.LOOKING,
        (Phase.GAP, Step.LOST): Phase.WAITING,
        (Phase.HELD, Step.LOOK): Phase.LOOKING,
        (Phase.HELD, Step.LOST): Phase.WAITING,
    }
)

STATES: Mapping[Phase, PartitionState] = MappingProxyType(
    {
        Phase.LOOKING: PartitionState.RECOVERING,
        Phase.WAITING: PartitionState.WAITING,
        Phase.ENROLLING: PartitionState.RECOVERING,
        Phase.CLAIMING: PartitionState.RECOVERING,
        Phase.REMEMBERING: PartitionState.RECOVERING,
        Phase.COMMITTING: PartitionState.RECOVERING,
        Phase.VERIFYING: PartitionState.RECOVERING,
        Phase.CONCLUDING: PartitionState.RECOVERING,
        Phase.DELIVERING: PartitionState.DELIVERING,
        Phase.REPLAYING: PartitionState.DELIVERING,
        Phase.OPENING: PartitionState.RECOVERING,
        Phase.GAP: PartitionState.GAP,
        Phase.HELD: PartitionState.HELD,
    }
)


def after(phase: Phase, step: Step) -> Phase | None:
    """Where `step` leads from `phase`; None when it is not a step that can be taken there."""
    return TRANSITIONS.get((phase, step))
