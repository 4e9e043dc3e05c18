"""Append the broker's own batches to partitions that any broker leads, such as dead letters (KIP-1191)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.membership.coordination.peer_requests import NO_RESULT
from metadata.partition_registration import NO_LEADER
from protocol.error_codes import ErrorCode
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.membership.coordination.peer_requests import BrokerRequests
    from broker.replicas.own_appends import OwnAppends
    from metadata.image import MetadataImage, TopicImage
    from protocol.client_session import Response

_ALL = -1


class PeerAppends:
    """OwnAppends for all partitions of the cluster: those of other leaders get a Produce request.

    Args:
        own: appends to the partitions that this broker leads.
        timeout_ms: how long another leader waits for its replicas.
    """

    def __init__(
        self, node_id: int, image: MetadataImage, own: OwnAppends, peers: BrokerRequests, timeout_ms: int
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._own = own
        self._peers = peers
        self._timeout_ms = timeout_ms

    def append(self, topic: str, index: int, records: bytes) -> ErrorCode | Deferred[ErrorCode]:
        """Append a batch with acks=all.

        Errors: as for `PartitionAppends.append`, the leader's code, NETWORK_EXCEPTION, LEADER_NOT_AVAILABLE. The
        Deferred does not fail.
        """
        found = self._image.topic(topic)
        registration = None if found is None else found.partitions.get(index)
        if found is None or registration is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if registration.leader == NO_LEADER:
            return ErrorCode.LEADER_NOT_AVAILABLE
        if registration.leader == self._node_id:
            return self._own.append(topic, index, records)
        return self._send(registration.leader, found, index, records)

    def _send(self, leader: int, topic: TopicImage, index: int, records: bytes) -> Deferred[ErrorCode]:
        data = TopicProduceData(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_data=[PartitionProduceData(index=index, records=records)],
        )
        request = PRODUCE.request(acks=_ALL, timeout_ms=self._timeout_ms, topic_data=[data])
        appended: Deferred[ErrorCode] = Deferred()

        def take(done: Deferred[Response]) -> None:
            try:
                answer = done.result().fields.responses[0].partition_responses[0]
                appended.resolve(ErrorCode.of_peer(answer.error_code))
            except NO_RESULT:
                appended.resolve(ErrorCode.NETWORK_EXCEPTION)

        self._peers.request(leader, PRODUCE, request).add_done_callback(take)
        return appended
