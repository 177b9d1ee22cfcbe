"""`cursor-sidecar demo`: a cursor breaks, is judged and is recovered, with nothing to start.

Real processes throughout: a log (librdkafka's mock cluster in this process, or a real broker), a
Valkey server, the sidecar, and a tiny application with a ledger. `story` says what happens to them,
`stage` that none outlives this process, `ledger` what became of every record. It is a test as much
as a story: the exit code is 0 only when each of its promises was seen to be kept.

Nothing is imported before it is needed: the application is a module of this package, too, and
stands alone.
"""

from __future__ import annotations

from pathlib import Path


def run(*, summary: Path | None = None, bootstrap_servers: str | None = None) -> int:
    """The exit code: 0 when everything promised was seen, else 1; 128 + n if signal n ended it."""
    from sidecar.demo.performance import perform

    return perform(summary, bootstrap_servers)
