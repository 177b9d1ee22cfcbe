"""What the way through the sidecar adds to a record's age, at a rate far below the limit.

One producer sends; the bare client and an application behind a sidecar read the same records at
the same time, each as a group of its own. A record carries the moment at which it was sent, on the
clock that all processes of this machine share.
"""

from __future__ import annotations

import time
from typing import Any

from bench.figures import quantile
from bench.scene import PARTITIONS, Child, Scene, Sidecar, arguments_of
from bench.wire import stamped

RATE = 1_000
VALUE_BYTES = 100
SETTLE_SECONDS = 1.0


def measure(scene: Scene, seconds: float) -> dict[str, Any]:
    topic = "latency"
    scene.create(topic)
    records = int(seconds * RATE)
    bare_arguments = arguments_of(
        bootstrap=scene.broker.bootstrap,
        group=scene.new_group("latency-bare"),
        topic=topic,
        records=records,
    )
    with Sidecar(scene, group=scene.new_group("latency"), topic=topic) as sidecar:
        sidecar.start()
        sidecar.await_ready()
        sidecar.await_delivering()
        with (
            Child("bench.bare", "latency", *bare_arguments) as bare,
            Child(
                "bench.application",
                "latency",
                *arguments_of(socket=sidecar.socket, records=records),
            ) as application,
        ):
            bare.hear("ready")
            application.hear("ready")
            time.sleep(SETTLE_SECONDS)
            _produce(scene, topic, records)
            plain = bare.hear("latencies")["seconds"]
            through = application.hear("latencies")["seconds"]
        sidecar.stop()
    found = {
        f"{name}_{label}_ms": round(quantile(values, share) * 1000, 2)
        for name, values in (("bare", plain), ("sidecar", through))
        for label, share in (("p50", 0.5), ("p99", 0.99))
    }
    return {
        "records_per_second": RATE,
        "records": records,
        **found,
        **{
            f"added_{label}_ms": round(found[f"sidecar_{label}_ms"] - found[f"bare_{label}_ms"], 2)
            for label in ("p50", "p99")
        },
    }


def _produce(scene: Scene, topic: str, records: int) -> None:
    """One record each millisecond, sent at once."""
    producer = scene.producer(linger_ms=0)
    # The first record of a connection waits for its metadata; that is no business of ours.
    producer.list_topics(topic, timeout=10)
    begun = time.monotonic()
    for i in range(records):
        due = begun + i / RATE
        while (left := due - time.monotonic()) > 0:
            time.sleep(left)
        producer.produce(topic, stamped(time.time(), VALUE_BYTES), partition=i % PARTITIONS)
        producer.poll(0)
    producer.flush(30)
