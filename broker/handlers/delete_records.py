"""DeleteRecords v0-v2: delete all records of a partition below an offset (KIP-107).

Offset -1 stands for the high watermark. Refused for internal topics and for topics whose cleanup.policy lacks delete.
Versions: v1 is v0; v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.error_code_map import error_code_of
from broker.requests.served_api import Reply, handles
from protocol.error_codes import ErrorCode
from protocol.messages.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartitionResult,
    DeleteRecordsTopicResult,
)
from protocol.schema import Struct
from runtime.deferred import Deferred, settled

if TYPE_CHECKING:
    from broker.replicas.append_scheduler import AppendScheduler
    from broker.replicas.partitions import Partitions

HIGH_WATERMARK = -1


@handles(DELETE_RECORDS)
def delete_records(ctx: RequestContext, request: Struct, *, partitions: Partitions, appends: AppendScheduler) -> Reply:
    """Return one answer for each partition. If one is named twice, the last offset counts."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update((each.partition_index, each.offset) for each in topic.partitions)
    waiting: list[Deferred[None]] = []
    response = DELETE_RECORDS.response(
        topics=[
            DeleteRecordsTopicResult(
                name=name,
                partitions=[
                    _delete(partitions, appends, name, index, offset, request.timeout_ms, waiting)
                    for index, offset in offsets.items()
                ],
            )
            for name, offsets in wanted.items()
        ]
    )
    return settled(waiting).then(lambda _: response) if waiting else response


def _delete(
    partitions: Partitions,
    appends: AppendScheduler,
    name: str,
    index: int,
    before_offset: int,
    timeout_ms: int,
    waiting: list[Deferred[None]],
) -> Struct:
    """Return the answer for one partition, which is complete once what it adds to `waiting` is done."""
    answer = DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1)
    partition = partitions.get(name, index)
    if partition is None:
        answer.error_code = partitions.absence(name, index)
    elif partition.internal:
        answer.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif not partition.log_config.deletes:
        answer.error_code = ErrorCode.POLICY_VIOLATION
    elif before_offset < HIGH_WATERMARK:
        answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    else:
        done: Deferred[None] = Deferred()

        def delete() -> None:
            deleted = None
            if not partition.hosted:  # another broker leads it, since this has waited for appends
                answer.error_code = partition.absence
            else:
                try:
                    log_start_offset = partition.delete_records(before_offset)
                    answer.low_watermark = partition.low_watermark
                    offset = log_start_offset if before_offset == HIGH_WATERMARK else before_offset
                    deleted = partition.when_deleted(offset, timeout_ms)
                except Exception as error:
                    answer.error_code = error_code_of(error) if partition.hosted else partition.absence
            if deleted is None:
                done.resolve(None)
            else:
                deleted.add_done_callback(on_deleted)

        def on_deleted(deleted: Deferred[None]) -> None:
            """All replicas have deleted the records, or it has taken too long."""
            try:
                deleted.result()
                answer.low_watermark = partition.low_watermark
            except Exception as error:
                answer.error_code = error_code_of(error)
            done.resolve(None)

        appends.in_order(partition, delete)
        if not done.done:
            waiting.append(done)
    return answer
