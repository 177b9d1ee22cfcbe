"""`python -m tests.mutants.simulated N`: the seeds that once found a fault, then N, until one shows
a violation, or comes to no end. Code that falls over without one is not noticed: see `noticing`."""

from __future__ import annotations

import signal
import sys

from sidecar.errors import InvariantBroken
from tests.mutants.loading import load
from tests.mutants.noticing import CANNOT_LOAD, tell
from tests.simulation.schedule import run
from tests.simulation.test_simulation import FOUND

SEED_SECONDS_MAX = 60.0
"""Some thousand times what a seed takes."""


class NoEnd(Exception):
    pass


def _no_end(*_: object) -> None:
    raise NoEnd


def main(seeds: int) -> int:
    try:
        load()
    except Exception as error:
        print(f"the mutated file does not load: {error!r}")
        return CANNOT_LOAD
    signal.signal(signal.SIGALRM, _no_end)
    fell = 0
    for seed in (*FOUND, *range(seeds)):
        signal.setitimer(signal.ITIMER_REAL, SEED_SECONDS_MAX)
        try:
            violation: BaseException | None = run(seed).violation
        except (AssertionError, InvariantBroken) as asserted:
            violation = asserted
        except NoEnd:
            tell("timeout", f"seed {seed}: no end within {SEED_SECONDS_MAX:g} s")
            return 1
        except Exception:
            fell += 1
            continue
        if violation is not None:
            tell("violation", f"seed {seed}: {str(violation) or 'an assertion'}"[:200])
            return 1
    return 1 if fell else 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1])))
