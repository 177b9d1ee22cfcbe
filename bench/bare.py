"""The yardstick: a consumer that uses confluent-kafka directly, in a process of its own.

    python -m bench.bare throughput --bootstrap HOST:PORT --group G --topic T --records N
    python -m bench.bare latency ...

Throughput: `consume(500)`, key, value and offset of each record read, one asynchronous commit for
each list, the client's own settings but for `--set`. Latency: records are polled one by one, since
`consume(500)` would wait for its list to fill, and no application that cares would let it.
"""

from __future__ import annotations

import argparse
import time

from confluent_kafka import Consumer

from bench.wire import Window, say, sent_at, stay

PAGE_RECORDS = 500


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("throughput", "latency"))
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    consumer = Consumer(
        {
            "bootstrap.servers": arguments.bootstrap,
            "group.id": arguments.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **dict(pair.split("=", 1) for pair in arguments.set),
        }
    )
    consumer.subscribe([arguments.topic])
    if arguments.what == "throughput":
        _throughput(consumer, arguments.records)
    else:
        _latency(consumer, arguments.records)
    consumer.close()


def _throughput(consumer: Consumer, records: int) -> None:
    window = Window(records)
    while not window.closed:
        messages = consumer.consume(PAGE_RECORDS, 1.0)
        octets = 0
        for message in messages:
            key, value, offset = message.key(), message.value(), message.offset()
            octets += len(key or b"") + len(value or b"")
            assert offset is not None
        if messages:
            consumer.commit(asynchronous=True)
        window.passed(len(messages), octets)
    stay()


def _latency(consumer: Consumer, records: int) -> None:
    while not consumer.assignment():
        consumer.poll(0.05)
    say("ready")
    seen: list[float] = []
    while len(seen) < records:
        message = consumer.poll(1.0)
        if message is None or message.error() is not None:
            continue
        seen.append(time.time() - sent_at(message.value() or b""))
    say("latencies", seconds=seen)
    stay()


if __name__ == "__main__":
    main()
