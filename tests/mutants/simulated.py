"""`python -m tests.mutants.simulated N`: the histories that once found a fault, then N seeds, until
one shows a violation, or comes to no end. Code that falls over without one is not noticed: see
`noticing`."""

from __future__ import annotations

import signal
import sys
from functools import partial
from pathlib import Path

from sidecar.errors import InvariantBroken
from tests.mutants.loading import load
from tests.mutants.noticing import CANNOT_LOAD, tell
from tests.simulation import history
from tests.simulation.schedule import Result, run_seed
from tests.simulation.test_simulation import KEPT

SEED_SECONDS_MAX = 60.0
"""Some thousand times what a seed takes."""


class NoEnd(Exception):
    pass


def _no_end(*_: object) -> None:
    raise NoEnd


def _again(path: Path) -> Result:
    return history.load(path).run()


def main(seeds: int) -> int:
    try:
        load()
    except Exception as error:
        print(f"the mutated file does not load: {error!r}")
        return CANNOT_LOAD
    signal.signal(signal.SIGALRM, _no_end)
    fell = 0
    kept = {path.stem: partial(_again, path) for path in KEPT}
    for seed, run in (kept | {str(n): partial(run_seed, n) for n in range(seeds)}).items():
        signal.setitimer(signal.ITIMER_REAL, SEED_SECONDS_MAX)
        try:
            violation: BaseException | None = run().violation
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
