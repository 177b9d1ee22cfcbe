"""The catalogue, and what is scraped."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families

from sidecar.core import facts as f
from sidecar.core.faults import Component, Fault, FaultKind
from sidecar.core.gap import Gap, GapState
from sidecar.core.types import (
    Condition,
    GapId,
    GapReason,
    GroupId,
    Interval,
    Offset,
    Outcome,
    Partition,
    PartitionState,
    Verdict,
)
from sidecar.core.views import StatusView
from sidecar.telemetry.catalogue import CATALOGUE, PREFIX, Kind
from sidecar.telemetry.metrics import Metrics
from sidecar.telemetry.recorder import TelemetryRecorder
from sidecar.telemetry.reference import metrics_page
from tests.api.desk import FakeDesk, a_gap, view
from tests.store.values import request_of
from tests.telemetry.conftest import Lines

ROOT = Path(__file__).resolve().parents[2]
ORDERS = Partition("orders", 0)

BY_PARTITION = """
applied_offset committed_offset log_start_offset log_end_offset checkpoint_generation lag_records
caught_up seconds_to_loss oldest_unresolved_timestamp_seconds last_progress_timestamp_seconds
partition_state{state} unresolved_gaps unresolved_gap_records gap_info{reason,state}
"""
OTHERS = """
recoveries_total{verdict,result} recovery_seconds overlap_records_total{result}
promotions_total{result} records_total{outcome} holes_total{kind} faults_total{component,kind}
dependency_up{component} delivery_seconds build_info{version}
"""


class Scraped:
    """What one scrape shows: values by name and labels."""

    def __init__(self, text: str) -> None:
        self.families = list(text_string_to_metric_families(text))
        self.samples = [sample for family in self.families for sample in family.samples]

    def of(self, name: str, **labels: str) -> list[float]:
        return [
            sample.value
            for sample in self.samples
            if sample.name == PREFIX + name and labels.items() <= sample.labels.items()
        ]

    def one(self, name: str, **labels: str) -> float:
        (value,) = self.of(name, **labels)
        return value


class Bench:
    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.now = 1_000.0
        self.desk = FakeDesk()
        self.gaps: list[Gap] | None = []
        self.metrics = Metrics("billing")
        self.recorder = TelemetryRecorder(lines.log, self.metrics, wall=lambda: self.now)
        self.metrics.watch(self.desk, lambda: self.gaps)

    def scrape(self) -> Scraped:
        content_type, body = self.metrics.exposition()
        assert content_type.startswith("text/plain")
        return Scraped(body.decode())


@pytest.fixture
def bench(lines: Lines) -> Bench:
    return Bench(lines)


def test_the_catalogue_has_every_name_and_label_of_the_contract() -> None:
    """Dashboards and alerts are written against these."""
    ours = {metric.name: metric.labels for metric in CATALOGUE}
    for words, common in ((BY_PARTITION, ("topic", "partition")), (OTHERS, ())):
        for word in words.split():
            name, _, labels = word.rstrip("}").partition("{")
            assert ours[name] == (*common, *(label for label in labels.split(",") if label))


def test_names_and_help_follow_the_habits_of_prometheus() -> None:
    """Counters end in _total, times in _seconds, and help is a sentence or more."""
    for metric in CATALOGUE:
        assert re.fullmatch(r"[a-z][a-z_]*[a-z]", metric.name)
        assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total")
        assert metric.help[0].isupper() or metric.help[0].isdigit()
        assert metric.help.endswith(".")
        assert (metric.kind is Kind.HISTOGRAM) == bool(metric.buckets)
        assert len(metric.values) in (0, len(metric.labels), len(metric.labels) - 2)


def test_the_reference_page_is_current() -> None:
    """Made by `python -m sidecar.telemetry.reference > docs/metrics.md`."""
    assert (ROOT / "docs/metrics.md").read_text() == metrics_page()


def test_every_series_carries_cluster_and_group_and_only_known_labels(bench: Bench) -> None:
    """Also those of the process; no label outside the catalogue."""
    bench.gaps = [a_gap()]
    known = {metric.full_name: set(metric.labels) for metric in CATALOGUE}
    for sample in bench.scrape().samples:
        assert sample.labels["cluster"] == "c-1"
        assert sample.labels["group"] == "billing"
        name = re.sub(r"_(bucket|sum|count)$", "", sample.name)
        if name.startswith("process_"):
            continue
        labels = set(sample.labels) - {"cluster", "group", "le"}
        assert labels == known.get(name, known.get(sample.name)), sample.name


def test_a_known_partition_shows_its_numbers(bench: Bench) -> None:
    """Each gauge is the view's value."""
    bench.recorder.record(f.PartitionsAssigned((ORDERS,)))
    bench.desk.views = [
        view(seconds_to_loss=3_600.0, last_stable=Offset(101), hanging_transaction_seconds=95.0)
    ]
    scraped = bench.scrape()
    expected = {
        "applied_offset": 106,
        "committed_offset": 107,
        "log_start_offset": 12,
        "log_end_offset": 107,
        "last_stable_offset": 101,
        "hanging_transaction_seconds": 95,
        "checkpoint_generation": 13,
        "lag_records": 0,
        "caught_up": 1,
        "seconds_to_loss": 3_600,
        "last_progress_timestamp_seconds": 1_000,
        "unresolved_gaps": 0,
    }
    assert {name: scraped.one(name, topic="orders", partition="0") for name in expected} == expected


