"""A real Prometheus, our rules as shipped, and expositions that our own metrics render."""

import http.server
import json
import re
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from sidecar.core.gap import Gap
from sidecar.core.types import PartitionState
from sidecar.telemetry.metrics import Metrics
from tests.alerts.rules import MISSING, PROMETHEUS, RULES
from tests.api.desk import FakeDesk, a_gap, view
from tests.benches.kafka import KafkaBroker
from tests.benches.names import Names
from tests.benches.process import Process, free_port, release_port
from tests.benches.redis import Valkey
from tests.benches.waiting import wait_until
from tests.faults.rows import Row
from tests.harness.world import World

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROMETHEUS is None, reason=MISSING.format("prometheus")),
]

SCRAPE_SECONDS = 2
EVALUATION_SECONDS = 0.5
"""Four to a scrape, so that what is counted is scrapes."""


class Pod:
    """What a sidecar serves at /metrics; `owner` has the partition, every pod shows the gaps."""

    def __init__(self, *, owner: bool) -> None:
        self.desk = FakeDesk()
        self.desk.views = [view()] if owner else []
        self.gaps: list[Gap] = []
        self.scrapes = 0
        metrics = Metrics("billing")
        metrics.watch(self.desk, lambda: self.gaps)
        pod = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content_type, body = metrics.exposition(self.headers.get("Accept", ""))
                pod.scrapes += 1
                self.send_response(200)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.address = f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def vanish(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self.vanish()

    def open_gap(self) -> None:
        self.gaps = [a_gap()]
        gap = self.gaps[0].id
        self.desk.views = [
            replace(one, state=PartitionState.GAP, caught_up=False, gap=gap)
            for one in self.desk.views
        ]

    def resolve_gap(self) -> None:
        self.gaps = []
        self.desk.views = [view() for _ in self.desk.views]


class Prometheus(Process):
    def __init__(self, targets: list[str]) -> None:
        super().__init__("prometheus")
        self._port = free_port()
        config = {
            "global": {
                "scrape_interval": f"{SCRAPE_SECONDS}s",
                "scrape_timeout": f"{SCRAPE_SECONDS}s",
                "evaluation_interval": f"{EVALUATION_SECONDS * 1000:g}ms",
            },
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {
                    "job_name": "sidecars",
                    "honor_labels": True,
                    "static_configs": [{"targets": targets, "labels": {"cluster": "kube-1"}}],
                }
            ],
        }
        (self.directory / "prometheus.yml").write_text(yaml.safe_dump(config))

    def start(self) -> None:
        assert PROMETHEUS is not None
        self.launch(
            [
                PROMETHEUS,
                f"--config.file={self.directory}/prometheus.yml",
                f"--storage.tsdb.path={self.directory}/data",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ]
        )
        self.await_ready(self._ready)

    def _ready(self) -> bool:
        try:
            self.ask("/-/ready")
        except OSError:
            return False
        return True

    def close(self) -> None:
        super().close()
        release_port(self._port)

    def ask(self, path: str) -> str:
        url = f"http://127.0.0.1:{self._port}{path}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text: str = answer.read().decode()
        return text

    def alerts(self, name: str) -> list[dict[str, Any]]:
        found = json.loads(self.ask("/api/v1/alerts"))["data"]["alerts"]
        return [
            one for one in found if one["labels"]["alertname"] == name and one["state"] == "firing"
        ]

    def await_evaluation(self) -> None:
        """Until the rules were evaluated once more."""

        def evaluated() -> str:
            groups = json.loads(self.ask("/api/v1/rules"))["data"]["groups"]
            return str(groups[0]["lastEvaluation"])

        before = evaluated()
        wait_until(lambda: evaluated() != before, "an evaluation")

    def query(self, expression: str) -> list[dict[str, Any]]:
        asked = urllib.parse.urlencode({"query": expression})
        found: list[dict[str, Any]] = json.loads(self.ask(f"/api/v1/query?{asked}"))["data"][
            "result"
        ]
        return found


@pytest.fixture
def pods() -> Iterator[list[Pod]]:
    """The partition's owner, and another sidecar of its group."""
    with ExitStack() as stack:
        yield [stack.enter_context(Pod(owner=owner)) for owner in (True, False)]


@pytest.fixture
def prometheus(pods: list[Pod]) -> Iterator[Prometheus]:
    with Prometheus([pod.address for pod in pods]) as server:
        server.start()
        yield server


