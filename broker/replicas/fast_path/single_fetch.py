"""The fast path of Fetch requests of consumers for one partition: it returns records now, or when the next one arrives.

Its responses equal those of broker.handlers.fetch. It returns None before it changes anything, so that the handler
serves the request, if there is an error, if the fetch waits for more than the next record, or if it is read_committed.
A waiting fetch has not changed anything either: it is tried again like a new request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from broker.replicas.fast_path.plain_fetch import plain_fetch
from broker.replicas.fetch_session import FINAL_EPOCH, NO_SESSION
from protocol.fast_path.fetch_answer import answer_nothing, answer_one
from protocol.fast_path.single_fetch import FIRST_VERSION, SingleFetch, parse
from protocol.schema import Chunk
from runtime.deferred import Deferred
from security.acl import Operation, ResourceType
from storage.fetch_slice import EMPTY, INLINE_BYTES, FetchSlice

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.network.connection import Connection
    from broker.replicas.fetch_session import FetchSessions
    from broker.replicas.partition import Partition
    from broker.replicas.partitions import Partitions
    from broker.requests.served_api import FastAnswer, FastPath
    from config import BrokerConfig
    from runtime.clock import Clock
    from runtime.purgatory import Purgatory

_READ_UNCOMMITTED = 0
#: The result for a fetch that has to wait.
_WAITS: list[Chunk] = []


class FetchNeeds(NamedTuple):
    """The services that a fetch uses."""

    sessions: FetchSessions
    purgatory: Purgatory
    clock: Clock
    config: BrokerConfig


def fetch_single(
    version: int,
    before_many: Callable[[FastPath], FastPath] | None = None,
    *,
    partitions: Partitions,
    fetch_sessions: FetchSessions,
    purgatory: Purgatory,
    clock: Clock,
    config: BrokerConfig,
    guard: Guard | None,
) -> FastPath | None:
    """Return the fast path of a version (`broker.requests.served_api.FastPath`), or None for versions without one.

    `before_many` returns what serves requests that are not a consumer's for one partition; by default that is its
    argument, the fast path of many partitions.
    """
    if version < FIRST_VERSION:
        return None
    needs = FetchNeeds(fetch_sessions, purgatory, clock, config)
    serve_many = plain_fetch(
        version,
        partitions=partitions,
        fetch_sessions=fetch_sessions,
        clock=clock,
        config=config,
        guard=guard,
    )
    serve_others = serve_many if serve_many is None or before_many is None else before_many(serve_many)
    may_read = None if guard is None else guard.asking(Operation.READ, ResourceType.TOPIC)

    def serve(connection: Connection, frame: memoryview, position: int, correlation_id: int) -> FastAnswer:
        """Answer the request in `frame`, whose body begins at `position`; return None if the handler must serve it."""
        request = parse(version, frame, position)
        if request is None:
            return None if serve_others is None else serve_others(connection, frame, position, correlation_id)
        if request.isolation_level != _READ_UNCOMMITTED or request.last_fetched_epoch >= 0:
            return None
        if request.topic:
            partition = partitions.get(request.topic, request.partition)
        else:
            partition = partitions.get_by_id(request.topic_id, request.partition)
        if partition is None:
            return None
        may = None if may_read is None else partial(may_read, connection, partition.topic)
        found = _try(needs, version, correlation_id, request, partition, may, request.max_wait_ms > 0)
        if found is None and request.session_id != NO_SESSION and serve_many is not None:
            return serve_many(connection, frame, position, correlation_id)  # its session may read more
        if found is not _WAITS:
            return found
        return _Wait(needs, version, correlation_id, request, partition, may).deferred

    return serve


class _Wait:
    """A fetch that waits for the next record of its partition; `deferred` resolves then, or at the deadline."""

    __slots__ = ("_fetch", "deferred")

    def __init__(
        self,
        needs: FetchNeeds,
        version: int,
        correlation_id: int,
        request: SingleFetch,
        partition: Partition,
        may: Callable[[], bool] | None,
    ) -> None:
        self._fetch = needs, version, correlation_id, request, partition, may
        self.deferred: Deferred[list[Chunk] | None] = Deferred()
        deadline_ms = needs.clock.monotonic_ms() + request.max_wait_ms
        waiter = needs.purgatory.watch((partition,), self._try_again, deadline_ms, self._on_deadline)
        self.deferred.on_cancel(waiter.cancel)
        partition.log.awaited = True

    def _try_again(self) -> bool:
        found = _try(*self._fetch, True)
        if found is _WAITS:
            return False
        self.deferred.resolve(found)
        return True

    def _on_deadline(self) -> None:
        self.deferred.resolve(_try(*self._fetch, False))


def _try(
    needs: FetchNeeds,
    version: int,
    correlation_id: int,
    request: SingleFetch,
    partition: Partition,
    may: Callable[[], bool] | None,
    may_wait: bool,
) -> list[Chunk] | None:
    """Return the answer now; _WAITS if it has to wait and may; None if the handler must serve the request.

    `may` returns whether the client is authorized, which may have changed during the wait.
    """
    if may is not None and not may():
        return None
    if request.current_leader_epoch not in (-1, partition.leader_epoch) or not partition.hosted:
        return None
    session_id = request.session_id
    wanted = None
    if request.session_epoch != FINAL_EPOCH or session_id != NO_SESSION:
        key = (request.topic or request.topic_id, request.partition)
        wanted = needs.sessions.only_partition(session_id, request.session_epoch, key)
        if wanted is None:
            return None
    max_bytes = min(request.max_bytes, needs.config.get_int("fetch.max.bytes"))
    log = partition.open_log
    if log is None:
        return None
    try:
        high_watermark = log.high_watermark
        last_stable_offset = log.last_stable_offset
        log_start_offset = log.log_start_offset
        offset = request.fetch_offset
        if max_bytes < 0 or request.partition_max_bytes < 0 or offset > high_watermark:
            return None
        records: FetchSlice | bytes = EMPTY
        if offset == high_watermark:
            if request.max_wait_ms <= 0 or request.min_bytes != 1 or not max_bytes:
                return None
            if may_wait:
                return _WAITS
        else:
            found = log.read(offset, min(request.partition_max_bytes, max_bytes), high_watermark)
            if isinstance(found, bytes) or (size := found.size) < min(request.min_bytes, max_bytes):
                return None
            if not found.in_memory and found.is_cold(needs.clock.monotonic_ms()):
                return None
            records = found.inline() if size <= INLINE_BYTES else found
            log.fetched_bytes += size
    except Exception:
        return None  # the handler finds the same error, and reports it
    if wanted is not None:
        needs.sessions.advance(session_id)
        if not wanted.note_single(partition.topic, request, high_watermark, log_start_offset) and not records:
            return answer_nothing(version, correlation_id, session_id)
    return answer_one(
        version,
        correlation_id,
        session_id,
        request.key,
        request.partition,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        records,
    )
