"""Commands that ask the servers themselves, where some or all of them are away."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result

from sidecar.cli import main
from sidecar.core.checkpoint import Installed
from sidecar.core.types import GroupId
from sidecar.store.connect import connect
from sidecar.store.redis import RedisStore
from tests.benches.names import Names
from tests.benches.redis import Valkey
from tests.store.values import checkpoint, first, gap_of

NOBODY = "127.0.0.1:1"


def invoke(*arguments: str, store: str, prefix: str = "p", group: str = "g") -> Result:
    settings = {
        "KAFKA__BOOTSTRAP_SERVERS": NOBODY,
        "KAFKA__GROUP_ID": group,
        "KAFKA__TOPICS": "orders",
        "REDIS__URL": store,
        "REDIS__KEY_PREFIX": prefix,
    }
    env = {f"CURSOR_SIDECAR_{name}": value for name, value in settings.items()}
    return CliRunner().invoke(main, arguments, env=env, catch_exceptions=False)


def test_gaps_are_listed_while_the_brokers_are_away(valkey: Valkey, names: Names) -> None:
    """They are the store's to know; another group's are not shown."""
    group = GroupId(names.group())
    stands = checkpoint(group, next=40, gap="gap-1")

    async def prepare() -> None:
        store = RedisStore(connect(valkey.url), names.prefix)
        carrying = replace(first(stands), gaps=(gap_of(stands),))
        assert await store.install(carrying) == Installed()
        await store.close()

    asyncio.run(prepare())
    shown = invoke(
        *("gaps", "list", "-o", "json"), store=valkey.url, prefix=names.prefix, group=group
    )
    assert shown.exit_code == 0
    (gap,) = json.loads(shown.output)["gaps"]
    assert (gap["id"], gap["first"], gap["end"], gap["state"]) == ("gap-1", 40, 100, "open")
    other = invoke("gaps", "list", store=valkey.url, prefix=names.prefix, group="another")
    assert other.output.splitlines()[1:] == []


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        (("gaps", "list"), "REDIS__URL"),
        (("status", "--timeout", "0.3"), "KAFKA__BOOTSTRAP_SERVERS"),
        (("forget", "--whole-group", "--by", "a", "--why", "b", "--timeout", "0.3"), "KAFKA__"),
        (("rebind", "--by", "a", "--why", "b", "--timeout", "0.3"), "KAFKA__BOOTSTRAP_SERVERS"),
        (("doctor", "--timeout", "0.3"), "KAFKA__BOOTSTRAP_SERVERS"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_nobody_there_is_exit_1_with_what_to_look_at(
    arguments: tuple[str, ...], setting: str
) -> None:
    """No traceback, no wrong "nothing there"."""
    result = invoke(*arguments, store=f"redis://{NOBODY}")
    assert result.exit_code == 1
    assert setting in result.output + result.stderr


def test_a_place_that_is_none_is_usage() -> None:
    """Before anything is asked."""
    result = invoke(
        *("rebind", "--by", "a", "--why", "b", "--at", "orders=7"), store=f"redis://{NOBODY}"
    )
    assert result.exit_code == 2
    assert "TOPIC/INDEX=OFFSET" in result.stderr
