"""Produce v3-v13: append record batches to the logs of partitions.

Versions: v3 transactional id (KIP-98); v5 log start offset (KIP-207); v7 zstd (KIP-110); v8 record errors (KIP-467);
v9 flexible; v10 the new leader where this is not it (KIP-951); v12 adds partitions to transactions implicitly
(KIP-890); v13 topic ids (KIP-516). v0-v2, which carry message sets, are advertised as Apache Kafka does and not
served, as there.
Not served: batches of transactions, whose ids no coordinator knows yet: INVALID_PRODUCER_ID_MAPPING.

One straight walk a partition, with no work a record: find it, look at its header, append. acks 0 is not answered; an
error then closes the connection, so that the producer sees that something went wrong. acks 1 and all are the same with
one replica. With flush.messages the answer waits until the records are on the disk.
"""

from __future__ import annotations

from functools import partial
from struct import Struct as Layout

from broker.deferred import Deferred
from broker.dispatch import CloseConnection, RequestContext, handles
from broker.error_map import error_code_of
from broker.partition import Partition
from broker.single_produce import produce_single
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    PRODUCE,
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    TopicProduceResponse,
)
from protocol.records.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MIN_ENTRY_LENGTH,
    TRANSACTIONAL_BIT,
)
from protocol.records.compression import Codec
from protocol.schema import Struct
from storage.errors import (
    AppendRefused,
    CorruptRecords,
    InvalidRecords,
    LogOffline,
    RecordBatchTooLarge,
    RecordTooLarge,
)

_new_response = PRODUCE.response.new
_new_topic = TopicProduceResponse.new
_new_partition = PartitionProduceResponse.new

#: length, magic, attributes (the low byte), producer id: what is looked at before the log looks at all.
_peek = Layout(">8xi4xb5xB20xq").unpack_from
_PEEKED_BYTES = 51

#: Beyond it the size of the whole batch is no int32 any more; Kafka fails without a better error then.
_LARGEST_LENGTH = 0x7FFFFFFF - LOG_OVERHEAD

#: The client id by which tools of Apache Kafka are known, who may write to internal topics.
_ADMIN_CLIENT_ID = "__admin_client"

#: After these Kafka does not tell the log start offset.
_WITHOUT_LOG_START = (CorruptRecords, RecordTooLarge, RecordBatchTooLarge, LogOffline)


