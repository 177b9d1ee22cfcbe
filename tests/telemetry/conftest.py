from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from sidecar.telemetry.log import Log


class Lines:
    """A log, and what it wrote."""

    def __init__(self, **options: Any) -> None:
        self._stream = io.BytesIO()
        self.log = Log(stream=self._stream, **options)

    def text(self) -> str:
        """Everything that was logged; it ends the log."""
        self.log.close(5)
        return self._stream.getvalue().decode()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text().splitlines()]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """At debug, so that a test sees every line."""
    one = Lines(level="debug", group="billing")
    yield one
    one.log.close()
