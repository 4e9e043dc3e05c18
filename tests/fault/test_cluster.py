"""Nodes and links of a cluster fail under load: nothing acknowledged is lost, and the replicas are equal in the end.

Clients write with acks=all, in and outside of transactions; groups of both protocols read and commit. Their history
(tests/support/history.py) is checked by tests/support/checker.py, which does not know the brokers.
"""

from __future__ import annotations

import random

import pytest

from tests.fault.cluster.faults import FAULTS
from tests.fault.cluster.load import check_end, cluster_load, go_on
from tests.fault.cluster.nodes import cluster
from tests.support.history import History
from tests.support.scale import SCALE, scaled

ROUNDS = min(60, scaled(4))
#: Controllers, brokers of Apache Kafka, members.
KINDS = [(1, 1, 2)] if SCALE <= 1 else [(1, 1, 2), (1, 2, 1), (3, 0, 3)]


@pytest.mark.parametrize(("controllers", "theirs", "ours"), KINDS)
def test_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory, history: History, controllers: int, theirs: int, ours: int
) -> None:
    dice = random.Random(f"{controllers} {theirs} {ours}")
    with cluster(tmp_path_factory.mktemp, controllers=controllers, theirs=theirs, ours=ours) as running:
        load = cluster_load(running, history)
        go_on(running, load)
        for number in range(ROUNDS):
            fault = FAULTS[number % len(FAULTS)]
            fault(running, dice)
            go_on(running, load)
        running.wait_for_all_in_sync()
        check_end(running, load)