def test_what_is_unknown_is_absent_not_zero(bench: Bench) -> None:
    """A zero would be read as an offset, or as no lag, or as no gap."""
    bench.desk.views = [
        view(
            state=PartitionState.RECOVERING,
            applied=None,
            committed=None,
            log_start=None,
            log_end=None,
            lag_records=None,
            generation=None,
            caught_up=False,
        )
    ]
    scraped = bench.scrape()
    for name in (
        "applied_offset",
        "committed_offset",
        "log_start_offset",
        "log_end_offset",
        "checkpoint_generation",
        "lag_records",
        "last_stable_offset",
        "hanging_transaction_seconds",
        "seconds_to_loss",
        "oldest_unresolved_timestamp_seconds",
        "last_progress_timestamp_seconds",
        "unresolved_gaps",
        "unresolved_gap_records",
        "gap_info",
        "store_refused",
    ):
        assert scraped.of(name) == [], name
    assert scraped.one("caught_up") == 0


def test_a_partition_that_moved_takes_its_series_with_it(bench: Bench) -> None:
    """But not its open gap, which every member of the group shows."""
    bench.gaps = [a_gap()]
    bench.recorder.record(f.PartitionsAssigned((ORDERS,)))
    bench.recorder.record(f.PageOffered(ORDERS, Offset(107), Offset(110), 1))
    assert bench.scrape().of("applied_offset", topic="orders")
    bench.desk.views = []
    bench.recorder.record(f.PartitionsRevoked((ORDERS,), lost=False))
    scraped = bench.scrape()
    about = {s.name.removeprefix(PREFIX) for s in scraped.samples if "topic" in s.labels}
    assert about == {"unresolved_gaps", "unresolved_gap_records", "gap_info"}


def test_the_state_is_one_hot(bench: Bench) -> None:
    """Exactly one of the contract's states is 1, for every state."""
    for state in PartitionState:
        bench.desk.views = [view(state=state)]
        scraped = bench.scrape()
        shown = {
            other: scraped.one("partition_state", state=other.value) for other in PartitionState
        }
        assert shown == {other: float(other is state) for other in PartitionState}


def test_conditions_are_shown_beside_the_state(bench: Bench) -> None:
    """Any number of them at once."""
    present = (Condition.HANGING_TRANSACTION, Condition.NO_PROGRESS)
    bench.desk.views = [view(conditions=present)]
    scraped = bench.scrape()
    assert {c for c in Condition if scraped.one("partition_condition", condition=c.value)} == set(
        present
    )


def test_gaps_are_shown_from_the_store_wherever_their_partition_is(bench: Bench) -> None:
    """Undecided ones only; their size where both ends are known; their own cluster."""
    elsewhere = Partition("payments", 3)
    bench.gaps = [
        a_gap(),
        a_gap("g-2", elsewhere, interval=Interval(Offset(5), None), reason=GapReason.STORE_LOST),
        replace(a_gap("g-3", Partition("orders", 9)), state=GapState.RESOLVED),
        replace(a_gap("g-4", elsewhere), state=GapState.ACKNOWLEDGED),
    ]
    scraped = bench.scrape()
    assert scraped.one("unresolved_gaps", topic="orders", partition="0") == 1
    assert scraped.one("unresolved_gaps", topic="payments", partition="3") == 2
    assert scraped.of("unresolved_gaps", partition="9") == []
    assert scraped.one("unresolved_gap_records", topic="orders") == 143
    assert scraped.of("unresolved_gap_records", topic="payments") == []
    assert scraped.one("gap_info", reason="retention_loss", state="open", topic="orders") == 1
    assert scraped.one("gap_info", reason="store_lost", state="open") == 1
    assert scraped.one("gap_info", reason="retention_loss", state="acknowledged") == 1


