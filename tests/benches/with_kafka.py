"""Run a command beside a real broker: `python -m tests.benches.with_kafka -- CMD ... {bootstrap}`.

`{bootstrap}` in the arguments becomes the broker's address. The broker lives as long as the
command, whose exit code is ours; signals go to the command, so that it ends in its own way.
"""

import signal
import subprocess
import sys
from collections.abc import Sequence

from tests.benches.kafka import KafkaBroker
from tests.benches.process import BenchError

USAGE = "usage: python -m tests.benches.with_kafka -- COMMAND [ARGUMENT | {bootstrap}] ..."


def main(argv: Sequence[str]) -> int:
    command = list(argv[1:] if argv[:1] == ["--"] else argv)
    if not command:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        with KafkaBroker() as broker:
            broker.start()
            return _run([word.replace("{bootstrap}", broker.bootstrap) for word in command])
    except BenchError as error:
        print(error, file=sys.stderr)
        return 2


def _run(command: list[str]) -> int:
    try:
        child = subprocess.Popen(command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    # Ctrl-C reaches the whole foreground group by itself; the command decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _frame: child.send_signal(number))
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
