"""Log lines: facts, bounded, without payloads or secrets."""

from __future__ import annotations

import io
import json
import logging
import threading
import warnings
from types import MappingProxyType

import pytest

from sidecar.core import facts as f
from sidecar.core.faults import Component, Fault, FaultKind
from sidecar.core.types import Offset, Partition, PartitionState, Verdict
from sidecar.telemetry import log as log_module
from sidecar.telemetry.log import Limiter, Log
from sidecar.telemetry.log import Lines as Writer
from sidecar.telemetry.metrics import Metrics
from sidecar.telemetry.recorder import TelemetryRecorder
from tests.telemetry.conftest import Lines

ORDERS = Partition("orders", 0)
DOWN = Fault(Component.KAFKA, FaultKind.UNAVAILABLE, "_ALL_BROKERS_DOWN", "no broker answers")


def recorder(lines: Lines) -> TelemetryRecorder:
    return TelemetryRecorder(lines.log, Metrics("billing"))


def test_a_fact_is_one_json_object_with_bound_keys(lines: Lines) -> None:
    """Time, level and name first; the evidence whole."""
    evidence = MappingProxyType({"next": 5, "log_start": 9})
    recorder(lines).record(
        f.VerdictReached(ORDERS, Verdict.RETENTION_LOSS, "records [5, 9) are gone", evidence)
    )
    (line,) = lines.text().splitlines()
    event = json.loads(line)
    assert list(event)[:3] == ["timestamp", "level", "event"]
    del event["timestamp"]
    assert event == {
        "level": "warning",
        "event": "verdict_reached",
        "group": "billing",
        "topic": "orders",
        "partition": 0,
        "verdict": "retention_loss",
        "detail": "records [5, 9) are gone",
        "evidence": {"next": 5, "log_start": 9},
    }


def test_a_lasting_fault_is_a_line_a_second_and_a_change_always_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next line says how many were held back; another fault is another line."""
    now = [0.0]
    lines = Lines()
    lines.log.limiter = Limiter(now=lambda: now[0])
    record = recorder(lines).record
    for tick in range(40):
        now[0] = tick * 0.05
        record(f.FaultMet(DOWN, None))
    record(f.FaultMet(DOWN, ORDERS))
    for state in (PartitionState.HELD, PartitionState.WAITING, PartitionState.HELD):
        record(f.StateChanged(ORDERS, state, None, ""))
    events = lines.events()
    faults = [event for event in events if event["event"] == "fault_met"]
    assert [event.get("repeated") for event in faults] == [None, 19, None]
    assert len([event for event in events if event["event"] == "state_changed"]) == 3


def test_the_limiter_keeps_a_bounded_number_of_keys() -> None:
    """A fault whose text never repeats cannot fill the memory."""
    now = [0.0]
    limiter = Limiter(keys_max=2, now=lambda: now[0])
    assert [limiter.admit(key) for key in ("a", "a", "b", "c", "a")] == [0, None, 0, 0, 0]
    now[0] = 1.0
    assert limiter.admit("a") == 0


def test_what_happens_for_each_page_is_not_logged_above_debug() -> None:
    """A million records a second must not become lines."""
    lines = Lines(level="info")
    record = recorder(lines).record
    record(f.PageOffered(ORDERS, Offset(1), Offset(2), 1))
    record(f.PromotionEnded(ORDERS, "won", Offset(2), 3, {}, 0.1))
    record(f.CommitEnded({ORDERS: Offset(3)}, {}))
    record(f.HoleCovered(ORDERS, Offset(3), Offset(4), "inner"))
    assert lines.text() == ""


def test_libraries_are_heard_but_not_often() -> None:
    """One line a second each; librdkafka's by level, since no two of its lines are alike."""
    lines = Lines(level="info")
    for number in range(5):
        logging.getLogger("librdkafka").error("FAIL [thrd:%d]: refused", number)
        logging.getLogger("redis").warning("retry %d", number)
    logging.getLogger("redis").warning("something else")
    logging.getLogger("aiohttp").info("chatter")
    events = lines.events()
    assert [(e["logger"], e["level"], e["text"]) for e in events] == [
        ("librdkafka", "error", "FAIL [thrd:0]: refused"),
        ("redis", "warning", "retry 0"),
        ("redis", "warning", "something else"),
    ]
    assert {e["event"] for e in events} == {"library_spoke"}


