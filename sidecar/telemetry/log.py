"""Log lines: one past-tense fact each, as JSON or for people.

A line is put together on the caller's thread and written by another, through a bounded queue: a
pipe that nobody reads must not stop the event loop, and with it the polling that keeps the group
membership. When the queue is full, lines are dropped and the next one says how many.

What librdkafka, redis-py and others write through `logging` comes out here as well, at most a
line a second each. Known secrets are struck out of every line; payloads never get this far, since
facts hold none.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, MutableMapping
from typing import IO, Any

import msgspec

_rich_is_new = "rich" not in sys.modules
try:
    if _rich_is_new:
        # structlog would bring rich along, for tracebacks only, which are never logged here: three
        # megabytes that every sidecar would keep, and a tenth of a second of its start.
        sys.modules["rich"] = None  # type: ignore[assignment]  # as documented: not to be imported
    import structlog
    from structlog.typing import FilteringBoundLogger
finally:
    if _rich_is_new:
        del sys.modules["rich"]

LINES_MAX = 10_000
REPEAT_SECONDS = 1.0
KEYS_MAX = 1_024
TEXT_MAX = 500
SECRET_CHARACTERS_MIN = 4
"""A shorter one would strike out parts of ordinary words."""


class Limiter:
    """Lets a repeating key through once a second, and says how many it held back meanwhile."""

    def __init__(
        self,
        seconds: float = REPEAT_SECONDS,
        keys_max: int = KEYS_MAX,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._keys_max = keys_max
        self._now = now
        self._seen: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def admit(self, key: Hashable) -> int | None:
        """None: hold it back. A number: let it through; so many like it were held back."""
        now = self._now()
        last, held_back = self._seen.get(key, (float("-inf"), 0))
        if now - last < self._seconds:
            self._seen[key] = (last, held_back + 1)
            return None
        self._seen[key] = (now, 0)
        self._seen.move_to_end(key)
        if len(self._seen) > self._keys_max:
            self._seen.popitem(last=False)
        return held_back


class Lines:
    """Writes on a thread of its own. Full: drops, and counts what it dropped."""

    def __init__(self, stream: IO[bytes], secrets: Collection[str] = ()) -> None:
        self._stream = stream
        self._secrets = [
            written
            for secret in sorted(secrets, key=len, reverse=True)
            if len(secret) >= SECRET_CHARACTERS_MIN
            # As it is, and as JSON escapes it.
            for written in {secret.encode(), msgspec.json.encode(secret)[1:-1]}
        ]
        self._queue: queue.Queue[bytes | None] = queue.Queue(LINES_MAX)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def write(self, line: str | bytes) -> None:
        data = line.encode(errors="replace") if isinstance(line, str) else line
        for secret in self._secrets:
            data = data.replace(secret, b"***")
        if self._dropped:
            said = b'{"event":"log_lines_dropped","level":"warning","count":%d}' % self._dropped
            data = said + b"\n" + data
        try:
            self._queue.put_nowait(data + b"\n")
            self._dropped = 0
        except queue.Full:
            self._dropped += 1

    msg = debug = info = warning = error = critical = write

    def idle(self) -> bool:
        """Nothing waits to be written."""
        return self._queue.empty()

    def close(self, timeout_seconds: float = 1.0) -> None:
        """Write what is left, within the time."""
        try:
            self._queue.put(None, timeout=timeout_seconds)
        except queue.Full:
            return
        self._thread.join(timeout_seconds)

    def _write(self) -> None:
        while (line := self._queue.get()) is not None:
            with contextlib.suppress(OSError, ValueError):  # the reader is gone: nobody to tell
                self._stream.write(line)
                if self._queue.empty():
                    self._stream.flush()
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


class _Route(logging.Handler):
    """What libraries say through `logging`, as events."""

    def __init__(self, log: FilteringBoundLogger, limiter: Limiter) -> None:
        super().__init__()
        self._log = log
        self._limiter = limiter

    def emit(self, record: logging.LogRecord) -> None:
        try:
            # librdkafka's texts name brokers and addresses, so a fault is never quite the same.
            what = "" if record.name.startswith("librdkafka") else str(record.msg)
            repeated = self._limiter.admit((record.name, record.levelno, what))
            if repeated is None:
                return
            fields: dict[str, Any] = {
                "logger": record.name,
                "text": record.getMessage()[:TEXT_MAX],
            }
            if record.exc_info and record.exc_info[0] is not None:
                fields["error"] = record.exc_info[0].__name__
            if repeated:
                fields["repeated"] = repeated
            self._log.log(min(record.levelno, logging.ERROR), "library_spoke", **fields)
        except Exception:  # a library's line must never be the reason that something fails
            self._log.warning("library_line_lost", logger=record.name)


class Log:
    """`events` is what the recorder writes to. `close` puts `logging` back as it was."""

    def __init__(
        self,
        *,
        level: str = "info",
        format: str = "json",
        stream: IO[bytes] | None = None,
        secrets: Collection[str] = (),
        **bound: Any,
    ) -> None:
        out = sys.stderr.buffer if stream is None else stream
        threshold = logging.getLevelNamesMapping()[level.upper()]
        self._lines = Lines(out, secrets)
        renderer: Any
        if format == "json":
            renderer = structlog.processors.JSONRenderer(serializer=_json)
        else:
            renderer = structlog.dev.ConsoleRenderer(colors=out.isatty())
        self.limiter = Limiter()
        self.level = threshold
        self.events: FilteringBoundLogger = structlog.wrap_logger(
            self._lines,
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                renderer,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(threshold),
            context_class=dict,
            cache_logger_on_first_use=True,
        ).bind(**bound)
        self._route = _Route(self.events, self.limiter)
        self._before = (logging.root.level, logging.root.handlers[:])
        logging.root.handlers[:] = [self._route]
        logging.root.setLevel(threshold if threshold < logging.INFO else logging.WARNING)
        logging.captureWarnings(True)

    def close(self, timeout_seconds: float = 1.0) -> None:
        level, handlers = self._before
        if self._route in logging.root.handlers:
            logging.root.handlers[:] = handlers
            logging.root.setLevel(level)
            logging.captureWarnings(False)
        self._lines.close(timeout_seconds)


def _json(event: MutableMapping[str, Any], **_: Any) -> bytes:
    """Time, level and name first, for people who read the raw lines."""
    head = {name: event.pop(name, None) for name in ("timestamp", "level", "event")}
    return msgspec.json.encode({**head, **event}, enc_hook=_plain)


def _plain(value: Any) -> Any:
    """Evidence arrives as read-only mappings; anything else is named, never dumped."""
    if hasattr(value, "keys"):
        return dict(value)
    return type(value).__name__
