"""Read a range of one partition's records by Fetch requests to its leader.

The next request is sent before the records of a response are parsed: the broker, the network and this process work at
the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from protocol.client_session import PendingRequest
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.records.batch import entry_at, parse_header
from protocol.records.buffer import Buffer
from protocol.records.errors import CorruptBatch, RecordsError
from protocol.schema import Struct
from pybroker.isolated.aborted import FetchedAborted
from pybroker.isolated.cluster import Cluster, TopicPartition, check
from pybroker.isolated.connection import Connection
from pybroker.isolated.entries import IsAborted, add_entry, no_aborted
from pybroker.isolated.rows import Rows
from pybroker.source.errors import DamagedLog, DataLoss

#: The newest version with topic names: later ones have ids alone.
_FETCH_VERSION = 12
#: Bytes of a response: large enough that requests cost little, small enough for several readers on a machine.
_FETCH_BYTES = 8 << 20
_WAIT_MS = 500
_NO_SESSION = -1


class Range(NamedTuple):
    """Offsets from `start` on, before `end`."""

    place: TopicPartition
    start: int
    end: int

    @property
    def name(self) -> str:
        """Return the name for errors."""
        return f"{self.place[0]}-{self.place[1]}"


def fetch_range(
    cluster: Cluster,
    wanted: Range,
    rows: Rows,
    isolation: int,
    earliest: Callable[[], int] | None = None,
) -> None:
    """Add the records of a range to `rows`. Offsets without a record are skipped.

    `earliest` returns the partition's first offset; with it, deleted records are skipped. Errors: without it, DataLoss
    if the log begins after the start, or the range's records are missing; DamagedLog, BrokerFailed.
    """
    fetches = _Fetches(wanted, isolation)
    offset, deadline = wanted.start, cluster.now_s() + cluster.timeout_s
    while offset < wanted.end:
        data = cluster.at_leader(wanted.place, partial(fetches.fetch, offset=offset))
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if earliest is None:
                raise DataLoss(f"{wanted.name}: offset {offset} was deleted, or is not written yet")
            begun = earliest()
            if begun <= offset:  # the log was truncated
                return
            offset = begun
            continue
        reached = _take(data, wanted, offset, rows, isolation)
        if reached > offset:
            offset, deadline = reached, cluster.now_s() + cluster.timeout_s
        elif cluster.now_s() >= deadline:
            if earliest is None:
                raise DataLoss(
                    f"{wanted.name}: no records arrive from offset {offset} on, although the end is {wanted.end}"
                )
            return


class _Fetches:
    """Requests for a range, of which one may be sent ahead."""

    def __init__(self, wanted: Range, isolation: int) -> None:
        self._wanted = wanted
        self._isolation = isolation
        #: The connection, the request, and its offset.
        self._ahead: tuple[Connection, PendingRequest, int] | None = None

    def fetch(self, connection: Connection, offset: int) -> Struct:
        """Return a partition's records from an offset on, and send the next request if its offset is known.

        Errors: those of connections, Retriable, BrokerFailed.
        """
        answer = self._answer(connection, offset)
        check(answer.error_code, self._wanted.name)
        data: Struct = answer.responses[0].partitions[0]
        if data.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            check(data.error_code, self._wanted.name)
            behind = _behind(data.records)
            if offset < behind < self._wanted.end:
                self._ahead = connection, self._ask(connection, behind), behind
        return data

    def _answer(self, connection: Connection, offset: int) -> Struct:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] is connection:
            answer = connection.answer(ahead[1])
            if ahead[2] == offset:
                return answer
        return connection.answer(self._ask(connection, offset))

    def _ask(self, connection: Connection, offset: int) -> PendingRequest:
        topic, partition = self._wanted.place
        asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
        return connection.ask(
            FETCH,
            _FETCH_VERSION,
            replica_id=-1,
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            isolation_level=self._isolation,
            session_id=0,
            session_epoch=_NO_SESSION,
            topics=[FetchTopic(topic=topic, partitions=[asked])],
            forgotten_topics_data=[],
            rack_id="",
        )


def _behind(records: Buffer | None) -> int:
    """Return the offset after the last whole batch, by its header; -1 without one, or for an older format."""
    view, position, behind = memoryview(records or b""), 0, -1
    try:
        while (entry := entry_at(view, position)) is not None:
            _, size, magic = entry
            behind = parse_header(view, position).next_offset if magic == 2 else -1
            position += size
    except CorruptBatch:  # the parser reports the error
        return -1
    return behind


def _take(data: Struct, wanted: Range, offset: int, rows: Rows, isolation: int) -> int:
    """Return the offset after the last whole entry. A response may truncate the last one; the next has it."""
    is_aborted: IsAborted = no_aborted
    if isolation and data.aborted_transactions:
        is_aborted = FetchedAborted((each.producer_id, each.first_offset) for each in data.aborted_transactions)
    records, position = memoryview(data.records or b""), 0
    try:
        while offset < wanted.end and (entry := entry_at(records, position)) is not None:
            size = entry[1]
            behind = add_entry(rows, records[position : position + size], offset, wanted.end, is_aborted)
            offset = max(offset, behind)
            position += size
    except RecordsError as error:
        raise DamagedLog(f"{wanted.name}, behind offset {offset}: {error}") from None
    return offset
