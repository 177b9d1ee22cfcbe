"""Run named steps, one after another, and write what came of them as JSON.

    python tools/steps.py build/check.json 'lint: ruff check .' 'types: mypy sidecar'

Every step runs, also after one has failed, so that one run shows all there is to mend. The output
of a step is shown when it fails. Commands are found beside this interpreter first. The summary is
`{"ok": bool, "seconds": s, "steps": [{"name": ..., "seconds": ..., "exit": ...}]}`.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import TypedDict


class Step(TypedDict):
    name: str
    seconds: float
    exit: int


def run(text: str) -> Step:
    name, _, command = text.partition(": ")
    if not command:
        sys.exit(f"not a step ('name: command'): {text!r}")
    print(f"{name:<36}", end="", flush=True)
    begun = time.monotonic()
    done = subprocess.run(
        shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    seconds = round(time.monotonic() - begun, 2)
    print(f"{'ok' if done.returncode == 0 else 'FAILED':<8}{seconds:>7.2f} s", flush=True)
    if done.returncode != 0:
        print(f"$ {command}\n{done.stdout.rstrip()}\n", flush=True)
    return {"name": name, "seconds": seconds, "exit": done.returncode}


def main() -> int:
    summary, *texts = sys.argv[1:]
    beside = Path(sys.executable).parent
    os.environ["PATH"] = f"{beside}{os.pathsep}{os.environ['PATH']}"
    steps = [run(text) for text in texts]
    failed = [step["name"] for step in steps if step["exit"] != 0]
    report = {
        "ok": bool(steps) and not failed,
        "seconds": round(sum(step["seconds"] for step in steps), 2),
        "steps": steps,
    }
    Path(summary).parent.mkdir(parents=True, exist_ok=True)
    Path(summary).write_text(json.dumps(report, indent=2) + "\n")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