def test_the_owner_shows_its_gap_although_the_store_is_away(bench: Bench) -> None:
    """ "Could not read" is not "none"."""
    bench.gaps = None
    bench.desk.views = [
        view(gap=GapId("g-1"), state=PartitionState.GAP),
        view(partition=1),
    ]
    scraped = bench.scrape()
    assert scraped.one("unresolved_gaps", partition="0") == 1
    assert scraped.one("unresolved_gaps", partition="1") == 0


def test_counters_begin_at_zero(bench: Bench) -> None:
    """One that is born at 1 has no increase to alert on."""
    scraped = bench.scrape()
    for metric in CATALOGUE:
        if metric.kind is Kind.COUNTER:
            series = scraped.of(metric.name)
            expected = 1
            for values in metric.values:
                expected *= len(values)
            assert series == [0.0] * expected, metric.name


def test_a_page_is_counted_from_offer_to_promotion(bench: Bench) -> None:
    """Outcomes, time, progress, and since when the head of the line is out."""
    bench.recorder.record(f.PageOffered(ORDERS, Offset(107), Offset(110), 1))
    assert bench.scrape().one("oldest_unresolved_timestamp_seconds") == 1_000
    bench.now = 1_040.0  # past the deadline: offered again, out since the first time
    bench.recorder.record(f.PageOffered(ORDERS, Offset(107), Offset(110), 2))
    assert bench.scrape().one("oldest_unresolved_timestamp_seconds") == 1_000
    bench.recorder.record(
        f.PromotionEnded(ORDERS, "won", Offset(108), 14, {Outcome.APPLIED: 2}, 0.5)
    )
    scraped = bench.scrape()
    assert scraped.one("oldest_unresolved_timestamp_seconds") == 1_000
    assert scraped.one("last_progress_timestamp_seconds") == 1_040
    bench.recorder.record(
        f.PromotionEnded(
            ORDERS, "won", Offset(110), 15, {Outcome.APPLIED: 1, Outcome.DROPPED: 1}, None
        )
    )
    scraped = bench.scrape()
    assert scraped.of("oldest_unresolved_timestamp_seconds") == []
    assert scraped.one("records_total", outcome="applied") == 3
    assert scraped.one("records_total", outcome="dropped") == 1
    assert scraped.one("promotions_total", result="won") == 2
    assert scraped.one("delivery_seconds_count") == 1
    assert scraped.one("delivery_seconds_bucket", le="0.25") == 0
    assert scraped.one("delivery_seconds_bucket", le="0.5") == 1


def test_a_promotion_that_was_lost_counts_no_record(bench: Bench) -> None:
    """Nothing of it was installed."""
    for result in ("lost", "error"):
        bench.recorder.record(
            f.PromotionEnded(ORDERS, result, Offset(108), 14, {Outcome.APPLIED: 2}, 0.5)
        )
    scraped = bench.scrape()
    assert scraped.one("promotions_total", result="lost") == 1
    assert scraped.one("promotions_total", result="error") == 1
    assert scraped.one("records_total", outcome="applied") == 0
    assert scraped.of("last_progress_timestamp_seconds") == []


def test_recoveries_faults_holes_and_the_store_are_counted(bench: Bench) -> None:
    """Each by its bounded labels."""
    record = bench.recorder.record
    record(
        f.RecoveryEnded(
            ORDERS, Verdict.COMMIT_EXPIRED, "verified", 0.2, 60, 1, 3, Offset(40), Offset(107)
        )
    )
    fault = Fault(
        Component.KAFKA, FaultKind.AUTHORIZATION, "GROUP_AUTHORIZATION_FAILED", "no right"
    )
    for _ in range(3):
        record(f.FaultMet(fault, None))
    record(f.CommitEnded({}, {ORDERS: fault}))
    record(f.HoleCovered(ORDERS, Offset(1), Offset(2), "trailing"))
    record(f.StoreJudged(None, ("appendfsync everysec may lose a second",)))
    scraped = bench.scrape()
    assert scraped.one("recoveries_total", verdict="commit_expired", result="verified") == 1
    assert scraped.one("recovery_seconds_count") == 1
    assert [
        scraped.one("overlap_records_total", result=result)
        for result in ("match", "mismatch", "inconclusive")
    ] == [60, 1, 3]
    assert scraped.one("faults_total", component="kafka", kind="authorization") == 4
    assert scraped.one("holes_total", kind="trailing") == 1
    assert (scraped.one("store_refused"), scraped.one("store_warnings")) == (0, 1)


