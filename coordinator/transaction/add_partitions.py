"""AddPartitionsToTxn and AddOffsetsToTxn: add partitions to a transaction, or verify that they are in it (KIP-890)."""

from __future__ import annotations

from coordinator.clock import Now
from coordinator.shard import Producer
from coordinator.transaction.shard import TransactionEffects, TransactionShard
from coordinator.transaction.state import PREPARED, TransactionState
from coordinator.transaction.transaction import TopicPartition
from protocol.error_codes import ErrorCode


def _check_producer(shard: TransactionShard, transactional_id: str, producer: Producer) -> ErrorCode:
    """Return NONE if a transaction may continue or begin with this producer.

    Errors: INVALID_REQUEST for an empty id, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED (also for future epochs),
    CONCURRENT_TRANSACTIONS.
    """
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    found = shard.transactions.get(transactional_id)
    if found is None or found.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if found.producer_epoch != producer.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if found.state in PREPARED else ErrorCode.NONE


def add_partitions(
    shard: TransactionShard,
    transactional_id: str,
    producer: Producer,
    partitions: frozenset[TopicPartition],
    client_version: int,
    now: Now,
    effects: TransactionEffects,
) -> ErrorCode:
    """Add the partitions.

    Errors are those of `_check_producer`. If all partitions are in already, nothing is written. While markers are being
    written, the response is CONCURRENT_TRANSACTIONS for every producer, as in Kafka: the next transaction may have an
    epoch or an id that only the completion makes valid.
    """
    ending = shard.transactions.get(transactional_id)
    if ending is not None and ending.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    code = _check_producer(shard, transactional_id, producer)
    if code is ErrorCode.NONE:
        found = shard.transactions[transactional_id]
        if found.state is not TransactionState.ONGOING or not partitions <= found.partitions:
            shard.write(found.with_partitions(partitions, client_version, now), effects)
    return code


def verify_partitions(
    shard: TransactionShard, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Return for each partition whether it is in the transaction.

    NONE, TRANSACTION_ABORTABLE if it is not, or an error of `_check_producer`.
    """
    code = _check_producer(shard, transactional_id, producer)
    if code is not ErrorCode.NONE:
        return dict.fromkeys(partitions, code)
    members = shard.transactions[transactional_id].partitions
    return {each: code if each in members else ErrorCode.TRANSACTION_ABORTABLE for each in partitions}
