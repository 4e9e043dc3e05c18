"""Serve one ShareFetch: read and acquire records of the session's partitions, and answer with them.

It reads no more of the log than the member may receive. The answer has whole batches, from the first to the last with
an acquired record, and lists the records that the member may process.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from broker.coordinators.share.acquisition import Acquired, AcquireRequest
from broker.coordinators.share.partitions import LOADING_RETRY_MS, SharePartition, SharePartitionSettings
from broker.coordinators.share.sessions import TopicIdPartition
from broker.coordinators.share.start_offsets import StateLoading
from broker.replicas.partition import Partition
from broker.requests.error_code_map import error_code_of
from coordinator.group.refused import Refused
from protocol.error_codes import ErrorCode
from protocol.records.batch import entry_at, parse_header
from runtime.deferred import Deferred
from storage.errors import OffsetOutOfRange
from storage.fetch_slice import FetchSlice
from storage.index.transaction import AbortedTransaction

if TYPE_CHECKING:
    from broker.coordinators.share.fetch_services import ShareFetchServices

_MAGIC_V2 = 2
#: Bytes read from the log at a time.
_WINDOW_BYTES = 1 << 16


class Fetched(msgspec.Struct):
    """The result for a partition. `records` are the log's bytes, unchanged."""

    place: TopicIdPartition
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    records: FetchSlice | bytes = b""
    acquired: list[Acquired] = field(default_factory=list)


class LogBatch(msgspec.Struct, frozen=True):
    """A batch among those that were read. `position` and `end` are bytes in the data that was read."""

    first: int
    last: int
    position: int
    end: int
    producer_id: int = -1


class Readable(msgspec.Struct):
    """A share-partition with the records that were read for it.

    `aborted` are the aborted transactions among records of remote storage, and None for those of the log.
    """

    share: SharePartition
    part: FetchSlice
    batches: list[LogBatch]
    aborted: list[AbortedTransaction] | None = None

    def __len__(self) -> int:
        return len(self.part)


