"""What a deliberate fault is aimed at: an invariant, a row of the verdict tables, or a promise that
stands beside both."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from sidecar.core.types import Verdict


class Invariant(StrEnum):
    """Properties that hold at every instant, whatever fails."""

    APPLIED_MONOTONE = "applied_monotone"
    PREFIX_TERMINAL = "prefix_terminal"
    COMMIT_BEHIND_CHECKPOINT = "commit_behind_checkpoint"
    CAS_OR_NOTHING = "cas_or_nothing"
    GAP_HOLDS = "gap_holds"
    INCARNATION_PINNED = "incarnation_pinned"
    TOKEN_IS_NO_PROOF = "token_is_no_proof"
    TRANSIENT_CHANGES_NOTHING = "transient_changes_nothing"
    ABSENT_IS_NOT_ERROR = "absent_is_not_error"
    REDELIVERY_FLAGGED = "redelivery_flagged"
    GAP_OUTLIVES = "gap_outlives"
    ZOMBIE_WRITES_NOTHING = "zombie_writes_nothing"
    BOUNDED = "bounded"


class Row(StrEnum):
    """Situations of the verdict tables, stage by stage."""

    # 1: could identity be read?
    UNAVAILABLE = "1 an answer is missing"
    UNAUTHORIZED = "1 a right or the credentials are refused"
    TOPIC_UNKNOWN = "1 the topic is unknown"
    BOUNDS_UNREADABLE = "1 the log's bounds cannot be read"
    # 2: identity
    OTHER_PLACE = "2 another cluster, group or store"
    RECREATED = "2 another topic ID"
    STALE_ID = "2 an earlier topic ID, or fewer partitions"
    PINNED_BY_NAME = "2 no topic ID to be had"
    OTHER_SCOPE = "2 another isolation level"
    NEWER_FORMAT = "2 a format of a later release"
    # 3: testimony
    AGREE = "3 checkpoint, commit equal"
    COMMIT_BEHIND = "3 checkpoint, commit behind or of an older lineage"
    ROLLED_BACK = "3 checkpoint, commit ahead or of a newer lineage"
    COMMIT_EXPIRED = "3 checkpoint, no commit"
    REPLAY_REQUESTED = "3 checkpoint, foreign commit behind"
    FOREIGN_SAME = "3 checkpoint, foreign commit at the same offset"
    EXTERNAL_RESET = "3 checkpoint, foreign commit ahead"
    STORE_REBUILT = "3 no checkpoint, commit of ours"
    STORE_LOST = "3 no checkpoint, a history, no commit of ours"
    ADOPTED = "3 no checkpoint, not started, foreign commit"
    FIRST_DAY = "3 no checkpoint, not started, no commit"
    # 4: range
    IN_RANGE = "4 within the log"
    AT_THE_START = "4 at the log start"
    BELOW_THE_START = "4 below the log start"
    BEYOND_THE_END = "4 beyond the log's end"
    TRUNCATION_REPORTED = "4 truncation reported, within the log"
    EPOCH_FELL = "4 the leader epoch fell"
    # 5: content
    MISMATCH = "5 a record differs"
    INCONCLUSIVE = "5 a record does not appear"
    NOTHING_COMPARABLE = "5 nothing can be compared"
    ANCHOR_DIFFERS = "5 the anchor itself differs"
    AHEAD = "5 a receipt beyond the position"
    HOLE = "5 a hole between records"
    BLOCKED = "5 a record that cannot be read"


class Promise(StrEnum):
    """What people are told of what they ask, and of what stands beside a verdict."""

    ANSWERED_ONCE = "a request is executed once, by the owner, and answered with its change"
    HEARD = "a request that was left is heard"
    FOR_ITS_SITUATION = "an answer counts for the situation it was given to"
    PAUSED = "a paused partition hands out nothing new"
    REPLAY_MOVES_NOTHING = "a replay moves nothing but its own progress"
    SKIPS_THE_HEAD = "one record is skipped, and only the head of the line"
    EARLY_FORECAST = "the loss is never later than was said"
    HOLDS_NOTHING = "a condition changes nothing of what is delivered"
    RECORDED_FIRST = "a foreign commit is written down before ours replaces it"


REACHED = MappingProxyType(
    {
        Verdict.RESUME: Row.AGREE,
        Verdict.RESUME_AT_BOUNDARY: Row.AT_THE_START,
        Verdict.COMMIT_EXPIRED: Row.COMMIT_EXPIRED,
        Verdict.COMMIT_BEHIND: Row.COMMIT_BEHIND,
        Verdict.STORE_ROLLED_BACK: Row.ROLLED_BACK,
        Verdict.STORE_LOST: Row.STORE_LOST,
        Verdict.ADOPTED: Row.ADOPTED,
        Verdict.NEW_GROUP: Row.FIRST_DAY,
        Verdict.NEW_PARTITION: Row.FIRST_DAY,
        Verdict.RETENTION_LOSS: Row.BELOW_THE_START,
        Verdict.LOG_TRUNCATED: Row.BEYOND_THE_END,
        Verdict.CURSOR_AHEAD: Row.BEYOND_THE_END,
        Verdict.TOPIC_RECREATED: Row.RECREATED,
        Verdict.LOG_DIVERGED: Row.MISMATCH,
        Verdict.EXTERNAL_RESET: Row.EXTERNAL_RESET,
        Verdict.COVERAGE_UNKNOWN: Row.HOLE,
        Verdict.FOREIGN_CHECKPOINT: Row.OTHER_PLACE,
        Verdict.SCOPE_CHANGED: Row.OTHER_SCOPE,
        Verdict.FORMAT_UNKNOWN: Row.NEWER_FORMAT,
        Verdict.START_REFUSED: Row.FIRST_DAY,
        Verdict.BLOCKED_RECORD: Row.BLOCKED,
        Verdict.AUTHORIZATION: Row.UNAUTHORIZED,
        Verdict.AUTHENTICATION: Row.UNAUTHORIZED,
        Verdict.TOPIC_UNKNOWN: Row.TOPIC_UNKNOWN,
        Verdict.UNAVAILABLE: Row.UNAVAILABLE,
        Verdict.UNKNOWN: Row.UNAVAILABLE,
    }
)
"""The row that gives each verdict: one that is added needs a row, and a fault against it."""

Attack: TypeAlias = Invariant | Row | Promise
