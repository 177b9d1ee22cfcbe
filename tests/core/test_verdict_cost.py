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
    runs is what the judgement itself costs, whatever else the machine does meanwhile."""
    costs = {}
    for commit in CommitSays:
        evidence = told(store, commit)
        quickest = float("inf")
        for _ in range(RUNS):
            began = time.perf_counter()
            judge(evidence, POLICY)
            quickest = min(quickest, time.perf_counter() - began)
        costs[commit] = quickest
    assert max(costs.values()) <= SECONDS_MAX, costs
