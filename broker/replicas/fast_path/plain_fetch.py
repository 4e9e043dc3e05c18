"""The fast path of Fetch requests for many partitions that have enough records now.

It serves a read_uncommitted consumer, with or without a session, whose `min_bytes` are available. Its responses equal
those of broker.handlers.fetch. For all other fetches it returns None before it changes anything, and the handler serves
them: errors, a session that begins or changes its partitions, a fetch that has to wait for the disk. If a fetch has to
wait for records, the handler continues it, and reads nothing again before there are new ones. Requests for one
partition have their own fast path, which also waits (single_fetch.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.replicas.fetch_session import FINAL_EPOCH, NO_SESSION, FetchedPartition, FetchSession
from broker.requests.context import PartlyServed
from protocol.fast_path.fetch_answer import PlainRow, answer_plain
from protocol.fast_path.plain_fetch import FIRST_VERSION, parse
from protocol.schema import Chunk
from security.acl import Operation, ResourceType
from storage.fetch_slice import EMPTY, INLINE_BYTES, FetchSlice

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.access.authorization.guard import Guard
    from broker.network.connection import Connection
    from broker.replicas.fetch_session import FetchSessions
    from broker.replicas.partition import Partition
    from broker.replicas.partitions import Partitions
    from config import BrokerConfig
    from runtime.clock import Clock
    from storage.log.partition_log import PartitionLog

_READ_UNCOMMITTED = 0
#: A response reads small slices at once up to this size; further slices stay in their files until they are sent.
_INLINE_TOTAL_BYTES = 64 * 1024

#: Topic id, index, leader epoch, offset, last fetched epoch, most bytes, number of tagged fields, and the partition of
#: the session.
_Wanted: TypeAlias = "tuple[bytes, int, int, int, int, int, int, FetchedPartition | None]"


class NotEnough(NamedTuple):
    """The progress of a fetch that waits: it found fewer bytes than `min_bytes`, and no partition has an error.

    `session`: its epoch is advanced. `rows`: the rows of an answer now, in order. With a session they belong to the
    partitions `reported`, without one to all. `read`: logs with the bytes found in each.
    """

    session: FetchSession | None
    rows: list[PlainRow]
    reported: list[FetchedPartition]
    read: list[tuple[PartitionLog, int]]


def plain_fetch(
    version: int,
    *,
    partitions: Partitions,
    fetch_sessions: FetchSessions,
    clock: Clock,
    config: BrokerConfig,
    guard: Guard | None,
) -> Callable[[Connection, memoryview, int, int], bytes | list[Chunk] | None] | None:
    """Return the fast path of a version (`broker.requests.served_api.FastPath`), or None for versions without one."""
    if version < FIRST_VERSION:
        return None
    may_read = None if guard is None else guard.asking(Operation.READ, ResourceType.TOPIC)
    of_topic_id = partitions.of_topic_id

    def serve(
        connection: Connection, frame: memoryview, position: int, correlation_id: int
    ) -> bytes | list[Chunk] | None:
        """Answer the request in `frame`, whose body begins at `position`; return None if the handler must serve it."""
        request = parse(version, frame, position)
        if request is None:
            return None
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, epoch, topics = request
        if isolation_level != _READ_UNCOMMITTED or max_bytes <= 0:
            return None
        session = None
        wanted: list[_Wanted]
        if epoch == FINAL_EPOCH and session_id == NO_SESSION:
            wanted = [
                (topic_id, index, leader_epoch, offset, last_epoch, max_bytes, tags, None)
                for topic_id, asked in topics
                for index, leader_epoch, offset, last_epoch, _, max_bytes, tags in asked
            ]
            if len({each[:2] for each in wanted}) != len(wanted):
                return None
        else:
            session = fetch_sessions.current(session_id, epoch)
            if session is None or not session.uses_topic_ids:
                return None
            if may_read is not None and not all(_may_read(may_read, connection, of_topic_id(id)) for id, _ in topics):
                return None
            if not session.update(topics):
                return None
            wanted = [
                (
                    each.topic_id,
                    each.index,
                    each.current_leader_epoch,
                    each.fetch_offset,
                    each.last_fetched_epoch,
                    each.max_bytes,
                    0,
                    each,
                )
                for each in session.partitions.values()
            ]
        if not wanted:
            return None
        limit = min(max_bytes, config.get_int("fetch.max.bytes"))
        min_bytes = min(min_bytes, limit)
        now_ms = clock.monotonic_ms()
        read: list[tuple[PartitionLog, int]] = []
        answered: list[tuple[bytes, list[PlainRow]]] = []
        found_rows: list[PlainRow] = []
        reported: list[FetchedPartition] = []
        total = 0
        last_id: object = None
        by_index: Mapping[int, Partition] = {}
        rows: list[PlainRow] = []
        try:
            for topic_id, index, leader_epoch, offset, last_epoch, max_bytes, tags, of_session in wanted:
                if topic_id != last_id:
                    by_index = of_topic_id(topic_id)
                    rows = []
                    answered.append((topic_id, rows))
                    last_id = topic_id
                    if may_read is not None and not _may_read(may_read, connection, by_index):
                        return None
                partition = by_index.get(index)
                if (
                    partition is None
                    or last_epoch >= 0
                    or max_bytes < 0
                    or tags
                    or (leader_epoch != partition.leader_epoch and leader_epoch >= 0)
                    or (log := partition.open_log) is None
                ):
                    return None
                high_watermark = log.high_watermark
                start_offset = log.log_start_offset
                records: FetchSlice | bytes = EMPTY
                size = 0
                if offset != high_watermark:
                    found = log.read(offset, max_bytes if max_bytes < limit else limit, high_watermark, not total)
                    if type(found) is FetchSlice:
                        if found.is_cold(now_ms):
                            return None
                        size = found.size
                        records = found.inline() if size <= INLINE_BYTES and total < _INLINE_TOTAL_BYTES else found
                        total += size
                        limit = limit - size if limit > size else 0
                        read.append((log, size))
                if of_session is not None:
                    if (
                        not size
                        and of_session.high_watermark == high_watermark
                        and of_session.log_start_offset == start_offset
                    ):
                        continue
                    reported.append(of_session)
                row = (index, high_watermark, log.last_stable_offset, start_offset, records, size)
                rows.append(row)
                found_rows.append(row)
        except Exception:
            return None  # the handler finds the same error, and reports it
        if session is not None:
            fetch_sessions.advance(session_id)
        if total < min_bytes and max_wait_ms > 0:
            raise PartlyServed(NotEnough(session, found_rows, reported, read))
        for log, size in read:
            log.fetched_bytes += size
        if session is not None:
            session.note_reported(reported, found_rows)
        return answer_plain(correlation_id, session_id, answered)

    return serve


def _may_read(
    may_read: Callable[[Connection, str], bool], connection: Connection, by_index: Mapping[int, Partition]
) -> bool:
    """Return whether the client may read the topic of these partitions; False where there are none."""
    partition = next(iter(by_index.values()), None)
    return partition is not None and may_read(connection, partition.topic)
