"""One performance: everybody is brought on, the story is told, everybody is taken off again.

However it ends, it says so in a sentence, leaves no process, topic or file behind, and writes the
summary: a signal is an end like any other.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from confluent_kafka import KafkaException

from sidecar import __version__
from sidecar.demo.application import Away
from sidecar.demo.cast import (
    SESSION_SECONDS,
    Application,
    NoStore,
    SidecarProcess,
    Store,
    find_store,
)
from sidecar.demo.cluster import Cluster, ClusterFailed, MockCluster, RealCluster
from sidecar.demo.stage import Stage, StageFailed
from sidecar.demo.story import Outcome, Story
from sidecar.demo.telling import Teller

SECONDS_MAX = 60.0
OPENING = (
    "A consumer group's cursor is one number a partition: the offset to read next. Here a process "
    "is killed, and then the log forgets records that nobody has read. See what becomes of the "
    "number, and of every record."
)


class Ended(BaseException):
    """A signal asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def perform(summary: Path | None, bootstrap_servers: str | None) -> int:
    outcome = Outcome()
    try:
        binary = find_store()
    except NoStore as missing:
        print(missing, file=sys.stderr)
        if summary is not None:
            _write(summary, outcome, 0.0, str(missing))
        return 1
    tell = Teller()
    code, failed = 1, "a bug in the demo"
    with _signals_end_it(), Stage(SECONDS_MAX) as stage:
        try:
            _play(stage, binary, tell, outcome, bootstrap_servers)
            code, failed = (0, "") if outcome.ok else (1, "not everything promised was seen")
        except StageFailed as failure:
            failed = str(failure)
            tell.failed(failed, failure.details, failure.who, failure.tail)
        except (ClusterFailed, KafkaException) as failure:
            failed = str(failure)
            tell.failed(failed)
        except Ended as ended:
            code, failed = 128 + ended.number, f"ended by {signal.Signals(ended.number).name}"
            tell.failed(f"{failed}: everything that was started is taken down")
        except (BrokenPipeError, SystemExit):  # rich makes the one of the other
            failed = "nobody reads the story any more"
            raise
        finally:
            if summary is not None:
                _write(summary, outcome, stage.elapsed_seconds, failed)
        _last_words(tell, outcome, stage.elapsed_seconds, failed)
    return code


def _play(
    stage: Stage, binary: Path, tell: Teller, outcome: Outcome, bootstrap_servers: str | None
) -> None:
    tell.title("The story of a broken cursor", f"[dim]cursor-sidecar {__version__}[/]", OPENING)
    store = Store(stage, binary)
    run = secrets.token_hex(2)
    cluster: Cluster
    if bootstrap_servers is None:
        cluster = MockCluster("orders")
    else:
        cluster = RealCluster(bootstrap_servers, f"orders-{run}")
    with contextlib.ExitStack() as afterwards:
        afterwards.callback(_clear, cluster)
        settings = {
            "KAFKA__BOOTSTRAP_SERVERS": cluster.bootstrap,
            "KAFKA__GROUP_ID": f"cursor-sidecar-demo-{run}",
            "KAFKA__TOPICS": cluster.topic,
            "KAFKA__SESSION_TIMEOUT_SECONDS": f"{SESSION_SECONDS:g}",
            "REDIS__URL": store.url,
        }
        if cluster.knows_members:
            settings["KAFKA__INSTANCE_ID"] = "demo"
        sidecar = SidecarProcess(stage, settings)
        sidecar.start()
        application = Application(stage, sidecar.listen)
        tell.cast(
            [
                ("log", f"{cluster.what}: topic {cluster.topic}, {cluster.partitions} partitions"),
                ("store", f"Valkey, which the demo brings along: process {store.child.pid}"),
                ("sidecar", f"cursor-sidecar run: process {sidecar.pid}"),
                ("application", f"books orders into a ledger: process {application.child.pid}"),
            ]
        )
        try:
            Story(stage, tell, cluster, sidecar, application, outcome).run()
        except Away as away:
            raise StageFailed(f"The sidecar gave no answer: {away}", sidecar.child) from away
        finally:
            # Before the log is: nobody is to see it go and wonder.
            stage.clear()


def _clear(cluster: Cluster) -> None:
    """What cannot be taken away stays: it is named after the demo, and harms nobody."""
    with contextlib.suppress(KafkaException, TimeoutError):
        cluster.close()


def _write(summary: Path, outcome: Outcome, seconds: float, failed: str) -> None:
    what = outcome.summary() | {"seconds": round(seconds, 1)}
    if failed:
        what["failed"] = failed
    summary.parent.mkdir(parents=True, exist_ok=True)
    unfinished = summary.with_name(f"{summary.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(what, indent=2) + "\n")
    unfinished.replace(summary)


def _last_words(tell: Teller, outcome: Outcome, seconds: float, failed: str) -> None:
    told = outcome.account
    if told is None:
        return
    total = told.total
    if not failed:
        tell.end(
            True,
            f"{total.produced} orders = {total.applied} applied once + "
            f"{total.applied_twice_flagged} applied twice and flagged + {total.in_gaps} in the "
            f"declared gap. {seconds:.0f} seconds.",
        )
        return
    tell.end(False, "Not seen, of what was promised:")
    for promise in outcome.not_seen:
        tell.seen(False, promise)


@contextlib.contextmanager
def _signals_end_it() -> Iterator[None]:
    """Through every `finally`, and once: a second one does not disturb the taking down. One that
    is ignored, as in the background of a script, stays ignored."""

    def end(number: int, _frame: FrameType | None) -> None:
        for one in before:
            signal.signal(one, signal.SIG_IGN)
        raise Ended(number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
