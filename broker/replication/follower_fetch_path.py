"""The fast path of Fetch requests in a member: the next fetches of a follower's session. Consumers keep theirs.

A fetch reads the partitions of its session that are due, and is answered at once or waits for the session. Its answers
equal those of FollowerFetchAttempt, and so does what the leader learns from it. Whatever is not plain is left to that
class: an error, a log that diverges, a throttle, a quota, records that are not in the page cache. A new request is left
to it before anything has changed, and a waiting one at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.replicas.fast_path.single_fetch import fetch_single
from broker.replicas.fetch_session import FetchContext
from broker.replication.follower_fetch import READ_BYTES, FollowerFetchAttempt
from broker.replication.replicated_partition import ReplicatedPartition
from broker.requests.context import RequestContext
from broker.requests.dispatcher import Waiting
from protocol.error_codes import ErrorCode
from protocol.fast_path.fetch_answer import PlainRow, answer_one, answer_plain
from protocol.fast_path.follower_fetch import FIRST_VERSION, FollowerFetch, parse
from protocol.fetch_answer import FetchAnswer, fetch_encoder
from protocol.messages.fetch import FETCH
from protocol.schema import Chunk
from replication.leading import is_current
from runtime.deferred import Deferred
from security.acl import CLUSTER_NAME, Operation, ResourceType
from storage.fetch_slice import EMPTY, INLINE_BYTES, FetchSlice

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.network.connection import Connection
    from broker.replicas.fetch_attempt import FetchServices
    from broker.replicas.fetch_session import FetchedPartition, FetchSession, FetchSessions, Key
    from broker.replicas.partitions import Partitions
    from broker.replication.replica_reads import ReplicaReads
    from broker.requests.served_api import FastAnswer, FastPath, FastPathFactory
    from config import BrokerConfig
    from replication.follower import Follower
    from replication.follower_session import FollowerSession
    from runtime.clock import Clock
    from runtime.purgatory import Purgatory
    from storage.log.partition_log import PartitionLog

_READ_UNCOMMITTED = 0
_Answer: TypeAlias = "bytes | list[Chunk]"


#: A partition as a fetch has read it: its key in the session, the request for it, the partition, its log, the follower,
#: the records and their size, and the high watermark, the last stable offset and the log start offset, as they were
#: before the fetch counted.
_Read: TypeAlias = (
    "tuple[Key, FetchedPartition, ReplicatedPartition, PartitionLog, Follower, FetchSlice | bytes, int, int, int, int]"
)


class _Needs(NamedTuple):
    services: FetchServices
    reads: ReplicaReads
    version: int


def fetch_of_members(reads: Callable[[], ReplicaReads]) -> FastPathFactory:
    """Return the fast paths of a member. `reads` returns its parts, once they exist."""

    def fetch_of_member(
        version: int,
        *,
        partitions: Partitions,
        fetch_sessions: FetchSessions,
        fetch_services: FetchServices,
        purgatory: Purgatory,
        clock: Clock,
        config: BrokerConfig,
        guard: Guard | None,
    ) -> FastPath | None:
        """Return the fast path of a version (`broker.requests.served_api.FastPath`), or None without one."""

        def before_many(serve_many: FastPath) -> FastPath:
            return _fetch_of_followers(_Needs(fetch_services, reads(), version), fetch_sessions, guard, serve_many)

        return fetch_single(
            version,
            before_many if version >= FIRST_VERSION else None,
            partitions=partitions,
            fetch_sessions=fetch_sessions,
            purgatory=purgatory,
            clock=clock,
            config=config,
            guard=guard,
        )

    return fetch_of_member


def _fetch_of_followers(
    needs: _Needs, sessions: FetchSessions, guard: Guard | None, serve_consumers: FastPath
) -> FastPath:
    """Return what serves the next fetches of followers' sessions, and gives the others to `serve_consumers`."""
    may = None if guard is None else guard.asking(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)

    def serve(connection: Connection, frame: memoryview, position: int, correlation_id: int) -> FastAnswer:
        """Answer the request in `frame`, whose body begins at `position`; None: the handler must serve it."""
        request = parse(frame, position)
        if request is None:
            return serve_consumers(connection, frame, position, correlation_id)
        wait_ms, _, _, _, session_id, epoch, _, _, topics = request
        session = sessions.current(session_id, epoch)
        if session is None or session.of_follower is None or not session.uses_topic_ids:
            return None
        if may is not None and not may(connection, CLUSTER_NAME):
            return None
        fetch = _Fetch(needs, session, session.of_follower, request, correlation_id)
        if not fetch.begin(topics) or (found := fetch.look()) is None:
            return None
        sessions.advance(session.id)
        fetch.epoch = session.epoch
        if fetch.take(found, counts=True) or wait_ms <= 0:
            return fetch.answer(found)
        return fetch.wait(found, wait_ms, connection, bytes(frame[position:]))

    return serve


