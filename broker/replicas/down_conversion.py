"""Answers for consumers that do not know record batches (Fetch v0-v3): convert stored records to an old format.

The format is magic 0 for Fetch v0 and v1, and for topics whose message.format.version is below 0.10.0; else magic 1. A
few bytes are converted at once, more of them in a worker. Content that such consumers do not know (control batches,
headers) is left out. If nothing remains, more is read: otherwise the consumer would repeat the same fetch forever.

Many consumers may ask at once. So an answer has at most 1 MiB, or one larger batch. Only a few conversions run at a
time, and only those keep their records in memory. Fetches that wait for a conversion count as queued requests
(queued.max.requests). When a client disconnects, its conversions that have not begun are dropped.
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

#: From this version on messages have timestamps (KIP-32).
_FIRST_VERSION_WITH_TIMESTAMPS = 2
#: From this version on a batch larger than the requested size is sent whole (KIP-74); before, it was truncated.
FIRST_VERSION_WITH_WHOLE_BATCH = 3
#: From this version on consumers know record batches (KIP-98): nothing is converted.
FIRST_VERSION_WITH_BATCHES = 4

#: Up to so many bytes are converted without a worker, if none of their batches is larger than that when uncompressed.
_INLINE_BYTES, _INLINE_UNPACKED_BYTES = 2 << 10, 32 << 10
#: A batch that is larger than this when uncompressed is not sent to such consumers.
_UNPACKED_BYTES = 64 << 20
#: The size of all partitions of an answer, unless one of their batches is larger.
_ANSWER_BYTES = 1 << 20
#: Attempts of a conversion whose worker dies: the first death may be the fault of another one.
_ATTEMPTS = 2
#: The least bytes that are read further, if the requested ones contain nothing for the client.
_BYTES_FURTHER_ON = 64 << 10


def refusal(config: LogConfig) -> ErrorCode:
    """Return why a topic's records cannot be converted, or NONE (KIP-110, KIP-283)."""
    if config.compression_type == "zstd":
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return ErrorCode.NONE if config.message_downconversion_enable else ErrorCode.UNSUPPORTED_VERSION


class ConversionRequest(NamedTuple):
    """One partition's part of an answer: `data` was read from `first_offset` on; the client's limit is `max_bytes`.

    `read` reads further, with the arguments of `PartitionLog.read`; None: it is that of the log.
    """

    partition: Partition
    data: FetchedData
    first_offset: int
    max_bytes: int
    read: Callable[[int, int, int, bool], FetchSlice | bytes] | None = None


class ConversionServices(NamedTuple):
    """The services that a down-conversion uses. `conversions` limits how many have records in memory."""

    appends: AppendScheduler
    conversions: Gate
    offload: ThreadPool
    workers: ProcessPool
    clock: Clock


def convert_answer(services: ConversionServices, version: int, wanted: list[ConversionRequest]) -> Deferred[None]:
    """Convert all parts of an answer. Resolves when each is converted or has an error; can be cancelled."""
    if version < FIRST_VERSION_WITH_WHOLE_BATCH and len(wanted) > 1:
        # These clients always request the same order, so a random start gives each partition its turn.
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
    """The conversion of one partition's part of an answer.

    `size_bytes`: how much of the data that was read is used; `done` resolves when it is converted or has an error.
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
        "_read",
        "_records",
        "_services",
        "_whole_batch",
        "done",
        "size_bytes",
    )

    def __init__(self, services: ConversionServices, version: int, wanted: ConversionRequest, most_bytes: int) -> None:
        self._services = services
        self._partition, self._data, self._first_offset, self._max_bytes, read = wanted
        self._read = read or (lambda *wanted: self._partition.log.read(*wanted))
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
        """Begin; little data is converted at once."""
        self._convert(self._found, self._first_offset, self.size_bytes)

    def cancel(self) -> None:
        """Drop the conversion, unless it has begun: the client has disconnected."""
        if self._begin is not None and self._services.conversions.withdraw(self._begin):
            self._begin = None
            self._finish(NO_RECORDS)

    def _convert(self, found: FetchSlice | bytes, offset: int, size_bytes: int) -> None:
        """Convert `found`, and the data behind it while there is nothing for the client, such as in small segments."""
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
        # Old consumers recognise a truncated message: they request more bytes, or report an error.
        self._finish(CUT_OFF_MESSAGE if is_larger else NO_RECORDS)

    def _is_cold(self, found: FetchSlice) -> bool:
        return found.is_cold(self._services.clock.monotonic_ms())

    def _is_larger(self, offset: int) -> bool:
        """Whether the next batch is larger than the client's limit."""
        end_offset = self._data.high_watermark
        if self._max_bytes <= 0 or offset >= end_offset:
            return False
        return len(self._read(offset, 1, end_offset, True)) > self._max_bytes

    def _convert_inline(self, found: FetchSlice, size_bytes: int) -> tuple[FetchSlice | bytes, int] | None:
        """Convert a few bytes here; in a worker if they are large when uncompressed. Return as `_take`."""
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
        except PoolProcessDied as error:  # perhaps by the fault of another conversion
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
        """Answer with the result. If it is empty, return the data behind it and its offset instead."""
        end_offset = self._data.high_watermark
        next_offset = converted.next_offset
        if converted.records or next_offset >= end_offset:
            self._finish(converted.records)
            return None
        max_bytes = max(min(self._max_bytes, _ANSWER_BYTES), _BYTES_FURTHER_ON)
        try:
            return self._read(next_offset, max_bytes, end_offset, self._whole_batch), next_offset
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
    """Return the first `size_bytes` bytes, or the whole first batch if that is larger."""
    records = found.read(0, size_bytes)
    if size_bytes < len(found) and entry_at(records, 0) is None and len(records) >= LOG_OVERHEAD:
        length = int.from_bytes(records[LOG_OVERHEAD - 4 : LOG_OVERHEAD], "big")
        records = found.read(0, max(size_bytes, LOG_OVERHEAD + length))
    return records
