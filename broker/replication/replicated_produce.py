"""The fast path of Produce requests in a member: that of a node alone, and one batch for a replicated partition.

A partition with one replica is served as by a node alone. The log of a partition that has other replicas does not
append at once, so its batches come here. The batch is appended; with acks=all the answer is made at the same time, and
sent when the in-sync replicas have the records. Answers equal those of broker.handlers.produce. Other requests are left
to the handler, before anything has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.replicas.durability import ACKS_ALL
from broker.replicas.fast_path.plain_produce import plain_produce
from broker.replication.replicated_partition import ReplicatedPartition
from broker.requests.dispatcher import Waiting
from broker.requests.error_code_map import error_code_of
from protocol.fast_path.plain_produce import answer_one, timeout_of
from protocol.framing import encode_response
from protocol.messages.produce import PRODUCE, PartitionProduceResponse, TopicProduceResponse
from protocol.schema import Chunk, Struct
from runtime.deferred import Deferred
from security.acl import Operation, ResourceType
from storage.append.record_validation import BatchToOpen
from storage.errors import AppendRefused, LogOffline
from storage.log_config import LONG_MAX

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.network.connection import Connection
    from broker.replicas.partition import Partition
    from broker.replicas.partitions import Partitions
    from broker.requests.served_api import FastAnswer, FastPath
    from protocol.fast_path.plain_produce import OneBatch
    from runtime.clock import Clock
    from storage.log.partition_log import PartitionLog

_ACKS_ONE = 1


def replicated_produce(version: int, *, partitions: Partitions, clock: Clock, guard: Guard | None) -> FastPath | None:
    """Return the fast path of a version (`broker.requests.served_api.FastPath`), or None for versions without one."""
    now_ms = clock.now_ms
    may_write = None if guard is None else guard.asking(Operation.WRITE, ResourceType.TOPIC)

    def append(
        connection: Connection,
        frame: memoryview,
        position: int,
        correlation_id: int,
        partition: Partition,
        log: PartitionLog,
        one: OneBatch,
    ) -> FastAnswer:
        """Answer a request for a partition whose log does not append at once; None: the handler must serve it."""
        acks, key, name, index, records = one
        if (
            type(partition) is not ReplicatedPartition
            or log.config.flush_messages != LONG_MAX
            or log.config.log_append_time
            or (acks != _ACKS_ONE and (acks != ACKS_ALL or partition.is_under_min_isr()))
            or (may_write is not None and not may_write(connection, partition.topic))
        ):
            return None
        try:
            base_offset, last_offset, _, time_ms, start_offset, _, _ = partition.append(records, now_ms())
        except (AppendRefused, BatchToOpen, LogOffline):
            return None  # nothing has changed
        answer = answer_one(correlation_id, key, index, base_offset, time_ms, start_offset)
        if acks == _ACKS_ONE:
            return answer
        committed = partition.when_committed(last_offset + 1, timeout_of(frame, position))
        answered: Deferred[bytes | list[Chunk]] = Deferred(mutes=False)  # its offset is known: later requests may start

        def on_committed(done: Deferred[None]) -> None:
            try:
                done.result()
            except Exception as error:
                data = PartitionProduceResponse(
                    index=index,
                    error_code=error_code_of(error),
                    base_offset=base_offset,
                    log_append_time_ms=time_ms,
                    log_start_offset=start_offset,
                )
                answered.resolve(_failed(version, correlation_id, key, name, data))
            else:
                answered.resolve(answer)

        committed.add_done_callback(on_committed)
        return answered.result() if answered.done else Waiting(None, correlation_id, b"", answered)

    return plain_produce(version, append, partitions=partitions, clock=clock, guard=guard)


def _failed(version: int, correlation_id: int, key: bytes, name: str, data: Struct) -> list[Chunk]:
    """Return the frame of an answer about records that were appended, but are not known to be committed."""
    named = {"name": name} if name else {"topic_id": key}
    topic = TopicProduceResponse(partition_responses=[data], **named)
    return encode_response(PRODUCE, version, correlation_id, PRODUCE.response(responses=[topic]))