def test_dependencies_are_shown_as_the_desk_sees_them(bench: Bench) -> None:
    """Up and down, never absent once there is a desk."""
    bench.desk.ready = False
    scraped = bench.scrape()
    assert scraped.one("dependency_up", component="kafka") == 1
    assert scraped.one("dependency_up", component="redis") == 0


def test_the_cluster_is_named_once_it_is_known(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was counted before is counted on under the new name."""
    bench.recorder.record(f.HoleCovered(ORDERS, Offset(1), Offset(2), "inner"))
    known = bench.desk.status()

    def unknown() -> StatusView:
        return replace(known, cluster_id=None)

    monkeypatch.setattr(bench.desk, "status", unknown)
    assert bench.scrape().one("holes_total", cluster="unknown", kind="inner") == 1
    monkeypatch.undo()
    scraped = bench.scrape()
    assert scraped.one("holes_total", cluster="c-1", kind="inner") == 1
    assert scraped.of("holes_total", cluster="unknown") == []


def test_before_there_is_a_desk_something_is_exposed(lines: Lines) -> None:
    """The admin listener is up before the engine is."""
    metrics = Metrics("billing")
    _, body = metrics.exposition()
    scraped = Scraped(body.decode())
    assert scraped.one("build_info", cluster="unknown") == 1
    assert scraped.of("applied_offset") == []


def test_openmetrics_is_served_to_who_asks(bench: Bench) -> None:
    """And parses."""
    content_type, body = bench.metrics.exposition("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    parsed = parse_openmetrics(body.decode())  # type: ignore[no-untyped-call]  # ships without
    names = {family.name for family in parsed}
    assert PREFIX + "applied_offset" in names


def facts() -> list[Any]:
    """One of each kind."""
    fault = Fault(Component.REDIS, FaultKind.UNAVAILABLE, "TimeoutError", "no answer")
    return [
        f.PartitionsAssigned((ORDERS,)),
        f.PartitionsRevoked((ORDERS,), lost=True),
        f.VerdictReached(ORDERS, Verdict.RETENTION_LOSS, "records are gone", {"next": 5}),
        f.StateChanged(ORDERS, PartitionState.GAP, Verdict.RETENTION_LOSS, "held"),
        f.RecoveryEnded(ORDERS, Verdict.RESUME, "boundary", 0.1, 0, 0, 0, None, Offset(5)),
        f.PageOffered(ORDERS, Offset(5), Offset(6), 1),
        f.PromotionEnded(ORDERS, "won", Offset(6), 3, {Outcome.APPLIED: 2}, 0.01),
        f.CommitEnded({ORDERS: Offset(7)}, {}),
        f.HoleCovered(ORDERS, Offset(7), Offset(8), "inner"),
        f.RequestSettled(request_of(GroupId("g"), partition=ORDERS).done("done", at=1.0)),
        f.GapOpened(a_gap()),
        f.GapChanged(a_gap()),
        f.CaughtUp(ORDERS, Offset(8)),
        f.ConditionChanged(ORDERS, Condition.NO_PROGRESS, True, "stuck"),
        f.FaultMet(fault, ORDERS),
        f.DependencyChanged("redis", False, "unavailable", "no answer"),
        f.StoreJudged("it evicts", ()),
    ]


def test_every_kind_of_fact_is_recorded(bench: Bench) -> None:
    """At debug, each is one line; none fails."""
    every = facts()
    assert {type(fact) for fact in every} == set(f.Fact.__args__)
    for fact in every:
        bench.recorder.record(fact)
    events = bench.lines.events()
    assert len(events) == len(every)
    assert "fact_not_recorded" not in {event["event"] for event in events}


def test_a_fact_that_cannot_be_recorded_stops_nothing(bench: Bench) -> None:
    """It is said once, and the next one is recorded."""
    bench.recorder.record(f.HoleCovered(ORDERS, Offset(1), Offset(2), "of a new kind"))
    bench.recorder.record(f.HoleCovered(ORDERS, Offset(1), Offset(2), "of a new kind"))
    bench.recorder.record(f.HoleCovered(ORDERS, Offset(1), Offset(2), "inner"))
    assert [event["event"] for event in bench.lines.events()] == [
        "fact_not_recorded",
        "hole_covered",
    ]
    assert bench.scrape().one("holes_total", kind="inner") == 1
