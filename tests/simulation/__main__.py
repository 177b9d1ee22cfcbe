"""`make sim`: many schedules on all cores, a summary, and the shrunk story of what failed.

python -m tests.simulation --seeds 100000 --first 0 --summary build/sim-1.json   # a piece
python -m tests.simulation --merge build/sim-*.json --summary build/sim.json     # the whole
python -m tests.simulation --seed 42                     # one, told line by line
python -m tests.simulation --seed 42 --shrink build/42.json   # the shortest that breaks so
python -m tests.simulation --replay build/42.json        # a kept one, told
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from multiprocessing import Pool
from pathlib import Path

from tests.simulation import history
from tests.simulation.schedule import run_seed
from tests.simulation.tally import ALL_REACHED_FROM, Tally, merged, read

CHUNK = 100
TOLD_SECONDS = 10.0


def chunk(seeds: range) -> Tally:
    tally = Tally()
    began = time.process_time()
    for seed in seeds:
        try:
            tally.note(seed, run_seed(seed))
        except Exception as error:
            error.add_note(f"in seed {seed}")
            raise
    tally.cpu_seconds = time.process_time() - began
    return tally


def search(first: int, count: int, jobs: int) -> Tally:
    """The summary of `count` seeds does not depend on `jobs`."""
    end = first + count
    chunks = [range(at, min(at + CHUNK, end)) for at in range(first, end, CHUNK)]
    whole, began, told = Tally(), time.monotonic(), time.monotonic()
    with Pool(jobs) as pool:
        for tally in pool.imap(chunk, chunks):
            whole.add(tally)
            now = time.monotonic()
            if now - told >= TOLD_SECONDS:
                told = now
                rate = whole.seeds / (now - began)
                print(
                    f"{whole.seeds} of {count} seeds, {rate:.0f} a second, "
                    f"{whole.violated} violations",
                    file=sys.stderr,
                    flush=True,
                )
    whole.seconds = time.monotonic() - began
    return whole


def conclude(whole: Tally, path: Path | None, failures: Path) -> int:
    """The summary; what failed, shrunk; what was not reached. The exit code."""
    summary = whole.summary()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(summary, indent=1) + "\n")
    shown = {name: value for name, value in summary.items() if name != "reached"}
    print(json.dumps(shown, indent=1))
    kinds = Counter(text.split(":")[0] for text in whole.violations.values())
    for kind, count in kinds.most_common():
        seed = min(s for s, text in whole.violations.items() if text.startswith(kind))
        print(f"{kind}: {count} times, first in seed {seed}: {whole.violations[seed]}")
        shrink_seed(seed, failures / f"{seed}.json")
    lacking = whole.missing() if whole.seeds >= ALL_REACHED_FROM else {}
    lacking.pop("pairs", None)  # they are told, in the summary
    for what, names in lacking.items():
        print(f"never reached: {what}: {', '.join(names)}")
    return 1 if whole.violated or lacking else 0


def shrink_seed(seed: int, path: Path) -> None:
    result = run_seed(seed)
    if result.violation is None:
        print(f"seed {seed} breaks nothing")
        return
    shrunk = history.shrink(history.of_seed(seed, result.moves))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(shrunk.text())
    print(history.told(shrunk))
    print(f"again: python -m tests.simulation --replay {path}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--summary", type=Path, default=None)
    parser.add_argument("--failures", type=Path, default=Path("build/sim-failures"))
    parser.add_argument("--merge", type=Path, nargs="+", help="summaries of pieces")
    parser.add_argument("--seed", type=int, default=None, help="one schedule, told")
    parser.add_argument("--shrink", type=Path, default=None, help="with --seed: kept there, shrunk")
    parser.add_argument("--replay", type=Path, default=None, help="a kept history, told")
    arguments = parser.parse_args()
    if arguments.replay is not None:
        kept = history.load(arguments.replay)
        print(history.told(kept))
        return 1 if kept.run().violation else 0
    if arguments.seed is not None and arguments.shrink is not None:
        shrink_seed(arguments.seed, arguments.shrink)
        return 0
    if arguments.seed is not None:
        result = run_seed(arguments.seed, telling=True)
        print("\n".join(result.world.story))
        print(result.violation or "no violation")
        return 1 if result.violation else 0
    if arguments.merge:
        pieces = [read(json.loads(path.read_text())) for path in arguments.merge]
        return conclude(merged(pieces), arguments.summary, arguments.failures)
    whole = search(arguments.first, arguments.seeds, arguments.jobs)
    return conclude(whole, arguments.summary, arguments.failures)


if __name__ == "__main__":
    raise SystemExit(main())
