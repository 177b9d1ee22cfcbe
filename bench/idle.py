"""Resident memory of a sidecar with nothing to do: one that never had, and one that had a lot."""

from __future__ import annotations

import time
from typing import Any

from bench.scene import Child, Scene, Sidecar, Topic, arguments_of, cpu_seconds, rss_mb, rss_peak_mb

TARGET_MB = 90.0


def measure(scene: Scene, topic: Topic, seconds: float) -> dict[str, Any]:
    """Both idle at the same time, with four partitions each."""
    quiet = "quiet"
    scene.create(quiet)
    with (
        Sidecar(scene, group=scene.new_group("fresh"), topic=quiet) as fresh,
        Sidecar(scene, group=scene.new_group("worked"), topic=topic.name) as worked,
    ):
        fresh.start()
        fresh.await_ready()
        fresh.await_delivering()
        worked.start()
        arguments = arguments_of(socket=worked.socket, records=topic.records)
        with Child("bench.application", "throughput", *arguments) as child:
            child.hear("opened")
            child.hear("closed")
        loaded = rss_mb(worked.pid)
        before = {name: cpu_seconds(s.pid) for name, s in (("fresh", fresh), ("worked", worked))}
        time.sleep(seconds)
        found = {
            "idle_seconds": seconds,
            "fresh_mb": round(rss_mb(fresh.pid), 1),
            "after_load_mb": round(rss_mb(worked.pid), 1),
            "loaded_mb": round(loaded, 1),
            "loaded_peak_mb": round(rss_peak_mb(worked.pid), 1),
            "records_before": topic.records,
            "idle_cpu_percent": round(
                (cpu_seconds(worked.pid) - before["worked"]) / seconds * 100, 1
            ),
        }
        worked.stop()
        fresh.stop()
    return found
