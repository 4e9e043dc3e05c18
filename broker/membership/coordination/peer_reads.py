"""Read partitions at their leaders, for the metadata of tiered storage (KIP-405)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

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
from protocol.primitives import ZERO_UUID
from protocol.schema import Api, Struct
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.membership.coordination.peer_requests import BrokerRequests
    from metadata.image import MetadataImage
    from protocol.client_session import Response

T = TypeVar("T")

_CONSUMER = -1


class PeerReads:
    """LeaderReads by Fetch requests of a consumer, which do not wait."""

    def __init__(self, image: MetadataImage, peers: BrokerRequests) -> None:
        self._image = image
        self._peers = peers

    def read(self, topic: str, index: int, offset: int, max_bytes: int) -> Deferred[CommittedRecords]:
        """Read from `offset` on, at most so many bytes, but at least one batch."""
        found = self._image.topic(topic)
        wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
        topic_id = ZERO_UUID if found is None else found.topic_id
        request = FETCH.request(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max_bytes,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[wanted])],
        )

        def taken(fields: Struct) -> CommittedRecords:
            answer = fields.responses[0].partitions[0]
            code = ErrorCode.of_peer(answer.error_code)
            if code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                raise CannotRead(code)
            records = b"" if code else bytes(answer.records or b"")
            return CommittedRecords(records, answer.log_start_offset, answer.high_watermark)

        return self._ask_leader(topic, index, FETCH, request, taken)

    def find_offset(self, topic: str, index: int, timestamp: int) -> Deferred[LeaderOffset]:
        """Find the offset of a special timestamp."""
        wanted = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        topics = [ListOffsetsTopic(name=topic, partitions=[wanted])]
        request = LIST_OFFSETS.request(replica_id=_CONSUMER, topics=topics)

        def taken(fields: Struct) -> LeaderOffset:
            answer = _sound(fields.topics[0].partitions[0])
            return LeaderOffset(answer.offset, answer.leader_epoch)

        return self._ask_leader(topic, index, LIST_OFFSETS, request, taken)

    def end_of_epoch(self, topic: str, index: int, leader_epoch: int) -> Deferred[LeaderOffset]:
        """Return the largest epoch of the leader's log up to this one, and its end (OffsetForLeaderEpoch)."""
        wanted = OffsetForLeaderPartition(partition=index, leader_epoch=leader_epoch)
        topics = [OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
        request = OFFSET_FOR_LEADER_EPOCH.request(replica_id=_CONSUMER, topics=topics)

        def taken(fields: Struct) -> LeaderOffset:
            answer = _sound(fields.topics[0].partitions[0])
            return LeaderOffset(answer.end_offset, answer.leader_epoch)

        return self._ask_leader(topic, index, OFFSET_FOR_LEADER_EPOCH, request, taken)

    def _ask_leader(
        self, topic: str, index: int, api: Api, request: Struct, taken: Callable[[Struct], T]
    ) -> Deferred[T]:
        """Send a request to a partition's leader. `taken` returns the result in a response, or raises CannotRead."""
        result: Deferred[T] = Deferred()
        leader = self._leader(topic, index)
        if isinstance(leader, ErrorCode):
            result.fail(CannotRead(leader))
            return result

        def take(done: Deferred[Response]) -> None:
            try:
                found = taken(done.result().fields)
            except (*NO_RESULT, IndexError):
                result.fail(CannotRead(ErrorCode.NETWORK_EXCEPTION))
            except CannotRead as error:
                result.fail(error)
            else:
                result.resolve(found)

        self._peers.request(leader, api, request).add_done_callback(take)
        return result

    def _leader(self, topic: str, index: int) -> int | ErrorCode:
        found = self._image.topic(topic)
        registration = None if found is None else found.partitions.get(index)
        if registration is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.LEADER_NOT_AVAILABLE if registration.leader == NO_LEADER else registration.leader


def _sound(answer: Struct) -> Struct:
    """Return an answer for a partition. Raises CannotRead with its error."""
    code = ErrorCode.of_peer(answer.error_code)
    if code is not ErrorCode.NONE:
        raise CannotRead(code)
    return answer
