"""Every metric, once: name, kind, labels, and a help text that says what to do about it.

Names are part of the outside contract; dashboards and alerts are written against them. Labels are
bounded: topic and partition, and small enums. Each series also carries `cluster` and `group`,
added when it is exposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sidecar.core.faults import Component, FaultKind
from sidecar.core.gap import GapState
from sidecar.core.types import Condition, GapReason, Outcome, PartitionState, Verdict

PREFIX = "cursor_sidecar_"
FIXED_LABELS = ("cluster", "group")


class Kind(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """`values` are those a label can take, where it is an enum. `absent` says when there is no
    series; a gauge is absent, not zero, while its value is unknown."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    values: tuple[tuple[str, ...], ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def full_name(self) -> str:
        """As it is scraped."""
        return PREFIX + self.name


_PARTITION = ("topic", "partition")


def _gauge(name: str, text: str, *more: str, values: tuple[tuple[str, ...], ...] = ()) -> Metric:
    return Metric(name, Kind.GAUGE, text, (*_PARTITION, *more), values)


APPLIED_OFFSET = _gauge(
    "applied_offset",
    "Last offset that is done, by the store. It never falls within a lineage; if it stands still "
    "while lag grows, see oldest_unresolved_timestamp_seconds.",
)
COMMITTED_OFFSET = _gauge(
    "committed_offset",
    "The group's committed offset as far as known. It follows applied_offset + 1 within a second; "
    "if it stays behind, look for commit faults and the condition commit_refused.",
)
LOG_START_OFFSET = _gauge(
    "log_start_offset",
    "Log start offset. When it passes applied_offset + 1, records are lost: consume faster or "
    "retain longer before that.",
)
LOG_END_OFFSET = _gauge(
    "log_end_offset",
    "The log's end, its high watermark. Under read_committed lag is told by last_stable_offset.",
)
LAST_STABLE_OFFSET = _gauge(
    "last_stable_offset",
    "Where the first open transaction begins, or the log's end. Below log_end_offset for long: see "
    "hanging_transaction_seconds.",
)
HANGING_TRANSACTION = _gauge(
    "hanging_transaction_seconds",
    "How long a transaction has hung, once the condition is raised; 0 while none does. Nothing "
    "behind it can be read by anybody: end it with kafka-transactions.sh. Absent under "
    "read_uncommitted.",
)
CHECKPOINT_GENERATION = _gauge(
    "checkpoint_generation",
    "Generation of the checkpoint; every write raises it. A fall means that the store forgot.",
)
LAG_RECORDS = _gauge(
    "lag_records",
    "End offset minus next offset: an upper bound of the records still to come. If it grows, add "
    "consumers or look at delivery_seconds.",
)
CAUGHT_UP = _gauge(
    "caught_up",
    "1 when the position is at the end, the floor is proven and no gap is open. 0 with no lag "
    "means that something waits for a decision.",
)
SECONDS_TO_LOSS = _gauge(
    "seconds_to_loss",
    "Lower bound of the seconds until retention removes unread records. When it is low, consume "
    "faster or raise the topic's retention now. Absent with nothing unread, without sane "
    "timestamps, or without the right to read the topic's settings; docs/verdicts.md says what it "
    "promises.",
)
OLDEST_UNRESOLVED = _gauge(
    "oldest_unresolved_timestamp_seconds",
    "When the first record still without an outcome was first handed out (Unix time). If "
    "time() minus this keeps growing, the application is stuck on that record.",
)
LAST_PROGRESS = _gauge(
    "last_progress_timestamp_seconds",
    "When the applied offset last moved here, or the partition was assigned (Unix time). Old, with "
    "lag: see partition_state, then `GET /v1/partitions`.",
)
PARTITION_STATE = _gauge(
    "partition_state",
    "1 for the state a partition is in, 0 for the others. held and gap wait for a person.",
    "state",
    values=(tuple(PartitionState),),
)
PARTITION_CONDITION = _gauge(
    "partition_condition",
    "1 while a condition stands beside the state. paused and replaying, which somebody asked for, "
    "keep new records back; the others hold nothing that can be delivered.",
    "condition",
    values=(tuple(Condition),),
)
UNRESOLVED_GAPS = _gauge(
    "unresolved_gaps",
    "Gaps nobody has decided yet; 0 for an assigned partition without one. Above 0: read the gap, "
    "decide, and resolve it. Every sidecar of the group says so, so alert on max by.",
)
UNRESOLVED_GAP_RECORDS = _gauge(
    "unresolved_gap_records",
    "Offsets inside the undecided gaps: an upper bound of what may be lost. Absent while an end "
    "is not known.",
)
GAP_INFO = _gauge(
    "gap_info",
    "1 for each undecided gap, with its reason; `cursor-sidecar gaps list` shows them.",
    "reason",
    "state",
    values=(tuple(GapReason), tuple(s for s in GapState if s.holds)),
)
RECOVERIES = Metric(
    "recoveries_total",
    Kind.COUNTER,
    "Recoveries ended, by what the evidence meant and how it went. Verdicts other than resume and "
    "resume_at_boundary name what had happened to the cursor; see docs/verdicts.md.",
    ("verdict", "result"),
    (tuple(Verdict), ("verified", "boundary", "gap", "held", "abandoned")),
)
RECOVERY_SECONDS = Metric(
    "recovery_seconds",
    Kind.HISTOGRAM,
    "From the look at the evidence to delivery or hold. Slow: the overlap is long, or Kafka or "
    "the store answers slowly.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
OVERLAP_RECORDS = Metric(
    "overlap_records_total",
    Kind.COUNTER,
    "Records read again and compared with their receipts. Any mismatch means that the log's bytes "
    "changed: a gap log_diverged says where.",
    ("result",),
    (("match", "mismatch", "inconclusive"),),
)
PROMOTIONS = Metric(
    "promotions_total",
    Kind.COUNTER,
    "Attempts to install a page's outcomes. lost: another owner won; error: the store did not "
    "answer, see faults_total.",
    ("result",),
    (("won", "lost", "error"),),
)
RECORDS = Metric(
    "records_total",
    Kind.COUNTER,
    "Records by the outcome the application reported. dead_lettered, dropped and retry are the "
    "application's to explain.",
    ("outcome",),
    (tuple(Outcome),),
)
HOLES = Metric(
    "holes_total",
    Kind.COUNTER,
    "Runs of offsets without a visible record that were proven to hide no loss (transactions, "
    "compaction).",
    ("kind",),
    (("inner", "trailing"),),
)
FAULTS = Metric(
    "faults_total",
    Kind.COUNTER,
    "Faults met. unavailable and refused pass by themselves; authorization and authentication "
    "need a person; the log has the sentence.",
    ("component", "kind"),
    (tuple(Component), tuple(FaultKind)),
)
DEPENDENCY_UP = Metric(
    "dependency_up",
    Kind.GAUGE,
    "Whether Kafka and the store can be used; `GET /v1/status` says why not.",
    ("component",),
    (tuple(Component),),
)
STORE_REFUSED = Metric(
    "store_refused",
    Kind.GAUGE,
    "1 while the store must not be used, because it evicts keys: set maxmemory-policy noeviction. "
    "Absent until it was looked at.",
)
STORE_WARNINGS = Metric(
    "store_warnings",
    Kind.GAUGE,
    "Ways in which the store's own settings may forget what it acknowledged; the log names them.",
)
DELIVERY_SECONDS = Metric(
    "delivery_seconds",
    Kind.HISTOGRAM,
    "From handing a page out to its outcomes. Near the delivery deadline, pages are handed out "
    "twice: take smaller pages or raise the deadline.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
BUILD_INFO = Metric("build_info", Kind.GAUGE, "1, with the version that runs.", ("version",))

CATALOGUE: tuple[Metric, ...] = (
    APPLIED_OFFSET,
    COMMITTED_OFFSET,
    LOG_START_OFFSET,
    LOG_END_OFFSET,
    LAST_STABLE_OFFSET,
    HANGING_TRANSACTION,
    CHECKPOINT_GENERATION,
    LAG_RECORDS,
    CAUGHT_UP,
    SECONDS_TO_LOSS,
    OLDEST_UNRESOLVED,
    LAST_PROGRESS,
    PARTITION_STATE,
    PARTITION_CONDITION,
    UNRESOLVED_GAPS,
    UNRESOLVED_GAP_RECORDS,
    GAP_INFO,
    RECOVERIES,
    RECOVERY_SECONDS,
    OVERLAP_RECORDS,
    PROMOTIONS,
    RECORDS,
    HOLES,
    FAULTS,
    DEPENDENCY_UP,
    STORE_REFUSED,
    STORE_WARNINGS,
    DELIVERY_SECONDS,
    BUILD_INFO,
)
