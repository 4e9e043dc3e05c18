"""Fetches of consumers on a broker with tiered storage: parts of an answer may come from remote storage.

Such a part takes its whole `partition_max_bytes` out of the request's total before it is read, as in Apache Kafka. The
fetch waits for it up to remote.fetch.max.wait.ms. Then the part is empty, without an error; the read goes on, and the
next fetch finds its result. An error of remote storage is answered after the same wait, so that clients that repeat
the fetch at once cause no storm, unless the fetch has other records to return.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from broker.replicas.fetch_attempt import FetchAttempt
from broker.replicas.fetched_data import absent_data, failed_data
from broker.replicas.partition import Partition
from broker.requests.error_code_map import error_code_of
from protocol.error_codes import ErrorCode
from protocol.fetch_answer import NO_RECORDS, Aborted, FetchAnswer, FetchedData
from remote.errors import RemoteStorageError
from runtime.deferred import Deferred, after
from storage.errors import OffsetOutOfRange

if TYPE_CHECKING:
    from broker.replicas.down_conversion import ConversionRequest
    from broker.replicas.fetch_session import FetchedPartition
    from broker.replicas.remote_reads import RemoteReads, RemoteRecords
    from storage.fetch_slice import FetchSlice

log = logging.getLogger(__name__)

A = TypeVar("A", bound=FetchAttempt)


class RemotePart:
    """The records of one partition while they are read. Its length is what the request's total is charged with."""

    __slots__ = (
        "_max_bytes",
        "_min_one_batch",
        "_partition",
        "_reads",
        "_wanted",
        "_with_aborted",
        "data",
        "error",
        "found",
        "waits_for",
    )

    def __init__(
        self,
        reads: RemoteReads,
        partition: Partition,
        wanted: FetchedPartition,
        max_bytes: int,
        *,
        min_one_batch: bool,
        with_aborted: bool,
    ) -> None:
        self._reads = reads
        self._partition = partition
        self._wanted = wanted
        self._max_bytes = max_bytes
        self._min_one_batch = min_one_batch
        self._with_aborted = with_aborted
        #: `read` sets one of these: the records, a Deferred to wait for, or the reason why there are none.
        self.found: RemoteRecords | None = None
        self.waits_for: Deferred[None] | None = None
        self.error: Exception | None = None
        log = partition.log
        self.data = FetchedData(wanted.index, 0, log.high_watermark, log.last_stable_offset, log.log_start_offset, self)

    def __len__(self) -> int:
        return self._max_bytes

    def read(self) -> None:
        """Read what is there, until the part has records, an error, or something to wait for."""
        waited, self.waits_for = self.waits_for, None
        while True:
            try:
                if waited is not None:
                    waited.result()
                found = self._reads.read(
                    self._partition,
                    self._wanted.fetch_offset,
                    self._max_bytes,
                    min_one_batch=self._min_one_batch,
                    with_aborted=self._with_aborted,
                )
                if isinstance(found, Deferred):
                    if not found.done:
                        self.waits_for = found
                        return
                    waited = found
                    continue
            except Exception as error:
                self.error = error
                log, offset = self._partition.log, self._wanted.fetch_offset
                if self.is_transient and offset < log.log_start_offset:  # the segment was deleted meanwhile
                    self.error = OffsetOutOfRange(offset, log.log_start_offset, log.log_end_offset)
                return
            self.found = found
            return

    @property
    def is_transient(self) -> bool:
        """Whether remote storage has failed."""
        return isinstance(self.error, RemoteStorageError)

    def settle(self) -> FetchedData:
        """Return the answer, of what was read until now."""
        if not self._partition.hosted:
            return absent_data(self._wanted.index, self._partition.absence or ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.error is not None:
            return failed_data(self._wanted, error_code_of(self.error))
        records, _, aborted = self.found or (NO_RECORDS, 0, None)
        self.data.records = records
        if self._with_aborted:
            self.data.aborted = [Aborted(each.producer_id, each.first_offset) for each in aborted or ()]
        return self.data


class TieredFetch(FetchAttempt):
    """The part of an attempt that reads from remote storage. `reads` is set by `tiered`."""

    reads: RemoteReads
    _parts: list[tuple[Partition, RemotePart]] = []

    def read(self) -> bool:
        self._parts = []
        return super().read() or bool(self._parts)

    def _unreadable(
        self, partition: Partition, wanted: FetchedPartition, limit_bytes: int, one_batch: bool, error: Exception
    ) -> FetchedData:
        """Read from remote storage what the local log does not have any more."""
        if isinstance(error, OffsetOutOfRange) and self._is_remote(partition, wanted):
            part = RemotePart(
                self.reads,
                partition,
                wanted,
                min(wanted.max_bytes, limit_bytes),
                min_one_batch=one_batch,
                with_aborted=self._committed,
            )
            part.read()
            if part.error is not None and not part.is_transient:
                return part.settle()
            self._parts.append((partition, part))
            return part.data
        return super()._unreadable(partition, wanted, limit_bytes, one_batch, error)

    def _is_remote(self, partition: Partition, wanted: FetchedPartition) -> bool:
        log = partition.log
        return log.config.tiered and log.log_start_offset <= wanted.fetch_offset < log.local_start_offset

    def warmed(self) -> FetchAnswer | Deferred[FetchAnswer]:
        if not self._parts:
            return super().warmed()
        if not self._must_wait():
            return self._read_answer()
        ended: Deferred[None] = Deferred()

        def end() -> None:
            if not ended.done:
                waiter.cancel()
                ended.resolve(None)

        def try_complete() -> bool:
            if all(partition.hosted for partition, _ in self._parts):
                return False
            end()
            return True

        # The purgatory ends the wait at the deadline, for a partition that is deleted, and when the broker stops.
        deadline_ms = self._services.clock.monotonic_ms() + self.reads.max_wait_ms
        waiter = self._services.purgatory.watch(
            [partition for partition, _ in self._parts], try_complete, deadline_ms, end
        )
        ended.on_cancel(waiter.cancel)
        answered = after(ended, self._read_answer)
        answered.on_cancel(ended.cancel)
        for _, part in self._parts:
            self._follow(part, ended, end)
        return answered

    def _follow(self, part: RemotePart, ended: Deferred[None], end: Callable[[], None]) -> None:
        """Read a part again whenever that for which it waits is done, until the wait has ended."""

        def read_again(_: Deferred[None]) -> None:
            if ended.done:
                return
            part.read()
            if part.waits_for is not None:
                self._follow(part, ended, end)
            elif not self._must_wait():
                end()

        if part.waits_for is not None:
            part.waits_for.add_done_callback(read_again)

    def _must_wait(self) -> bool:
        """Whether a part is missing, or there is nothing to return but errors of remote storage."""
        parts = [part for _, part in self._parts]
        if any(part.waits_for is not None for part in parts):
            return True
        if not any(part.is_transient for part in parts) or any(part.found is not None for part in parts):
            return False
        return not any(type(data.records) is not RemotePart and len(data.records) for _, data in self._answers)

    def _read_answer(self) -> FetchAnswer | Deferred[FetchAnswer]:
        self._settle()
        return super().warmed()

    def _to_convert(self) -> list[ConversionRequest]:
        return [
            each._replace(read=partial(self._read_further, each.partition))
            if each.partition.log.config.tiered
            else each
            for each in super()._to_convert()
        ]

    def _read_further(
        self, partition: Partition, offset: int, max_bytes: int, end_offset: int, min_one_batch: bool
    ) -> FetchSlice | bytes:
        """Read behind records of which nothing is for old clients. Nothing, if remote storage has to be read first."""
        log = partition.log
        if not log.log_start_offset <= offset < log.local_start_offset:
            return log.read(offset, max_bytes, end_offset, min_one_batch)
        found = self.reads.read(partition, offset, max_bytes, min_one_batch=min_one_batch)
        return NO_RECORDS if isinstance(found, Deferred) else found.records

    def _settle(self) -> None:
        """Put the records of the parts into the answer, and count them."""
        parts = {id(part.data): (partition, part) for partition, part in self._parts}
        self._parts = []
        self._found = [
            (log, size) for log, size in self._found if all(log is not each.log for each, _ in parts.values())
        ]
        for at, (wanted, data) in enumerate(self._answers):
            found = parts.get(id(data))
            if found is None:
                continue
            partition, part = found
            settled = part.settle()
            self._answers[at] = wanted, settled
            size = len(settled.records)
            self._bytes_read += size - len(part)
            if size and not settled.error_code:
                self._found.append((partition.log, size))
            elif part.error is not None:
                log.debug("%s: offset %d cannot be read: %s", partition, wanted.fetch_offset, part.error)


def tiered(attempt: type[A], remote_reads: RemoteReads) -> type[A]:
    """Return a class of attempts like `attempt` that also reads from remote storage."""
    return type(f"Tiered{attempt.__name__}", (TieredFetch, attempt), {"reads": remote_reads})
