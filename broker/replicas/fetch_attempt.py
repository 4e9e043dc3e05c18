"""A fetch that is being served: it reads its partitions, again after each change, until it has enough bytes.

The answer is a list of slices of segment files, whose bytes are not read. The first batch of the first partition with
records is sent whole, whatever the limits are. A fetch that finds less than `min_bytes` waits in the purgatory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, NamedTuple

from broker.replicas.down_conversion import (
    FIRST_VERSION_WITH_BATCHES,
    FIRST_VERSION_WITH_WHOLE_BATCH,
    ConversionRequest,
    ConversionServices,
    convert_answer,
    refusal,
)
from broker.replicas.fast_path.plain_fetch import NotEnough
from broker.replicas.fetch_session import NO_SESSION, FetchContext, FetchedPartition
from broker.replicas.fetched_data import aborted_in, absent_data, divergence, failed_data, warm
from broker.replicas.partition import Partition
from broker.requests.context import RequestContext
from broker.requests.error_code_map import error_code_of
from protocol.error_codes import ErrorCode
from protocol.fetch_answer import NO_RECORDS, Aborted, Epoch, FetchAnswer, FetchedData, FetchedTopic, Node
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct
from runtime.deferred import Deferred, after
from storage.errors import LogOffline
from storage.fetch_slice import FetchSlice
from storage.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.replicas.current_leaders import CurrentLeaders
    from broker.replicas.partitions import Partitions
    from broker.requests.advertised_endpoints import AdvertisedEndpoints
    from config import BrokerConfig
    from runtime.clock import Clock
    from runtime.purgatory import Purgatory
    from runtime.thread_pool import ThreadPool

_CONSUMER = -1
READ_COMMITTED = 1

#: Before this version a failed disk is reported as NOT_LEADER_OR_FOLLOWER, so that clients look for another (KIP-112).
_FIRST_VERSION_WITH_STORAGE_ERROR = 6
_FIRST_VERSION_WITH_LEADER = 16
_NO_SIZE = ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka's error for a negative number of bytes
_SAYS_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class FetchServices(NamedTuple):
    """The services that a fetch uses. `attempt` creates the attempt of a request, with the arguments of the class."""

    config: BrokerConfig
    clock: Clock
    purgatory: Purgatory
    partitions: Partitions
    guard: Guard | None
    offload: ThreadPool
    endpoints: AdvertisedEndpoints
    current_leaders: CurrentLeaders
    conversion: ConversionServices
    attempt: Callable[..., FetchAttempt]


class FetchAttempt:
    """A fetch. It is tried at once and, if it has to wait, again whenever one of its partitions has changed."""

    _is_read_again = False  # a follower's fetch that has waited says nothing new of the follower
    __slots__ = (
        "_answers",
        "_bytes_read",
        "_committed",
        "_context",
        "_ctx",
        "_found",
        "_incremental",
        "_is_stale",
        "_max_bytes",
        "_may_read",
        "_min_bytes",
        "_names_leaders",
        "_replica_epoch",
        "_replica_id",
        "_services",
        "_to_log_end",
        "_version",
        "_waits_for",
        "_wanted",
        "_woken",
    )

    #: Whether the client's session has partitions that this fetch does not read, because nothing has changed there.
    _leaves_out = False

    def __init__(
        self, services: FetchServices, ctx: RequestContext, request: Struct, context: FetchContext, replica_id: int
    ) -> None:
        self._services = services
        self._version = ctx.api_version
        self._ctx = ctx
        self._context = context
        self._wanted = list(context.partitions.values())
        self._incremental = context.session is not None
        self._replica_id = replica_id
        self._replica_epoch: int = request.replica_state.replica_epoch if self._version >= 15 else -1  # KIP-903
        self._to_log_end = replica_id != _CONSUMER
        self._committed = request.isolation_level == READ_COMMITTED and not self._to_log_end
        self._max_bytes: int = min(request.max_bytes, self._services.config.get_int("fetch.max.bytes"))
        if ctx.charge is not None:
            self._max_bytes = ctx.charge.most_fetched(self._max_bytes)
        self._min_bytes: int = min(request.min_bytes, self._max_bytes)
        self._bytes_read = 0
        #: The logs of the last read, with the bytes found in each.
        self._found: list[tuple[PartitionLog, int]] = []
        self._names_leaders = False
        #: Whether a partition may have changed since the last read.
        self._is_stale = False
        guard = self._services.guard
        self._may_read = None if guard is None else guard.replica_reader(ctx) if replica_id >= 0 else guard.reader(ctx)
        self._answers: list[tuple[FetchedPartition, FetchedData]] = []
        #: While it waits: resolved when the last read is to be answered.
        self._woken: Deferred[None] | None = None
        #: While it waits: each partition with its log's size at the last read.
        self._waits_for: list[tuple[Partition, int]] = []

    def finds_any(self) -> bool:
        """Whether any partition is hosted here and may be read."""
        names = ((wanted.topic or self._name_of(wanted), wanted.index) for wanted in self._wanted)
        return any(
            name is not None
            and (self._may_read is None or self._may_read(name))
            and self._services.partitions.get(name, index) is not None
            for name, index in names
        )

    def read(self) -> bool:
        """Read all partitions; return whether there is enough, or an error, to answer with."""
        answers = self._answers
        answers.clear()
        self._found.clear()
        absent: list[tuple[FetchedPartition, FetchedData]] = []  # at the end of the answer
        self._names_leaders = False
        limit_bytes = self._max_bytes
        version = self._version
        one_batch = version >= FIRST_VERSION_WITH_WHOLE_BATCH
        total = 0
        found = 0
        ready = False
        get = self._services.partitions.get
        may_read = self._may_read
        for wanted in self._wanted:
            topic = wanted.topic
            if topic is None:
                topic = self._name_of(wanted)
            if may_read is not None and topic is not None and not may_read(topic):
                absent.append((wanted, absent_data(wanted.index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
                ready = True
                continue
            partition = None if topic is None else get(topic, wanted.index)
            if partition is None:
                code = self._services.partitions.absence(topic, wanted.index)
                ready = ready or code is ErrorCode.NOT_LEADER_OR_FOLLOWER
                absent.append((wanted, self._say_other_leader(topic, absent_data(wanted.index, code))))
                continue
            found += 1
            data = self._read_one(partition, wanted, limit_bytes, one_batch)
            if data is None:
                continue
            if data.records is not NO_RECORDS and (size := len(data.records)):
                one_batch = False
                limit_bytes = limit_bytes - size if limit_bytes > size else 0
                total += size
                self._found.append((partition.log, size))
            elif (
                data.error_code
                or data.diverging_epoch is not None
                or (version < FIRST_VERSION_WITH_WHOLE_BATCH and wanted.fetch_offset < data.high_watermark)
            ):
                ready = True
            answers.append((wanted, data))
        answers += absent
        self._is_stale = bool(absent)  # a missing partition that is created wakes no fetch
        self._bytes_read = total
        return ready or total >= self._min_bytes or not (found or self._leaves_out)

    def note_read(self, found: NotEnough) -> None:
        """Continue after a read by the fast path, which found this."""
        wanted = self._wanted if found.session is None else found.reported
        for each, (index, high_watermark, stable_offset, start_offset, records, size) in zip(
            wanted, found.rows, strict=True
        ):
            data = FetchedData(index, 0, high_watermark, stable_offset, start_offset, records)
            self._answers.append((each, data))
            self._bytes_read += size
        self._found += found.read

    def _read_one(
        self, partition: Partition, wanted: FetchedPartition, limit_bytes: int, one_batch: bool
    ) -> FetchedData | None:
        """Return the answer for one partition; None if a session's client knows all of it."""
        if wanted.topic_id != partition.topic_id and wanted.topic_id != ZERO_UUID:
            return failed_data(wanted, ErrorCode.INCONSISTENT_TOPIC_ID)
        epoch = wanted.current_leader_epoch
        if epoch >= 0 and epoch != partition.leader_epoch:
            return self._say_leader(partition, failed_data(wanted, partition.check_leader_epoch(epoch)))
        replica_id = self._replica_id
        if replica_id >= 0 and (code := partition.check_follower(replica_id, self._replica_epoch, epoch)):
            return self._say_leader(partition, failed_data(wanted, code))
        try:
            log = partition.log
            high_watermark = log.high_watermark
            last_stable_offset = log.last_stable_offset
            log_start_offset = log.log_start_offset
            end_offset = (
                log.log_end_offset if self._to_log_end else last_stable_offset if self._committed else high_watermark
            )
            fetch_offset = wanted.fetch_offset
            records: FetchSlice | bytes = NO_RECORDS
            diverging = None
            if wanted.last_fetched_epoch >= 0:
                diverging = divergence(partition, wanted)
            if diverging is None and fetch_offset != end_offset:
                if wanted.max_bytes < 0 or limit_bytes < 0:
                    in_range = log_start_offset <= fetch_offset <= log.log_end_offset
                    return failed_data(wanted, _NO_SIZE if in_range else ErrorCode.OFFSET_OUT_OF_RANGE)
                max_bytes = wanted.max_bytes
                records = log.read(
                    fetch_offset, max_bytes if max_bytes < limit_bytes else limit_bytes, end_offset, one_batch
                )
            if replica_id >= 0 and diverging is None:
                if not self._is_read_again:
                    partition.follower_fetched(replica_id, self._replica_epoch, fetch_offset, wanted.follower_start)
                partition.follower_read(replica_id, len(records))
            aborted: list[Aborted] | None = None
            if self._committed and diverging is None:
                aborted = [] if isinstance(records, bytes) else aborted_in(log, fetch_offset, records)
        except Exception as error:
            return self._unreadable(partition, wanted, limit_bytes, one_batch, error)
        if self._version < FIRST_VERSION_WITH_BATCHES:
            code = refusal(log.config)
            if code:
                return failed_data(wanted, code)
        if (
            self._incremental
            and records is NO_RECORDS
            and diverging is None
            and wanted.high_watermark == high_watermark
            and wanted.log_start_offset == log_start_offset
        ):
            return None
        data = FetchedData(wanted.index, 0, high_watermark, last_stable_offset, log_start_offset, records, aborted)
        if diverging is not None:
            data.diverging_epoch = diverging
        return data

    def _unreadable(
        self, partition: Partition, wanted: FetchedPartition, limit_bytes: int, one_batch: bool, error: Exception
    ) -> FetchedData:
        """Return the answer for a partition whose log could not be read."""
        return failed_data(wanted, error_code_of(error))

    def _name_of(self, wanted: FetchedPartition) -> str | None:
        """Return the name of a topic id; it may have been unknown when the session began."""
        if wanted.topic_id == ZERO_UUID:
            return None
        wanted.topic = self._services.partitions.topic_name(wanted.topic_id)
        return wanted.topic

    def _say_leader(self, partition: Partition, data: FetchedData) -> FetchedData:
        if self._version >= _FIRST_VERSION_WITH_LEADER and data.error_code in _SAYS_LEADER:
            data.current_leader = Epoch(partition.leader_epoch, partition.leader_id)
            self._names_leaders = True
        return data

    def _say_other_leader(self, topic: str | None, data: FetchedData) -> FetchedData:
        """Add the leader of a partition that another broker leads."""
        if self._version >= _FIRST_VERSION_WITH_LEADER:
            leader = self._services.current_leaders.other_leader(topic, data.index)
            if leader is not None:
                leader_id, leader_epoch = leader
                data.current_leader = Epoch(leader_epoch, leader_id)
                self._names_leaders = True
        return data

    def park(self, max_wait_ms: int) -> Deferred[FetchAnswer]:
        """Wait for more records; at the deadline, the Deferred resolves to those found so far."""
        services = self._services
        woken = self._woken = Deferred()
        answered = after(woken, self.warmed)
        waiter = services.purgatory.watch(
            self._keys(),
            self._try_complete,
            services.clock.monotonic_ms() + max_wait_ms,
            self._on_timeout,
        )
        answered.on_cancel(waiter.cancel)
        answered.on_cancel(woken.cancel)  # breaks the reference cycle with this attempt
        return answered

    def _keys(self) -> list[Hashable]:
        """Return the keys to wait for in the purgatory: the partitions."""
        get = self._services.partitions.get
        for wanted in self._wanted:
            partition = get(wanted.topic, wanted.index) if wanted.topic is not None else None
            if partition is not None:
                self._waits_for.append((partition, partition.log.size_bytes))
                partition.log.awaited = True
        return [partition for partition, _ in self._waits_for]

    def _try_complete(self) -> bool:
        if self._min_bytes > 1 and not self._has_grown():
            self._is_stale = True
            return False
        if not self.read() and all(partition.hosted for partition, _ in self._waits_for):
            return False
        self._wake()  # also if a partition was removed: its client should not wait for the others
        return True

    def _wake(self) -> None:
        assert self._woken is not None
        self._woken.resolve(None)

    def _has_grown(self) -> bool:
        """Whether the logs have grown by the missing bytes: avoids a read at each append."""
        bytes_there = self._bytes_read
        try:
            for partition, size_bytes in self._waits_for:
                if not partition.hosted:
                    return True
                bytes_there += max(partition.log.size_bytes - size_bytes, 0)
        except LogOffline:  # an error to report
            return True
        return bytes_there >= self._min_bytes

    def _on_timeout(self) -> None:
        """Answer with the last read: any relevant change since then would have woken this fetch."""
        if self._is_stale or self._may_read is not None:
            self.read()
        self._wake()

    def warmed(self) -> FetchAnswer | Deferred[FetchAnswer]:
        """Return the answer once its data is in the page cache: sendfile from a cold page would block the loop."""
        if self._version < FIRST_VERSION_WITH_BATCHES:
            return convert_answer(self._services.conversion, self._version, self._to_convert()).then(
                lambda _: self.response()
            )
        answer = self.response()
        now_ms = self._services.clock.monotonic_ms()
        cold = []
        for _, data in self._answers:
            records = data.records
            if type(records) is FetchSlice and records.is_cold(now_ms):
                cold.append(records)
        if not cold:
            return answer
        return self._services.offload(warm, cold).then(lambda _: answer)

    def _to_convert(self) -> list[ConversionRequest]:
        """Return the partitions whose records have to be converted to messages."""
        found = []
        for wanted, data in self._answers:
            partition = self._services.partitions.get(wanted.topic or "", wanted.index)
            if partition is not None and not data.error_code:
                found.append(
                    ConversionRequest(partition, data, wanted.fetch_offset, min(wanted.max_bytes, self._max_bytes))
                )
        return found

    def response(self) -> FetchAnswer:
        """Return the answer with the last read; an empty one if it would exceed the client's quota."""
        charge = self._ctx.charge
        if charge is not None and not charge.allows_fetched(self._bytes_read):
            session = self._context.session
            return FetchAnswer(0, NO_SESSION if session is None else session.id, [])
        for log, size in self._found:
            log.fetched_bytes += size
        error_code, session_id, answers = self._context.answer(self._answers)
        if self._version < _FIRST_VERSION_WITH_STORAGE_ERROR:
            for _, data in answers:
                if data.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                    data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        topics: list[FetchedTopic] = []
        add: Callable[[FetchedData], None] | None = None
        name: str | None = None
        topic_id = b""
        for wanted, data in answers:
            if add is None or wanted.topic != name or wanted.topic_id != topic_id:
                name, topic_id = wanted.topic, wanted.topic_id
                parts: list[FetchedData] = []
                topics.append(FetchedTopic(name or "", topic_id, parts))
                add = parts.append
            add(data)
        if not self._names_leaders or self._replica_id >= 0:  # a follower knows addresses by the metadata
            return FetchAnswer(error_code, session_id, topics)
        leaders = {data.current_leader.value for _, data in answers if data.current_leader is not None}
        nodes = [
            Node(each.node_id, each.host, each.port, each.rack)
            for each in self._services.endpoints.nodes(self._ctx.connection)
            if each.node_id in leaders
        ]
        return FetchAnswer(error_code, session_id, topics, nodes)
