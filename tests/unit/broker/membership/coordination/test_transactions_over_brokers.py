"""Transactions whose coordinator is another broker than the leader of a partition: late writes, lost answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.coordinators.transaction.ending import LONGEST_RETRY_MS, Ending
from broker.coordinators.transaction.markers import Marker
from broker.membership.coordination.peer_markers import PeerMarkers
from broker.membership.coordination.peer_verifier import PeerVerifier
from broker.network.outbound_errors import ConnectionFailed
from coordinator.shard import Producer
from coordinator.transaction.transaction import NEWER, TopicPartition
from protocol.client_session import PendingRequest, Response
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.schema import Api, Struct
from runtime.deferred import Deferred
from tests.support.data_client import batch
from tests.support.txn_broker import TxnBroker
from tests.unit.broker.membership.coordination.peer_requests import Leaders, MemoryRequests

T0 = ("t", 0)
COORDINATOR, LEADER = 1, 2


class Peer:
    """The leader, as the coordinator reaches it. It serves requests even if their answers are `lost`."""

    def __init__(self, leader: TxnBroker) -> None:
        self._leader = leader
        self.lost = False
        self.answers: list[str] = []

    def request(self, broker_id: int, api: Api, request: Struct) -> Deferred[Response]:
        assert broker_id == LEADER
        values = {field.name: getattr(request, field.name) for field in api.request.fields}
        answer = self._leader.call(api, api.versions.max, **values)
        self.answers += [
            ErrorCode(each.error_code).name
            for marker in answer.markers
            for topic in marker.topics
            for each in topic.partitions
        ]
        if not self.lost:
            return Deferred.resolved(Response(PendingRequest(api, 0, 0), answer, b"", 0, 0))
        failed: Deferred[Response] = Deferred()
        failed.fail(ConnectionFailed("broker 2", "lost"))
        return failed


class Cluster:
    """The leader of t. Its transaction coordinator is broker 1, which the test speaks for."""

    def __init__(self, directory: Path) -> None:
        self.leader = TxnBroker(directory)
        self.peer = Peer(self.leader)
        self.image: Any = Leaders(t=[LEADER], later=[LEADER], __transaction_state=[COORDINATOR])
        self.ended: list[Marker] = []
        self.asked = MemoryRequests()
        leader = self.leader
        own: Any = None
        self.markers = PeerMarkers(COORDINATOR, self.image, own, self.peer, leader.loop.call_soon)
        leader.config = _At(leader.config)
        leader.verifier = PeerVerifier(
            leader.config, self.image, own, self.asked, leader.partitions, leader.clock, leader.timers
        )

    def end(self, marker: Marker, topic: str = "t") -> Ending:
        """Begin to end a transaction, as its coordinator does."""
        ending = Ending(
            self.leader.timers,
            self.markers,
            "x",
            marker,
            [TopicPartition(topic, 0)],
            lambda: None,
            lambda: self.ended.append(marker),
        )
        ending.begin()
        self.leader.settle()
        return ending

    def wait(self) -> None:
        """Wait longer than for any retry."""
        self.leader.advance(LONGEST_RETRY_MS)
        self.leader.settle()

    def produce(self, epoch: int, sequence: int, version: int) -> Deferred[Struct] | Struct | None:
        """Write a record of the transaction, which the coordinator is asked about."""
        records = batch(
            b"v",
            timestamp=self.leader.clock.now_ms(),
            producer_id=7,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=0, records=records)
        topics = [TopicProduceData(name="t", partition_data=[data])]
        reply: Any = self.leader.send(
            PRODUCE, version, transactional_id="x", acks=-1, timeout_ms=30_000, topic_data=topics
        )
        self.leader.settle()
        return reply

    def write(self, epoch: int, sequence: int, version: int, code: ErrorCode = ErrorCode.NONE) -> ErrorCode:
        """Write a record, about which the coordinator answers `code` if it is asked."""
        reply = self.produce(epoch, sequence, version)
        if self.asked.sent:
            self.verified(code)
        return produced(reply)

    def verified(self, code: ErrorCode) -> None:
        result = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)
        topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[result])
        found = AddPartitionsToTxnResult(transactional_id="x", topic_results=[topic])
        assert self.asked.sent[0][0] == COORDINATOR
        self.asked.answer(results_by_transaction=[found])
        self.leader.settle()

    @property
    def ends(self) -> tuple[int, int]:
        """Return the last stable offset and the log end offset."""
        found = self.leader.partition("t")
        return found.last_stable_offset, found.log_end_offset


class _At:
    """The configuration of the leader: that of another node."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self.node_id = LEADER

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)


