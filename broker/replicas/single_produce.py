"""The shortcut for Produce requests for one partition, which is what most of a busy broker's requests are.

It does what broker.handlers.produce does for a request whose records are taken, and nothing else: whatever is to be
refused, or to wait, it leaves to the handler by answering None, before anything was changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.requests.prefix_cache import LearnedHeads
from protocol.records.batch import HEADER_SIZE, TRANSACTIONAL_BIT
from protocol.shortcuts.single_produce import FIRST_VERSION, SingleProduces
from security.acl import Operation, ResourceType
from storage.append.opening import BatchToOpen
from storage.append.placing import AT_ONCE_BYTES
from storage.errors import AppendRefused, LogOffline

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.network.connection import Connection
    from broker.replicas.partitions import Partitions
    from runtime.clock import Clock
    from runtime.timers import Timers

_ATTRIBUTES = 22  # low byte of a batch's attributes


def produce_single(
    version: int, *, partitions: Partitions, clock: Clock, timers: Timers, guard: Guard | None
) -> Callable[[Connection, memoryview, int, int], bytes | None] | None:
    """Return the shortcut of a version (`broker.requests.served_api.Shortcut`), or None for versions without one."""
    if version < FIRST_VERSION:
        return None
    heads = SingleProduces(version)
    read, learn = heads.read, LearnedHeads(heads, timers).learn
    now_ms = clock.now_ms
    may_write = None if guard is None else guard.asking(Operation.WRITE, ResourceType.TOPIC)

    def serve(connection: Connection, frame: memoryview, position: int, correlation_id: int) -> bytes | None:
        """The answer to the request in `frame`, whose body begins at `position`; None: not for this path."""
        parts = read(frame, position)
        if parts is None:
            return None
        single, records = parts
        if single.topic:
            partition = partitions.get(single.topic, single.index)
        else:
            partition = partitions.get_by_id(single.topic_id, single.index)
        if partition is None or (may_write is not None and not may_write(connection, partition.topic)):
            return None
        if single.unlearned:
            learn(single)
        acks = single.acks
        if (
            partition.queue is not None
            or partition.internal
            or not HEADER_SIZE <= len(records) <= AT_ONCE_BYTES
            or records[_ATTRIBUTES] & TRANSACTIONAL_BIT
            or not (acks == 1 or (acks == -1 and not partition.lacks_replicas()))
            or not partition.log.appends_at_once
        ):
            return None
        try:
            result = partition.append(records, now_ms())
        except (AppendRefused, BatchToOpen, LogOffline):
            return None  # nothing was changed: the handler tries again, and tells what is wrong
        return single.answer(correlation_id, result.base_offset, result.log_append_time_ms, result.log_start_offset)

    return serve
