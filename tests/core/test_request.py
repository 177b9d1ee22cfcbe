"""What a request asks for survives being written down."""

from __future__ import annotations

import pytest

from sidecar.core.gap import Resolution
from sidecar.core.request import Request, RequestId, RequestKind, resolve_arguments, resolving
from sidecar.core.types import Offset
from sidecar.core.views import ResolveRequest
from tests.core.situations import GROUP, PARTITION


@pytest.mark.parametrize(
    "wanted",
    [
        ResolveRequest(Resolution.ACCEPTED, "on-call", "known"),
        ResolveRequest(
            Resolution.SNAPSHOT,
            "on-call",
            "loaded",
            evidence="ticket 4",
            fence=Offset(0),
            resume_at=Offset(7),
            end_max=Offset(9),
        ),
    ],
)
def test_what_is_asked_for_is_read_as_it_was_written(wanted: ResolveRequest) -> None:
    written = Request(
        *(RequestId("asked"), GROUP, PARTITION, RequestKind.RESOLVE, "gap-1"),
        *(wanted.by, wanted.why, 5.0, resolve_arguments(wanted)),
    )
    assert resolving(written) == wanted
