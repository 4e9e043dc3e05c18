"""Read partitions at their leaders, for the metadata of tiered storage (KIP-405)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.membership.coordination.peer_requests import NO_RESULT
from broker.replicas.leader_reads import CannotRead, CommittedRecords
from metadata.partition_registration import NO_LEADER
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.membership.coordination.peer_requests import BrokerRequests
    from metadata.image import MetadataImage
    from protocol.client_session import Response


class PeerReads:
    """LeaderReads by Fetch requests of a consumer, which do not wait."""

    def __init__(self, image: MetadataImage, peers: BrokerRequests) -> None:
        self._image = image
        self._peers = peers

    def read(self, topic: str, index: int, offset: int, max_bytes: int) -> Deferred[CommittedRecords]:
        """Read from `offset` on, at most so many bytes, but at least one batch."""
        found = self._image.topic(topic)
        registration = None if found is None else found.partitions.get(index)
        read: Deferred[CommittedRecords] = Deferred()
        if found is None or registration is None or registration.leader == NO_LEADER:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if registration is None else ErrorCode.LEADER_NOT_AVAILABLE
            read.fail(CannotRead(code))
            return read
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

        self._peers.request(registration.leader, FETCH, request).add_done_callback(take)
        return read
