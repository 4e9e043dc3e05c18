"""Write markers into the partitions of all brokers: Kafka's TransactionMarkerChannelManager (KIP-98, KIP-1228)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from broker.coordinators.transaction.markers import Marker, MarkerWriter
from broker.membership.coordination.peer_batches import PeerBatches, results_of
from broker.requests.error_code_map import error_code_of
from metadata.partition_registration import NO_LEADER
from protocol.client_session import Response
from protocol.error_codes import ErrorCode
from protocol.messages.write_txn_markers import WRITE_TXN_MARKERS, WritableTxnMarker, WritableTxnMarkerTopic
from protocol.schema import Struct
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.membership.coordination.peer_requests import BrokerRequests
    from metadata.image import MetadataImage

_Place = tuple[str, int]
_Asked = dict[tuple[Marker, _Place], Deferred[ErrorCode]]


class PeerMarkers:
    """A MarkerWriter for all partitions of the cluster.

    The markers of one turn of the loop that have the same leader are one request. A marker that fails is the caller's
    to write again: it then goes to the leader of that time. UNKNOWN_TOPIC_OR_PARTITION is the answer only if the
    metadata has no such partition.

    Args:
        own: writes into the partitions that this broker leads.
        call_soon: calls a function in the next turn of the loop.
    """

    def __init__(
        self,
        node_id: int,
        image: MetadataImage,
        own: MarkerWriter,
        peers: BrokerRequests,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._own = own
        self._peers = peers
        self._batches: PeerBatches[int, tuple[Marker, _Place], Deferred[ErrorCode]] = PeerBatches(
            call_soon, self._send, self._take
        )

    def write(self, marker: Marker, topic: str, index: int) -> ErrorCode | Deferred[ErrorCode]:
        """Write a marker. Errors: as for `PartitionMarkers.write`, and NETWORK_EXCEPTION, LEADER_NOT_AVAILABLE."""
        found = self._image.topic(topic)
        registration = None if found is None else found.partitions.get(index)
        if registration is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if registration.leader == NO_LEADER:
            return ErrorCode.LEADER_NOT_AVAILABLE
        if registration.leader == self._node_id:
            return self._write_here(marker, topic, index)
        return self._batches.add(registration.leader, (marker, (topic, index)), Deferred())

    def _write_here(self, marker: Marker, topic: str, index: int) -> ErrorCode | Deferred[ErrorCode]:
        code = self._own.write(marker, topic, index)
        if not isinstance(code, Deferred):
            return self._meant(topic, index, code)
        answered: Deferred[ErrorCode] = Deferred()

        def take(done: Deferred[ErrorCode]) -> None:
            try:
                answered.resolve(self._meant(topic, index, done.result()))
            except Exception as error:  # other replicas, or the disk, do not have the marker
                answered.resolve(error_code_of(error))

        code.add_done_callback(take)
        return answered

    def _meant(self, topic: str, index: int, code: ErrorCode) -> ErrorCode:
        """Return what a broker's code means. It may not know yet that a partition exists."""
        found = self._image.topic(topic)
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and found is not None and index in found.partitions:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return code

    # -- requests ----------------------------------------------------------------------------------------------------

    def _send(self, broker_id: int, asked: _Asked) -> Deferred[Response]:
        markers: dict[Marker, list[_Place]] = {}
        for marker, place in asked:
            markers.setdefault(marker, []).append(place)
        request = WRITE_TXN_MARKERS.request(markers=[_markers(marker, places) for marker, places in markers.items()])
        return self._peers.request(broker_id, WRITE_TXN_MARKERS, request)

    def _take(self, asked: _Asked, done: Deferred[Response]) -> None:
        codes, missing = results_of(done, _codes)
        for (marker, (topic, index)), answered in asked.items():
            code = codes.get((marker.producer.producer_id, topic, index), missing)
            answered.resolve(self._meant(topic, index, code))


def _codes(answer: Struct) -> Iterator[tuple[tuple[int, str, int], ErrorCode]]:
    for marker in answer.markers:
        for topic in marker.topics:
            for each in topic.partitions:
                yield (marker.producer_id, topic.name, each.partition_index), ErrorCode.of_peer(each.error_code)


def _markers(marker: Marker, places: list[_Place]) -> Struct:
    topics: dict[str, list[int]] = {}
    for topic, index in places:
        topics.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=marker.producer.producer_id,
        producer_epoch=marker.producer.producer_epoch,
        transaction_result=marker.committed,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
    )
