"""The fast path of plain Produce requests: append each batch to its log, and answer.

It serves requests whose records are all appended at once, for one partition or many. Its responses equal those of
broker.handlers.produce. For all other requests it returns None before it changes anything, and the handler serves them:
an unknown partition, an unauthorized client, a partition whose queue is not empty, a log that is offline. If the log
rejects a batch after others of the same request were appended, the handler serves the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.replicas.partition import Partition
from broker.requests.context import PartlyServed
from protocol.fast_path.plain_produce import (
    FIRST_VERSION,
    NO_ERRORS,
    NUMBERS,
    answer,
    answer_one,
    parse,
    parse_one,
)
from security.acl import Operation, ResourceType
from storage.append.placing import AT_ONCE_BYTES
from storage.append.record_validation import BatchToOpen
from storage.errors import AppendRefused, LogOffline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.access.authorization.guard import Guard
    from broker.network.connection import Connection
    from broker.replicas.partitions import Partitions
    from broker.requests.served_api import FastAnswer, FastPath
    from protocol.fast_path.plain_produce import OneBatch
    from runtime.clock import Clock
    from storage.log.partition_log import PartitionLog

    # (connection, frame, position of the body, correlation id, partition, its log, what parse_one has read)
    AppendToWaitingLog = Callable[[Connection, memoryview, int, int, Partition, PartitionLog, OneBatch], FastAnswer]


def plain_produce(
    version: int,
    append_to_waiting_log: AppendToWaitingLog | None = None,
    *,
    partitions: Partitions,
    clock: Clock,
    guard: Guard | None,
) -> FastPath | None:
    """Return the fast path of a version (`broker.requests.served_api.FastPath`), or None for versions without one.

    `append_to_waiting_log` serves a request for one partition whose log does not append at once
    (`PartitionLog.appends_at_once`); it checks `acks` and access. By default the handler serves these requests.

    The fast path raises PartlyServed with the numbers of the partitions that were appended, as
    `protocol.fast_path.plain_produce.answer` takes them.
    """
    if version < FIRST_VERSION:
        return None
    now_ms = clock.now_ms
    may_write = None if guard is None else guard.asking(Operation.WRITE, ResourceType.TOPIC)

    def serve(connection: Connection, frame: memoryview, position: int, correlation_id: int) -> FastAnswer:
        """Answer the request in `frame`, whose body begins at `position`; return None if the handler must serve it."""
        one = parse_one(version, frame, position)
        if one is not None:
            acks, key, name, index, records = one
            partition = partitions.get(name, index) if name else partitions.get_by_id(key, index)
            if (
                partition is None
                or partition.queue is not None
                or partition.internal
                or len(records) > AT_ONCE_BYTES
                or (log := partition.open_log) is None
            ):
                return None
            if not log.appends_at_once:
                if append_to_waiting_log is None:
                    return None
                return append_to_waiting_log(connection, frame, position, correlation_id, partition, log, one)
            if (acks != 1 and (acks != -1 or partition.is_under_min_isr())) or (
                may_write is not None and not may_write(connection, partition.topic)
            ):
                return None
            try:
                base_offset, _, _, time_ms, start_offset, _, _ = partition.append(records, now_ms())
            except (AppendRefused, BatchToOpen, LogOffline):
                return None  # nothing has changed
            return answer_one(correlation_id, key, index, base_offset, time_ms, start_offset)
        return serve_many(connection, frame, position, correlation_id)

    def serve_many(connection: Connection, frame: memoryview, position: int, correlation_id: int) -> bytes | None:
        request = parse(version, frame, position)
        if request is None:
            return None
        acks, topics = request
        if acks != 1 and acks != -1:
            return None
        batches: dict[Partition, memoryview] = {}
        count = 0
        for key, name, wanted in topics:
            by_index = partitions.of_topic(name) if name else partitions.of_topic_id(key)
            partition = None
            for index, records in wanted:
                partition = by_index.get(index)
                if (
                    partition is None
                    or partition.queue is not None
                    or partition.internal
                    or len(records) > AT_ONCE_BYTES
                    or (log := partition.open_log) is None
                    or not log.appends_at_once
                    or (acks == -1 and partition.is_under_min_isr())
                ):
                    return None
                batches[partition] = records
            count += len(wanted)
            if partition is None or (may_write is not None and not may_write(connection, partition.topic)):
                return None
        if len(batches) != count:
            return None  # the handler takes the last of several batches for one partition
        now = now_ms()
        numbers: list[int] = []
        try:
            for partition, records in batches.items():
                base_offset, _, _, time_ms, start_offset, _, _ = partition.append(records, now)
                numbers += (partition.index, base_offset, time_ms, start_offset, NO_ERRORS)
        except (AppendRefused, BatchToOpen, LogOffline):
            if not numbers:
                return None  # nothing has changed
            raise PartlyServed(numbers) from None
        return answer(correlation_id, [(key, len(wanted)) for key, _, wanted in topics], numbers)

    return serve


def appended_by(progress: object) -> Iterator[tuple[int, int, int]]:
    """Return base offset, append time and log start offset of each partition that was appended already."""
    results: list[int] = progress if isinstance(progress, list) else []
    return zip(results[1::NUMBERS], results[2::NUMBERS], results[3::NUMBERS], strict=True)