def test_an_exception_of_a_library_is_named_and_not_quoted() -> None:
    """Its text may hold what was read."""
    lines = Lines()
    try:
        raise ValueError("payload")
    except ValueError:
        logging.getLogger("asyncio").exception("Task exception was never retrieved")
    (event,) = lines.events()
    assert event["error"] == "ValueError"
    assert "payload" not in str(event)


def test_a_line_that_cannot_be_formatted_does_not_raise() -> None:
    """A library's mistake must not end a callback of ours."""
    lines = Lines()
    logging.getLogger("redis").warning("%d", "not a number")
    assert [event["event"] for event in lines.events()] == ["library_line_lost"]


def test_warnings_are_lines_too() -> None:
    """Not text between the JSON."""
    lines = Lines()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    (event,) = lines.events()
    assert event["logger"] == "py.warnings"


def test_secrets_are_struck_out_wherever_they_turn_up() -> None:
    """As they are and as JSON escapes them; in our lines and in libraries'."""
    secret = 's3cr3t-"\\-ü'
    lines = Lines(secrets=[secret, "ab"])
    recorder(lines).record(
        f.DependencyChanged("redis", False, "authentication", f"user:{secret}@host refused, ab")
    )
    logging.getLogger("redis").error("cannot reach redis://:%s@h", secret)
    text = lines.text()
    first, second = (json.loads(line) for line in text.splitlines())
    assert first["detail"] == "user:***@host refused, ab"
    assert second["text"] == "cannot reach redis://:***@h"


def test_a_reader_that_stalls_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are dropped when the queue is full, and the loss is said; writing never waits."""
    monkeypatch.setattr(log_module, "LINES_MAX", 2)
    released = threading.Event()

    class Stalled(io.BytesIO):
        def write(self, data: object) -> int:
            released.wait(10)
            return super().write(data)  # type: ignore[arg-type]  # bytes, as the writer gives

    stream = Stalled()
    writer = Writer(stream)
    for number in range(50):
        writer.write(f"line {number}")
    released.set()
    writer.close(5)
    before = stream.getvalue().decode().splitlines()
    assert before[0] == "line 0"
    assert len(before) < 50


def test_what_was_dropped_is_said_with_the_next_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is not taken for peace."""
    monkeypatch.setattr(log_module, "LINES_MAX", 1)
    started, released = threading.Event(), threading.Event()

    class Stalled(io.BytesIO):
        def write(self, data: object) -> int:
            started.set()
            released.wait(10)
            return super().write(data)  # type: ignore[arg-type]  # bytes, as the writer gives

    stream = Stalled()
    writer = Writer(stream)
    writer.write("in the hand of the writer")
    started.wait(10)
    writer.write("in the queue")
    writer.write("dropped")
    writer.write("dropped")
    released.set()
    while not writer.idle():
        pass
    writer.write("after")
    writer.close(5)
    lines = stream.getvalue().decode().splitlines()
    assert [line for line in lines if "{" not in line] == [
        "in the hand of the writer",
        "in the queue",
        "after",
    ]
    assert json.loads(lines[2]) == {"event": "log_lines_dropped", "level": "warning", "count": 2}


def test_a_reader_that_is_gone_is_no_reason_to_fail() -> None:
    """The other end of the pipe may die before we do."""

    class Gone(io.BytesIO):
        def write(self, data: object) -> int:
            raise BrokenPipeError

    log = Log(stream=Gone())
    log.events.info("sidecar_started")
    log.close(5)


def test_lines_for_people_have_no_colour_outside_a_terminal() -> None:
    """`console` into a file is plain text."""
    lines = Lines(format="console", group="billing")
    recorder(lines).record(f.CaughtUp(ORDERS, Offset(9)))
    text = lines.text()
    assert "caught_up" in text
    assert "position=9" in text
    assert "\x1b[" not in text


def test_closing_gives_logging_back() -> None:
    """A process that ends, or a test, is left as it was found."""
    before = logging.root.handlers[:]
    log = Log(stream=io.BytesIO())
    assert logging.root.handlers != before
    log.close()
    assert logging.root.handlers == before
