"""Carry out operations on share state at the share coordinator, on whichever broker it is.

Kafka's PersisterStateManager. The operations of one turn of the loop that have the same coordinator, group and API are
one request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from broker.membership.coordination.peer_batches import PeerBatches, results_of
from coordinator.group.refused import Refused
from coordinator.partition_for_key import partition_for
from coordinator.share.state import ShareKey
from metadata.partition_registration import NO_LEADER
from metadata.topic_names import SHARE_GROUP_STATE
from protocol.client_session import Response
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.coordinators.share.coordinator import ShareCoordinator
    from broker.membership.coordination.peer_requests import BrokerRequests
    from broker.membership.coordination.share_operations import ShareOperation, T
    from metadata.image import MetadataImage
    from protocol.schema import Api, Struct
    from runtime.clock import Clock
    from runtime.timers import Timers

#: Kafka waits from 1 s to 30 s. The coordinator moves within milliseconds when a broker stops in order.
_FIRST_BACKOFF_MS, _MOST_BACKOFF_MS = 50, 1_000
#: Errors of a coordinator that is moving, or that has not followed the metadata yet. The operation is repeated: it has
#: the same result if it was carried out before.
_MOVING = frozenset(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
    )
)


class _Attempt(msgspec.Struct, eq=False):
    """An operation until it has a result. `until_ms`: of the monotonic clock; `count`: how often it was tried."""

    operation: ShareOperation[Any]
    until_ms: int
    answered: Deferred[Any]
    backoff_ms: int = _FIRST_BACKOFF_MS
    count: int = 0


class _Target(NamedTuple):
    broker_id: int
    api: Api
    group_id: str


class ShareStateRequests:
    """The way to the states of all share-partitions.

    Args:
        own: the coordinator of this broker.
        call_soon: calls a function in the next turn of the loop.
        patience_ms: how long an operation is repeated while the coordinator moves.
    """

    def __init__(
        self,
        node_id: int,
        image: MetadataImage,
        own: ShareCoordinator,
        peers: BrokerRequests,
        clock: Clock,
        timers: Timers,
        call_soon: Callable[[Callable[[], None]], object],
        patience_ms: int,
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._own = own
        self._peers = peers
        self._clock = clock
        self._timers = timers
        self._patience_ms = patience_ms
        self._batches: PeerBatches[_Target, _Attempt, int] = PeerBatches(call_soon, self._send, self._take)
        #: The broker that each attempt without an answer was sent to.
        self._sent: dict[_Attempt, int] = {}

    def coordinator_of(self, share: ShareKey) -> int | None:
        """Return the broker that leads the partition of a key, NO_LEADER for none; None while there is no topic."""
        topic = self._image.topic(SHARE_GROUP_STATE)
        if topic is None:
            return None
        found = topic.partitions.get(partition_for(share.coordinator_key, len(topic.partitions)))
        return NO_LEADER if found is None else found.leader

    def run(self, operation: ShareOperation[T]) -> Deferred[T]:
        """Return the result once it is committed.

        Fails with Refused: NOT_COORDINATOR without the topic, unless the caller has created it;
        COORDINATOR_NOT_AVAILABLE if the coordinator does not answer in time, and the coordinator's other errors.
        """
        attempt = _Attempt(operation, self._clock.monotonic_ms() + self._patience_ms, Deferred())
        self._try(attempt)
        return attempt.answered

    def coordinators_moved(self) -> None:
        """Send operations again whose coordinator has moved: the former one may be frozen."""
        for attempt, broker_id in list(self._sent.items()):
            if self.coordinator_of(attempt.operation.share) != broker_id:
                del self._sent[attempt]
                self._try(attempt)

    def _try(self, attempt: _Attempt) -> None:
        attempt.count += 1
        coordinator = self.coordinator_of(attempt.operation.share)
        if coordinator is None and not attempt.operation.has_topic:
            _refuse(attempt, ErrorCode.NOT_COORDINATOR)
        elif coordinator == self._node_id:
            self._run_here(attempt)
        elif coordinator is None or coordinator == NO_LEADER:
            self._retry(attempt, ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
        else:
            operation = attempt.operation
            self._batches.add(_Target(coordinator, operation.api, operation.share.group_id), attempt, attempt.count)

    def _retry(self, attempt: _Attempt, code: ErrorCode, message: str | None) -> None:
        """Try again later if the coordinator may have moved; otherwise fail."""
        topic_id, partition = attempt.operation.share.topic_id, attempt.operation.share.partition
        topic = self._image.topic_by_id(topic_id)
        is_early = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic is not None and partition in topic.partitions
        if not is_early and code not in _MOVING:
            _refuse(attempt, code, message)
        elif self._clock.monotonic_ms() >= attempt.until_ms:
            _refuse(attempt, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            backoff_ms = attempt.backoff_ms
            attempt.backoff_ms = min(2 * backoff_ms, _MOST_BACKOFF_MS)
            self._timers.call_later(backoff_ms, lambda: self._try(attempt))

    # -- this broker -------------------------------------------------------------------------------------------------

    def _run_here(self, attempt: _Attempt) -> None:
        operation = attempt.operation
        try:
            found = operation.run(self._own)
        except Refused as refusal:
            self._retry(attempt, refusal.code, refusal.message)
            return
        waited = self._own.once_committed(operation.share.coordinator_key, lambda: ErrorCode.NONE, lambda code: code)

        def on_committed(done: Deferred[ErrorCode]) -> None:
            code = done.result()
            if code is ErrorCode.NONE:
                attempt.answered.resolve(found)
            else:
                self._retry(attempt, code, None)

        if waited is None:
            attempt.answered.resolve(found)
        else:
            waited.add_done_callback(on_committed)

    # -- other brokers -----------------------------------------------------------------------------------------------

    def _send(self, target: _Target, attempts: dict[_Attempt, int]) -> Deferred[Response]:
        topics: dict[bytes, list[Any]] = {}
        for each in attempts:
            topics.setdefault(each.operation.share.topic_id, []).append(each.operation.partition())
        make = next(iter(attempts)).operation.topic_type
        request = target.api.request(
            group_id=target.group_id,
            topics=[make(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()],
        )
        self._sent |= dict.fromkeys(attempts, target.broker_id)
        return self._peers.request(target.broker_id, target.api, request)

    def _take(self, sent: dict[_Attempt, int], done: Deferred[Response]) -> None:
        results, missing = results_of(done, _results)
        for attempt, count in sent.items():
            if attempt.count != count:
                continue  # it was sent to another broker meanwhile
            self._sent.pop(attempt, None)
            share = attempt.operation.share
            found = results.get((share.topic_id, share.partition))
            if found is None:
                self._retry(attempt, missing, None)
            elif found.error_code:
                self._retry(attempt, ErrorCode.of_peer(found.error_code), found.error_message)
            else:
                attempt.answered.resolve(attempt.operation.result(found))


def _results(answer: Struct) -> Iterator[tuple[tuple[bytes, int], Struct]]:
    for topic in answer.results:
        for each in topic.partitions:
            yield (topic.topic_id, each.partition), each


def _refuse(attempt: _Attempt, code: ErrorCode, message: str | None = None) -> None:
    attempt.answered.fail(Refused(code, code.text if message is None else message))
