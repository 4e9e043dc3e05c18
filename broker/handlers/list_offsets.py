"""ListOffsets v0-v11: find the offset for a timestamp, or the first or last one.

Versions: v0, which Kafka 4 has dropped, returns several offsets, the newest first: those at which the segments begin
that were last written to before a time. v1 returns one offset, that of a record.

Special timestamps, each from the version on in which it was added: -1 latest and -2 earliest (v0), -3 the record with
the largest timestamp (v7, KIP-734), -4 earliest on local disk (v8, KIP-405), -5 last one in tiered storage (v9,
KIP-1005), -6 earliest to be uploaded there (v11, KIP-1023). Not served: tiered storage. So -4 is -2, and the answer to
-5 and -6 is offset -1 without an error.

A request may name very many partitions, and a time may be in a large batch. Then the answer is sent later
(broker/replicas/time_look_ups.py).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from broker.replicas.fast_path.single_list_offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    earliest_offset,
    latest_offset,
    list_single,
)
from broker.replicas.partition import Partition
from broker.requests.dispatcher import RequestContext
from broker.requests.error_code_map import error_code_of
from broker.requests.served_api import Reply, handles
from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from protocol.schema import Struct
from storage.log.timestamps import Allowance, Steps, find_last_written_by, find_max_timestamp, find_timestamp
from storage.log_config import LONG_MAX

if TYPE_CHECKING:
    from broker.replicas.partitions import Partitions
    from broker.replicas.time_look_ups import TimeLookUps
    from runtime.clock import Clock

MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

#: The first version in which each special timestamp may be asked for.
SINCE_VERSION = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

_CONSUMER = -1


class FoundRecord(msgspec.Struct, frozen=True):
    """The record that was found; all -1 if there is none."""

    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


@handles(LIST_OFFSETS, fast_path=list_single)
def list_offsets(
    ctx: RequestContext, request: Struct, *, partitions: Partitions, time_look_ups: TimeLookUps, clock: Clock
) -> Reply:
    time_look_ups.begin_turn()
    allowance = time_look_ups.allowance
    return time_look_ups.run(_answers(ctx, partitions, allowance, clock, request), ctx.charge)


def _answers(
    ctx: RequestContext, partitions: Partitions, allowance: Allowance, clock: Clock, request: Struct
) -> Steps[Struct]:
    """Make the answer partition by partition, each as it is at that moment."""
    sound = request.isolation_level in (READ_UNCOMMITTED, READ_COMMITTED)
    asked = Counter((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    topics = []
    for topic in request.topics:
        answers = []
        for each in topic.partitions:
            if allowance.left <= 0:
                yield None
            allowance.left -= 1
            times = asked.pop((topic.name, each.partition_index), 0)
            if not times:
                continue  # answered where it was named first
            answer = ListOffsetsPartitionResponse(partition_index=each.partition_index)
            if not sound:
                answer.error_code = ErrorCode.UNKNOWN_SERVER_ERROR  # as in Kafka, which has no better error
            elif times > 1 and ctx.api_version:
                answer.error_code = ErrorCode.INVALID_REQUEST
            elif each.timestamp < 0 and ctx.api_version < SINCE_VERSION.get(each.timestamp, 0x7FFF):
                answer.error_code = ErrorCode.UNSUPPORTED_VERSION
            elif ctx.api_version == 0:
                yield from _answer_segments(partitions, allowance, clock, request, topic.name, each, answer)
            else:
                yield from _answer(ctx.api_version, partitions, allowance, request, topic.name, each, answer)
            answers.append(answer)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return LIST_OFFSETS.response(topics=topics)


def _answer(
    version: int,
    partitions: Partitions,
    allowance: Allowance,
    request: Struct,
    name: str,
    asked: Struct,
    answer: Struct,
) -> Steps[None]:
    """Fill in one partition's answer."""
    partition = partitions.get(name, asked.partition_index)
    if partition is None:
        answer.error_code = partitions.absence(name, asked.partition_index, asked.current_leader_epoch)
        return
    answer.error_code = partition.check_exact_leader_epoch(asked.current_leader_epoch)
    if answer.error_code:
        return
    try:
        found = yield from _find(allowance, request, partition, asked.timestamp)
    except Exception as error:
        answer.error_code = _error_code(partitions, partition, error)
        return
    answer.timestamp = found.timestamp
    answer.offset = found.offset
    if version >= 4:
        answer.leader_epoch = found.leader_epoch


