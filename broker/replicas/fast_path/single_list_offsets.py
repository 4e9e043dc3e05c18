"""The fast path of ListOffsets requests of consumers for the first or last offset of one partition.

Its responses equal those of broker.handlers.list_offsets. If there is an error, or the request asks for a time, it
returns None, and the handler serves the request. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from protocol.fast_path.single_list_offsets import FIRST_VERSION, answer, parse
from security.acl import Operation, ResourceType

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.network.connection import Connection
    from broker.replicas.partitions import Partitions
    from storage.log.partition_log import PartitionLog

LATEST, EARLIEST = -1, -2
"""Special timestamps for the first and the last offset."""
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Isolation levels."""


def earliest_offset(log: PartitionLog) -> tuple[int, int]:
    """Return the offset of EARLIEST, and its leader epoch, -1 if unknown."""
    offset = log.log_start_offset
    epoch = log.leader_epochs.epoch_of(offset)
    return offset, -1 if epoch is None else epoch


def list_single(
    version: int, *, partitions: Partitions, guard: Guard | None
) -> Callable[[Connection, memoryview, int, int], bytes | None] | None:
    """Return the fast path of a version (`broker.requests.served_api.FastPath`), or None for versions without one."""
    if version < FIRST_VERSION:
        return None
    may_see = None if guard is None else guard.asking(Operation.DESCRIBE, ResourceType.TOPIC)

    def serve(connection: Connection, frame: memoryview, position: int, correlation_id: int) -> bytes | None:
        """Answer the request in `frame`, whose body begins at `position`; return None if the handler must serve it."""
        request = parse(version, frame, position)
        if request is None or request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
            return None
        partition = partitions.get(request.topic, request.partition)
        if partition is None or (may_see is not None and not may_see(connection, partition.topic)):
            return None
        if partition.check_exact_leader_epoch(request.current_leader_epoch):
            return None
        try:
            if request.timestamp == LATEST:
                offset = partition.latest_offset(request.isolation_level == READ_COMMITTED)
                return answer(correlation_id, request, offset, partition.leader_epoch)
            if request.timestamp == EARLIEST:
                return answer(correlation_id, request, *earliest_offset(partition.log))
        except Exception:
            return None  # the handler finds the same error, and reports it
        return None

    return serve