class ShareFetchAttempt:
    """One fetch, tried at once and, while it waits, again whenever one of its partitions changes.

    `places`: in the order in which they are served. Each attempt asks `may_read(topic)` for each partition, since a
    session outlives changes of ACLs. None: the member may read all.
    """

    def __init__(
        self,
        services: ShareFetchServices,
        group_id: str,
        places: list[TopicIdPartition],
        wanted: AcquireRequest,
        settings: SharePartitionSettings,
        *,
        min_bytes: int,
        max_bytes: int,
        may_read: Callable[[str], bool] | None = None,
    ) -> None:
        self._clock = services.clock
        self._purgatory = services.purgatory
        self._look_ups = services.time_look_ups
        self._partitions = services.partitions
        self._shares = services.share_partitions
        self._remote_reads = services.remote_reads
        #: By partition: why remote storage could not be read in this fetch.
        self._failures: dict[Partition, Exception] = {}
        self._group_id = group_id
        self._places = places
        self._wanted = wanted
        self._settings = settings
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._may_read = may_read
        self._keys: list[Hashable] = []
        self._is_loading = False
        self.fetched: list[Fetched] = []

    def run(self, max_wait_ms: int) -> Deferred[list[Fetched]] | list[Fetched]:
        """Return the fetched records, at once or after a wait."""
        if self._try(is_last=max_wait_ms <= 0) or max_wait_ms <= 0:
            return self.fetched
        deadline_ms = self._clock.monotonic_ms() + max_wait_ms
        answered: Deferred[list[Fetched]] = Deferred()
        self._wait(answered, deadline_ms)
        return answered

    def _wait(self, answered: Deferred[list[Fetched]], deadline_ms: int) -> None:
        """Wait until a partition changes. A state that is being loaded is polled."""
        now_ms = self._clock.monotonic_ms()
        retry_ms = min(deadline_ms, now_ms + LOADING_RETRY_MS) if self._is_loading else deadline_ms

        def try_again() -> bool:
            done = self._try(is_last=False)
            if done:
                answered.resolve(self.fetched)
            return done

        def on_timeout() -> None:
            is_last = self._clock.monotonic_ms() >= deadline_ms or retry_ms >= deadline_ms
            if self._try(is_last=is_last) or is_last:
                answered.resolve(self.fetched)
            else:
                self._wait(answered, deadline_ms)

        waiter = self._purgatory.watch(self._keys, try_again, retry_ms, on_timeout)
        answered.on_cancel(waiter.cancel)

    def _try(self, *, is_last: bool) -> bool:
        """Read, and acquire if there is enough. Return whether the request can be answered.

        A partition with an error does not delay the others, and is not reported before they have records.
        """
        self.fetched = []
        self._keys = []
        self._is_loading = False
        known: list[Readable] = []
        new: list[Readable] = []
        budget = self._max_bytes
        self._look_ups.begin_turn()  # for partitions whose start offset must be looked up
        for place in self._places:
            is_known = self._shares.known(self._group_id, place) is not None
            try:
                found = self._read(place, budget)
            except StateLoading:
                self._is_loading = True
            except Refused as refusal:
                self.fetched.append(Fetched(place, refusal.code, refusal.message))
            else:
                if found is not None:
                    (known if is_known else new).append(found)
                    budget = max(budget - found.batches[-1].end, 0)
        readable = self._readiest(known, new)
        refused = len(self.fetched)
        is_hopeless = refused == len(self._places)
        is_enough = sum(map(len, readable)) >= self._min_bytes
        if is_hopeless or is_last or is_enough:
            left = self._wanted.max_records
            for each in readable:
                if left <= 0:
                    break
                try:
                    fetched = self._acquire(each, left)
                except Exception as error:  # records acquired by then become available when their lock ends
                    fetched = Fetched(
                        TopicIdPartition(each.share.key.topic_id, each.share.key.partition), error_code_of(error)
                    )
                if fetched is not None:
                    self.fetched.append(fetched)
                    left -= sum(one.last_offset - one.first_offset + 1 for one in fetched.acquired)
        has_no_wish = is_enough and self._min_bytes <= 0 and not self._is_loading
        return is_hopeless or has_no_wish or len(self.fetched) > refused

    def _readiest(self, known: list[Readable], new: list[Readable]) -> list[Readable]:
        """Choose as Kafka does: it reads the states of new partitions one by one, and stops at the first that works."""
        ready = known or new[:1]
        return ready if sum(map(len, ready)) >= self._min_bytes else known + new

    # -- one partition ----------------------------------------------------------------------------------------------

    def _read(self, place: TopicIdPartition, budget: int) -> Readable | None:
        """Return the records that may be acquired next. Raises Refused, StateLoading."""
        name = self._partitions.topic_name(place.topic_id)
        if name is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
        if self._may_read is not None and not self._may_read(name):
            raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = self._partitions.get(name, place.partition)
        if partition is None:
            raise Refused(self._partitions.absence(name, place.partition))
        self._keys.append(partition)
        share = self._shares.get(self._group_id, partition)
        self._keys.append(share)
        try:
            # As in Kafka, the removal of records shows at the first read of one; those that are acquired stay so.
            if share.in_flight.fetch_offset < partition.log_start_offset:
                share.in_flight.begin_at(partition.log_start_offset)
            return self._read_log(share, partition, budget)
        except OffsetOutOfRange:
            return self._read_remote(share, partition, budget)
        except Exception as error:
            raise Refused(error_code_of(error)) from error

    def _read_log(self, share: SharePartition, partition: Partition, budget: int) -> Readable | None:
        in_flight = share.in_flight
        limits = self._settings.limits
        while True:
            offset = in_flight.fetch_offset
            if offset >= in_flight.end_offset and in_flight.in_flight_count >= limits.record_locks:
                return None
            end_offset = partition.last_stable_offset if self._settings.is_committed_only else partition.high_watermark
            if offset >= end_offset:
                return None
            part = partition.log.read(offset, budget, end_offset)
            batches = self._batches_of(share, part, end_offset)
            if isinstance(part, bytes) or not batches:
                return None
            if batches[0].first <= offset or offset >= in_flight.end_offset:
                return Readable(share, part, batches)
            # The log has lost records that were available: they are archived.
            gone = in_flight.available_between(offset, batches[0].first - 1)
            if not gone:
                return Readable(share, part, batches)
            self._shares.withdraw(share, gone)

    def _batches_of(self, share: SharePartition, part: FetchSlice | bytes, end_offset: int) -> list[LogBatch]:
        """Return the batches that were read, as many as the member may have."""
        in_flight = share.in_flight
        enough = max(in_flight.fetch_offset, in_flight.end_offset) + self._wanted.max_records
        return [] if isinstance(part, bytes) else _batches_of(part, end_offset, enough)

    def _read_remote(self, share: SharePartition, partition: Partition, budget: int) -> Readable | None:
        """Read from remote storage what the local log does not have any more.

        None if the fetch has to wait, or begins behind the end of the log: there is no record yet. Raises Refused.
        """
        offset, log = share.in_flight.fetch_offset, partition.log
        if self._remote_reads is None or not log.log_start_offset <= offset < log.local_start_offset:
            return None
        failure = self._failures.get(partition)
        try:
            if failure is not None:
                raise failure
            while isinstance(
                found := self._remote_reads.read(
                    partition, offset, budget, with_aborted=self._settings.is_committed_only
                ),
                Deferred,
            ):
                if not found.done:
                    found.add_done_callback(lambda done: self._on_read(partition, done))
                    return None
                found.result()
        except Exception as error:
            raise Refused(error_code_of(error)) from error
        batches = self._batches_of(share, found.records, partition.high_watermark)
        if isinstance(found.records, bytes) or not batches:
            return None
        return Readable(share, found.records, batches, found.aborted)

    def _on_read(self, partition: Partition, done: Deferred[None]) -> None:
        """Try again: remote records are cached, or cannot be read."""
        try:
            done.result()
        except Exception as error:
            self._failures[partition] = error
        self._purgatory.check_soon(partition)

    def _acquire(self, readable: Readable, left: int) -> Fetched | None:
        """Acquire what the member may have of the records that were read."""
        share, batches = readable.share, readable.batches
        wanted = AcquireRequest(self._wanted.member_id, left, self._wanted.batch_size, self._wanted.exact)
        now_ms = self._clock.monotonic_ms()
        acquired = share.in_flight.acquire(
            [(batch.first, batch.last) for batch in batches], wanted, self._settings.limits, now_ms
        )
        if not acquired:
            return None
        self._shares.acquired(share)
        if self._settings.is_committed_only:
            acquired = self._without_aborted(readable, acquired)
        if not acquired:
            return None
        first, last = acquired[0].first_offset, acquired[-1].last_offset
        kept = [batch for batch in batches if batch.last >= first and batch.first <= last]
        records = readable.part.piece(kept[0].position, kept[-1].end)
        share.partition.log.fetched_bytes += len(records)
        return Fetched(TopicIdPartition(share.key.topic_id, share.key.partition), records=records, acquired=acquired)

    def _without_aborted(self, readable: Readable, acquired: list[Acquired]) -> list[Acquired]:
        """Archive the records of aborted transactions at once: no member receives them."""
        log = readable.share.partition.log
        first, last = acquired[0].first_offset, acquired[-1].last_offset
        aborted = log.aborted_transactions(first, last + 1) if readable.aborted is None else readable.aborted
        spans = [(batch.first, batch.last) for batch in readable.batches if _is_aborted(batch, aborted)]
        changes = [
            change
            for begin, end in spans
            for change in readable.share.in_flight.withdrawn(self._wanted.member_id, begin, end)
        ]
        self._shares.withdraw(readable.share, changes)
        for begin, end in spans:
            acquired = [piece for each in acquired for piece in _outside(each, begin, end)]
        return acquired


