"""Read partitions at their leaders, for the metadata of tiered storage (KIP-405)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.membership.coordination.peer_requests import NO_RESULT
from broker.replicas.leader_reads import CannotRead, CommittedRecords, LeaderOffset
from metadata.partition_registration import NO_LEADER
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.membership.coordination.peer_requests import BrokerRequests
    from metadata.image import MetadataImage
    from protocol.client_session import Response


_CONSUMER = -1


class PeerReads:
    """LeaderReads by Fetch requests of a consumer, which do not wait."""

    def __init__(self, image: MetadataImage, peers: BrokerRequests) -> None:
        self._image = image
        self._peers = peers

    def read(self, topic: str, index: int, offset: int, max_bytes: int) -> Deferred[CommittedRecords]:
        """Read from `offset` on, at most so many bytes, but at least one batch."""
        read: Deferred[CommittedRecords] = Deferred()
        leader = self._leader(topic, index)
        if isinstance(leader, ErrorCode):
            read.fail(CannotRead(leader))
            return read
        found = self._image.topic(topic)
        assert found is not None
        wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
        request = FETCH.request(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max_bytes,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, topic_id=found.topic_id, partitions=[wanted])],
        )

        def take(done: Deferred[Response]) -> None:
            try:
                answer = done.result().fields.responses[0].partitions[0]
            except (*NO_RESULT, IndexError):
                read.fail(CannotRead(ErrorCode.NETWORK_EXCEPTION))
                return
            code = ErrorCode.of_peer(answer.error_code)
            if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                read.resolve(CommittedRecords(b"", answer.log_start_offset, answer.high_watermark))
            elif code is not ErrorCode.NONE:
                read.fail(CannotRead(code))
            else:
                records = bytes(answer.records or b"")
                read.resolve(CommittedRecords(records, answer.log_start_offset, answer.high_watermark))

        self._peers.request(leader, FETCH, request).add_done_callback(take)
        return read

    def find_offset(self, topic: str, index: int, timestamp: int) -> Deferred[LeaderOffset]:
        """Find the offset of a special timestamp."""
        found: Deferred[LeaderOffset] = Deferred()
        leader = self._leader(topic, index)
        if isinstance(leader, ErrorCode):
            found.fail(CannotRead(leader))
            return found
        wanted = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        topics = [ListOffsetsTopic(name=topic, partitions=[wanted])]
        request = LIST_OFFSETS.request(replica_id=_CONSUMER, topics=topics)

        def take(done: Deferred[Response]) -> None:
            try:
                answer = done.result().fields.topics[0].partitions[0]
            except (*NO_RESULT, IndexError):
                found.fail(CannotRead(ErrorCode.NETWORK_EXCEPTION))
                return
            code = ErrorCode.of_peer(answer.error_code)
            if code is ErrorCode.NONE:
                found.resolve(LeaderOffset(answer.offset, answer.leader_epoch))
            else:
                found.fail(CannotRead(code))

        self._peers.request(leader, LIST_OFFSETS, request).add_done_callback(take)
        return found

    def end_of_epoch(self, topic: str, index: int, leader_epoch: int) -> Deferred[LeaderOffset]:
        """Return the largest epoch of the leader's log up to this one, and its end (OffsetForLeaderEpoch)."""
        found: Deferred[LeaderOffset] = Deferred()
        leader = self._leader(topic, index)
        if isinstance(leader, ErrorCode):
            found.fail(CannotRead(leader))
            return found
        wanted = OffsetForLeaderPartition(partition=index, leader_epoch=leader_epoch)
        topics = [OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
        request = OFFSET_FOR_LEADER_EPOCH.request(replica_id=_CONSUMER, topics=topics)

        def take(done: Deferred[Response]) -> None:
            try:
                answer = done.result().fields.topics[0].partitions[0]
            except (*NO_RESULT, IndexError):
                found.fail(CannotRead(ErrorCode.NETWORK_EXCEPTION))
                return
            code = ErrorCode.of_peer(answer.error_code)
            if code is ErrorCode.NONE:
                found.resolve(LeaderOffset(answer.end_offset, answer.leader_epoch))
            else:
                found.fail(CannotRead(code))

        self._peers.request(leader, OFFSET_FOR_LEADER_EPOCH, request).add_done_callback(take)
        return found

    def _leader(self, topic: str, index: int) -> int | ErrorCode:
        found = self._image.topic(topic)
        registration = None if found is None else found.partitions.get(index)
        if registration is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.LEADER_NOT_AVAILABLE if registration.leader == NO_LEADER else registration.leader
