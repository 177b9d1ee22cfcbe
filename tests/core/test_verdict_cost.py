"""What a judgement costs: a thousand partitions are judged on one loop, after every rebalance."""

from __future__ import annotations

import time

import pytest

from sidecar.core.verdict import judge
from tests.core.situations import POLICY, CommitSays, StoreSays, told

SECONDS_MAX = 100e-6
RUNS = 200


@pytest.mark.parametrize("store", list(StoreSays), ids=str)
def test_judging_one_partition_takes_at_most_100_microseconds(store: StoreSays) -> None:
    """With everything there is to read, the witness in the commit included. The quickest of many
    runs is what the judgement itself costs; the kinds take turns, so that a moment in which the
    machine is slow falls on a few runs of each and never on all of one."""
    evidence = {commit: told(store, commit) for commit in CommitSays}
    costs = dict.fromkeys(CommitSays, float("inf"))
    for _ in range(RUNS):
        for commit, told_of_it in evidence.items():
            began = time.perf_counter()
            judge(told_of_it, POLICY)
            costs[commit] = min(costs[commit], time.perf_counter() - began)
    assert max(costs.values()) <= SECONDS_MAX, costs
