"""`make bench`: measure everything in one run, on one real broker, and write what was seen.

    python -m bench [--quick] [--summary build/bench.json] [--docs] [--only PART ...]

Exit 1 when a target is missed. `--quick` measures everything once and idles for less; what it finds
is marked so, and is no ground for a claim.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import idle, latency, restart, throughput
from bench.document import write_document
from bench.environment import describe
from bench.progress import Progress
from bench.scene import PARTITIONS, Scene, Topic
from tests.benches.process import REPOSITORY, BenchError

PARTS = ("throughput", "latency", "restart", "idle")
RUNS = 5
RATIO_MIN = 0.5
DOCUMENT = REPOSITORY / "docs" / "performance.md"


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--summary", type=Path, default=REPOSITORY / "build" / "bench.json")
    parser.add_argument("--quick", action="store_true", help="everything once")
    parser.add_argument("--docs", action="store_true", help="fill docs/performance.md")
    parser.add_argument("--only", action="append", choices=PARTS, help="leave out the rest")
    arguments = parser.parse_args(argv)
    parts = tuple(arguments.only or PARTS)
    if arguments.docs and (arguments.quick or parts != PARTS):
        parser.error("--docs takes a whole run")
    begun = time.monotonic()
    try:
        measured = _measure(parts, quick=arguments.quick)
    except BenchError as error:
        print(error, file=sys.stderr)
        _write(arguments.summary, {"ok": False, "error": str(error)})
        return 1
    targets = _targets(measured)
    summary = {
        "ok": all(target["met"] for target in targets),
        "quick": arguments.quick,
        "runs": 1 if arguments.quick else RUNS,
        "partitions": PARTITIONS,
        "command": " ".join(["python -m bench", *argv]),
        **describe(),
        "seconds": round(time.monotonic() - begun, 1),
        "targets": targets,
        **measured,
    }
    _write(arguments.summary, summary)
    if arguments.docs:
        write_document(DOCUMENT, summary)
    for target in targets:
        verdict = "met" if target["met"] else "MISSED"
        print(f"{verdict}: {target['name']}: {target['value']} (target: {target['target']})")
    return 0 if summary["ok"] else 1


def _measure(parts: Sequence[str], *, quick: bool) -> dict[str, Any]:
    runs = 1 if quick else RUNS
    # The bare client's own settings make it pause for a second whenever 100,000 records or 64 MB of
    # a partition wait: fewer records would show little but its first gulp.
    sizes = {100: 2_000_000, 1024: 800_000}
    steps = 0
    if "throughput" in parts:
        steps += len(sizes) * (1 + runs * len(throughput.VARIANTS))
    steps += "latency" in parts
    steps += runs * ("restart" in parts) + ("idle" in parts)
    steps += "restart" in parts or "idle" in parts
    progress = Progress(steps)
    measured: dict[str, Any] = {}
    with Scene() as scene:
        if "throughput" in parts:
            measured["throughput"] = {}
            for size, records in sizes.items():
                topic = _fill(progress, scene, f"records-{size}", records, size)
                measured["throughput"][str(size)] = throughput.measure(
                    scene,
                    topic,
                    runs,
                    lambda label, work: progress.step(
                        label, work, lambda run: f"{run.rate:>9,.0f}/s"
                    ),
                )
                scene.delete(topic.name)
        if "latency" in parts:
            seconds = 5 if quick else 20
            measured["latency"] = progress.step(
                f"added latency at {latency.RATE} records/s",
                lambda: latency.measure(scene, seconds),
                lambda f: f"p50 +{f['added_p50_ms']} ms, p99 +{f['added_p99_ms']} ms",
            )
        if "restart" in parts or "idle" in parts:
            topic = _fill(progress, scene, "busy", 200_000 if quick else 500_000, 100)
            if "restart" in parts:
                measured["restart"] = restart.measure(
                    scene,
                    topic,
                    runs,
                    lambda label, work: progress.step(
                        label, work, lambda seconds: f"{seconds:.2f} s"
                    ),
                )
            if "idle" in parts:
                seconds = 25 if quick else 60
                measured["memory"] = progress.step(
                    f"{seconds} s idle",
                    lambda: idle.measure(scene, topic, seconds),
                    lambda f: f"{f['fresh_mb']} MB, after load {f['after_load_mb']} MB",
                )
    return measured


def _fill(progress: Progress, scene: Scene, name: str, records: int, size: int) -> Topic:
    return progress.step(
        f"{records:,} records of {size} B",
        lambda: scene.fill(name, records, size),
        lambda _: "",
    )


def _targets(measured: dict[str, Any]) -> list[dict[str, Any]]:
    targets: list[dict[str, Any]] = []
    if "throughput" in measured:
        ratio = measured["throughput"]["100"]["variants"]["sidecar_json"]["ratio_to_bare"]
        targets.append(
            {
                "name": "records a second at 100 B in JSON, "
                "as a share of the bare client's, its own settings",
                "value": ratio,
                "target": f"at least {RATIO_MIN}",
                "met": ratio >= RATIO_MIN,
            }
        )
    if "memory" in measured:
        memory = measured["memory"]
        worst = max(memory["fresh_mb"], memory["after_load_mb"])
        targets.append(
            {
                "name": f"MB resident after {memory['idle_seconds']} s idle",
                "value": worst,
                "target": f"at most {idle.TARGET_MB:g}",
                "met": worst <= idle.TARGET_MB,
            }
        )
    return targets


def _write(path: Path, summary: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(summary, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
