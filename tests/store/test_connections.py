"""What a connection leaves behind."""

from __future__ import annotations

import gc
import weakref

from sidecar.store.connections import Connector, pack
from sidecar.store.faults import StoreFailed
from sidecar.store.url import Address, parse_url
from tests.benches.process import free_port, release_port


async def test_a_failure_is_gone_as_soon_as_nobody_has_it() -> None:
    """A server that is away is asked again and again: what each try leaves must not have to wait
    for a collection, which counts on by the ten thousand."""
    port = free_port()
    connector = Connector(parse_url(f"redis://127.0.0.1:{port}/0"), 1.0, 1)
    server = connector.server(Address("127.0.0.1", port))
    gc.disable()
    try:
        left: weakref.ref[StoreFailed] | None = None
        try:
            await server.exchange(pack("PING"), 1)
        except StoreFailed as failure:
            left = weakref.ref(failure)
        assert left is not None, "nobody listens there"
        assert left() is None
    finally:
        gc.enable()
        release_port(port)
