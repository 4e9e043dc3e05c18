"""Check that partitions take part in a transaction before its records are appended to them (KIP-890).

The check asks the coordinator before a partition's first batch of a transaction. After that the log itself knows that
a transaction is open. From Produce v12 on, writing to a partition adds it to the transaction. Before v12 a request
must have added it: otherwise the batch would open a transaction that nobody ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from struct import Struct as Layout
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from broker.coordinators.transaction.verifier import FIRST_VERSION_THAT_JOINS, FirstBatch, TransactionVerifier, Verdict
from broker.replicas.partition import Partition
from broker.requests.error_code_map import error_code_of
from broker.requests.served_api import Reply
from coordinator.shard import Producer
from coordinator.transaction.transaction import TopicPartition
from protocol.error_codes import ErrorCode
from protocol.records.batch import LOG_OVERHEAD, TRANSACTIONAL_BIT
from protocol.schema import Struct
from runtime.deferred import Deferred, after
from storage.errors import LogOffline

if TYPE_CHECKING:
    from broker.replicas.partitions import Partitions

#: length, magic, attributes (the low byte), producer id, its epoch, first sequence.
_peek = Layout(">8xi4xb5xB20xqhi").unpack_from
_PEEKED_BYTES = 57
_MAGIC = 2

FIRST_VERSION_KNOWING_ABORTABLE = 11

#: The retriable code for clients that do not know these codes. It does not make them refresh their metadata.
_TRY_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


NO_VERDICTS: Mapping[TopicPartition, Verdict] = MappingProxyType({})


class VerificationResult(NamedTuple):
    """The partitions of a request that reject their batches, and the batches that need the coordinator's verdict."""

    verdicts: Mapping[TopicPartition, Verdict]
    first: list[FirstBatch]


def when_verified(
    partitions: Partitions,
    verifier: TransactionVerifier,
    api_version: int,
    request: Struct,
    serve: Callable[[Mapping[TopicPartition, Verdict]], Reply],
) -> Reply:
    """Return what `serve(verdicts)` answers to a Produce with a transactional id: usually at once.

    Records of more than one producer make all partitions fail with INVALID_PRODUCER_ID_MAPPING. `serve` is called
    even if the client disconnects meanwhile: the partitions have joined the transaction, so they get their records.
    """
    found = _look(partitions, api_version, request)
    if not found.first:
        return serve(found.verdicts)
    codes = verifier.verify(request.transactional_id, found.first, api_version)
    if not isinstance(codes, Deferred):
        return serve(_conclude(api_version, found, codes))
    asked = codes
    _copy_records(request)
    return after(asked, lambda: serve(_conclude(api_version, found, asked.result())), even_if_cancelled=True)


def _copy_records(request: Struct) -> None:
    """Copy the records of a request that waits: they lie in its connection's buffer."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = memoryview(bytearray(data.records))


def _look(partitions: Partitions, api_version: int, request: Struct) -> VerificationResult:
    """Return the partitions' own verdicts, and the batches for which the coordinator must be asked."""
    found = list(_batches(partitions, api_version, request))
    if len({batch.producer for batch in found}) > 1:
        refused = Verdict(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return VerificationResult({batch.place: refused for batch in found}, [])
    return VerificationResult(
        {batch.place: batch.refused for batch in found if batch.refused is not None},
        [batch for batch in found if batch.sequence >= 0 and batch.refused is None],
    )


def _conclude(
    api_version: int, found: VerificationResult, codes: Mapping[TopicPartition, ErrorCode]
) -> Mapping[TopicPartition, Verdict]:
    """Combine the partitions' own verdicts with the coordinator's."""
    refusals = dict(found.verdicts)
    refusals |= {place: verdict_of(code, api_version) for place, code in codes.items() if code is not ErrorCode.NONE}
    if api_version >= FIRST_VERSION_THAT_JOINS:
        for batch in found.first:
            if batch.sequence and not batch.is_known:
                refusals.setdefault(batch.place, Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
    return refusals


def verdict_of(code: ErrorCode, api_version: int) -> Verdict:
    """Translate the coordinator's code into one that the producer knows."""
    if code is ErrorCode.PRODUCER_FENCED:
        return Verdict(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and api_version < FIRST_VERSION_KNOWING_ABORTABLE:
        return Verdict(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
    if code in _TRY_AGAIN or (code is ErrorCode.CONCURRENT_TRANSACTIONS and api_version < FIRST_VERSION_THAT_JOINS):
        message = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return Verdict(ErrorCode.NOT_ENOUGH_REPLICAS, message)
    return Verdict(code)


def _batches(partitions: Partitions, api_version: int, request: Struct) -> Iterator[FirstBatch]:
    """Yield the transactional batches; where the transaction is open already, only those with a sequence below 0."""
    for topic in request.topic_data:
        name = topic.name if api_version < 13 else partitions.topic_name(topic.topic_id)
        for data in topic.partition_data:
            records = data.records
            partition = None if name is None else partitions.get(name, data.index)
            if partition is None or records is None or len(records) < _PEEKED_BYTES:
                continue
            length, magic, attributes, producer_id, epoch, sequence = _peek(records)
            is_whole = magic == _MAGIC and length + LOG_OVERHEAD <= len(records)
            if is_whole and attributes & TRANSACTIONAL_BIT and producer_id >= 0:
                place, producer = TopicPartition(partition.topic, partition.index), Producer(producer_id, epoch)
                yield _first_batch(partition, place, producer, max(sequence, 0))


def _first_batch(partition: Partition, place: TopicPartition, producer: Producer, sequence: int) -> FirstBatch:
    try:
        log = partition.log
    except LogOffline as error:  # the log may come back before the coordinator answers for the others
        return FirstBatch(place, producer, sequence, False, Verdict(error_code_of(error)))
    entry = log.producer_state.producers.get(producer.producer_id)
    is_fenced = entry is not None and producer.producer_epoch < entry.producer_epoch
    sequence = -1 if is_open(partition, producer) else sequence
    refused = Verdict(ErrorCode.INVALID_PRODUCER_EPOCH) if is_fenced else None
    return FirstBatch(place, producer, sequence, entry is not None, refused)


def is_open(partition: Partition, producer: Producer) -> bool:
    """Return whether the partition has a transaction of this producer and this epoch open.

    The answer is uncertain while appends wait there: one of them may be the marker that ends the transaction.
    """
    entry = partition.log.producer_state.producers.get(producer.producer_id)
    return (
        entry is not None
        and entry.transaction_offset >= 0
        and entry.producer_epoch == producer.producer_epoch
        and partition.queue is None
    )