def produced(reply: Deferred[Struct] | Struct | None) -> ErrorCode:
    answer: Any = reply.result() if isinstance(reply, Deferred) else reply
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def marker(epoch: int, version: int = NEWER) -> Marker:
    return Marker(Producer(7, epoch), True, 3, version)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    made.leader.create("t")
    yield made
    made.leader.close()


def test_a_marker_waits_for_a_leader_that_does_not_host_the_partition_yet(cluster: Cluster) -> None:
    """The metadata of the coordinator have the partition. The leader follows them later."""
    cluster.end(marker(1), "later")
    cluster.wait()
    assert set(cluster.peer.answers) == {"UNKNOWN_TOPIC_OR_PARTITION"}
    assert cluster.ended == []
    cluster.leader.create("later")
    cluster.wait()
    assert cluster.ended == [marker(1)]
    assert cluster.leader.partition("later").log_end_offset == 1


def test_a_marker_is_not_needed_once_the_topic_is_deleted(cluster: Cluster) -> None:
    cluster.end(marker(1), "later")
    del cluster.image.topics["later"]
    cluster.wait()
    assert cluster.ended == [marker(1)]


def test_a_marker_whose_answer_was_lost_does_not_end_the_next_transaction(cluster: Cluster) -> None:
    """Its epoch is that of the next transaction, whose records came before the second marker (KAFKA-19999)."""
    assert cluster.write(0, 0, 12) is ErrorCode.NONE
    cluster.peer.lost = True
    cluster.end(marker(1))
    assert cluster.ends == (2, 2)
    assert cluster.write(1, 0, 12) is ErrorCode.NONE
    cluster.peer.lost = False
    cluster.wait()
    assert cluster.peer.answers[0] == "NONE"
    assert cluster.peer.answers[-1] == "INVALID_PRODUCER_EPOCH"
    assert cluster.ended == [marker(1)]
    assert cluster.ends == (2, 3)
    cluster.end(marker(2))
    assert cluster.ends == (4, 4)


def test_a_repeated_marker_without_a_transaction_changes_nothing(cluster: Cluster) -> None:
    assert cluster.write(0, 0, 12) is ErrorCode.NONE
    cluster.peer.lost = True
    ending = cluster.end(marker(1))
    cluster.peer.lost = False
    cluster.wait()
    assert not ending.write_if_waiting(lambda place: True)
    assert cluster.ended == [marker(1)]
    assert cluster.ends[0] == cluster.ends[1]
    assert cluster.write(1, 0, 12) is ErrorCode.NONE


def test_a_late_record_of_an_ended_epoch_opens_no_transaction(cluster: Cluster) -> None:
    """Or no marker would ever end it (KAFKA-14904). The epoch alone refuses it."""
    assert cluster.write(0, 0, 12) is ErrorCode.NONE
    cluster.end(marker(1))
    assert cluster.write(0, 1, 12) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert cluster.ends == (2, 2)


@pytest.mark.parametrize("code", [ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING])
def test_a_late_record_of_an_older_producer_opens_no_transaction(cluster: Cluster, code: ErrorCode) -> None:
    """Its epoch did not change: the coordinator says that the transaction has ended."""
    assert cluster.write(0, 0, 11) is ErrorCode.NONE
    cluster.end(marker(0, version=1))
    assert cluster.write(0, 1, 11, code) is code
    assert cluster.ends == (2, 2)


def test_a_record_that_waits_while_its_transaction_ends_is_refused(cluster: Cluster) -> None:
    """The coordinator answered before it ended the transaction; the marker came first (KAFKA-16352)."""
    assert cluster.write(0, 0, 11) is ErrorCode.NONE
    cluster.end(marker(0, version=1))
    waiting = cluster.produce(0, 1, 11)
    cluster.leader.advance(1)
    cluster.end(marker(0, version=1))
    cluster.verified(ErrorCode.NONE)
    assert produced(waiting) is ErrorCode.INVALID_TXN_STATE
    assert cluster.ends[0] == cluster.ends[1]


def test_a_record_that_waits_while_leadership_moves_is_refused(cluster: Cluster) -> None:
    waiting = cluster.produce(0, 0, 11)
    partition = cluster.leader.partition("t")
    cluster.leader.partitions.give_up(partition)
    cluster.verified(ErrorCode.NONE)
    assert produced(waiting) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.log.log_end_offset == 0


def test_the_coordinator_is_asked_in_the_form_of_the_producer(cluster: Cluster) -> None:
    for version, verify_only in ((11, True), (12, False)):
        cluster.produce(0, 0, version)
        (_, request) = cluster.asked.sent[-1]
        assert request.transactions[0].verify_only is verify_only
    assert ADD_PARTITIONS_TO_TXN.versions.max >= 4