@handles(PRODUCE, versions="3-13", advertised="0-13", shortcut=produce_single)
def produce(ctx: RequestContext, request: Struct) -> Struct | Deferred[Struct] | None:
    refused = _refuse_all(request)
    if refused is not None:
        return _answer(ctx, request.acks, refused, True, [])
    broker = ctx.broker
    by_name = ctx.api_version < 13
    partitions = broker.partitions
    acks = request.acks
    now_ms = broker.clock.now_ms()
    responses = []
    failed = False
    unflushed: list[tuple[Partition, Struct]] = []
    for topic in request.topic_data:
        name = topic.name if by_name else partitions.topic_name(topic.topic_id)
        answers = []
        for data in topic.partition_data if len(topic.partition_data) == 1 else _last_of_each(topic.partition_data):
            partition = None if name is None else partitions.get(name, data.index)
            if partition is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answer = _new_partition(index=data.index, error_code=code, base_offset=-1)
            else:
                code = _refuse(ctx, partition, data.records, acks)
                if code:
                    answer = _new_partition(index=data.index, error_code=code, base_offset=-1)
                else:
                    try:
                        result = partition.append(data.records, now_ms)
                        base_offset, _, _, log_append_time_ms, log_start_offset, _, flush_due = result
                        answer = _new_partition(
                            index=data.index,
                            base_offset=base_offset,
                            log_append_time_ms=log_append_time_ms,
                            log_start_offset=log_start_offset,
                        )
                        if flush_due:
                            unflushed.append((partition, answer))
                    except Exception as error:
                        answer = _error(partition, data.records, error)
            if answer.error_code:
                failed = True
            answers.append(answer)
        responses.append(_new_topic(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    return _answer(ctx, acks, responses, failed, unflushed)


def _last_of_each(partition_data: list[Struct]) -> list[Struct]:
    """Without what comes again: of records for the same partition Kafka takes the last and answers once."""
    return list({data.index: data for data in partition_data}.values())


def _answer(
    ctx: RequestContext, acks: int, responses: list[Struct], failed: bool, unflushed: list[tuple[Partition, Struct]]
) -> Struct | Deferred[Struct] | None:
    """What the producer gets, or None with acks=0. Raises CloseConnection when that failed."""
    if acks == 0:
        if failed:
            raise CloseConnection("a Produce with acks=0 failed")
        for partition, _ in unflushed:
            ctx.broker.background.flush(partition.log)
        return None
    response = _new_response(responses=responses)
    return _when_flushed(ctx, unflushed, response) if unflushed else response


def _refuse_all(request: Struct) -> list[Struct] | None:
    """The answers where one partition's records fail the whole request, as in Kafka, which looks at all of them first.

    Records of a transaction without its id, and lengths and magics that cannot be. None when all may go on.
    """
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) < LOG_OVERHEAD:
                continue
            if len(records) < _PEEKED_BYTES:
                records = bytes(records[: MAGIC_OFFSET + 1]).ljust(_PEEKED_BYTES, b"\0")
            length, magic, attributes, _ = _peek(records)
            if magic != 2 or not MIN_ENTRY_LENGTH <= length <= _LARGEST_LENGTH:
                if length > _LARGEST_LENGTH:
                    return _everywhere(request, ErrorCode.UNKNOWN_SERVER_ERROR)
                if length < MIN_ENTRY_LENGTH:
                    message = f"Record size {length} is less than the minimum record overhead ({MIN_ENTRY_LENGTH})"
                    return _everywhere(request, ErrorCode.CORRUPT_MESSAGE, message)
                if not 0 <= magic <= 2:
                    return _everywhere(request, ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
            elif (
                attributes & TRANSACTIONAL_BIT
                and request.transactional_id is None
                and length + LOG_OVERHEAD <= len(data.records)
            ):
                return _everywhere(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return None


def _everywhere(request: Struct, code: ErrorCode, message: str | None = None) -> list[Struct]:
    """The same answer for all partitions."""
    return [
        _new_topic(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                _new_partition(index=data.index, error_code=code, base_offset=-1, error_message=message)
                for data in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]


def _refuse(ctx: RequestContext, partition: Partition, records: memoryview | None, acks: int) -> ErrorCode:
    """Why a partition's records are not even offered to its log, in Kafka's order; NONE when they are."""
    if records is None:
        return ErrorCode.INVALID_RECORD
    if len(records) >= _PEEKED_BYTES:
        length, _, attributes, producer_id = _peek(records)
        is_whole = length + LOG_OVERHEAD <= len(records)
        if attributes & CODEC_MASK == Codec.ZSTD and ctx.api_version < 7 and is_whole:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if attributes & TRANSACTIONAL_BIT and producer_id >= 0 and is_whole:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not -1 <= acks <= 1:
        return ErrorCode.INVALID_REQUIRED_ACKS
    if partition.internal and ctx.client_id != _ADMIN_CLIENT_ID:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if acks == -1 and partition.lacks_replicas():
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return ErrorCode.NONE


def _error(partition: Partition, records: memoryview, error: Exception) -> Struct:
    """The answer for records that the log refused."""
    answer = _new_partition(index=partition.index, error_code=error_code_of(error), base_offset=-1)
    if not isinstance(error, _WITHOUT_LOG_START) and _is_one_batch(records):
        answer.log_start_offset = partition.log_start_offset
    if isinstance(error, AppendRefused) and error.record_errors:
        messages = [message for _, message in error.record_errors]
        answer.error_message = str(error)
        if isinstance(error, InvalidRecords):
            messages = [f"{message} in topic partition {partition.topic}-{partition.index}" for message in messages]
            first = ", ".join(
                f"RecordError(batchIndex={each.batch_index}, message='{message}')"
                for each, message in list(zip(error.record_errors, messages, strict=True))[:3]
            )
            answer.error_message = (
                f"One or more records have been rejected due to {len(messages)} record errors in total, "
                f"and only showing the first three errors at most: [{first}]"
            )
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=each.batch_index, batch_index_error_message=message)
            for each, message in zip(error.record_errors, messages, strict=True)
        ]
    return answer


def _is_one_batch(records: memoryview) -> bool:
    """Whether the records have the shape that they should; Kafka refuses others before it asks the log."""
    if len(records) < HEADER_SIZE:
        return False
    length, magic, _, _ = _peek(records)
    return bool(magic == 2 and length + LOG_OVERHEAD == len(records))


def _when_flushed(ctx: RequestContext, unflushed: list[tuple[Partition, Struct]], response: Struct) -> Deferred[Struct]:
    """The response, once the records are on the disk; a partition of which they are not says so."""
    deferred: Deferred[Struct] = Deferred(mutes=False)
    left = len(unflushed)

    def flushed(answer: Struct, done: Deferred[None]) -> None:
        nonlocal left
        left -= 1
        try:
            done.result()
        except Exception as error:
            answer.error_code = error_code_of(error)
            answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        if not left:
            deferred.resolve(response)

    for partition, answer in unflushed:
        ctx.broker.background.flush(partition.log).add_done_callback(partial(flushed, answer))
    return deferred
