"""The fast path of Produce requests in a member: one batch for a partition that has other replicas.

The batch is appended at once. With acks=all the answer is made at once, too, and sent when the in-sync replicas have
the records. Its answers equal those of broker.handlers.produce. All other requests are left to the fast path of a node
alone and to the handler, before anything has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.replicas.durability import ACKS_ALL
from broker.replicas.fast_path.plain_produce import plain_produce
from broker.replication.replicated_partition import ReplicatedPartition
from broker.requests.dispatcher import Waiting
from broker.requests.error_code_map import error_code_of
from protocol.error_codes import ErrorCode
from protocol.fast_path.plain_produce import FIRST_VERSION, answer_one, parse_one, timeout_of
from protocol.framing import encode_response
from protocol.messages.produce import PRODUCE, PartitionProduceResponse, TopicProduceResponse
from protocol.schema import Chunk
from runtime.deferred import Deferred
from security.acl import Operation, ResourceType
from storage.append.placing import AT_ONCE_BYTES
from storage.append.record_validation import BatchToOpen
from storage.errors import AppendRefused, LogOffline
from storage.log_config import LONG_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.access.authorization.guard import Guard
    from broker.network.connection import Connection
    from broker.replicas.partitions import Partitions
    from runtime.clock import Clock

_ACKS_ONE = 1


def replicated_produce(
    version: int, *, partitions: Partitions, clock: Clock, guard: Guard | None
) -> Callable[[Connection, memoryview, int, int], bytes | list[Chunk] | Waiting | None] | None:
    """Return the fast path of a version (`broker.requests.served_api.FastPath`), or None for versions without one."""
    plain = plain_produce(version, partitions=partitions, clock=clock, guard=guard)
    if version < FIRST_VERSION or plain is None:
        return None
    now_ms = clock.now_ms
    may_write = None if guard is None else guard.asking(Operation.WRITE, ResourceType.TOPIC)

    def serve(
        connection: Connection, frame: memoryview, position: int, correlation_id: int
    ) -> bytes | list[Chunk] | Waiting | None:
        """Answer the request in `frame`, whose body begins at `position`; return None if the handler must serve it."""
        one = parse_one(version, frame, position)
        if one is None:
            return plain(connection, frame, position, correlation_id)
        acks, key, name, index, records = one
        partition = partitions.get(name, index) if name else partitions.get_by_id(key, index)
        if type(partition) is not ReplicatedPartition:
            return plain(connection, frame, position, correlation_id)
        log = partition.open_log
        if (
            partition.queue is not None
            or partition.internal
            or len(records) > AT_ONCE_BYTES
            or log is None
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
                answered.resolve(_failed(version, correlation_id, key, name, index, error_code_of(error)))
            else:
                answered.resolve(answer)

        committed.add_done_callback(on_committed)
        return answered.result() if answered.done else Waiting(None, correlation_id, b"", answered)

    return serve


def _failed(version: int, correlation_id: int, key: bytes, name: str, index: int, code: ErrorCode) -> list[Chunk]:
    """Return the frame of an answer about records that were appended, but are not known to be committed."""
    data = PartitionProduceResponse(index=index, error_code=code, base_offset=-1)
    named = {"name": name} if name else {"topic_id": key}
    topic = TopicProduceResponse(partition_responses=[data], **named)
    return encode_response(PRODUCE, version, correlation_id, PRODUCE.response(responses=[topic]))
