"""The load of a cluster: it goes on over faults, and its history and the replicas are checked in the end."""

from __future__ import annotations

from tests.fault.cluster.nodes import Cluster
from tests.integration.membership.replica_verification import differences_by_kafka, differences_by_us
from tests.support.brokers import OurBroker
from tests.support.eventually import eventually
from tests.support.history import Ended, History, Outcome, read_history
from tests.support.history_load import LIGHT_S, HistoryLoad, stock_load
from tests.support.scale import SCALE

#: Of groups. It is longer than the pause of a moved coordinator.
SESSION_MS = 30_000


def cluster_load(running: Cluster, history: History) -> HistoryLoad:
    """Start the stock load, on topics whose replicas are all in sync."""
    return stock_load(
        running.brokers[1],
        history,
        bootstrap=running.bootstrap,
        session_ms=SESSION_MS,
        least_s=LIGHT_S,
        replicas=3,
        are_ready=lambda: running.wait_for_all_in_sync("plain", "moved"),
    )


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
    check_replicas(running)


def check_replicas(running: Cluster) -> None:
    """The replicas are equal, and no node of pybroker complains about itself. Nobody writes meanwhile."""
    eventually(running.differences, "all replicas are equal", equal_to=[])
    assert differences_by_us(running.bootstrap) == []
    if SCALE > 1:
        assert differences_by_kafka(running.bootstrap) == []
    assert complaints(running) == []


def complaints(running: Cluster) -> list[str]:
    """Return the faults that nodes of pybroker report about themselves."""
    found = []
    for node in (*running.brokers.values(), *running.controllers.values()):
        if isinstance(node, OurBroker):
            found += [line for line in node.output.splitlines() if "Traceback" in line or " CRITICAL " in line]
    return found