def _answer_segments(
    partitions: Partitions,
    allowance: Allowance,
    clock: Clock,
    request: Struct,
    name: str,
    asked: Struct,
    answer: Struct,
) -> Steps[None]:
    """Fill in one partition's answer for v0. Consumers get the high watermark instead of offsets above it.

    A negative number of offsets is an unknown error, as in Kafka, which has no better one.
    """
    partition = partitions.get(name, asked.partition_index)
    if partition is None:
        answer.error_code = partitions.absence(name, asked.partition_index)
        return
    if asked.max_num_offsets < 0:
        answer.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        return
    try:
        offsets = yield from _segment_offsets(
            allowance, clock.now_ms(), partition, asked.timestamp, asked.max_num_offsets
        )
        high_watermark = partition.high_watermark
        if request.replica_id == _CONSUMER and offsets and offsets[0] > high_watermark:
            offsets = [high_watermark, *(offset for offset in offsets if offset <= high_watermark)]
        answer.old_style_offsets = offsets
    except Exception as error:
        answer.error_code = _error_code(partitions, partition, error)


def _error_code(partitions: Partitions, partition: Partition, error: Exception) -> ErrorCode:
    """Return the code for a look-up that failed; the partition may have been deleted in between."""
    if partition.hosted:
        return error_code_of(error)
    return partitions.absence(partition.topic, partition.index)


def _segment_offsets(
    allowance: Allowance, now_ms: int, partition: Partition, timestamp: int, limit: int
) -> Steps[list[int]]:
    """Return at most `limit` offsets, descending, of those that the log had at `timestamp`.

    They are the first offsets of segments, each as of the last write to its segment, and the end of the log, as of now.
    """
    last = LONG_MAX
    if timestamp not in (LATEST, EARLIEST) and (timestamp < now_ms or not partition.log.segments[-1].size_bytes):
        last = yield from find_last_written_by(lambda: partition.log, timestamp, allowance)
    log = partition.log
    first = log.log_start_offset
    offsets = [max(each, first) for each in log.segments.base_offsets if each <= last]
    allowance.left -= len(offsets)
    if log.segments[-1].size_bytes and last == LONG_MAX:
        offsets.append(log.log_end_offset)
    if timestamp == EARLIEST:
        del offsets[1:]
    return offsets[: -limit - 1 : -1]


def _find(allowance: Allowance, request: Struct, partition: Partition, timestamp: int) -> Steps[FoundRecord]:
    """Return the first record with this timestamp or a later one, or the offset of a special timestamp.

    A record that the client may not see yet is not found.
    """
    log, end_offset = partition.log, _end_offset(request, partition)
    if timestamp == LATEST:
        return FoundRecord(offset=end_offset, leader_epoch=partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return FoundRecord(-1, *earliest_offset(log))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return FoundRecord()
    if timestamp == MAX_TIMESTAMP:
        found = yield from find_max_timestamp(lambda: partition.log, allowance)
    else:
        found = yield from find_timestamp(lambda: partition.log, timestamp, allowance)
    if found is None or found.offset >= _end_offset(request, partition):
        return FoundRecord()
    return FoundRecord(*found)


def _end_offset(request: Struct, partition: Partition) -> int:
    """Return the end of what the client may see."""
    if request.replica_id != _CONSUMER:
        return partition.log_end_offset
    return latest_offset(partition, request.isolation_level)
