"""ListOffsets v0-v11: find the offset for a timestamp, or the first or last one.

Versions: v0, which Kafka 4 has dropped, returns several offsets, the newest first: those at which the segments begin
that were last written to before a time. v1 returns one offset, that of a record.

Special timestamps, each from the version on in which it was added: -1 latest and -2 earliest (v0), -3 the record with
the largest timestamp on local disk (v7, KIP-734), -4 earliest on local disk (v8, KIP-405), -5 last one in tiered
storage (v9, KIP-1005), -6 earliest to be uploaded there (v11, KIP-1023). Of a topic that is not tiered, -4 is -2, and
the answer to -5 and -6 is offset -1 without an error.

v10 adds how long the broker may wait for remote storage (KIP-1075). A request may name very many partitions, and a time
may be in a large batch. Then the answer is sent later (broker/replicas/time_look_ups.py).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from broker.replicas.fast_path.single_list_offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    earliest_offset,
    list_single,
)
from broker.replicas.partition import Partition
from broker.replicas.remote_reads import find_in_both_tiers
from broker.replicas.time_look_ups import LookUpSteps
from broker.requests.dispatcher import RequestContext
from broker.requests.error_code_map import error_code_of
from broker.requests.served_api import Reply, handles
from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from protocol.schema import Struct
from runtime.deferred import Deferred
from storage.log.partition_log import PartitionLog
from storage.log.timestamps import Allowance, Steps, find_last_written_by, find_max_timestamp
from storage.log_config import LONG_MAX

if TYPE_CHECKING:
    from broker.replicas.partitions import Partitions
    from broker.replicas.remote_reads import RemoteReads
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
#: The first version with OFFSET_NOT_AVAILABLE (KIP-207).
_FIRST_VERSION_WITH_UNKNOWN_END = 5
_FIRST_VERSION_WITH_TIMEOUT = 10


class FoundRecord(msgspec.Struct, frozen=True):
    """The record that was found; all -1 if there is none."""

    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


@handles(LIST_OFFSETS, fast_path=list_single)
def list_offsets(
    ctx: RequestContext,
    request: Struct,
    *,
    partitions: Partitions,
    time_look_ups: TimeLookUps,
    clock: Clock,
    remote_reads: RemoteReads | None,
) -> Reply:
    time_look_ups.begin_turn()
    remote = None
    if remote_reads is not None:
        wait_ms = request.timeout_ms if ctx.api_version >= _FIRST_VERSION_WITH_TIMEOUT else 0
        deadline_ms = clock.monotonic_ms() + (wait_ms if wait_ms > 0 else remote_reads.look_up_ms)
        remote = RemoteLookUps(remote_reads, deadline_ms, time_look_ups)
    allowance = time_look_ups.allowance
    waiting: list[Deferred[None]] = []
    answer = time_look_ups.run(_answers(ctx, partitions, allowance, clock, remote, waiting, request), ctx.charge)
    if isinstance(answer, Deferred):
        answer.on_cancel(lambda: _cancel(waiting))
    return answer


def _cancel(waiting: list[Deferred[None]]) -> None:
    for each in waiting:
        each.cancel()


class RemoteLookUps(NamedTuple):
    """The look-ups in remote storage of one request, which run beside each other."""

    reads: RemoteReads
    deadline_ms: int
    look_ups: TimeLookUps


def _answers(
    ctx: RequestContext,
    partitions: Partitions,
    allowance: Allowance,
    clock: Clock,
    remote: RemoteLookUps | None,
    waiting: list[Deferred[None]],
    request: Struct,
) -> LookUpSteps[Struct]:
    """Make the answer partition by partition, each as it is at that moment. Adds what it waits for to `waiting`."""
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
                steps = _answer(ctx.api_version, partitions, allowance, remote, request, topic.name, each, answer)
                if remote is None or each.timestamp < 0:
                    yield from steps
                else:
                    running = remote.look_ups.run(steps)
                    if running is not None:
                        waiting.append(running)
            answers.append(answer)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    for running in waiting:
        if not running.done:
            yield running
    return LIST_OFFSETS.response(topics=topics)


def _answer(
    version: int,
    partitions: Partitions,
    allowance: Allowance,
    remote: RemoteLookUps | None,
    request: Struct,
    name: str,
    asked: Struct,
    answer: Struct,
) -> LookUpSteps[None]:
    """Fill in one partition's answer."""
    partition = partitions.get(name, asked.partition_index)
    if partition is None:
        answer.error_code = partitions.absence(name, asked.partition_index, asked.current_leader_epoch)
        return
    answer.error_code = partition.check_exact_leader_epoch(asked.current_leader_epoch)
    if answer.error_code:
        return
    try:
        found = yield from _find(allowance, remote, request, partition, asked.timestamp)
    except Exception as error:
        answer.error_code = _error_code(partitions, partition, error)
        if version < _FIRST_VERSION_WITH_UNKNOWN_END and answer.error_code == ErrorCode.OFFSET_NOT_AVAILABLE:
            answer.error_code = ErrorCode.LEADER_NOT_AVAILABLE
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
    if timestamp in (LATEST, EARLIEST) and first < offsets[0]:
        offsets.insert(0, first)  # older segments are in remote storage, when they were written is not known
    allowance.left -= len(offsets)
    if log.segments[-1].size_bytes and last == LONG_MAX:
        offsets.append(log.log_end_offset)
    if timestamp == EARLIEST:
        del offsets[1:]
    return offsets[: -limit - 1 : -1]


