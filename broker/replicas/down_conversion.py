"""Answers for consumers that know no record batches (Fetch v0-v3): what lies on the disk, in a format of theirs.

That is magic 0 for Fetch v0 and v1, and for topics whose message.format.version is below 0.10.0; else magic 1. A few
bytes are converted at once, more of them in a worker. What such consumers have no idea of is left out; where that was
all, more is read, or they would ask for the same for ever.

Many of them may ask at once. So an answer has 1 MiB, or a batch that is larger; a few conversions are under way at a
time, and only those have their records in memory; fetches that wait for theirs count as requests that are queued
(queued.max.requests); and a client that has gone takes those along that did not begin.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import randrange
from typing import TYPE_CHECKING, NamedTuple

from broker.replicas.partition import Partition
from broker.requests.error_code_map import error_code_of
from protocol.error_codes import ErrorCode
from protocol.fetch_answer import NO_RECORDS, FetchedData
from protocol.records.batch import LOG_OVERHEAD, entry_at
from protocol.records.down_conversion import CUT_OFF_MESSAGE, Converted, convert_down
from protocol.records.errors import RecordsError
from runtime.deferred import Deferred, settled
from runtime.process_pool import PoolClosed, PoolProcessDied
from storage.fetch_slice import FetchSlice
from storage.log_config import LogConfig

if TYPE_CHECKING:
    from broker.replicas.append_scheduler import AppendScheduler
    from runtime.clock import Clock
    from runtime.gate import Gate
    from runtime.process_pool import ProcessPool
    from runtime.thread_pool import ThreadPool

#: From this version on timestamps have a place (KIP-32).
_FIRST_VERSION_WITH_TIMESTAMPS = 2
#: From this version on a batch that is larger than asked for comes whole (KIP-74); before, it was cut off.
FIRST_VERSION_WITH_WHOLE_BATCH = 3
#: From this version on consumers know record batches (KIP-98): nothing is converted.
FIRST_VERSION_WITH_BATCHES = 4

#: So many bytes are converted where they are, as long as none of their batches unpacks to more than that.
_INLINE_BYTES, _INLINE_UNPACKED_BYTES = 2 << 10, 32 << 10
#: A batch that unpacks to more is none for such consumers.
_UNPACKED_BYTES = 64 << 20
#: What all partitions of an answer have together, when none of their batches is larger.
_ANSWER_BYTES = 1 << 20
#: A worker that dies may have been killed for what another one did; one that dies again was not.
_ATTEMPTS = 2
#: Read at least, where what was asked for holds nothing that can be shown.
_BYTES_FURTHER_ON = 64 << 10


def refusal(config: LogConfig) -> ErrorCode:
    """Why a topic's records may not be converted; NONE where they may (KIP-110, KIP-283)."""
    if config.compression_type == "zstd":
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return ErrorCode.NONE if config.message_downconversion_enable else ErrorCode.UNSUPPORTED_VERSION


class Wanted(NamedTuple):
    """One partition's part of an answer: `data` was read from `first_offset` on; the client takes `max_bytes`."""

    partition: Partition
    data: FetchedData
    first_offset: int
    max_bytes: int


class ConversionServices(NamedTuple):
    """What a down-conversion needs of its process. `conversions` limits how many have records in memory."""

    appends: AppendScheduler
    conversions: Gate
    offload: ThreadPool
    workers: ProcessPool
    clock: Clock


def convert_answer(services: ConversionServices, version: int, wanted: list[Wanted]) -> Deferred[None]:
    """Have all parts of an answer be messages. Resolves when they are, or say what is wrong; a cancel ends it early."""
    if version < FIRST_VERSION_WITH_WHOLE_BATCH and len(wanted) > 1:
        # They ask in the same order each time: so that the last one has its turn, too. Later ones change the order.
        start = randrange(len(wanted))
        wanted = wanted[start:] + wanted[:start]
    left_bytes = _ANSWER_BYTES
    conversions = []
    for part in wanted:
        if left_bytes <= 0:
            part.data.records = NO_RECORDS
            continue
        conversion = DownConversion(services, version, part, left_bytes)
        left_bytes -= conversion.size_bytes
        conversions.append(conversion)
        conversion.begin()
    if not all(each.done.done for each in conversions):
        services.appends.count(settled([each.done for each in conversions]))
    converted = settled([each.done for each in conversions])
    for each in conversions:
        converted.on_cancel(each.cancel)
    return converted


