"""Verify transactions with their coordinators on other brokers: Kafka's AddPartitionsToTxnManager (KIP-890)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from broker.coordinators.transaction.verifier import FIRST_VERSION_THAT_JOINS, FirstBatch, TransactionVerifier
from broker.membership.coordination.peer_requests import NO_RESULT
from coordinator.partition_for_key import partition_for
from coordinator.transaction.transaction import TopicPartition
from metadata.partition_registration import NO_LEADER
from metadata.topic_names import TRANSACTION_STATE
from protocol.client_session import Response
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.schema import Struct
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.membership.coordination.peer_requests import BrokerRequests
    from broker.replicas.partitions import Partitions
    from config import BrokerConfig
    from metadata.image import MetadataImage
    from runtime.clock import Clock
    from runtime.timers import Timers

Codes = Mapping[TopicPartition, ErrorCode]


class PeerVerifier:
    """Asks the coordinator of a transactional id, on whichever broker it is.

    While the previous transaction is being ended it retries, as `CoordinatorVerifier` does. A coordinator that does not
    answer is COORDINATOR_NOT_AVAILABLE.

    Args:
        own: asks the coordinator of this broker.
        partitions: those that this broker leads. They show whether a marker came before the answer.
    """

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        own: TransactionVerifier,
        peers: BrokerRequests,
        partitions: Partitions,
        clock: Clock,
        timers: Timers,
    ) -> None:
        self._config = config
        self._image = image
        self._own = own
        self._peers = peers
        self._partitions = partitions
        self._clock = clock
        self._timers = timers

    def coordinator_of(self, transactional_id: str) -> int | None:
        """Return the broker that leads the partition of an id, NO_LEADER for nobody; None while there is no topic."""
        topic = self._image.topic(TRANSACTION_STATE)
        if topic is None:
            return None
        return topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader

    def verify(self, transactional_id: str, batches: Sequence[FirstBatch], api_version: int) -> Codes | Deferred[Codes]:
        """Return the codes, as `TransactionVerifier.verify`."""
        coordinator = self.coordinator_of(transactional_id)
        if coordinator is None or coordinator == self._config.node_id or not transactional_id:
            return self._own.verify(transactional_id, batches, api_version)
        joins = api_version >= FIRST_VERSION_THAT_JOINS
        if not joins and not self._config.get_bool("transaction.partition.verification.enable"):
            return {}
        get_int = self._config.get_int
        patience_ms = min(get_int("add.partitions.to.txn.retry.backoff.max.ms"), get_int("request.timeout.ms"))
        answered: Deferred[Codes] = Deferred()
        until_ms = self._clock.monotonic_ms() + patience_ms
        self._ask(transactional_id, list(batches), joins, until_ms, answered)
        return answered

    def _ask(
        self, transactional_id: str, batches: list[FirstBatch], joins: bool, until_ms: int, answered: Deferred[Codes]
    ) -> None:
        before = {each.place: self._state(each) for each in batches}

        def take(done: Deferred[Response]) -> None:
            try:
                codes = _codes(batches, done.result().fields)
            except NO_RESULT:
                codes = {each.place: ErrorCode.COORDINATOR_NOT_AVAILABLE for each in batches}
            is_early = joins and ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
            if is_early and self._clock.monotonic_ms() < until_ms:
                self._timers.call_later(
                    self._config.get_int("add.partitions.to.txn.retry.backoff.ms"),
                    lambda: self._ask(transactional_id, batches, joins, until_ms, answered),
                )
                return
            if not joins:  # later producers have another epoch after each marker
                for each in batches:
                    if codes[each.place] is ErrorCode.NONE and self._state(each) != before[each.place]:
                        codes[each.place] = ErrorCode.INVALID_TXN_STATE
            answered.resolve(codes)

        coordinator = self.coordinator_of(transactional_id)
        request = _request(transactional_id, batches, verify_only=not joins)
        self._peers.request(
            NO_LEADER if coordinator is None else coordinator, ADD_PARTITIONS_TO_TXN, request
        ).add_done_callback(take)

    def _state(self, batch: FirstBatch) -> tuple[int, ...] | None:
        """Return what a marker changes of the producer's state in a partition."""
        partition = self._partitions.get(*batch.place)
        log = None if partition is None else partition.find_log()
        entry = None if log is None else log.producer_state.producers.get(batch.producer.producer_id)
        if entry is None:
            return None
        return entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp, entry.transaction_offset


def _request(transactional_id: str, batches: Sequence[FirstBatch], *, verify_only: bool) -> Struct:
    topics: dict[str, list[int]] = {}
    for each in batches:
        topics.setdefault(each.place.topic, []).append(each.place.partition)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=batches[0].producer.producer_id,
        producer_epoch=batches[0].producer.producer_epoch,
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
    )
    return ADD_PARTITIONS_TO_TXN.request(transactions=[transaction])


def _codes(batches: Sequence[FirstBatch], answer: Struct) -> dict[TopicPartition, ErrorCode]:
    """Return the code of each partition. An error of the whole request is that of all."""
    whole = ErrorCode.of_peer(answer.error_code)
    codes = {each.place: whole or ErrorCode.UNKNOWN_SERVER_ERROR for each in batches}
    if whole is ErrorCode.NONE:
        for transaction in answer.results_by_transaction:
            for topic in transaction.topic_results:
                for each in topic.results_by_partition:
                    codes[TopicPartition(topic.name, each.partition_index)] = ErrorCode.of_peer(
                        each.partition_error_code
                    )
    return codes
