"""pybroker's own controller, its members and their links fail under load.

Nothing acknowledged is lost, nothing of an aborted transaction is seen, and the replicas are equal in the end.
"""

from __future__ import annotations

import random
import time

import pytest

from tests.conformance.replacement_load import ReplacementLoad
from tests.fault.cluster.faults import (
    FAULTS,
    Fault,
    any_broker,
    cut_broker_off,
    kill_controller,
    lose_majority,
)
from tests.fault.cluster.load import SESSION_MS, check_replicas, go_on
from tests.fault.cluster.nodes import Cluster, own_cluster
from tests.support.history import History
from tests.support.scale import SCALE

#: Kills and other faults of a run.
ROUNDS = 2 if SCALE <= 1 else 22


def kill_broker_and_controller(cluster: Cluster, dice: random.Random) -> None:
    """Kill both: the broker's leaders move only when the controller is back."""
    (controller,) = cluster.controllers.values()
    killed = any_broker(cluster, dice)
    killed.kill()
    controller.kill()
    time.sleep(dice.uniform(0, 2))
    controller.start()
    time.sleep(dice.choice([0, 1]))
    killed.start()


_FIRST: list[Fault] = [kill_controller, kill_broker_and_controller, cut_broker_off, lose_majority]


def test_nothing_is_lost(tmp_path_factory: pytest.TempPathFactory, history: History) -> None:
    """Idempotent and transactional producers, groups of both protocols, and a copier with transactions go on."""
    dice = random.Random(ROUNDS)
    faults = _FIRST + [each for each in FAULTS if each not in _FIRST]
    with own_cluster(tmp_path_factory.mktemp) as running:
        load = ReplacementLoad(running.bootstrap, history, session_ms=SESSION_MS, kafka_python=True)
        go_on(running, load)
        for number in range(ROUNDS):
            faults[number % len(faults)](running, dice)
            go_on(running, load)
        running.wait_for_all_in_sync()
        load.finish()
        check_replicas(running)