class DownConversion:
    """One partition's part of an answer on its way to be messages.

    `size_bytes` is how much of what was read is taken; `done` is resolved when it is converted, or says what is wrong.
    """

    __slots__ = (
        "_attempts",
        "_begin",
        "_data",
        "_first_offset",
        "_found",
        "_magic",
        "_max_bytes",
        "_partition",
        "_records",
        "_services",
        "_whole_batch",
        "done",
        "size_bytes",
    )

    def __init__(self, services: ConversionServices, version: int, wanted: Wanted, most_bytes: int) -> None:
        self._services = services
        self._partition, self._data, self._first_offset, self._max_bytes = wanted
        self._whole_batch = version >= FIRST_VERSION_WITH_WHOLE_BATCH
        self._magic = (
            0 if version < _FIRST_VERSION_WITH_TIMESTAMPS else min(wanted.partition.log_config.message_magic, 1)
        )
        self._begin: Callable[[], None] | None = None
        self._records = b""
        self._attempts = 0
        self.done: Deferred[None] = Deferred()
        records = wanted.data.records
        assert isinstance(records, FetchSlice | bytes)
        self._found: FetchSlice | bytes = records
        self.size_bytes = min(len(records), most_bytes)

    def begin(self) -> None:
        """Begin; at once done where it is little."""
        self._convert(self._found, self._first_offset, self.size_bytes)

    def cancel(self) -> None:
        """Nobody wants it any more: what has not begun never will."""
        if self._begin is not None and self._services.conversions.withdraw(self._begin):
            self._begin = None
            self._finish(NO_RECORDS)

    def _convert(self, found: FetchSlice | bytes, offset: int, size_bytes: int) -> None:
        """What `found` and perhaps what is behind it: where nothing can be shown, many small segments may follow."""
        while isinstance(found, FetchSlice):
            if size_bytes > _INLINE_BYTES or self._is_cold(found):
                self._wait_for_turn(found, size_bytes)
                return
            further = self._convert_inline(found, size_bytes)
            if further is None:
                return
            found, offset = further
            size_bytes = len(found)
        try:
            is_larger = not self._whole_batch and self._is_larger(offset)
        except Exception as error:
            self._fail(error)
            return
        # Consumers of the time take a message that is cut off for that, and ask for more, or tell their users.
        self._finish(CUT_OFF_MESSAGE if is_larger else NO_RECORDS)

    def _is_cold(self, found: FetchSlice) -> bool:
        return found.is_cold(self._services.clock.monotonic_ms())

    def _is_larger(self, offset: int) -> bool:
        """Whether there is a batch, which is more than may be sent."""
        end_offset = self._data.high_watermark
        if self._max_bytes <= 0 or offset >= end_offset:
            return False
        return len(self._partition.log.read(offset, 1, end_offset)) > self._max_bytes

    def _convert_inline(self, found: FetchSlice, size_bytes: int) -> tuple[FetchSlice | bytes, int] | None:
        """Convert a few bytes; what to go on with, and from which offset. In a worker where they unpack to more."""
        try:
            records = _read(found, size_bytes)
            converted = convert_down(records, self._magic, self._first_offset, _INLINE_UNPACKED_BYTES)
        except RecordsError:
            self._wait_for_turn(found, size_bytes)
            return None
        except Exception as error:
            self._fail(error)
            return None
        return self._take(converted)

    # -- in a worker ---------------------------------------------------------------------------------------------------

    def _wait_for_turn(self, found: FetchSlice, size_bytes: int) -> None:
        self._begin = partial(self._read_it, found, size_bytes)
        self._services.conversions.enter(self._begin)

    def _read_it(self, found: FetchSlice, size_bytes: int) -> None:
        self._begin = None
        self._attempts = 0
        if self._is_cold(found):
            self._services.offload(_read, found, size_bytes).add_done_callback(self._on_read)
            return
        try:
            self._on_read(Deferred.resolved(_read(found, size_bytes)))
        except Exception as error:
            self._leave(error)

    def _on_read(self, reading: Deferred[bytes]) -> None:
        try:
            self._records = reading.result()
        except Exception as error:
            self._leave(error)
            return
        self._submit()

    def _submit(self) -> None:
        self._attempts += 1
        job = self._services.workers.submit(
            convert_down, self._records, self._magic, self._first_offset, _UNPACKED_BYTES
        )
        job.add_done_callback(self._on_converted)

    def _on_converted(self, job: Deferred[Converted]) -> None:
        try:
            converted = job.result()
        except PoolClosed as error:
            self._leave(error)
            return
        except PoolProcessDied as error:  # perhaps for what another one did
            if self._attempts < _ATTEMPTS:
                self._submit()
            else:
                self._leave(error)
            return
        except Exception as error:
            self._leave(error)
            return
        self._leave()
        further = self._take(converted)
        if further is not None:
            self._convert(*further, len(further[0]))

    def _leave(self, error: Exception | None = None) -> None:
        self._records = b""
        if error is not None:
            self._fail(error)
        self._services.conversions.leave()

    # -- done ----------------------------------------------------------------------------------------------------------

    def _take(self, converted: Converted) -> tuple[FetchSlice | bytes, int] | None:
        """Answer with it; or where it is nothing that can be shown, what comes behind, and from which offset."""
        end_offset = self._data.high_watermark
        next_offset = converted.next_offset
        if converted.records or next_offset >= end_offset:
            self._finish(converted.records)
            return None
        max_bytes = max(min(self._max_bytes, _ANSWER_BYTES), _BYTES_FURTHER_ON)
        try:
            return self._partition.log.read(next_offset, max_bytes, end_offset, self._whole_batch), next_offset
        except Exception as error:
            self._fail(error)
            return None

    def _finish(self, records: bytes) -> None:
        self._data.records = records
        self.done.resolve(None)

    def _fail(self, error: Exception) -> None:
        data = self._data
        data.error_code = error_code_of(error)
        data.high_watermark = data.last_stable_offset = data.log_start_offset = -1
        self._finish(NO_RECORDS)


def _read(found: FetchSlice, size_bytes: int) -> bytes:
    """So many bytes of it, or its first batch if that is larger."""
    records = found.read(0, size_bytes)
    if size_bytes < len(found) and entry_at(records, 0) is None and len(records) >= LOG_OVERHEAD:
        length = int.from_bytes(records[LOG_OVERHEAD - 4 : LOG_OVERHEAD], "big")
        records = found.read(0, max(size_bytes, LOG_OVERHEAD + length))
    return records
