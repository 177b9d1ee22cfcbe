"""What the processes of the benchmark say to one another: a line of JSON for each event.

The one that counts records says when its window opens and closes; the parent then reads the
clocks of every process that takes part.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from typing import Any

WARM_UP = 0.2
"""The share of records before the window opens: connections are made, caches warm, and what the
client had prefetched before it was first asked is gone."""
_STAMP = struct.Struct("<d")


def say(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def stay() -> None:
    """Until the parent has read this process's clocks."""
    sys.stdin.read()


def stamped(at: float, size: int) -> bytes:
    """A value that carries when it was sent: Kafka's own timestamps are whole milliseconds."""
    return _STAMP.pack(at).ljust(size, b".")


def sent_at(value: bytes) -> float:
    at: float = _STAMP.unpack_from(value)[0]
    return at


class Window:
    """Opens once the first fifth of the records has passed, closes with the last one."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._opens_at = int(records * WARM_UP)
        self._passed = 0
        self._octets = 0
        self._pages = 0
        self._opened_at: int | None = None
        self.closed = False

    def passed(self, records: int, octets: int) -> None:
        self._passed += records
        self._octets += octets
        self._pages += 1
        if self._opened_at is None and self._passed >= self._opens_at:
            self._opened_at = self._passed
            say("opened", at=time.monotonic(), records=self._passed, pages=self._pages)
        if self._passed >= self._records and not self.closed:
            self.closed = True
            say(
                "closed",
                at=time.monotonic(),
                records=self._passed,
                pages=self._pages,
                octets=self._octets,
            )
