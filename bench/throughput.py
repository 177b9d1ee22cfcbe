"""Records a second, and what each costs: the bare client and the sidecar in turn.

Every run reads the whole topic anew as a group of its own. Whatever drifts on the machine drifts
for all alike, since the variants take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from bench.figures import Spread
from bench.scene import Child, Scene, Sidecar, Topic, arguments_of, cpu_seconds, rss_mb, rss_peak_mb


@dataclass(frozen=True)
class Variant:
    """`client`: librdkafka's properties of a bare consumer. `codec`: of a sidecar."""

    name: str
    title: str
    client: Mapping[str, str] | None = None
    codec: str | None = None


VARIANTS = (
    Variant("bare", "bare client, its own settings", {}),
    Variant(
        "bare_backoff_5ms", "bare client, fetch.queue.backoff.ms=5", {"fetch.queue.backoff.ms": "5"}
    ),
    Variant("sidecar_json", "sidecar, JSON", codec="json"),
    Variant("sidecar_msgpack", "sidecar, MessagePack", codec="msgpack"),
)


@dataclass(frozen=True)
class Run:
    """One reading of the topic. CPU in microseconds a record, by process."""

    records: int
    pages: int
    seconds: float
    cpu_us: Mapping[str, float]
    rss_mb: float
    rss_peak_mb: float

    @property
    def rate(self) -> float:
        return self.records / self.seconds


def run_once(scene: Scene, topic: Topic, variant: Variant) -> Run:
    group = scene.new_group(variant.name.replace("_", "-"))
    if variant.client is not None:
        named = arguments_of(
            bootstrap=scene.broker.bootstrap, group=group, topic=topic.name, records=topic.records
        )
        pairs = [f"--set={name}={value}" for name, value in variant.client.items()]
        with Child("bench.bare", "throughput", *named, *pairs) as child:
            return _watch(scene, child, {"client": child.pid}, "client")
    with Sidecar(scene, group=group, topic=topic.name) as sidecar:
        sidecar.start()
        named = arguments_of(
            socket=sidecar.socket, records=topic.records, msgpack=variant.codec == "msgpack"
        )
        with Child("bench.application", "throughput", *named) as child:
            pids = {"sidecar": sidecar.pid, "application": child.pid, "store": scene.valkey.pid}
            run = _watch(scene, child, pids, "sidecar")
        sidecar.stop()
        return run


def _watch(scene: Scene, child: Child, pids: dict[str, int], subject: str) -> Run:
    pids = {**pids, "broker": scene.broker.pid}
    opened = child.hear("opened")
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    closed = child.hear("closed")
    after = {name: cpu_seconds(pid) for name, pid in pids.items()}
    records = closed["records"] - opened["records"]
    return Run(
        records,
        closed["pages"] - opened["pages"],
        closed["at"] - opened["at"],
        {name: (after[name] - before[name]) / records * 1e6 for name in pids},
        rss_mb(pids[subject]),
        rss_peak_mb(pids[subject]),
    )


def measure(
    scene: Scene, topic: Topic, runs: int, step: Callable[[str, Callable[[], Run]], Run]
) -> dict[str, Any]:
    """The variants in turn, `runs` times; ratios are to the bare client's median."""
    taken: dict[str, list[Run]] = {variant.name: [] for variant in VARIANTS}
    for turn in range(runs):
        for variant in VARIANTS:
            label = f"{topic.value_bytes:>5} B, {variant.title}, {turn + 1} of {runs}"
            run = step(label, partial(run_once, scene, topic, variant))
            taken[variant.name].append(run)
    answer: dict[str, Any] = {name: _summary(found) for name, found in taken.items()}
    base = answer["bare"]["records_per_second"]["median"]
    for found in answer.values():
        found["ratio_to_bare"] = round(found["records_per_second"]["median"] / base, 3)
    return {"records": topic.records, "variants": answer}


def _summary(runs: list[Run]) -> dict[str, Any]:
    return {
        "records_per_second": asdict(Spread.of([run.rate for run in runs], 0)),
        "cpu_us_per_record": {
            name: asdict(Spread.of([run.cpu_us[name] for run in runs], 2))
            for name in runs[0].cpu_us
        },
        "records_per_page": asdict(Spread.of([run.records / run.pages for run in runs], 0)),
        "rss_mb": asdict(Spread.of([run.rss_mb for run in runs], 1)),
        "rss_peak_mb": asdict(Spread.of([run.rss_peak_mb for run in runs], 1)),
    }
