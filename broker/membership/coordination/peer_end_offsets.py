"""End offsets of partitions that other brokers lead: Kafka's NetworkPartitionMetadataClient (KIP-1226)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.membership.coordination.peer_batches import PeerBatches, results_of
from broker.replicas.end_offsets import PartitionEndOffsets
from coordinator.group.refused import Refused
from metadata.partition_registration import NO_LEADER
from protocol.client_session import Response
from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from runtime.deferred import Deferred, settled
from storage.checkpoints import TopicPartition

if TYPE_CHECKING:
    from broker.membership.coordination.peer_requests import BrokerRequests
    from broker.replicas.partitions import Partitions
    from metadata.image import MetadataImage
    from protocol.schema import Struct
    from runtime.timers import Timers

#: How long metrics wait for other brokers. Kafka's metrics do not have these values.
_SOON_MS = 1_000
#: ListOffsets: a consumer asks, for the end.
_CONSUMER, _LATEST = -1, -1
_Asked = dict[TopicPartition, Deferred[int]]


class PeerEndOffsets:
    """Asks the leader of a partition, whichever broker it is.

    The partitions of one turn of the loop that have the same leader are one request.

    Args:
        own: those of the partitions that this broker leads.
        call_soon: calls a function in the next turn of the loop.
    """

    def __init__(
        self,
        node_id: int,
        image: MetadataImage,
        partitions: Partitions,
        peers: BrokerRequests,
        timers: Timers,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._own = PartitionEndOffsets(partitions)
        self._peers = peers
        self._timers = timers
        self._batches: PeerBatches[int, TopicPartition, Deferred[int]] = PeerBatches(call_soon, self._send, self._take)
        self.known_ends: Mapping[TopicPartition, int] = {}

    def end_offset(self, topic: str, partition: int) -> Deferred[int]:
        """Resolve to the high watermark.

        Fails with Refused: the leader's code, LEADER_NOT_AVAILABLE, NETWORK_EXCEPTION if it does not answer.
        """
        leader = self._leader(topic, partition)
        if leader is None or leader == self._node_id:
            return self._own.end_offset(topic, partition)
        if leader == NO_LEADER:
            failed: Deferred[int] = Deferred()
            failed.fail(_refusal(ErrorCode.LEADER_NOT_AVAILABLE))
            return failed
        return self._batches.add(leader, (topic, partition), Deferred())

    def learn_ends(self, places: Iterable[TopicPartition]) -> Deferred[None]:
        """Ask the other leaders for the high watermarks of those of these partitions that they lead.

        Resolves after a second at most, with those that have answered by then.
        """
        asked = {each: self.end_offset(*each) for each in places if self._leader(*each) not in (None, self._node_id)}
        learned: Deferred[None] = Deferred()

        def keep() -> None:
            timer.cancel()
            if learned.done:
                return
            self.known_ends = dict(_known(asked))
            learned.resolve(None)

        timer = self._timers.call_later(_SOON_MS, keep)
        settled(list(asked.values())).add_done_callback(lambda _: keep())
        return learned

    def _leader(self, topic: str, partition: int) -> int | None:
        found = self._image.topic(topic)
        registration = None if found is None else found.partitions.get(partition)
        return None if registration is None else registration.leader

    # -- requests ----------------------------------------------------------------------------------------------------

    def _send(self, broker_id: int, asked: _Asked) -> Deferred[Response]:
        topics: dict[str, list[Struct]] = {}
        for topic, partition in asked:
            wanted = ListOffsetsPartition(partition_index=partition, timestamp=_LATEST)
            topics.setdefault(topic, []).append(wanted)
        request = LIST_OFFSETS.request(
            replica_id=_CONSUMER,
            topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        )
        return self._peers.request(broker_id, LIST_OFFSETS, request)

    def _take(self, asked: _Asked, done: Deferred[Response]) -> None:
        found, missing = results_of(done, _partitions)
        for place, ended in asked.items():
            answered = found.get(place)
            code = missing if answered is None else ErrorCode.of_peer(answered.error_code)
            if answered is None or code is not ErrorCode.NONE:
                ended.fail(_refusal(code))
            else:
                ended.resolve(answered.offset)


def _partitions(answer: Struct) -> Iterator[tuple[TopicPartition, Struct]]:
    for topic in answer.topics:
        for each in topic.partitions:
            yield (topic.name, each.partition_index), each


def _known(asked: _Asked) -> Iterator[tuple[TopicPartition, int]]:
    for place, ended in asked.items():
        if ended.done:
            with suppress(Refused):  # the lag is not known meanwhile
                yield place, ended.result()


def _refusal(code: ErrorCode) -> Refused:
    return Refused(code, code.text)