def test_a_gap_is_told_within_two_scrapes_and_until_it_is_resolved(
    pods: list[Pod], prometheus: Prometheus
) -> None:
    """Not before; as one alert, with its reason and size; also when the pods die meanwhile."""
    name = "CursorSidecarGapUnresolved"
    owner, other = pods
    shown = 'cursor_sidecar_unresolved_gaps{cluster="c-1",topic="orders"}'
    wait_until(lambda: prometheus.query(shown), "the owner's zero")
    assert prometheus.alerts(name) == []

    before = owner.scrapes
    for pod in pods:
        pod.open_gap()
    (alert,) = wait_until(lambda: prometheus.alerts(name), "the alert", every_seconds=0.1)
    assert owner.scrapes - before <= 2
    assert alert["labels"] == {
        "alertname": name,
        "cluster": "c-1",
        "group": "billing",
        "topic": "orders",
        "partition": "0",
        "severity": "critical",
    }
    told = wait_until(
        lambda: [
            one
            for one in prometheus.alerts(name)
            if "retention_loss (open), at most 143 offsets" in one["annotations"]["description"]
        ],
        "the reason and the size",
    )
    assert len(told) == 1

    other.vanish()
    wait_until(lambda: len(prometheus.query(shown)) == 1, "one pod gone")
    assert len(prometheus.alerts(name)) == 1

    before = owner.scrapes
    owner.resolve_gap()
    wait_until(lambda: not prometheus.alerts(name), "the alert's end", every_seconds=0.1)
    assert owner.scrapes - before <= 2


def test_a_gap_is_told_after_all_pods_vanished(pods: list[Pod], prometheus: Prometheus) -> None:
    """A pod that dies decides nothing."""
    name = "CursorSidecarGapUnresolved"
    for pod in pods:
        pod.open_gap()
    wait_until(lambda: prometheus.alerts(name), "the alert", every_seconds=0.1)
    for pod in pods:
        pod.vanish()
    wait_until(lambda: prometheus.query("sum(up) == 0"), "both targets down")
    assert not prometheus.query("cursor_sidecar_unresolved_gaps")
    for _ in range(3):
        prometheus.await_evaluation()
    assert len(prometheus.alerts(name)) == 1


@pytest.mark.kafka
@pytest.mark.timeout(180)
@pytest.mark.fault(
    row="retention-loss/somebody-is-told", bench="K1+Prometheus", expected="alert", cases=(33,)
)
def test_the_real_sidecar_is_heard_within_two_scrapes(
    kafka: KafkaBroker, valkey: Valkey, names: Names, tmp_path: Path, row: Row
) -> None:
    """Records deleted past its cursor: the alert, and its end after the resolution."""
    name, port = "CursorSidecarGapUnresolved", free_port()
    limit_seconds = 2 * SCRAPE_SECONDS + EVALUATION_SECONDS
    with (
        World(kafka, valkey, names, tmp_path) as world,
        Prometheus([f"127.0.0.1:{port}"]) as prometheus,
    ):
        topic = world.topic()
        world.produce(topic, 60)
        sidecar = world.sidecar(ADMIN__LISTEN=f"127.0.0.1:{port}")
        assert world.apply(sidecar, topic, 20) == 20
        prometheus.start()
        shown = f'cursor_sidecar_unresolved_gaps{{topic="{topic}"}} == 0'
        wait_until(lambda: prometheus.query(shown), "the zero of a partition without a gap")
        sidecar.terminate()
        world.outside.delete_records(topic, 0, 45)
        sidecar.start()
        row.inflicted()

        gap = sidecar.await_gap(topic)
        (alert,) = wait_until(
            lambda: prometheus.alerts(name), "the alert", timeout_seconds=30, every_seconds=0.1
        )
        row.judged("alert", "gap")
        assert alert["labels"]["topic"] == topic
        assert alert["labels"]["group"] == world.group
        assert seconds(alert["activeAt"]) - seconds(gap.opened_at) <= limit_seconds

        sidecar.api().resolve(gap.id, "accepted")
        sidecar.await_partition(topic, 0, state="delivering")
        resolved = time.monotonic()
        wait_until(lambda: not prometheus.alerts(name), "the alert's end", every_seconds=0.1)
        assert time.monotonic() - resolved <= limit_seconds + 1
        assert world.apply(sidecar, topic, 15) == 60
        row.account(world.account(sidecar.api().gaps()))
        release_port(port)


def seconds(time_: str) -> float:
    """Prometheus writes nanoseconds, which Python does not read."""
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", time_)).timestamp()
