"""Waiting for a condition, not for a time: poll until a deadline, then say what was last seen."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T | None],
    what: str,
    *,
    timeout_seconds: float = 30.0,
    every_seconds: float = 0.02,
    ignoring: tuple[type[Exception], ...] = (),
) -> T:
    """Return the first truthy value of `condition`; exceptions in `ignoring` mean "not yet".

    Raises `TimeoutError` naming `what` was awaited and the last value or exception seen.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            value = condition()
            if value:
                return value
            seen = repr(value)
        except ignoring as error:
            seen = repr(error)
        if time.monotonic() >= deadline:
            raise TimeoutError(
                f"not within {timeout_seconds:g} s: {what} (last seen: {seen[:500]})"
            )
        time.sleep(every_seconds)
