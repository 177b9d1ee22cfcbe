"""`python -m tests.mutants.simulated N`: the seeds that once found a fault, then N, until one shows
a violation. Code that falls over without one is not noticed: see `noticing`."""

from __future__ import annotations

import sys

from sidecar.errors import InvariantBroken
from tests.mutants.loading import load
from tests.mutants.noticing import CANNOT_LOAD, tell
from tests.simulation.schedule import run
from tests.simulation.test_simulation import FOUND


def main(seeds: int) -> int:
    try:
        load()
    except Exception as error:
        print(f"the mutated file does not load: {error!r}")
        return CANNOT_LOAD
    fell = 0
    for seed in (*FOUND, *range(seeds)):
        try:
            violation: BaseException | None = run(seed).violation
        except (AssertionError, InvariantBroken) as asserted:
            violation = asserted
        except Exception:
            fell += 1
            continue
        if violation is not None:
            tell("violation", f"seed {seed}: {str(violation) or 'an assertion'}"[:200])
            return 1
    return 1 if fell else 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1])))
