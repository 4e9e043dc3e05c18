"""Measure a cluster when the broker that leads all partitions is killed, and when it comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from bench.comparison.brokers import on_first_core
from bench.comparison.cluster import IDS, SESSION_S, Cluster, described
from bench.comparison.loads import batch
from bench.comparison.plan import PRODUCE_VERSION
from protocol.messages.metadata import METADATA
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.wire import Closed, WireClient

_TIMEOUT_S = 120
_INTERVAL_S = 0.01
_RECORD_BYTES = 100


class Failover(NamedTuple):
    """Seconds beyond the session of the killed leader, which ends up to a heartbeat's interval earlier."""

    written_s: float
    moved_s: float


def kill_leader(of: Cluster, topic: str) -> Failover:
    """Kill the leader. Return when a write with acks=all succeeds again, and when others lead all partitions."""
    left = of.followers[0]
    began = time.monotonic()
    of.leader.kill()
    written_s = _seconds_until(lambda: _writes(of, topic), began)
    moved_s = _seconds_until(lambda: not {IDS[0], -1} & _leaders(left, topic), began)
    return Failover(written_s - SESSION_S, moved_s - SESSION_S)


def return_after_kill(of: Cluster) -> float:
    """Kill the leader and start it at once. Return the seconds, beyond its old session, until it is unfenced."""
    began = time.monotonic()
    of.leader.kill()
    return _until_unfenced(of.leader, began) - SESSION_S


def return_after_stop(of: Cluster) -> float:
    """Stop the leader in order and start it at once. Return the seconds, beyond a session, until it is unfenced.

    The controllers keep the session that the last heartbeat of the controlled shutdown begins.
    """
    began = time.monotonic()
    of.leader.stop()
    return _until_unfenced(of.leader, began) - SESSION_S


def _until_unfenced(broker: RunningBroker, began: float) -> float:
    with on_first_core():
        broker.spawn()
    return _seconds_until(lambda: IDS[0] in _unfenced(broker), began)


def _seconds_until(holds: Callable[[], bool], began: float) -> float:
    def tried() -> bool:
        try:
            return holds()
        except (OSError, Closed):  # it does not serve clients yet
            return False

    eventually(tried, timeout_s=_TIMEOUT_S, interval_s=_INTERVAL_S)
    return time.monotonic() - began


def _leaders(broker: RunningBroker, topic: str) -> set[int]:
    return {each.leader_id for each in described(broker, topic).partitions}


def _unfenced(broker: RunningBroker) -> set[int]:
    """Return the brokers that are unfenced, as this broker knows it."""
    with WireClient(HOST, broker.port) as client:
        return {each.node_id for each in client.call(METADATA, 9, topics=[]).brokers}


def _writes(of: Cluster, topic: str) -> bool:
    """Return whether another broker than the killed one leads partition 0, and all in-sync replicas get a record."""
    leader_id: int = described(of.followers[0], topic).partitions[0].leader_id
    if leader_id not in IDS[1:]:
        return False
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(records=batch(1, _RECORD_BYTES))])]
    with WireClient(HOST, of.brokers[IDS.index(leader_id)].port) as client:
        answer = client.call(PRODUCE, PRODUCE_VERSION, acks=-1, timeout_ms=1000, topic_data=data)
    return not answer.responses[0].partition_responses[0].error_code
