"""How soon a broker that starts again is unfenced: its lifecycle against the cluster's controller, by one clock."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.broker_registration import BROKER_REGISTRATION
from protocol.schema import Struct
from replication.lifecycle import BrokerLifecycle, Identity, LifecycleState, LifecycleTimes
from tests.unit.controller.small_cluster import CLUSTER_ID, SESSION_MS, SmallCluster, directory

#: Beyond the old session: the wait for the next try, and some turns until the registration is applied.
MOST_BEYOND_MS = 550


class Process:
    """A process of broker 1. It applies the metadata log at once, and its logs open without a wait."""

    def __init__(self, cluster: SmallCluster, incarnation: int) -> None:
        self._cluster = cluster
        sample = cluster.registration(1, incarnation)
        identity = Identity(
            1, CLUSTER_ID, sample.incarnation_id, sample.listeners, sample.features, None, [directory(1)]
        )
        self.life = BrokerLifecycle(identity, LifecycleTimes(), cluster.now_ms)
        self.refusals: list[int] = []
        self.heard_ms = -1

    def run_until(self, state: LifecycleState) -> None:
        """Let the clock go on until the state is reached."""
        while self.life.state is not state:
            self._cluster.now_ms = max(self._cluster.now_ms, self.life.due_ms)
            self.step()

    def run_to(self, now_ms: int) -> None:
        """Send what is due until then."""
        while self.life.due_ms <= now_ms:
            self._cluster.now_ms = max(self._cluster.now_ms, self.life.due_ms)
            self.step()
        self._cluster.now_ms = now_ms

    def step(self) -> None:
        """Send the request that is due, and take over its answer."""
        cluster, life = self._cluster, self.life
        life.note_applied(cluster.log.end_offset - 1)
        registers = life.registers
        request = life.next_request(cluster.now_ms)
        assert request is not None
        response = self._answer(request, registers=registers)
        if response.error_code:
            assert response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
            self.refusals.append(cluster.now_ms)
        elif not registers:
            self.heard_ms = cluster.now_ms
        life.answered(response, cluster.now_ms)
        life.logs_are_open(cluster.now_ms)

    def _answer(self, request: Struct, *, registers: bool) -> Struct:
        """As the wire carries them."""
        api = BROKER_REGISTRATION if registers else BROKER_HEARTBEAT
        version = api.request.versions.max
        sent, _ = api.request.decode(version, api.request.encode(version, request))
        controller = self._cluster.controller
        return (controller.register_broker(sent) if registers else controller.heartbeat(sent)).result()


def running(cluster: SmallCluster) -> Process:
    process = Process(cluster, incarnation=1)
    process.run_until(LifecycleState.RUNNING)
    return process


@pytest.mark.parametrize("after_ms", range(0, 2000, 125))
def test_killed_broker_is_unfenced_soon_after_its_session(after_ms: int) -> None:
    cluster = SmallCluster().with_brokers(2)
    killed = running(cluster)
    killed.run_to(10_000 + after_ms)
    session_ends_ms = killed.heard_ms + SESSION_MS

    again = Process(cluster, incarnation=2)
    again.run_until(LifecycleState.RUNNING)
    assert 0 <= cluster.now_ms - session_ends_ms <= MOST_BEYOND_MS
    assert all(refused < session_ends_ms for refused in again.refusals)
    assert not cluster.image.brokers[1].fenced


def test_clean_stop_keeps_the_session_of_its_last_heartbeat() -> None:
    """As under Apache Kafka 4.4.0: the broker is fenced at once, and its next process waits."""
    cluster = SmallCluster().with_brokers(2)
    stopped = running(cluster)
    stopped.run_to(10_700)
    stopped.life.leave(cluster.now_ms)
    stopped.run_until(LifecycleState.ENDED)
    assert (cluster.now_ms, stopped.heard_ms) == (10_700, 10_700)
    assert cluster.image.brokers[1].fenced
    assert stopped.life.next_request(99_999) is None  # nothing renews the session

    again = Process(cluster, incarnation=2)
    again.run_until(LifecycleState.RUNNING)
    assert again.refusals
    assert 0 <= cluster.now_ms - (10_700 + SESSION_MS) <= MOST_BEYOND_MS


def test_broker_that_starts_after_its_session_is_unfenced_at_once() -> None:
    cluster = SmallCluster().with_brokers(2)
    running(cluster).run_to(5_000)
    cluster.now_ms += SESSION_MS
    again = Process(cluster, incarnation=2)
    began_ms = cluster.now_ms
    again.run_until(LifecycleState.RUNNING)
    assert cluster.now_ms - began_ms <= 50
    assert not again.refusals
