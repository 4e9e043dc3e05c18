"""Nodes and links of a cluster fail under load: nothing acknowledged is lost, and the replicas are equal in the end.

Clients write with acks=all, in and outside of transactions; groups of both protocols read and commit. Their history
(tests/support/history.py) is checked by tests/support/checker.py, which does not know the brokers.
"""

from __future__ import annotations

import random

import pytest

from tests.fault.cluster.faults import FAULTS
from tests.fault.cluster.nodes import Cluster, cluster
from tests.integration.membership.replica_verification import differences_by_kafka, differences_by_us
from tests.support.eventually import eventually
from tests.support.history import Ended, History, Outcome, read_history
from tests.support.history_load import HistoryLoad, stock_load
from tests.support.scale import SCALE, scaled

#: Of groups. It is longer than the pause of a moved coordinator.
SESSION_MS = 30_000
ROUNDS = min(60, scaled(4))
#: Controllers, brokers of Apache Kafka, members.
KINDS = [(1, 1, 2)] if SCALE <= 1 else [(1, 1, 2), (1, 2, 1), (3, 0, 3)]


@pytest.mark.parametrize(("controllers", "theirs", "ours"), KINDS)
def test_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory, history: History, controllers: int, theirs: int, ours: int
) -> None:
    dice = random.Random(f"{controllers} {theirs} {ours}")
    with cluster(tmp_path_factory.mktemp, controllers=controllers, theirs=theirs, ours=ours) as running:
        load = stock_load(
            running.brokers[1],
            history,
            bootstrap=running.bootstrap,
            session_ms=SESSION_MS,
            least_s=0.02,
            replicas=3,
            are_ready=lambda: running.wait_for_all_in_sync("plain", "moved"),
        )
        go_on(running, load)
        for number in range(ROUNDS):
            fault = FAULTS[number % len(FAULTS)]
            fault(running, dice)
            go_on(running, load)
        running.wait_for_all_in_sync()
        check_end(running, load)


def go_on(running: Cluster, load: HistoryLoad) -> None:
    """Wait until each client has done more. If one stands still, the error has what the brokers say of the cluster."""
    try:
        load.get_on(20)
    except AssertionError as error:
        error.add_note(running.views())
        raise


def check_end(running: Cluster, load: HistoryLoad) -> None:
    """End the load. Its history has no anomaly, and the replicas are equal."""
    load.end(running.bootstrap)
    ended = {each.outcome for each in read_history(load.history.path) if isinstance(each, Ended)}
    assert ended >= {Outcome.COMMITTED, Outcome.ABORTED}
    eventually(running.differences, "all replicas are equal", equal_to=[])
    assert differences_by_us(running.bootstrap) == []
    if SCALE > 1:
        assert differences_by_kafka(running.bootstrap) == []
    assert complaints(running) == []


def complaints(running: Cluster) -> list[str]:
    """Return the faults that members report about themselves."""
    found = []
    for broker in running.brokers.values():
        if broker.kind == "member":
            found += [line for line in broker.output.splitlines() if "Traceback" in line or " CRITICAL " in line]
    return found
