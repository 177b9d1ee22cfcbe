"""Holds that are no gaps: what each asks of a person, and the name it has for everybody.

A hold's id is made of what was found, not of who found it: the same situation has the same id for
the next owner, after a restart, and for a command that looks while no sidecar runs. So an answer
that was left for it finds it again, and an answer to what is another situation by now does not.

What can be answered has its answers here, each with what it does; what cannot has the words for
what mends it. The two tables leave no verdict that holds without either (a test says so).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from sidecar.core.types import Condition, GroupId, HoldId, Partition, Verdict

Held: TypeAlias = Verdict | Condition

ANSWERS: Mapping[Held, Mapping[str, str]] = MappingProxyType(
    {
        Verdict.START_REFUSED: {
            "earliest": "begin at the log start, as it is when this is executed",
            "latest": "begin at the end of the log, as it is when this is executed",
        },
        Verdict.ADOPTED: {
            "commit": "take the offset that the group committed on trust, and go on from it",
        },
        Verdict.SCOPE_CHANGED: {
            "accept": "go on under the isolation level of the settings, with nothing to compare: "
            "what is remembered was read under the other one",
        },
        Verdict.BLOCKED_RECORD: {
            "skip": "pass this one offset; it is kept as a gap that was accepted",
        },
        Verdict.UNKNOWN: {
            "look": "ask for the evidence again, now",
        },
        Condition.REPLAY_REQUESTED: {
            "replay": "deliver what is still in the log of the interval again, flagged; the "
            "position does not move",
            "dismiss": "deliver nothing again, and forget that it was asked for",
        },
    }
)

MENDS: Mapping[Held, str] = MappingProxyType(
    {
        Verdict.FOREIGN_CHECKPOINT: "nothing can be compared across it: set "
        "KAFKA__BOOTSTRAP_SERVERS, KAFKA__GROUP_ID and REDIS__URL to what the state speaks of; "
        "after a move to another cluster, `cursor-sidecar rebind`; for state that is no longer "
        "wanted here, `cursor-sidecar forget`",
        Verdict.FORMAT_UNKNOWN: "run the release that wrote it, or a later one",
        Verdict.AUTHORIZATION: "grant the right that is named; it is tried again by itself",
        Verdict.AUTHENTICATION: "mend the credentials; it is tried again by itself",
        Verdict.TOPIC_UNKNOWN: "create the topic again, or take it out of KAFKA__TOPICS; it is "
        "tried again by itself",
    }
)


def answers_of(held: Held) -> tuple[str, ...]:
    return tuple(ANSWERS.get(held, {}))


def hold_id(group: GroupId, partition: Partition, held: Held, situation: str) -> HoldId:
    """`situation` is what tells it from another one of the same kind at the same place."""
    words = "\0".join((group, partition.topic, str(partition.index), held.value, situation))
    return HoldId(f"h-{hashlib.sha256(words.encode(errors='surrogatepass')).hexdigest()[:16]}")
