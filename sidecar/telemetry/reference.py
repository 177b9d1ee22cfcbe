"""The reference of all metrics, in Markdown: `python -m sidecar.telemetry.reference`."""

from __future__ import annotations

from sidecar.telemetry.catalogue import CATALOGUE, Kind, Metric

_INTRODUCTION = """\
# Metrics

<!-- Written by `python -m sidecar.telemetry.reference`; a test keeps it current. -->

Served at `/metrics` on the admin listener, in Prometheus' text format or OpenMetrics, as asked.
Every series also carries `cluster` and `group`; `cluster` is `unknown` until a broker has
answered. The usual `process_…` series are there, too.

A gauge of a partition is read when it is scraped: it is absent, not zero, while its value is
unknown, and it goes with the partition when another member gets it. Gaps are an exception: every
sidecar of a group shows all undecided ones, as the store has them, so that a gap stays visible
whoever dies; use `max by (cluster, group, topic, partition)`. Counters with labels begin at zero.
"""


def metrics_page() -> str:
    sections = (
        ("Partitions", [m for m in CATALOGUE if m.labels[:2] == ("topic", "partition")]),
        ("The rest", [m for m in CATALOGUE if m.labels[:2] != ("topic", "partition")]),
    )
    lines = [_INTRODUCTION]
    for title, metrics in sections:
        lines += [f"## {title}", "", "| name | kind | labels | what it says, and what to do |"]
        lines.append("|---|---|---|---|")
        lines += [_row(metric) for metric in metrics]
        lines.append("")
    lines += [
        "## Label values",
        "",
        "| metric | label | values |",
        "|---|---|---|",
        *(
            f"| `{metric.full_name}` | `{label}` | {', '.join(f'`{v}`' for v in values)} |"
            for metric in CATALOGUE
            for label, values in zip(_enums(metric), metric.values, strict=True)
        ),
    ]
    return "\n".join(lines) + "\n"


def _enums(metric: Metric) -> tuple[str, ...]:
    return metric.labels[len(metric.labels) - len(metric.values) :]


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
    text = metric.help
    if metric.kind is Kind.HISTOGRAM:
        text += f" Buckets: {', '.join(f'{edge:g}' for edge in metric.buckets)}."
    return f"| `{metric.full_name}` | {metric.kind} | {labels} | {text} |"


if __name__ == "__main__":
    print(metrics_page(), end="")
