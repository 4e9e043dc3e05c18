"""The shortcut for Fetch requests of consumers for one partition that has records for them.

It does what broker.handlers.fetch does for such a request, and nothing else: whatever has an error, or waits, or reads
committed records only, it leaves to the handler by answering None, before anything was changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.fetch_session import FINAL_EPOCH, NO_SESSION
from protocol.schema import Chunk
from protocol.single_fetch import FIRST_VERSION, answer, parse

if TYPE_CHECKING:
    from broker.broker import Broker

_READ_UNCOMMITTED = 0


def fetch_single(
    broker: Broker, version: int, frame: memoryview, position: int, correlation_id: int
) -> list[Chunk] | None:
    """The answer to the request in `frame`, whose body begins at `position`; None: not for this path."""
    if version < FIRST_VERSION:
        return None
    request = parse(version, frame, position)
    if request is None or request.isolation_level != _READ_UNCOMMITTED or request.last_fetched_epoch >= 0:
        return None
    index = request.partition
    if request.topic:
        partition = broker.partitions.get(request.topic, index)
    else:
        partition = broker.partitions.get_by_id(request.topic_id, index)
    if partition is None or request.current_leader_epoch not in (-1, partition.leader_epoch):
        return None
    wanted = None
    if request.session_epoch != FINAL_EPOCH or request.session_id != NO_SESSION:
        key = (request.topic or request.topic_id, index)
        wanted = broker.fetch_sessions.only_partition(request.session_id, request.session_epoch, key)
        if wanted is None:
            return None
    max_bytes = min(request.max_bytes, broker.config.get_int("fetch.max.bytes"))
    log = partition.log
    try:
        high_watermark = log.high_watermark
        if max_bytes < 0 or request.partition_max_bytes < 0 or request.fetch_offset >= high_watermark:
            return None
        records = log.read(
            request.fetch_offset, min(request.partition_max_bytes, max_bytes), high_watermark, min_one_batch=True
        )
        if isinstance(records, bytes) or len(records) < min(request.min_bytes, max_bytes):
            return None
        if not records.is_recent and records.is_cold():
            return None
        log_start_offset = log.log_start_offset
        last_stable_offset = log.last_stable_offset
    except Exception:
        return None  # the handler finds the same, and tells
    if wanted is not None:
        wanted.note_single(partition.topic, request, high_watermark, log_start_offset)
        broker.fetch_sessions.advance(request.session_id)
    return answer(
        version,
        correlation_id,
        request,
        request.session_id,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        records,
    )
