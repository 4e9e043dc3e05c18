"""Markers reach the partitions of all brokers: grouped, and as the leader of now answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.coordinators.transaction.markers import Marker
from broker.membership.coordination.peer_markers import PeerMarkers
from broker.requests.error_code_map import NotCommitted
from coordinator.shard import Producer
from protocol.error_codes import ErrorCode
from protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
)
from protocol.schema import Struct
from runtime.deferred import Deferred
from tests.unit.broker.membership.coordination.peer_requests import Leaders, MemoryRequests

COMMIT = Marker(Producer(7, 3), True, 11, 2)
ABORT = Marker(Producer(8, 0), False, 11)


class Cluster:
    """This broker is 1. `own` is what its own partitions answer."""

    def __init__(self) -> None:
        self.image = Leaders(t=[1, 2, 2, 3], u=[2, -1])
        self.peers = MemoryRequests()
        self.own: ErrorCode | Deferred[ErrorCode] = ErrorCode.NONE
        self._soon: list[Callable[[], None]] = []
        self.markers = PeerMarkers(1, self.image, self, self.peers, self._soon.append)  # type: ignore[arg-type]

    def write(self, marker: Marker, topic: str, index: int) -> ErrorCode | Deferred[ErrorCode]:
        return self.own

    def ask(self, marker: Marker, topic: str, index: int) -> Deferred[ErrorCode]:
        answered = self.markers.write(marker, topic, index)
        assert isinstance(answered, Deferred)
        return answered

    def send(self) -> None:
        soon, self._soon[:] = list(self._soon), []
        for each in soon:
            each()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def result(producer_id: int, topic: str, *codes: tuple[int, int]) -> Struct:
    return WritableTxnMarkerResult(
        producer_id=producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic,
                partitions=[WritableTxnMarkerPartitionResult(partition_index=i, error_code=code) for i, code in codes],
            )
        ],
    )


def test_one_turn_is_one_request_to_each_leader(cluster: Cluster) -> None:
    asked = [cluster.ask(COMMIT, "t", 1), cluster.ask(ABORT, "t", 1), cluster.ask(COMMIT, "t", 2)]
    asked += [cluster.ask(COMMIT, "u", 0), cluster.ask(COMMIT, "t", 3)]
    assert cluster.peers.sent == []
    cluster.send()
    assert [broker_id for broker_id, _ in cluster.peers.sent] == [2, 3]
    first, second = cluster.peers.sent[0][1].markers
    assert (first.producer_id, first.producer_epoch, first.transaction_result) == (7, 3, True)
    assert (first.coordinator_epoch, first.transaction_version) == (11, 2)
    assert [(each.name, each.partition_indexes) for each in first.topics] == [("t", [1, 2]), ("u", [0])]
    assert (second.producer_id, second.transaction_result, second.transaction_version) == (8, False, 0)
    of_u = result(7, "u", (0, ErrorCode.INVALID_PRODUCER_EPOCH))
    of_t = result(7, "t", (1, ErrorCode.NONE), (2, ErrorCode.NOT_ENOUGH_REPLICAS))
    cluster.peers.answer(markers=[of_u, of_t, result(8, "t", (1, ErrorCode.NOT_LEADER_OR_FOLLOWER))])
    assert [each.result() for each in asked[:4]] == [
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ]
    assert not asked[4].done


def test_no_answer_is_to_be_tried_again_at_the_leader_of_then(cluster: Cluster) -> None:
    asked = cluster.ask(COMMIT, "t", 1)
    cluster.send()
    cluster.peers.lose()
    assert asked.result() is ErrorCode.NETWORK_EXCEPTION
    cluster.image.topics["t"][1] = 3
    cluster.ask(COMMIT, "t", 1)
    cluster.send()
    assert [broker_id for broker_id, _ in cluster.peers.sent] == [3]
    cluster.image.topics["t"][1] = 1
    assert cluster.markers.write(COMMIT, "t", 1) is ErrorCode.NONE


def test_an_answer_without_the_partition_is_an_error(cluster: Cluster) -> None:
    asked = cluster.ask(COMMIT, "t", 1)
    cluster.send()
    cluster.peers.answer(markers=[])
    assert asked.result() is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_code_of_a_newer_release_is_an_error_of_its_partition(cluster: Cluster) -> None:
    asked = [cluster.ask(COMMIT, "t", index) for index in (1, 2)]
    cluster.send()
    cluster.peers.answer(markers=[result(7, "t", (1, 9_999), (2, ErrorCode.NONE))])
    assert [each.result() for each in asked] == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]


def test_only_the_metadata_say_that_a_topic_is_gone(cluster: Cluster) -> None:
    """A broker may learn of a topic later than this one."""
    unknown = result(7, "t", (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    asked = cluster.ask(COMMIT, "t", 1)
    cluster.send()
    cluster.peers.answer(markers=[unknown])
    assert asked.result() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.own = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.markers.write(COMMIT, "t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    again = cluster.ask(COMMIT, "t", 1)
    cluster.send()
    del cluster.image.topics["t"]
    cluster.peers.answer(markers=[unknown])
    assert again.result() is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.markers.write(COMMIT, "t", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_without_a_leader_nobody_is_asked(cluster: Cluster) -> None:
    assert cluster.markers.write(COMMIT, "u", 1) is ErrorCode.LEADER_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("error", "code"),
    [(NotCommitted(ErrorCode.REQUEST_TIMED_OUT), ErrorCode.REQUEST_TIMED_OUT), (None, ErrorCode.NONE)],
)
def test_own_partitions_answer_once_replicas_have_the_marker(
    cluster: Cluster, error: Exception | None, code: ErrorCode
) -> None:
    cluster.own = waiting = Deferred()
    asked = cluster.ask(COMMIT, "t", 0)
    assert not asked.done
    if error is None:
        waiting.resolve(ErrorCode.NONE)
    else:
        waiting.fail(error)
    assert asked.result() is code
