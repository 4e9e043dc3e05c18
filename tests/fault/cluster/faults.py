"""Faults of a cluster's nodes and links. Each ends with all nodes running and all links whole."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from tests.fault.cluster.links import CLIENTS
from tests.fault.cluster.nodes import Cluster, Ours, partitions_in
from tests.integration.membership.kafka_nodes import SESSION_MS
from tests.support.brokers import RunningBroker
from tests.support.eventually import eventually

Fault: TypeAlias = Callable[[Cluster, random.Random], None]
#: exit code of a broker whose last log directory fails
_FAILED = 1
_BELOW_SESSION_S = SESSION_MS / 1000 / 3
_ABOVE_SESSION_S = SESSION_MS / 1000 * 2


@contextmanager
def frozen(*nodes: RunningBroker) -> Iterator[None]:
    """Stop the processes for a while, without a word to those that they talk to."""
    for each in nodes:
        os.kill(each.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in nodes:
            os.kill(each.pid, signal.SIGCONT)


def any_broker(cluster: Cluster, dice: random.Random) -> RunningBroker:
    return cluster.brokers[dice.choice(list(cluster.brokers))]


def kill_broker(cluster: Cluster, dice: random.Random) -> None:
    killed = any_broker(cluster, dice)
    killed.kill()
    time.sleep(dice.choice([0, 1, _ABOVE_SESSION_S]))
    killed.start()


def kill_starting_broker(cluster: Cluster, dice: random.Random) -> None:
    killed = any_broker(cluster, dice)
    killed.kill()
    killed.spawn()
    time.sleep(dice.uniform(0.2, 2))
    killed.kill()
    killed.start()


def stop_broker(cluster: Cluster, dice: random.Random) -> None:
    stopped = any_broker(cluster, dice)
    assert stopped.stop() in (0, 128 + signal.SIGTERM)
    stopped.start()


def freeze_broker(cluster: Cluster, dice: random.Random) -> None:
    with frozen(any_broker(cluster, dice)):
        time.sleep(_BELOW_SESSION_S)


def freeze_broker_beyond_its_session(cluster: Cluster, dice: random.Random) -> None:
    with frozen(any_broker(cluster, dice)):
        time.sleep(_ABOVE_SESSION_S)


def kill_controller(cluster: Cluster, dice: random.Random) -> None:
    killed = cluster.controllers[dice.choice(list(cluster.controllers))]
    killed.kill()
    time.sleep(dice.choice([0, _BELOW_SESSION_S]))
    killed.start()


def lose_majority(cluster: Cluster, dice: random.Random) -> None:
    """Freeze one controller, or two of three, so that none decides."""
    needed = len(cluster.controllers) // 2 + 1
    with frozen(*dice.sample(list(cluster.controllers.values()), needed)):
        time.sleep(_ABOVE_SESSION_S)


def _cut(cluster: Cluster, node: int, sources: list[int], dice: random.Random) -> None:
    requests, answers = dice.choice([(True, False), (False, True), (True, True)])
    cluster.links[node].cut(sources, requests=requests, answers=answers)
    time.sleep(dice.choice([_BELOW_SESSION_S, _ABOVE_SESSION_S]))
    cluster.links[node].heal()


def cut_broker_from_others(cluster: Cluster, dice: random.Random) -> None:
    """Others do not reach it, one way or both; its own requests arrive."""
    node = dice.choice(list(cluster.brokers))
    others = [each for each in cluster.brokers if each != node]
    _cut(cluster, node, dice.choice([others, others[:1], [CLIENTS], [*others, CLIENTS]]), dice)


def cut_broker_from_controllers(cluster: Cluster, dice: random.Random) -> None:
    """It is fenced, and does not hear of it."""
    node = dice.choice(list(cluster.brokers))
    for each in cluster.controllers:
        cluster.links[each].cut([node])
    time.sleep(_ABOVE_SESSION_S)
    for each in cluster.controllers:
        cluster.links[each].heal()


def cut_broker_off(cluster: Cluster, dice: random.Random) -> None:
    """It reaches no node, and no node reaches it; clients do."""
    node = dice.choice(list(cluster.brokers))
    others = [each for each in cluster.brokers if each != node]
    for each in (*others, *cluster.controllers):
        cluster.links[each].cut([node])
    cluster.links[node].cut(others)
    time.sleep(_ABOVE_SESSION_S)
    for links in cluster.links.values():
        links.heal()


def fill_disk(cluster: Cluster, dice: random.Random) -> None:
    """A member's log directory has no room left, and others lead. With room again, the member is started and follows.

    A member ends if it has no other directory.
    """
    node, full = dice.choice([each for each in cluster.brokers.items() if isinstance(each[1], Ours)])
    if full.disk is None:
        return
    full.disk.occupy()
    if full.has_one_directory:
        assert full.wait() == _FAILED
    else:
        eventually(full.lacks_directories, "the full directory is offline")
    filled = {each.name for each in partitions_in(full.disk.path)}
    eventually(lambda: cluster.led_by(node) & filled, "others lead", equal_to=set())
    if dice.random() < 0.5:
        _start_without_room(full)
    time.sleep(dice.choice([0, _ABOVE_SESSION_S]))
    full.disk.make_room()
    full.stop()
    full.start()
    assert not full.lacks_directories()


def _start_without_room(full: Ours) -> None:
    """Stop or kill a member whose disk is full, and start it: it runs as far as it can without that disk."""
    if full.has_one_directory:
        full.spawn()
        time.sleep(_ABOVE_SESSION_S)
        return
    full.kill()
    full.start()
    eventually(full.lacks_directories, "the full directory is offline again")


FAULTS: list[Fault] = [
    kill_broker,
    cut_broker_off,
    freeze_broker_beyond_its_session,
    kill_controller,
    fill_disk,
    stop_broker,
    cut_broker_from_others,
    cut_broker_from_controllers,
    kill_starting_broker,
    lose_majority,
    freeze_broker,
]
