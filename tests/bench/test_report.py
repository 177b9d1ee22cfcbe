"""The benchmark's own arithmetic, and what it writes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.__main__ import main
from bench.document import document
from bench.figures import Spread, quantile
from bench.progress import Progress
from bench.throughput import VARIANTS
from bench.wire import Window, sent_at, stamped

SPREAD = {"min": 1.0, "median": 2.0, "max": 3.0}


def summary() -> dict[str, Any]:
    one = {
        "records_per_second": {"min": 111_111.0, "median": 123_456.0, "max": 133_333.0},
        "cpu_us_per_record": {"client": SPREAD, "broker": SPREAD},
        "rss_mb": SPREAD,
        "rss_peak_mb": SPREAD,
        "ratio_to_bare": 0.77,
    }
    return {
        "command": "python -m bench --docs",
        "seconds": 1.0,
        "measured_at": "2026-01-01T00:00:00Z",
        "machine": {"cores": 2, "cpu": "some", "system": "Linux"},
        "versions": {"kafka": "4.4.0"},
        "runs": 5,
        "partitions": 4,
        "targets": [{"name": "speed", "value": 0.77, "target": "at least 0.5", "met": True}],
        "throughput": {"100": {"records": 1, "variants": {v.name: one for v in VARIANTS}}},
        "latency": {
            "records_per_second": 1000,
            "records": 20_000,
            **{
                f"{who}_{q}_ms": 1.25
                for who in ("bare", "sidecar", "added")
                for q in ("p50", "p99")
            },
        },
        "restart": {"overlap_records": 64, "seconds_to_first_new_delivery": SPREAD},
        "memory": {
            "idle_seconds": 60,
            "fresh_mb": 71.5,
            "after_load_mb": 82.5,
            "loaded_mb": 99.5,
            "loaded_peak_mb": 101.5,
            "records_before": 500_000,
            "idle_cpu_percent": 1.5,
        },
    }


def test_a_spread_is_least_middle_and_most() -> None:
    assert Spread.of([3.0, 1.04, 2.0], 1) == Spread(1.0, 2.0, 3.0)


def test_a_quantile_is_one_of_the_values() -> None:
    values = [float(n) for n in range(100)]
    assert (quantile(values, 0.5), quantile(values, 0.99), quantile([7.0], 0.99)) == (50, 99, 7)


def test_a_window_opens_after_the_warm_up_and_closes_with_the_last_record(
    capsys: pytest.CaptureFixture[str],
) -> None:
    window = Window(100)
    for _ in range(10):
        window.passed(10, 1)
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["event"], one["records"]) for one in said] == [("opened", 20), ("closed", 100)]
    assert window.closed


def test_a_record_carries_when_it_was_sent() -> None:
    value = stamped(1234.5678, 100)
    assert (len(value), sent_at(value)) == (100, 1234.5678)


def test_the_document_shows_every_figure() -> None:
    text = document(summary())
    for shown in ("123,456 (111,111 to 133,333)", "0.77", "71.5", "82.5", "1.25", "2.00 (1.00 to"):
        assert shown in text


def test_only_a_whole_run_fills_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--docs", "--quick"])
    assert "whole run" in capsys.readouterr().err


def test_progress_has_a_line_for_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(2)
    assert progress.step("first", lambda: 7, lambda n: f"{n}/s") == 7
    progress.step("second", lambda: None, lambda _: "")
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("[  1/2] first")
    assert first.endswith("7/s")
    assert second.startswith("[  2/2] second")