class _Fetch:
    """One fetch of a session, after `begin`."""

    __slots__ = (
        "_body",
        "_brokers",
        "_connection",
        "_correlation_id",
        "_deferred",
        "_due",
        "_is_plain",
        "_max_bytes",
        "_min_bytes",
        "_needs",
        "_replica_epoch",
        "_replica_id",
        "_session",
        "epoch",
    )

    def __init__(
        self,
        needs: _Needs,
        session: FetchSession,
        due: FollowerSession[Key],
        request: FollowerFetch,
        correlation_id: int,
    ) -> None:
        _, min_bytes, max_bytes, isolation, _, _, self._replica_id, self._replica_epoch, _ = request
        self._needs = needs
        self._brokers = needs.reads.brokers
        self._session = session
        self._due = due
        self._correlation_id = correlation_id
        self._is_plain = isolation == _READ_UNCOMMITTED and max_bytes > 0
        limit = needs.services.config.get_int("fetch.max.bytes")
        self._max_bytes = max_bytes if max_bytes < limit else limit
        self._min_bytes = min_bytes if min_bytes < self._max_bytes else self._max_bytes
        #: The session's epoch after this fetch.
        self.epoch = 0

    # -- a new fetch -------------------------------------------------------------------------------------------------

    def begin(self, topics: list[tuple[bytes, list[tuple[int, int, int, int, int, int, int]]]]) -> bool:
        """Store what the fetch says of its partitions; False: the handler has to, and stores the same again."""
        due, known = self._due, self._session.partitions
        if not self._is_plain or not due.was_fetched_by(self._replica_id, self._replica_epoch):
            return False
        if self._needs.reads.throttle.is_active:
            return False
        named: list[Key] = []
        for topic_id, asked in topics:
            for index, leader_epoch, offset, last_epoch, start_offset, max_bytes, tags in asked:
                key = topic_id, index
                partition = known.get(key)
                if partition is None or tags or max_bytes < 0:
                    return False
                partition.current_leader_epoch = leader_epoch
                partition.fetch_offset = offset
                partition.last_fetched_epoch = last_epoch
                partition.follower_start = start_offset
                partition.max_bytes = max_bytes
                named.append(key)
        if not is_current(self._brokers, self._replica_id, self._replica_epoch):
            return False
        now_ms = self._needs.services.clock.monotonic_ms()
        due.begin_fetch(self._replica_id, self._replica_epoch, named, (), now_ms, counts=True)
        return True

    # -- reads -------------------------------------------------------------------------------------------------------

    def look(self) -> list[_Read] | None:
        """Read the partitions that are due; None if one is not plain. Changes nothing."""
        found: list[_Read] = []
        limit, total = self._max_bytes, 0
        replica_id = self._replica_id
        services = self._needs.services
        now_ms = services.clock.monotonic_ms()
        of_topic_id = services.partitions.of_topic_id
        find = self._session.partitions.get
        last_id: bytes | str = b""
        of_topic: dict[int, object] = {}
        try:
            for key in self._due.due:
                wanted = find(key)
                if wanted is None:
                    continue  # a later fetch of the session had it forgotten
                topic_id, index = key
                if topic_id != last_id:
                    of_topic = of_topic_id(topic_id)  # type: ignore[arg-type, assignment]
                    last_id = topic_id
                partition = of_topic.get(index)
                if (
                    type(partition) is not ReplicatedPartition
                    or wanted.current_leader_epoch != partition.leader_epoch
                    or (log := partition.open_log) is None
                    or (follower := partition.leader.followers.get(replica_id)) is None
                ):
                    return None
                offset, end_offset, start_offset = wanted.fetch_offset, log.log_end_offset, log.log_start_offset
                last_epoch = wanted.last_fetched_epoch
                if last_epoch >= 0 and (
                    last_epoch != log.leader_epochs.latest or not start_offset <= offset <= end_offset
                ):
                    return None
                records: FetchSlice | bytes = EMPTY
                size = 0
                if offset != end_offset:
                    max_bytes = wanted.max_bytes
                    records = log.read(offset, max_bytes if max_bytes < limit else limit, end_offset, not total)
                    if type(records) is FetchSlice:
                        if records.is_cold(now_ms):
                            return None
                        size = records.size
                        total += size
                        limit = limit - size if limit > size else 0
                at = log.high_watermark, log.last_stable_offset, start_offset
                found.append((key, wanted, partition, log, follower, records, size, *at))
        except Exception:
            return None  # FollowerFetchAttempt finds the same error, and reports it
        return found

    def take(self, found: list[_Read], *, counts: bool) -> bool:
        """Let partitions rest where nothing can come of another read. Return whether to answer at once.

        `counts`: the leader learns where the follower is.
        """
        due, replica_id, replica_epoch = self._due, self._replica_id, self._replica_epoch
        total = 0
        for key, wanted, partition, log, follower, _, size, high_watermark, _, start_offset in found:
            if follower.session is not due or follower.key is not key:
                follower.read_by(due, key)
            if counts:
                partition.follower_fetched(replica_id, replica_epoch, wanted.fetch_offset, wanted.follower_start)
            if size:
                total += size
            elif (
                wanted.high_watermark == high_watermark == log.high_watermark
                and wanted.log_start_offset == start_offset == log.log_start_offset
                and partition.may_rest(follower, replica_epoch)
            ):
                due.rest(key, follower)
                log.awaited = True
        return total >= self._min_bytes

    def answer(self, found: list[_Read]) -> _Answer:
        """Return the frame of the answer, which has the partitions with news."""
        sizes = {key: size for key, _, _, _, _, _, size, _, _, _ in found if size}
        reads_all = len(sizes) > 1 and sum(sizes.values()) <= READ_BYTES
        topics: list[tuple[bytes, list[PlainRow]]] = []
        rows: list[PlainRow] = []
        last_id: bytes | str = b""
        for key, wanted, partition, _, _, records, size, high_watermark, stable_offset, start_offset in found:
            if not size and wanted.high_watermark == high_watermark and wanted.log_start_offset == start_offset:
                continue
            wanted.high_watermark, wanted.log_start_offset = high_watermark, start_offset
            if size:
                if size <= INLINE_BYTES or reads_all:
                    records = _in_memory(records)
                partition.count_sent(self._replica_id, size)
            if key[0] != last_id:
                last_id, rows = key[0], []
                topics.append((last_id, rows))  # type: ignore[arg-type]
            rows.append((key[1], high_watermark, stable_offset, start_offset, records, size))
        if len(sizes) < len(self._due.due):  # if all were served, the order stays
            self._due.serve_last(sizes)
        if len(topics) == 1 == len(rows):
            index, high_watermark, stable_offset, start_offset, data, _ = rows[0]
            where = self._needs.version, self._correlation_id, self._session.id, topics[0][0], index
            frame = answer_one(*where, high_watermark, stable_offset, start_offset, data)
            return frame[0] if len(frame) == 1 else frame  # type: ignore[return-value]
        return answer_plain(self._correlation_id, self._session.id, topics)

    # -- a fetch that waits ------------------------------------------------------------------------------------------

    def wait(self, found: list[_Read], wait_ms: int, connection: Connection, body: bytes) -> Waiting:
        """Wait for the session. As in Apache Kafka, later reads do not count: the follower may have failed since."""
        self._connection, self._body = connection, body
        for _, _, _, log, *_ in found:
            log.awaited = True
        deferred: Deferred[_Answer] = Deferred()
        self._deferred = deferred
        services = self._needs.services
        deadline_ms = services.clock.monotonic_ms() + wait_ms
        waiter = services.purgatory.watch((self._due,), self._try_again, deadline_ms, self._on_deadline)
        deferred.on_cancel(waiter.cancel)
        return Waiting(None, self._correlation_id, b"", deferred)

    def _try_again(self) -> bool:
        found = self._look_again()
        if found is None:
            return self._hand_over(is_over=False)
        if not self.take(found, counts=False):
            return False
        self._deferred.resolve(self.answer(found))
        return True

    def _on_deadline(self) -> None:
        found = self._look_again()
        if found is None:
            self._hand_over(is_over=True)
        else:
            self.take(found, counts=False)
            self._deferred.resolve(self.answer(found))

    def _look_again(self) -> list[_Read] | None:
        """Do `look`; None also where the whole fetch is not plain any more."""
        needs = self._needs
        if (
            self._session.epoch != self.epoch
            or needs.reads.throttle.is_active
            or not is_current(self._brokers, self._replica_id, self._replica_epoch)
        ):
            return None
        return self.look()

    def _hand_over(self, *, is_over: bool) -> bool:
        """Let FollowerFetchAttempt read. Return whether it has an answer, as it must if the wait is over."""
        services, reads, version = self._needs
        encode, session = fetch_encoder(version), self._session
        if session.epoch != self.epoch:  # another request of the session was served meanwhile
            answer = FetchAnswer(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, [])
            self._deferred.resolve(encode(self._correlation_id, answer))
            return True
        request, _ = FETCH.request.decode(version, self._body, 0)
        attempt = FollowerFetchAttempt(
            reads.throttle,
            reads.brokers,
            reads.wake,
            services,
            RequestContext(self._connection, FETCH, version, self._correlation_id, None),
            request,
            FetchContext(session.partitions, session),
            self._replica_id,
            waits=True,
        )
        if not attempt.ends_wait() and not is_over:
            return False
        answered = attempt.warmed()
        if isinstance(answered, FetchAnswer):
            self._deferred.resolve(encode(self._correlation_id, answered))
        else:
            answered.add_done_callback(self._on_warmed)
        return True

    def _on_warmed(self, done: Deferred[FetchAnswer]) -> None:
        try:
            self._deferred.resolve(fetch_encoder(self._needs.version)(self._correlation_id, done.result()))
        except Exception as error:
            self._deferred.fail(error)


def _in_memory(records: FetchSlice | bytes) -> FetchSlice | bytes:
    """Return the bytes of a slice; the slice itself if its file ended early, which the sender reports."""
    if type(records) is not FetchSlice:
        return records
    try:
        data = records.read()
    except OSError:  # the send will fail with the same error
        return records
    return data if len(data) == records.size else records
