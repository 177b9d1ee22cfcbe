"""docs/performance.md, written from the summary of a whole run: no figure in it was typed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.throughput import VARIANTS

_TEXT = """\
# Performance

Written by `make bench BENCH_ARGS=--docs`; no figure below was typed. The numbers are those of one
run on one machine: compare ratios, and run it on yours.

- command: `{command}`, {seconds:.0f} s
- when: {measured_at}
- machine: {cores} cores ({cpu}), {system}; broker, store, sidecar and application share them
- versions: {versions}

Every figure is `median (min to max)` of {runs} runs in which the variants took turns. The topic has
{partitions} partitions on one broker and is read from its beginning by a new group each time; the
first fifth is warm-up. What is compared:

- **bare**: confluent-kafka in a process of its own: `consume(500)`, key, value and offset of each
  record read, one asynchronous commit a page; nothing is verified, remembered or promised.
- **sidecar**: `cursor-sidecar run` with its defaults and a real Valkey: every record digested,
  every page handed out over HTTP on a Unix socket and reported by the application, its receipts
  written in one atomic promotion, commits coalesced. The application is a Python process with four
  connections that decodes each page and reads key, value and offset of each record.

## Targets

{targets}

## Throughput

{throughput}

CPU is microseconds a record; under *client* that of the process that reads from Kafka (the bare
client, or the sidecar). The bare client with its own settings is limited by a pause, not by work:
it stops fetching while 100,000 records of a partition wait, and looks again only after a second.
With `fetch.queue.backoff.ms=5`, the setting that the sidecar uses, it does not.

## Added latency

{latency}

Both read the same {latency_records:,} records at the same time, {latency_rate:,} a second of 100 B,
sent one by one. A record's age is taken when the application holds it. Part of what is added: a
page is out until its report is in the store, and the next records of its partition wait for that.

## Restart

From the start of the process to the first record not delivered before, with an overlap of
{overlap} records read again and compared: **{restart} s**.

## Memory

| after {idle_seconds} s idle | resident MB |
|---|---:|
| never had a record | {fresh_mb} |
| after {records_before:,} records | {after_load_mb} |

At the end of that load it was {loaded_mb} MB, {loaded_peak_mb} MB at its peak. Idle, it uses
{idle_cpu_percent} % of one core. MB are millions of bytes.

## What decides the speed

- One thread owns the Kafka client, one the event loop, and both share the interpreter's lock: the
  sidecar is bound by its CPU a record. Work is done by the column (`map` over the client's C
  methods, slices, `array`, msgspec), never by the record with a call of our own.
- One page of a partition is out at a time, so an application that pulls with fewer connections than
  there are partitions leaves some of them waiting.
- Fetching is held back by not asking for more, which costs nothing. Pausing a partition throws away
  what was prefetched of it, and happens only where one partition's application is slow while
  another partition starves behind it.
- `max.partition.fetch.bytes` is small on purpose: a partition's records come in short runs, so that
  the pages of several partitions are out at once. Set it higher in `KAFKA__CLIENT` where the broker
  is far away.
"""


def write_document(path: Path, summary: Mapping[str, Any]) -> None:
    path.write_text(document(summary))


def document(summary: Mapping[str, Any]) -> str:
    machine, memory, latency = summary["machine"], summary["memory"], summary["latency"]
    return _TEXT.format(
        command=summary["command"],
        seconds=summary["seconds"],
        measured_at=summary["measured_at"],
        cores=machine["cores"],
        cpu=machine["cpu"],
        system=machine["system"],
        versions=", ".join(f"{name} {v}" for name, v in summary["versions"].items()),
        runs=summary["runs"],
        partitions=summary["partitions"],
        targets="\n".join(
            f"- {t['name']}: **{t['value']}**, target {t['target']}: "
            f"{'met' if t['met'] else '**missed**'}"
            for t in summary["targets"]
        )
        + _beside_tuned(summary["throughput"]["100"]["variants"]),
        throughput="\n\n".join(
            f"### {int(size):,} B\n\n{_throughput(found)}"
            for size, found in summary["throughput"].items()
        ),
        latency=_latency(latency),
        latency_records=latency["records"],
        latency_rate=latency["records_per_second"],
        overlap=summary["restart"]["overlap_records"],
        restart=_spread(summary["restart"]["seconds_to_first_new_delivery"], 2),
        **memory,
    )


def _beside_tuned(variants: Mapping[str, Any]) -> str:
    """The same figure against the client that does not pause: no target, but what it costs."""
    of_tuned = (
        variants["sidecar_json"]["ratio_to_bare"] / variants["bare_backoff_5ms"]["ratio_to_bare"]
    )
    return (
        "\n- no target: the same, as a share of the bare client with the one setting the sidecar "
        f"uses, too (`fetch.queue.backoff.ms=5`): **{of_tuned:.2f}**"
    )


def _throughput(found: Mapping[str, Any]) -> str:
    rows = [
        "| | records a second | of bare | CPU: client | application | store | broker | MB | peak |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for variant in VARIANTS:
        one = found["variants"][variant.name]
        cpu = one["cpu_us_per_record"]
        client = cpu.get("sidecar") or cpu["client"]
        cells = [
            variant.title,
            _spread(one["records_per_second"], 0),
            f"{one['ratio_to_bare']:.2f}",
            _spread(client, 2),
            *(_median(cpu.get(name), 2) for name in ("application", "store", "broker")),
            _median(one["rss_mb"], 0),
            _median(one["rss_peak_mb"], 0),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _latency(found: Mapping[str, Any]) -> str:
    rows = ["| | p50 ms | p99 ms |", "|---|---:|---:|"]
    for name, title in (("bare", "bare"), ("sidecar", "sidecar"), ("added", "**added**")):
        rows.append(f"| {title} | {found[f'{name}_p50_ms']} | {found[f'{name}_p99_ms']} |")
    return "\n".join(rows)


def _spread(of: Mapping[str, float], digits: int) -> str:
    low, middle, high = (f"{of[name]:,.{digits}f}" for name in ("min", "median", "max"))
    return middle if low == high else f"{middle} ({low} to {high})"


def _median(of: Mapping[str, float] | None, digits: int) -> str:
    return "" if of is None else f"{of['median']:,.{digits}f}"
