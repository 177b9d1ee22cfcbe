"""Counting, and exposing what was counted.

Two kinds, because they fail differently. Counters and histograms are kept here and go up with
facts. What describes a partition is not kept at all: it is read from the desk when somebody
scrapes, so a partition that moved to another pod takes its series with it, and a value that is
unknown has none. A gauge that was set once and forgotten lies for as long as the process lives.

`cluster` and `group` are added on the way out, not when something is counted: the cluster's name
is known only once a broker has answered, and a counter must not change its identity then.
Until then it reads `unknown`, so that the series about a broker that is away exist.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from sidecar import __version__
from sidecar.core.gap import Gap
from sidecar.core.types import Partition, PartitionState
from sidecar.core.views import PartitionView
from sidecar.ports import Desk
from sidecar.telemetry import catalogue as c

UNKNOWN_CLUSTER = "unknown"

OpenGaps = Callable[[], "Sequence[Gap] | None"]
"""The group's gaps as the store last gave them; None while it could not be read."""


@dataclass(slots=True)
class Head:
    """The first page without all its outcomes: where it begins, ends, and since when it is out."""

    first: int
    last: int
    since: float


class Metrics:
    """`watch` comes later than the constructor, since the engine needs a recorder to be made."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._desk: Desk | None = None
        self._open_gaps: OpenGaps | None = None
        self._counted = CollectorRegistry(auto_describe=False)
        self._exposed = CollectorRegistry(auto_describe=False)
        self._exposed.register(_Exposed(self))
        ProcessCollector(registry=self._counted)

        self.heads: dict[Partition, Head] = {}
        self.progressed: dict[Partition, float] = {}
        self.recoveries = self._counter(c.RECOVERIES)
        self.overlap_records = self._counter(c.OVERLAP_RECORDS)
        self.promotions = self._counter(c.PROMOTIONS)
        self.records = self._counter(c.RECORDS)
        self.holes = self._counter(c.HOLES)
        self.faults = self._counter(c.FAULTS)
        self.recovery_seconds = self._histogram(c.RECOVERY_SECONDS)
        self.delivery_seconds = self._histogram(c.DELIVERY_SECONDS)
        self.store_refused: bool | None = None
        self.store_warnings: int | None = None

    def watch(self, desk: Desk, open_gaps: OpenGaps) -> None:
        """From now on, scrapes show the desk's partitions and the group's gaps."""
        self._desk = desk
        self._open_gaps = open_gaps

    def exposition(self, accept: str = "") -> tuple[str, bytes]:
        """Content type and body, in the format that `Accept` prefers."""
        encoder, content_type = choose_encoder(accept)
        return content_type, encoder(self._exposed)

    def families(self) -> Iterator[Family]:
        status = None if self._desk is None else self._desk.status()
        cluster = (status.cluster_id if status else None) or UNKNOWN_CLUSTER
        fixed = {"cluster": cluster, "group": self._group}
        yield _family(c.BUILD_INFO, fixed, [({"version": __version__}, 1)])
        if self.store_refused is not None and self.store_warnings is not None:
            yield _family(c.STORE_REFUSED, fixed, [({}, self.store_refused)])
            yield _family(c.STORE_WARNINGS, fixed, [({}, self.store_warnings)])
        if status is not None:
            up = [({"component": name}, one.up) for name, one in status.dependencies.items()]
            yield _family(c.DEPENDENCY_UP, fixed, up)
        if self._desk is not None:
            gaps = self._open_gaps() if self._open_gaps is not None else None
            yield from self._partitions(fixed, self._desk.partitions(), gaps)
        for family in self._counted.collect():
            family.samples = [
                sample._replace(labels={**fixed, **sample.labels})
                for sample in family.samples
                if not sample.name.endswith("_created")
            ]
            yield family

    def _partitions(
        self, fixed: dict[str, str], views: Sequence[PartitionView], gaps: Sequence[Gap] | None
    ) -> Iterator[Family]:
        families = {metric.name: _family(metric, fixed, ()) for metric in _BY_PARTITION}
        holding = [gap for gap in gaps or () if gap.state.holds]
        by_partition: dict[Partition, list[Gap]] = {}
        for gap in holding:
            by_partition.setdefault(gap.partition, []).append(gap)

        for view in views:
            partition = Partition(view.topic, view.partition)
            labels = {**fixed, "topic": view.topic, "partition": str(view.partition)}
            head = self.heads.get(partition)
            for metric, value in (
                (c.APPLIED_OFFSET, view.applied),
                (c.COMMITTED_OFFSET, view.committed),
                (c.LOG_START_OFFSET, view.log_start),
                (c.LOG_END_OFFSET, view.log_end),
                (c.LAST_STABLE_OFFSET, view.last_stable),
                (c.HANGING_TRANSACTION, view.hanging_transaction_seconds),
                (c.CHECKPOINT_GENERATION, view.generation),
                (c.LAG_RECORDS, view.lag_records),
                (c.CAUGHT_UP, view.caught_up),
                (c.SECONDS_TO_LOSS, view.seconds_to_loss),
                (c.LAST_PROGRESS, self.progressed.get(partition)),
                (c.OLDEST_UNRESOLVED, None if head is None else head.since),
            ):
                if value is not None:
                    families[metric.name].samples.append(
                        Sample(metric.full_name, labels, float(value))
                    )
            _one_hot(families, c.PARTITION_STATE, labels, {view.state})
            _one_hot(families, c.PARTITION_CONDITION, labels, set(view.conditions))
            if partition not in by_partition and view.gap is not None:
                # Just opened, or the store cannot be read: the owner knows all the same.
                _gauge(families, c.UNRESOLVED_GAPS, labels, 1)
            elif partition not in by_partition and _judged(view):
                _gauge(families, c.UNRESOLVED_GAPS, labels, 0)

        for partition, open_here in by_partition.items():
            labels = {
                **fixed,
                "cluster": open_here[0].cluster_id,
                "topic": partition.topic,
                "partition": str(partition.index),
            }
            _gauge(families, c.UNRESOLVED_GAPS, labels, len(open_here))
            sizes = [
                gap.interval.end - gap.interval.first
                for gap in open_here
                if gap.interval.end is not None
            ]
            if len(sizes) == len(open_here):
                _gauge(families, c.UNRESOLVED_GAP_RECORDS, labels, sum(sizes))
            for reason, state in {(gap.reason.value, gap.state.value) for gap in open_here}:
                _gauge(families, c.GAP_INFO, {**labels, "reason": reason, "state": state}, 1)
        yield from families.values()

    def _counter(self, metric: c.Metric) -> Counter:
        counter = Counter(
            metric.full_name, metric.help, labelnames=metric.labels, registry=self._counted
        )
        if metric.labels:  # a counter born at 1 has no first increase
            for values in itertools.product(*metric.values):
                counter.labels(*values)
        return counter

    def _histogram(self, metric: c.Metric) -> Histogram:
        return Histogram(
            metric.full_name, metric.help, buckets=metric.buckets, registry=self._counted
        )


class _Exposed(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Family]:
        return self._metrics.families()


_BY_PARTITION = tuple(m for m in c.CATALOGUE if m.labels[:2] == ("topic", "partition"))


def _judged(view: PartitionView) -> bool:
    """Whether "no gap" is knowledge: while waiting or recovering it is not yet."""
    return view.state not in (PartitionState.WAITING, PartitionState.RECOVERING)


def _family(
    metric: c.Metric, fixed: dict[str, str], samples: Sequence[tuple[dict[str, str], float]]
) -> Family:
    family = Family(metric.full_name, metric.help, metric.kind.value)
    family.samples = [
        Sample(metric.full_name, {**fixed, **labels}, float(value)) for labels, value in samples
    ]
    return family


def _gauge(
    families: dict[str, Family], metric: c.Metric, labels: dict[str, str], value: float
) -> None:
    families[metric.name].samples.append(Sample(metric.full_name, labels, float(value)))


def _one_hot(
    families: dict[str, Family], metric: c.Metric, labels: dict[str, str], present: set[object]
) -> None:
    label = metric.labels[-1]
    families[metric.name].samples += [
        Sample(metric.full_name, {**labels, label: value}, float(value in present))
        for value in metric.values[0]
    ]
