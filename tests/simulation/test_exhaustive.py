"""The explorer of a small world: what it walks in seconds, and that it finds what is broken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.core.checkpoint import Install, InstallResult
from tests.fakes.store import FakeStore
from tests.simulation.exhaustive import STARTS, Teller, deeper, explore, onward, walk


def test_after_a_promotion_no_single_surprise_breaks_anything() -> None:
    """A page is promoted and not yet committed; then any one thing happens at any moment."""
    explored = explore("promoted", onward, 50, layers_max=1)
    assert explored.broken == []
    assert explored.layers == 1
    assert explored.states > 300


def test_from_a_cold_start_no_order_of_the_first_actions_breaks_anything() -> None:
    """Every way of three actions from nothing."""
    explored = explore("cold", deeper, 50, layers_max=3)
    assert explored.broken == []
    assert explored.layers == 3


@pytest.mark.parametrize("start", STARTS)
def test_the_same_way_leads_to_the_same_state(start: str) -> None:
    """What is told of a state depends on nothing but the way to it."""
    assert Teller(walk(start, ())).digest() == Teller(walk(start, ())).digest()


def test_a_store_that_compares_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner that was displaced writes over its successor, one surprise away."""
    honest = FakeStore._install

    def careless(self: FakeStore, install: Install) -> InstallResult:
        identity = install.checkpoint.identity
        kept = self._kept.get((identity.group, identity.partition))
        stands = None if kept is None else kept.checkpoint
        if install.expected is not None and stands is not None:
            install = replace(install, expected=stands.expected)
        return honest(self, install)

    monkeypatch.setattr(FakeStore, "_install", careless)
    explored = explore("handing over", onward, 50, layers_max=1)
    assert "generation_rises" in {broken.invariant for broken in explored.broken}