def _find(
    allowance: Allowance, remote: RemoteLookUps | None, request: Struct, partition: Partition, timestamp: int
) -> LookUpSteps[FoundRecord]:
    """Return the first record with this timestamp or a later one, or the offset of a special timestamp.

    A record that the client may not see yet is not found.
    """
    log = partition.log
    if timestamp == LATEST:
        return FoundRecord(offset=_latest_offset(request, partition), leader_epoch=partition.leader_epoch)
    if timestamp == EARLIEST:
        return FoundRecord(-1, *earliest_offset(log))
    if timestamp == EARLIEST_LOCAL:
        return _record_at(log, log.local_start_offset)
    if timestamp == LATEST_TIERED:
        return _tiered_offset(log, timestamp)
    if timestamp == EARLIEST_PENDING_UPLOAD:
        pending = _tiered_offset(log, timestamp)
        return pending if pending.offset < _end_offset(request, partition) else FoundRecord()
    if timestamp == MAX_TIMESTAMP:
        found = yield from find_max_timestamp(lambda: partition.log, allowance)
    else:
        reads, deadline_ms = (None, 0) if remote is None else (remote.reads, remote.deadline_ms)
        found = yield from find_in_both_tiers(reads, partition, timestamp, allowance, deadline_ms)
    if found is not None and found.offset < _end_offset(request, partition):
        return FoundRecord(*found)
    _latest_offset(request, partition)  # such a record may be among those that a new leader does not know as committed
    return FoundRecord()


def _tiered_offset(log: PartitionLog, timestamp: int) -> FoundRecord:
    """Return the last offset in remote storage, or the first one that is to be copied there; -1 if it is unknown."""
    copied = log.copied_offset
    if not log.config.tiered:
        return FoundRecord()
    if timestamp == LATEST_TIERED:
        return FoundRecord() if copied < 0 else _record_at(log, copied)
    if copied < 0:
        is_known = log.local_start_offset == log.log_start_offset
        return _record_at(log, log.local_start_offset) if is_known else FoundRecord()
    return _record_at(log, max(copied + 1, log.log_start_offset))


def _record_at(log: PartitionLog, offset: int) -> FoundRecord:
    epoch = log.leader_epochs.epoch_of(offset)
    return FoundRecord(-1, offset, -1 if epoch is None else epoch)


def _end_offset(request: Struct, partition: Partition) -> int:
    """Return the end of what the client may see."""
    if request.replica_id != _CONSUMER:
        return partition.log_end_offset
    return partition.last_stable_offset if request.isolation_level == READ_COMMITTED else partition.high_watermark


def _latest_offset(request: Struct, partition: Partition) -> int:
    """Return the offset of LATEST. Raises OffsetNotAvailable for a consumer (KIP-207)."""
    if request.replica_id != _CONSUMER:
        return partition.log_end_offset
    return partition.latest_offset(request.isolation_level == READ_COMMITTED)
