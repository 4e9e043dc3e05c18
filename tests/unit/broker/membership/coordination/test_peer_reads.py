"""Partitions of other leaders are read by Fetch requests."""

from __future__ import annotations

import pytest

from broker.membership.coordination.peer_reads import PeerReads
from broker.replicas.leader_reads import CannotRead, CommittedRecords
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchableTopicResponse, PartitionData
from protocol.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from protocol.messages.offset_for_leader_epoch import EpochEndOffset, OffsetForLeaderTopicResult
from runtime.deferred import Deferred
from tests.unit.broker.membership.coordination.peer_requests import Leaders, MemoryRequests


class Cluster:
    """Broker 2 leads t-0; t-1 has no leader."""

    def __init__(self) -> None:
        self.peers = MemoryRequests()
        self.reads = PeerReads(Leaders(t=[2, -1]), self.peers)  # type: ignore[arg-type]

    def read(self, topic: str = "t", index: int = 0) -> Deferred[CommittedRecords]:
        return self.reads.read(topic, index, 7, 1000)

    def answer(self, code: ErrorCode = ErrorCode.NONE, records: bytes | None = b"batch") -> None:
        data = PartitionData(error_code=code, high_watermark=9, log_start_offset=3, records=records)
        self.peers.answer(responses=[FetchableTopicResponse(partitions=[data])])


def code_of(read: Deferred[CommittedRecords]) -> ErrorCode:
    with pytest.raises(CannotRead) as caught:
        read.result()
    return caught.value.code


def test_leader_is_asked() -> None:
    cluster = Cluster()
    read = cluster.read()
    [(broker_id, request)] = cluster.peers.sent
    [topic] = request.topics
    [wanted] = topic.partitions
    assert (broker_id, topic.topic_id[:1], wanted.partition, wanted.fetch_offset) == (2, b"t", 0, 7)
    assert (request.max_wait_ms, request.session_epoch, wanted.partition_max_bytes) == (0, -1, 1000)
    cluster.answer()
    assert read.result() == (b"batch", 3, 9)


def test_nothing_new() -> None:
    cluster = Cluster()
    read = cluster.read()
    cluster.answer(records=None)
    assert read.result() == (b"", 3, 9)


def test_offset_out_of_range_tells_the_start() -> None:
    cluster = Cluster()
    read = cluster.read()
    cluster.answer(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert read.result() == (b"", 3, 9)


def test_errors() -> None:
    cluster = Cluster()
    assert code_of(cluster.read(index=1)) is ErrorCode.LEADER_NOT_AVAILABLE
    assert code_of(cluster.read("other")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    read = cluster.read()
    cluster.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert code_of(read) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    read = cluster.read()
    cluster.peers.lose()
    assert code_of(read) is ErrorCode.NETWORK_EXCEPTION


def test_special_offsets() -> None:
    cluster = Cluster()
    found = cluster.reads.find_offset("t", 0, -4)
    [(broker_id, request)] = cluster.peers.sent
    assert (broker_id, request.topics[0].name, request.topics[0].partitions[0].timestamp) == (2, "t", -4)
    partition = ListOffsetsPartitionResponse(offset=9, leader_epoch=3)
    cluster.peers.answer(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])
    assert found.result() == (9, 3)
    for code, index in ((ErrorCode.UNKNOWN_LEADER_EPOCH, 0), (ErrorCode.LEADER_NOT_AVAILABLE, 1)):
        found = cluster.reads.find_offset("t", index, -4)
        if cluster.peers.sent:
            partition = ListOffsetsPartitionResponse(error_code=code)
            cluster.peers.answer(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])
        with pytest.raises(CannotRead) as caught:
            found.result()
        assert caught.value.code is code
    found = cluster.reads.find_offset("t", 0, -4)
    cluster.peers.lose()
    with pytest.raises(CannotRead):
        found.result()


def test_end_of_an_epoch() -> None:
    cluster = Cluster()
    found = cluster.reads.end_of_epoch("t", 0, 2)
    [(broker_id, request)] = cluster.peers.sent
    assert (broker_id, request.topics[0].topic, request.topics[0].partitions[0].leader_epoch) == (2, "t", 2)

    def answer(**fields: int) -> None:
        topic = OffsetForLeaderTopicResult(topic="t", partitions=[EpochEndOffset(partition=0, **fields)])
        cluster.peers.answer(topics=[topic])

    answer(leader_epoch=1, end_offset=90)
    assert found.result() == (90, 1)
    found = cluster.reads.end_of_epoch("t", 0, 2)
    answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(CannotRead) as caught:
        found.result()
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    found = cluster.reads.end_of_epoch("t", 0, 2)
    cluster.peers.lose()
    with pytest.raises(CannotRead):
        found.result()
    with pytest.raises(CannotRead):
        cluster.reads.end_of_epoch("t", 1, 2).result()
