"""The commands, as a person or a hook runs them: against a real server where they talk to one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from sidecar import __version__
from sidecar.api.handlers import Limits
from sidecar.api.openapi import openapi_document
from sidecar.api.server import AdminServer, AppServer, Server
from sidecar.cli import main
from sidecar.core.gap import GapState
from sidecar.core.types import Interval, Offset
from sidecar.core.views import Refusal, Refused
from tests.api.desk import FakeDesk, a_gap, view

PREFIX = "CURSOR_SIDECAR_"
TOKEN = "a-token-for-people-to-change-things"
REQUIRED = {
    PREFIX + "KAFKA__BOOTSTRAP_SERVERS": "broker:9092",
    PREFIX + "KAFKA__GROUP_ID": "billing",
    PREFIX + "KAFKA__TOPICS": "orders",
    PREFIX + "REDIS__URL": "redis://:s3cret@h",
}


def invoke(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, arguments, env=env, catch_exceptions=False)


@dataclass
class Sidecar:
    """Both listeners over one desk, on a loop of their own, as another process would be."""

    desk: FakeDesk
    loop: asyncio.AbstractEventLoop
    env: dict[str, str]

    @property
    def api(self) -> tuple[str, str]:
        return "--url", self.env[PREFIX + "API__LISTEN"]

    @property
    def admin(self) -> tuple[str, str]:
        return "--url", self.env[PREFIX + "ADMIN__LISTEN"]


@pytest.fixture(params=["tcp", "unix"])
def sidecar(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sidecar]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def listen(name: str) -> str:
        return "127.0.0.1:0" if request.param == "tcp" else f"unix:{tmp_path}/{name}.sock"

    async def begin() -> tuple[FakeDesk, list[Server]]:
        desk = FakeDesk()
        servers: list[Server] = [
            AppServer(desk, listen("api"), Limits(), lambda _: None),
            AdminServer(
                desk,
                listen("admin"),
                Limits(),
                lambda _: None,
                token=TOKEN,
                exposition=lambda _: ("text/plain", b""),
                alive=lambda: None,
            ),
        ]
        for server in servers:
            await server.start()
        return desk, servers

    async def end(servers: list[Server]) -> None:
        for server in servers:
            await server.stop()

    desk, servers = asyncio.run_coroutine_threadsafe(begin(), loop).result(10)
    app, admin = servers
    env = {
        PREFIX + "API__LISTEN": str(app.address),
        PREFIX + "ADMIN__LISTEN": str(admin.address),
        PREFIX + "ADMIN__TOKEN": TOKEN,
    }
    yield Sidecar(desk, loop, env)
    asyncio.run_coroutine_threadsafe(end(servers), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def test_help_imports_nothing_that_it_does_not_need() -> None:
    """A command line that answers at once: no server, no client, no settings models."""
    program = (
        "import sys, sidecar.cli\n"
        "try: sidecar.cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'aiohttp', 'pydantic', 'confluent_kafka', 'redis', 'rich', 'structlog'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert "Tell the story of a broken cursor" in done.stdout


def test_a_drain_imports_no_client_library() -> None:
    """A preStop hook runs on a pod's last seconds."""
    program = (
        "import sys, sidecar.cli\n"
        "try: sidecar.cli.main(['drain', '--url', 'unix:/nowhere'])\n"
        "except SystemExit as e: print(e.code)\n"
        "print(sorted({'aiohttp', 'confluent_kafka', 'redis', 'rich'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["1", "[]"]


def test_every_command_has_help_and_an_unknown_one_is_usage() -> None:
    """Exit 2 is for usage."""
    listed = invoke("--help").output
    people = ("doctor", "status", "explain", "gaps", "forget", "rebind")
    for name in ("run", "drain", *people, "config", "openapi", "demo"):
        assert name in listed
        assert invoke(name, "--help").exit_code == 0
    assert invoke("explode").exit_code == 2
    assert __version__ in invoke("--version").output


def test_run_refuses_wrong_settings_by_name_and_starts_nothing() -> None:
    """Exit 2, every fault a line, nothing of a secret."""
    result = invoke("run", env={PREFIX + "REDIS__URL": "http://:s3cret@h", PREFIX + "LOG__X": "1"})
    assert result.exit_code == 2
    for name in ("KAFKA__GROUP_ID", "KAFKA__TOPICS", "REDIS__URL", "LOG__X"):
        assert f"  {PREFIX}{name}: expected " in result.stderr
    assert "s3cret" not in result.output


def test_config_shows_what_is_in_force_with_secrets_masked(tmp_path: Path) -> None:
    """Table for people with the source of each; JSON and YAML as a file would have it."""
    path = tmp_path / "c.yaml"
    path.write_text("log: {level: debug}\n")
    arguments = ("config", "show", "--config", str(path), "--set", "LOG__FORMAT=console")
    table = invoke(*arguments, "-X", "client.rack=a", env=REQUIRED)
    assert table.exit_code == 0
    lines = {line.split()[0]: line.split()[1:] for line in table.output.splitlines()}
    assert lines[PREFIX + "LOG__LEVEL"] == ["debug", str(path)]
    assert lines[PREFIX + "LOG__FORMAT"] == ["console", "flag"]
    assert lines[PREFIX + "KAFKA__GROUP_ID"] == ["billing", "environment"]
    assert lines[PREFIX + "REDIS__REPLICAS_ACK"] == ["0", "default"]
    as_json = json.loads(invoke(*arguments, "-o", "json", env=REQUIRED).output)
    as_yaml = yaml.safe_load(invoke(*arguments, "-o", "yaml", env=REQUIRED).output)
    assert as_json == as_yaml
    assert as_json["redis"]["url"] == "redis://***@h"
    assert "s3cret" not in table.output


def test_config_file_can_be_named_by_the_environment(tmp_path: Path) -> None:
    """So that a hook in the same container sees the same file."""
    path = tmp_path / "c.toml"
    path.write_text("[log]\nlevel = 'error'\n")
    result = invoke("config", "show", "-o", "json", env={**REQUIRED, PREFIX + "CONFIG": str(path)})
    assert json.loads(result.output)["log"]["level"] == "error"


def test_config_schema_and_openapi_print_documents() -> None:
    """As JSON, to be written to a file."""
    assert json.loads(invoke("config", "schema").output)["title"] == "cursor-sidecar settings"
    assert json.loads(invoke("openapi").output) == openapi_document()


@pytest.mark.parametrize("arguments", [("-X", "novalue"), ("--set", "=x")])
def test_an_option_that_is_no_pair_is_usage(arguments: tuple[str, str]) -> None:
    """Exit 2."""
    assert invoke("config", "show", *arguments, env=REQUIRED).exit_code == 2


def test_drain_waits_until_it_is_done(sidecar: Sidecar) -> None:
    """By the address the sidecar's own settings give."""
    result = invoke("drain", env=sidecar.env)
    assert (result.exit_code, result.output) == (0, "drained\n")
    assert sidecar.desk.drained


def test_a_drain_that_takes_too_long_is_124(
    sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounded, so that the hook does not eat the grace period."""
    never = asyncio.Event()

    async def stuck() -> None:
        await never.wait()

    monkeypatch.setattr(sidecar.desk, "drain", stuck)
    result = invoke("drain", "--timeout", "0.2", env=sidecar.env)
    assert result.exit_code == 124
    sidecar.loop.call_soon_threadsafe(never.set)


@pytest.mark.parametrize("command", [("drain",), ("status",), ("gaps", "list")])
def test_no_sidecar_is_one_clear_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    """Exit 1, no traceback."""
    result = invoke(*command, "--url", f"unix:{tmp_path}/nothing.sock")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"No sidecar reached at unix:{tmp_path}/nothing.sock")


def test_status_has_the_columns_people_know(sidecar: Sidecar) -> None:
    """Those of kafka-consumer-groups first, plain where nobody looks at a terminal."""
    sidecar.desk.views = [view(), view(partition=1, committed=None, lag_records=None, detail="")]
    result = invoke("status", *sidecar.admin, env=sidecar.env)
    assert result.exit_code == 0
    header, first, second = result.output.splitlines()
    assert header.split()[:7] == [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
    ]
    known = ["billing", "orders", "0", "107", "107", "0", "billing-0", "-", "-", "delivering"]
    assert first.split()[: len(known)] == known
    assert second.split()[3:6] == ["-", "107", "-"]
    assert "\x1b[" not in result.output


def test_status_in_json_is_the_contracts_and_tells_unhealthy(sidecar: Sidecar) -> None:
    """Exit 1 while not ready, with the reason."""
    sidecar.desk.ready = False
    result = invoke("status", "-o", "json", *sidecar.admin, env=sidecar.env)
    assert result.exit_code == 1
    body = json.loads(result.stdout)
    assert body["status"]["reasons"] == ["redis: connection refused"]
    assert body["partitions"][0]["applied"] == 106
    assert "redis: connection refused" in invoke("status", *sidecar.admin, env=sidecar.env).stderr


def test_gaps_lists_the_undecided_unless_told_otherwise(sidecar: Sidecar) -> None:
    """With their exact interval."""
    sidecar.desk.kept_gaps = [
        a_gap(),
        replace(a_gap("g-2"), state=GapState.RESOLVED),
        replace(a_gap("g-3"), state=GapState.ACKNOWLEDGED, interval=Interval(Offset(5), None)),
    ]

    def ids(*options: str) -> list[str]:
        asked = invoke("gaps", "list", "-o", "json", *options, *sidecar.api, env=sidecar.env)
        body = json.loads(asked.output)
        return [gap["id"] for gap in body["gaps"]]

    assert ids() == ["g-1", "g-3"]
    assert ids("--all") == ["g-1", "g-2", "g-3"]
    assert ids("--state", "resolved") == ["g-2"]
    _, first, second = invoke("gaps", "list", *sidecar.api, env=sidecar.env).output.splitlines()
    assert "[107, 250)" in first
    assert "143" in first
    assert "[5, ?)" in second


def test_gaps_show_tells_evidence_and_history(sidecar: Sidecar) -> None:
    """What a person needs to decide."""
    shown = invoke("gaps", "show", "g-1", *sidecar.api, env=sidecar.env)
    assert shown.exit_code == 0
    for text in ("retention_loss", "[107, 250)", "evidence.log_start"):
        assert text in shown.output
    asked = invoke("gaps", "show", "g-1", "-o", "yaml", *sidecar.api, env=sidecar.env)
    gap = yaml.safe_load(asked.output)
    assert (gap["id"], gap["state"]) == ("g-1", "open")


ASSENT = ("--by", "on-call", "--why", "restored")
RESOLVE = ("gaps", "resolve", "g-1", "--resolution", "accepted", *ASSENT)


@pytest.mark.parametrize(
    ("arguments", "becomes"),
    [(("gaps", "ack", "g-1", *ASSENT), "acknowledged"), (RESOLVE, "resolved")],
    ids=["ack", "resolve"],
)
def test_a_mutation_is_a_dry_run_unless_it_is_executed(
    sidecar: Sidecar, arguments: tuple[str, ...], becomes: str
) -> None:
    """Both print prior → new; only one asks for it."""
    dry = invoke(*arguments, *sidecar.api, env=sidecar.env)
    assert dry.exit_code == 0
    assert f"open → {becomes}" in dry.output
    assert "nothing was changed" in dry.output
    assert sidecar.desk.asked == []
    done = invoke(*arguments, "--execute", *sidecar.api, env=sidecar.env)
    assert done.exit_code == 0
    assert f"open → {becomes}" in done.output
    assert "nothing was changed" not in done.output
    assert len(sidecar.desk.asked) == 1


def test_a_mutation_in_json_has_prior_and_new(sidecar: Sidecar) -> None:
    """For a program that decides."""
    done = invoke(*RESOLVE, "--execute", "-o", "json", *sidecar.api, env=sidecar.env)
    body = json.loads(done.output)
    assert body["executed"] is True
    assert (body["prior"]["state"], body["new"]["state"]) == ("open", "resolved")
    assert body["new"]["resolution"]["resume_at"] == 250


def test_a_mutation_over_the_admin_listener_takes_the_token_along(sidecar: Sidecar) -> None:
    """From the same settings that the sidecar has; without it, refused."""
    admin = sidecar.env[PREFIX + "ADMIN__LISTEN"]
    done = invoke(*RESOLVE, "--execute", "--url", admin, env=sidecar.env)
    assert done.exit_code == 0
    without = {**sidecar.env, PREFIX + "ADMIN__TOKEN": ""}
    refused = invoke(*RESOLVE, "--execute", "--url", admin, env=without)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("unauthorized: ")


def test_a_refusal_is_one_line_with_its_name(sidecar: Sidecar) -> None:
    """Exit 1."""
    result = invoke("gaps", "show", "g-9", *sidecar.api, env=sidecar.env)
    assert (result.exit_code, result.stderr.partition(":")[0]) == (1, "gap-unknown")
    sidecar.desk.kept_gaps = Refusal(Refused.STORE_UNAVAILABLE, "ask again", 1)
    result = invoke("gaps", "list", *sidecar.api, env=sidecar.env)
    assert (result.exit_code, result.stderr) == (1, "store-unavailable: ask again\n")


def test_who_and_why_are_asked_for() -> None:
    """Usage, before anything is reached."""
    assert invoke("gaps", "ack", "g-1").exit_code == 2
    assert invoke("gaps", "resolve", "g-1", *ASSENT).exit_code == 2


def test_an_address_that_is_none_is_usage() -> None:
    """Exit 2."""
    assert invoke("status", "--url", "host:port").exit_code == 2


def test_something_else_that_answers_is_not_taken_for_a_sidecar(tmp_path: Path) -> None:
    """A proxy's HTML is no state."""
    import http.server

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        result = invoke("status", "--url", f"http://127.0.0.1:{server.server_port}")
        thread.join(10)
    assert result.exit_code == 1
    assert "not as a sidecar does" in result.stderr


@pytest.mark.parametrize("property_", ["nonsense=1", "fetch.min.bytes=abc"])
def test_a_property_that_librdkafka_refuses_is_a_wrong_setting(property_: str) -> None:
    """Only the client knows them all; it is asked before anything is started."""
    wanted = {
        "CURSOR_SIDECAR_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "CURSOR_SIDECAR_KAFKA__GROUP_ID": "g",
        "CURSOR_SIDECAR_KAFKA__TOPICS": "t",
        "CURSOR_SIDECAR_REDIS__URL": "redis://127.0.0.1:1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "sidecar", "run", "-X", property_],
        env={**os.environ, **wanted},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert "CURSOR_SIDECAR_KAFKA__CLIENT" in done.stderr
    assert property_.split("=")[0] in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("holds", "answer", "--answer", "earliest", *ASSENT),
        ("holds", "answer", "h-1", "--all", "--answer", "earliest", *ASSENT),
        ("holds", "answer", "h-1", *ASSENT),
        ("pause", "orders", "0", "--by", "on-call"),
        ("continue", "orders", "first", *ASSENT),
        ("skip", "orders", "0", "-1", *ASSENT),
        ("replay", "orders", "0", "--from", "5", *ASSENT),
    ],
    ids=" ".join,
)
def test_what_a_decision_needs_is_asked_for(arguments: tuple[str, ...]) -> None:
    """Usage, before anything is reached."""
    assert invoke(*arguments, env=REQUIRED).exit_code == 2
