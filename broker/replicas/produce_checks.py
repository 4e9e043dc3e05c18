"""Checks of a Produce request before a log gets its records, in the order of Apache Kafka."""

from __future__ import annotations

from struct import Struct as Layout
from typing import TYPE_CHECKING

from broker.requests.error_code_map import error_code_of
from protocol.error_codes import ErrorCode
from protocol.messages.produce import PartitionProduceResponse, TopicProduceResponse
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
from storage.append.header_validation import error_of_heads

if TYPE_CHECKING:
    from broker.replicas.partition import Partition
    from broker.requests.context import RequestContext

_new_topic = TopicProduceResponse.new
_new_partition = PartitionProduceResponse.new

#: Length and magic, which are checked before the log gets the batch; and the low byte of the attributes.
_shape = Layout(">8xi4xb").unpack_from
_ATTRIBUTES = 22
_PEEKED_BYTES = _ATTRIBUTES + 1
#: A complete batch that is shorter has no room for a producer id. Kafka reads the id all the same and has no better
#: error.
_BYTES_TO_PRODUCER_ID = 51
#: A bit of the attributes that only zstd has, of all codecs.
_LOOKED_AT = int(Codec.ZSTD)

#: Beyond it, the size of the whole batch is no int32, for which Kafka has no better error.
_LARGEST_LENGTH = 0x7FFFFFFF - LOG_OVERHEAD

#: The client id of tools of Apache Kafka, which may write to internal topics.
_ADMIN_CLIENT_ID = "__admin_client"

_FIRST_VERSION_WITH_BATCHES = 3
_MAGIC = 2


def refuse_request(request: Struct) -> list[Struct] | None:
    """Return the answers if the records of one partition fail the whole request, as in Kafka, which checks all first.

    Records of a transaction without its id, and lengths and magics that cannot be. None when all may go on.
    """
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) < LOG_OVERHEAD:
                continue
            if len(records) < _PEEKED_BYTES:
                records = bytes(records[: MAGIC_OFFSET + 1]).ljust(_PEEKED_BYTES, b"\0")
            length, magic = _shape(records)
            if magic != _MAGIC or not MIN_ENTRY_LENGTH <= length <= _LARGEST_LENGTH:
                if length < MIN_ENTRY_LENGTH:
                    message = f"Record size {length} is less than the minimum record overhead ({MIN_ENTRY_LENGTH})"
                    return _everywhere(request, ErrorCode.CORRUPT_MESSAGE, message)
                if not 0 <= magic <= 2:
                    return _everywhere(request, ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
                if length > _LARGEST_LENGTH and len(data.records) > MAGIC_OFFSET:
                    return _everywhere(request, ErrorCode.UNKNOWN_SERVER_ERROR)
            elif (
                records[_ATTRIBUTES] & TRANSACTIONAL_BIT
                and request.transactional_id is None
                and length + LOG_OVERHEAD <= len(data.records)
            ):
                return _everywhere(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return None


def _everywhere(request: Struct, code: ErrorCode, message: str | None = None) -> list[Struct]:
    """Return the same answer for all partitions."""
    return [
        _new_topic(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                _new_partition(index=data.index, error_code=code, base_offset=-1, error_message=message)
                for data in topic.partition_data
            ],
        )
        for topic in last_of_each(request.topic_data)
    ]


def refuse_partition(ctx: RequestContext, partition: Partition, records: memoryview | None, acks: int) -> ErrorCode:
    """Return why a partition's records are refused before its log gets them, in Kafka's order; else NONE."""
    if records is None:
        return ErrorCode.INVALID_RECORD
    if len(records) >= _PEEKED_BYTES and (records[_ATTRIBUTES] & _LOOKED_AT or len(records) < _BYTES_TO_PRODUCER_ID):
        length, magic = _shape(records)
        if length + LOG_OVERHEAD <= len(records) and magic == _MAGIC:
            if records[_ATTRIBUTES] & CODEC_MASK == Codec.ZSTD and 3 <= ctx.api_version < 7:
                return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            if len(records) < _BYTES_TO_PRODUCER_ID:
                return ErrorCode.UNKNOWN_SERVER_ERROR
    code = ErrorCode.NONE
    if not -1 <= acks <= 1:
        code = ErrorCode.INVALID_REQUIRED_ACKS
    elif partition.internal and ctx.client_id != _ADMIN_CLIENT_ID:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif acks == -1 and partition.is_under_min_isr():
        code = ErrorCode.NOT_ENOUGH_REPLICAS
    if code and ctx.api_version >= _FIRST_VERSION_WITH_BATCHES:
        wrong = error_of_heads(records)
        return code if wrong is None else error_code_of(wrong)
    return code


def last_of_each(topic_data: list[Struct]) -> list[Struct]:
    """Return each topic and partition once.

    If a request names a partition twice, the last records count, as in Kafka. Topics without partitions are left out.
    """
    found: dict[tuple[str, bytes], tuple[Struct, dict[int, Struct]]] = {}
    for topic in topic_data:
        _, partitions = found.setdefault((topic.name, topic.topic_id), (topic, {}))
        for data in topic.partition_data:
            partitions[data.index] = data
    for topic, partitions in found.values():
        topic.partition_data = list(partitions.values())
    return [topic for topic, partitions in found.values() if partitions]


def is_one_batch(records: memoryview) -> bool:
    """Whether the records are exactly one batch. Kafka refuses others before the log gets them."""
    if len(records) < HEADER_SIZE:
        return False
    length, magic = _shape(records)
    return bool(magic == 2 and length + LOG_OVERHEAD == len(records))
