"""Produce v3-v13: append record batches to the logs of partitions.

Versions: v3 transactional id (KIP-98); v5 log start offset (KIP-207); v7 zstd (KIP-110); v8 record errors (KIP-467);
v9 flexible; v10 the new leader where this is not it (KIP-951); v12 adds partitions to transactions implicitly
(KIP-890); v13 topic ids (KIP-516). v0-v2, which carry message sets, are advertised as Apache Kafka does and not
served, as there. Not served: batches of transactions, whose ids no coordinator knows yet:
INVALID_PRODUCER_ID_MAPPING.

One straight walk a partition, with no work a record: find it, look at 5 bytes of the batch, append. acks 0 is not
answered; an error then closes the connection, so that the producer sees that something went wrong. acks 1 and all are
the same with one replica.
"""

from __future__ import annotations

from struct import Struct as Layout

from broker.deferred import Deferred
from broker.dispatch import CloseConnection, RequestContext, handles
from broker.error_map import error_code_of
from broker.partition import Partition
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    PRODUCE,
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    TopicProduceResponse,
)
from protocol.records.batch import CODEC_MASK, HEADER_SIZE, LOG_OVERHEAD, MIN_ENTRY_LENGTH, TRANSACTIONAL_BIT
from protocol.records.compression import Codec
from protocol.records.errors import CorruptBatch, InvalidRecord, UnsupportedCodec
from protocol.schema import Struct
from storage.errors import AppendRefused, CorruptRecords, LogOffline, RecordBatchTooLarge, RecordTooLarge

_new_response = PRODUCE.response.new
_new_topic = TopicProduceResponse.new
_new_partition = PartitionProduceResponse.new

#: Length and magic of a batch; its attributes' low byte lies at 22.
_LENGTH_AND_MAGIC = Layout(">8xi4xb")
_ATTRIBUTES = 22

#: The client id by which tools of Apache Kafka are known, who may write to internal topics.
_ADMIN_CLIENT_ID = "__admin_client"

#: After these Kafka does not tell the log start offset.
_WITHOUT_LOG_START = (CorruptRecords, CorruptBatch, RecordTooLarge, RecordBatchTooLarge, LogOffline)


@handles(PRODUCE, versions="3-13", advertised="0-13")
def produce(ctx: RequestContext, request: Struct) -> Struct | Deferred[Struct] | None:
    broker = ctx.broker
    version = ctx.api_version
    acks = request.acks
    partitions = broker.partitions
    now_ms = broker.clock.now_ms()
    unauthorized = request.transactional_id is None and _has_transactional_records(request)
    appended: list[Partition] = []
    failed = False
    responses = []
    for topic in request.topic_data:
        name: str | None = topic.name if version < 13 else partitions.topic_name(topic.topic_id)
        answers = []
        for data in topic.partition_data:
            partition = None if name is None else partitions.get(name, data.index)
            if unauthorized:
                answer = _new_partition(
                    index=data.index, error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, base_offset=-1
                )
            elif partition is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answer = _new_partition(index=data.index, error_code=code, base_offset=-1)
            else:
                answer = _append(ctx, partition, data.records, acks, now_ms)
            if answer.error_code:
                failed = True
            elif partition is not None and partition.awaits_flush():
                appended.append(partition)
            answers.append(answer)
        responses.append(_new_topic(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    if acks == 0:
        if failed:
            raise CloseConnection("a Produce with acks=0 failed")
        return None
    response = _new_response(responses=responses)
    return broker.background.flushed(appended, response) if appended else response


def _append(ctx: RequestContext, partition: Partition, records: memoryview | None, acks: int, now_ms: int) -> Struct:
    """Append one partition's records and say what became of them."""
    try:
        if records is None:
            raise InvalidRecord("no records")
        length, magic = _LENGTH_AND_MAGIC.unpack_from(records) if len(records) >= HEADER_SIZE else (0, -1)
        if length + LOG_OVERHEAD != len(records) or magic != 2:
            records = _only_batch(records)
        attributes = records[_ATTRIBUTES]
        if attributes & CODEC_MASK == Codec.ZSTD and ctx.api_version < 7:
            raise UnsupportedCodec(Codec.ZSTD)
    except (InvalidRecord, CorruptBatch, UnsupportedCodec) as error:
        return _new_partition(index=partition.index, error_code=error_code_of(error), base_offset=-1)
    code = _refusal(ctx, partition, attributes, acks)
    if code:
        return _new_partition(index=partition.index, error_code=code, base_offset=-1)
    try:
        result = partition.append(records, now_ms)
    except Exception as error:
        return _error(partition, error)
    return _new_partition(
        index=partition.index,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
    )


def _refusal(ctx: RequestContext, partition: Partition, attributes: int, acks: int) -> ErrorCode:
    """Why records are not even offered to the log, in Kafka's order."""
    if attributes & TRANSACTIONAL_BIT:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not -1 <= acks <= 1:
        return ErrorCode.INVALID_REQUIRED_ACKS
    if partition.internal and ctx.client_id != _ADMIN_CLIENT_ID:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if acks == -1 and partition.lacks_replicas():
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return ErrorCode.NONE


def _error(partition: Partition, error: Exception) -> Struct:
    """The answer for records that the log refused."""
    code = error_code_of(error)
    log_start_offset = -1 if isinstance(error, _WITHOUT_LOG_START) else partition.log_start_offset
    answer = _new_partition(index=partition.index, error_code=code, base_offset=-1, log_start_offset=log_start_offset)
    if isinstance(error, AppendRefused) and error.record_errors:
        answer.error_message = str(error)
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in error.record_errors
        ]
    return answer


def _has_transactional_records(request: Struct) -> bool:
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is not None and len(records) > _ATTRIBUTES and records[_ATTRIBUTES] & TRANSACTIONAL_BIT:
                return True
    return False


def _only_batch(records: memoryview) -> memoryview:
    """The one batch v2 that `records` has to begin with; the rest of a further one that was cut is dropped, as in
    Kafka.

    CorruptBatch: a length or magic that cannot be. InvalidRecord: no whole batch, more than one, or one of an older
    format.
    """
    end = 0
    for count in range(2):
        if len(records) - end < LOG_OVERHEAD:
            break
        length = int.from_bytes(records[end + 8 : end + 12], "big", signed=True)
        if length < MIN_ENTRY_LENGTH:
            raise CorruptBatch(f"a batch of {length} bytes is below the smallest possible")
        if len(records) - end < LOG_OVERHEAD + 5:
            break
        magic = int.from_bytes(records[end + 16 : end + 17], "big", signed=True)
        if not 0 <= magic <= 2:
            raise CorruptBatch(f"no format has magic {magic}")
        if end + LOG_OVERHEAD + length > len(records):
            break
        if count == 1:
            raise InvalidRecord("more than one record batch")
        if magic != 2:
            raise InvalidRecord(f"a message set of magic {magic}")
        if length + LOG_OVERHEAD < HEADER_SIZE:
            raise CorruptBatch(f"a batch of {length} bytes is below the smallest possible")
        end += LOG_OVERHEAD + length
    if not end:
        raise InvalidRecord("no whole record batch")
    return records[:end]
