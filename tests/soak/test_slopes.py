"""A leak is found, and what is none is let be."""

import random

from tests.soak.slopes import BOUNDS, Sample, slope

RSS = BOUNDS["rss"]


def _run(minutes: float, per_hour: float, *, noise: float = 0.0) -> list[Sample]:
    chance = random.Random(1)
    times = [5.0 * i for i in range(int(minutes * 12))]
    return [(at, 80 + per_hour * at / 3600 + chance.uniform(-noise, noise)) for at in times]


def test_a_leak_of_a_megabyte_in_three_minutes_is_found() -> None:
    found = slope("rss", _run(30, 20.0, noise=2.0), RSS)
    assert not found.ok
    assert abs(found.per_hour - 20) < 2


def test_what_is_flat_is_flat_under_noise_and_after_a_warm_beginning() -> None:
    samples = [(at, value + (0 if at > 500 else -30)) for at, value in _run(30, 0.0, noise=3.0)]
    found = slope("rss", samples, RSS)
    assert found.ok
    assert abs(found.per_hour) < 2


def test_a_single_megabyte_in_two_minutes_is_no_leak() -> None:
    assert slope("rss", _run(2, 30.0), RSS).ok


def test_one_peak_moves_nothing() -> None:
    samples = _run(30, 0.0)
    samples[-1] = (samples[-1][0], 500.0)
    assert slope("rss", samples, RSS).per_hour == 0
