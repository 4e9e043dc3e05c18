"""The shortcut for Produce requests for one partition, which is what most of a busy broker's requests are.

It does what broker.handlers.produce does for a request whose records are taken, and nothing else: whatever is to be
refused, or to wait, it leaves to the handler by answering None, before anything was changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.records.batch import HEADER_SIZE, TRANSACTIONAL_BIT
from protocol.single_produce import FIRST_VERSION, SingleProduces, split
from storage.append.opening import BatchToOpen
from storage.errors import AppendRefused, LogOffline
from storage.log_config import LONG_MAX

if TYPE_CHECKING:
    from broker.broker import Broker

_ATTRIBUTES = 22  # low byte of a batch's attributes

_by_version = {version: SingleProduces(version) for version in range(FIRST_VERSION, 14)}


def produce_single(broker: Broker, version: int, frame: memoryview, position: int, correlation_id: int) -> bytes | None:
    """The frame of the answer to the request in `frame`, whose body begins at `position`; None: not for this path."""
    if version < FIRST_VERSION:
        return None
    parts = split(version, frame, position)
    if parts is None:
        return None
    head, records = parts
    single = _by_version[version].get(head)
    if single is None:
        return None
    partitions = broker.partitions
    if single.topic:
        partition = partitions.get(single.topic, single.index)
    else:
        partition = partitions.get_by_id(single.topic_id, single.index)
    acks = single.acks
    if (
        partition is None
        or partition.queue is not None
        or partition.internal
        or len(records) < HEADER_SIZE
        or records[_ATTRIBUTES] & TRANSACTIONAL_BIT
        or not (acks == 1 or (acks == -1 and not partition.lacks_replicas()))
        or (config := partition.log.config).flush_messages != LONG_MAX
        or config.log_append_time  # the records would be patched already when the handler tries again
    ):
        return None
    try:
        result = partition.append(records, broker.clock.now_ms())
    except (AppendRefused, BatchToOpen, LogOffline):
        return None  # nothing was changed: the handler tries again, and tells what is wrong
    return single.answer(correlation_id, result.base_offset, result.log_append_time_ms, result.log_start_offset)
