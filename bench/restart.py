"""How long a restart keeps the application waiting: from the start of the process to the first
record that was not delivered before. In between lie the imports, the join, the evidence, the claim,
the overlap of 64 records that is read and compared, and its proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from bench.figures import Spread
from bench.scene import Child, Scene, Sidecar, Topic, arguments_of

OVERLAP_RECORDS = 64


def measure(
    scene: Scene, topic: Topic, runs: int, step: Callable[[str, Callable[[], float]], float]
) -> dict[str, Any]:
    """The first life of the group leaves receipts in every partition; each later one is timed."""
    with Sidecar(scene, group=scene.new_group("restart"), topic=topic.name) as sidecar:
        _first_life(sidecar)
        seconds = [
            step(f"restart, {run + 1} of {runs}", lambda: _restart(sidecar)) for run in range(runs)
        ]
    return {
        "overlap_records": OVERLAP_RECORDS,
        "seconds_to_first_new_delivery": asdict(Spread.of(seconds, 3)),
    }


def _first_life(sidecar: Sidecar) -> None:
    sidecar.start()
    arguments = arguments_of(socket=sidecar.socket, records=20_000)
    with Child("bench.application", "throughput", *arguments) as child:
        child.hear("opened")
        child.hear("closed")
    sidecar.stop()


def _restart(sidecar: Sidecar) -> float:
    with Child("bench.application", "first", *arguments_of(socket=sidecar.socket)) as child:
        child.hear("ready")
        begun = sidecar.start()
        first = child.hear("first")
    sidecar.stop()
    at: float = first["at"]
    return at - begun
