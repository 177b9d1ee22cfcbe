"""What a receipt costs in Redis memory, measured on a real server over a million of them."""

from collections.abc import Callable

import pytest

from sidecar.core.checkpoint import Install, Installed, ReceiptRun
from sidecar.core.types import AttemptId, GroupId, LeaderEpoch, Offset, Outcome, Token
from sidecar.store.connect import connect
from sidecar.store.redis import RedisStore
from tests.benches.redis import Valkey
from tests.store.values import T0, checkpoint, first, known

PAGES, PAGE = 2_000, 500


@pytest.mark.slow
@pytest.mark.parametrize("holes", [False, True], ids=["consecutive", "with holes"])
async def test_a_receipt_costs_at_most_sixteen_bytes(
    valkey_server: Callable[..., Valkey], holes: bool
) -> None:
    """`used_memory` of everything the partition has, divided by its receipts, in pages of 500."""
    server = valkey_server(settings={"appendonly": "no"})
    store = RedisStore(connect(server.url), "cursor-sidecar", receipts_retained_max=PAGES * PAGE)
    try:
        before = server.info("memory")["used_memory"]
        at = checkpoint(GroupId("billing"))
        assert await store.install(first(at)) == Installed()
        for page in range(PAGES):
            start = at.token.next
            # One record in ten is missing, as after transactions or compaction.
            step = [start + i + (i // 9 if holes else 0) for i in range(PAGE)]
            digests = [(offset * 0x9E3779B97F4A7C15) % 2**64 for offset in step]
            new = at.succeed(token=Token(Offset(step[-1] + 1), LeaderEpoch(0)))
            run = ReceiptRun(step, digests, Outcome.APPLIED)
            install = Install(
                at.expected, new, AttemptId(f"{page:032x}"), receipts=(run,), body=False
            )
            assert await store.install(install) == Installed()
            at = new
        memory = known(await store.memory(GroupId("billing"), T0, 2**40))
        assert sum(map(len, memory.receipts)) == PAGES * PAGE
        each = (server.info("memory")["used_memory"] - before) / (PAGES * PAGE)
        print(f"{each:.2f} bytes a receipt")
        assert each <= 16
    finally:
        await store.close()