def _batches_of(part: FetchSlice, end_offset: int, enough: int) -> list[LogBatch]:
    """Return the whole batches that were read, up to `end_offset`, and no more than needed to reach `enough`."""
    found: list[LogBatch] = []
    start, want = 0, _WINDOW_BYTES
    while True:
        window = memoryview(part.read(start, want))
        position = 0
        while (entry := entry_at(window, position)) is not None:
            offset, size_bytes, magic = entry
            begin, end = start + position, start + position + size_bytes
            batch = LogBatch(offset, offset, begin, end)
            if magic == _MAGIC_V2:
                header = parse_header(window, position)
                producer_id = header.producer_id if header.is_transactional and not header.is_control else -1
                batch = LogBatch(offset, header.last_offset, begin, end, producer_id)
            if batch.last >= end_offset:
                return found
            found.append(batch)
            if batch.last + 1 >= enough:
                return found
            position += size_bytes
        if len(window) < want:
            return found
        start, want = start + position, _WINDOW_BYTES if position else want * 2


def _is_aborted(batch: LogBatch, aborted: list[AbortedTransaction]) -> bool:
    return batch.producer_id >= 0 and any(
        each.producer_id == batch.producer_id and each.first_offset <= batch.first and batch.last <= each.last_offset
        for each in aborted
    )


def _outside(acquired: Acquired, begin: int, end: int) -> list[Acquired]:
    """Return the acquired records without those from `begin` to `end`."""
    first, last, count = acquired
    if last < begin or first > end:
        return [acquired]
    left = []
    if first < begin:
        left.append(Acquired(first, begin - 1, count))
    if last > end:
        left.append(Acquired(end + 1, last, count))
    return left
