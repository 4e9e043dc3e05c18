"""The voters of a cluster change under load (KIP-853), and a majority of them is lost: nothing acknowledged is lost."""

from __future__ import annotations

import time

import pytest

from tests.fault.cluster.changing_quorum import changing_cluster
from tests.fault.cluster.faults import frozen
from tests.fault.cluster.load import check_end, cluster_load, go_on
from tests.integration.membership.kafka_nodes import SESSION_MS
from tests.support.history import History

pytestmark = pytest.mark.full_size  # four controllers of Apache Kafka

VOTERS = (101, 102, 103, 104)
OURS, LAST = 2, 3


def test_voters_change_under_load(tmp_path_factory: pytest.TempPathFactory, history: History) -> None:
    """One voter becomes three, the first one leaves, and a member starts again that has never heard of the others."""
    with changing_cluster(tmp_path_factory.mktemp, VOTERS, known=2, theirs=1, ours=2) as running:
        load = cluster_load(running, history)
        go_on(running, load)
        running.add_voter(102, at=OURS)
        running.add_voter(103, at=LAST)
        go_on(running, load)
        running.remove_voter(101, at=OURS)
        running.controllers[101].kill()
        go_on(running, load)
        assert running.voters(OURS) == running.voters(LAST) == [102, 103]
        with frozen(running.controllers[102]):  # the other one is no majority
            time.sleep(SESSION_MS / 1000 * 2)
        go_on(running, load)
        running.add_voter(104, at=LAST)
        running.controllers[103].kill()
        for each in (OURS, LAST):
            running.brokers[each].kill()
            running.brokers[each].start()
        go_on(running, load)
        running.controllers[103].start()
        running.wait_for_all_in_sync()
        assert running.voters(OURS) == [102, 103, 104]
        check_end(running, load)
