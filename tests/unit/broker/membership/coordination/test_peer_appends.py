"""The broker's own batches reach the leaders of their partitions."""

from __future__ import annotations

import pytest

from broker.membership.coordination.peer_appends import PeerAppends
from protocol.error_codes import ErrorCode
from protocol.messages.produce import PartitionProduceResponse, TopicProduceResponse
from runtime.deferred import Deferred
from tests.unit.broker.membership.coordination.peer_requests import Leaders, MemoryRequests


class Cluster:
    """This broker is 1, and appends at once to the partitions that it leads."""

    def __init__(self) -> None:
        self.peers = MemoryRequests()
        self.own: list[tuple[str, int, bytes]] = []
        image = Leaders(t=[1, 2, -1])
        self.appends = PeerAppends(1, image, self, self.peers, 500)  # type: ignore[arg-type]

    def append(self, topic: str, index: int, records: bytes) -> ErrorCode:
        self.own.append((topic, index, records))
        return ErrorCode.NONE

    def ask_leader(self) -> Deferred[ErrorCode]:
        asked = self.appends.append("t", 1, b"batch")
        assert isinstance(asked, Deferred)
        return asked

    def answer(self, code: int) -> None:
        partition = PartitionProduceResponse(index=1, error_code=code)
        self.peers.answer(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_own_partitions_need_no_request(cluster: Cluster) -> None:
    assert cluster.appends.append("t", 0, b"batch") is ErrorCode.NONE
    assert (cluster.own, cluster.peers.sent) == ([("t", 0, b"batch")], [])


def test_other_leaders_get_a_produce_request(cluster: Cluster) -> None:
    """With acks=all, by the topic's id."""
    asked = cluster.ask_leader()
    ((broker_id, request),) = cluster.peers.sent
    ((topic,), (data,)) = request.topic_data, request.topic_data[0].partition_data
    assert (broker_id, request.acks, request.timeout_ms, topic.topic_id) == (2, -1, 500, b"t".ljust(16))
    assert (data.index, bytes(data.records)) == (1, b"batch")
    cluster.answer(ErrorCode.NONE)
    assert asked.result() is ErrorCode.NONE
    assert cluster.own == []


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE])
def test_leaders_code_is_the_result(cluster: Cluster, code: ErrorCode) -> None:
    asked = cluster.ask_leader()
    cluster.answer(code)
    assert asked.result() is code


def test_codes_without_an_answer(cluster: Cluster) -> None:
    """All but the last can be tried again."""
    asked = cluster.ask_leader()
    cluster.peers.lose()
    assert asked.result() is ErrorCode.NETWORK_EXCEPTION
    assert cluster.appends.append("t", 2, b"batch") is ErrorCode.LEADER_NOT_AVAILABLE
    assert cluster.appends.append("t", 3, b"batch") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
