"""Append batches in order of arrival, also if some must be opened in a worker first.

Most batches are appended at once. A thread of the pool first writes a very large one to its place in the file
(storage/append/placing.py). A batch that must be opened or converted and is not small goes to a worker
(storage/append/record_validation.py) and waits in its partition's queue. Later appends of clients and coordinators, and
DeleteRecords, wait behind it. Several batches are opened concurrently. At the front of the queue each is appended, by
the configuration, the time and the producers' sequences of that moment. Other partitions are not affected. If
the client disconnects meanwhile, its records are still appended, as in Kafka.

The log of a coordinator in this process is not handled here: the coordinator appends at once and replays, whatever the
partition's queue holds.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from broker.replicas.partition import Partition
from protocol.records.batch import CODEC_MASK, HEADER_SIZE, parse_header
from protocol.records.buffer import Buffer
from runtime.clock import Clock
from runtime.deferred import Deferred
from runtime.process_pool import PoolClosed, PoolProcessDied, ProcessPool
from runtime.thread_pool import ThreadPool
from storage.append.header_validation import AppendOrigin, must_open
from storage.append.placing import NotInPlace, PlacedBatch
from storage.append.record_validation import (
    BatchToOpen,
    Opened,
    is_for_worker,
    open_in_worker,
)
from storage.append.result import AppendResult
from storage.errors import LogOffline, StorageError
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig

log = logging.getLogger(__name__)

T = TypeVar("T")

#: (records, configuration, now in ms) -> the batch to append, or None for the unchanged records.
Opener = Callable[[bytes, LogConfig, int], bytes | None]

#: Uncompressed messages up to this size are converted without a worker.
_CONVERTED_HERE_BYTES = 4 << 10
#: The position of the attributes, which name the codec, of the first message.
_MESSAGE_ATTRIBUTES = 17

#: Attempts of a batch whose worker dies: the first death may be the fault of another batch.
_ATTEMPTS = 2


class AppendScheduler:
    """All appends of clients' records pass through this. Everything in it belongs to the event loop's thread.

    Args:
        offload: the pool of threads that write large batches.
        on_held: called with the change of the bytes that wait in queues.
        on_queued: called with +1 and -1 when a request begins and ends to wait; for back-pressure.
    """

    def __init__(
        self,
        workers: ProcessPool,
        clock: Clock,
        offload: ThreadPool,
        on_held: Callable[[int], None],
        on_queued: Callable[[int], None] = lambda change: None,
    ) -> None:
        self._workers = workers
        self._clock = clock
        self._offload = offload
        self._on_held = on_held
        self._on_queued = on_queued

    def append(
        self, partition: Partition, records: Buffer, now_ms: int, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> AppendResult | Deferred[AppendResult]:
        """Append a batch: at once, or when its turn comes. Raises, or fails with, the errors of `Partition.append`.

        Waiting `records` are copied, except very large ones, whose memory no one else uses.
        """
        queue = partition.queue
        # Not in a coordinator's log: the coordinator appends at the same position, whatever waits here.
        if partition.log.should_place_first(len(records)) and not partition.internal:
            if queue is None:
                queue = partition.queue = AppendQueue(partition)
            return queue.put(_PlacedAppend(self, partition, memoryview(records), origin))
        if queue is None:
            try:
                return partition.append(records, now_ms, origin)
            except BatchToOpen:
                queue = partition.queue = AppendQueue(partition)
        step = _Append(self, partition, bytes(records), origin)
        if step.is_to_be_opened():
            step.open()
        return queue.put(step)

    def append_converted(
        self, partition: Partition, records: Buffer, now_ms: int, convert: Callable[[bytes, LogConfig, int], bytes]
    ) -> AppendResult | Deferred[AppendResult]:
        """Append the result of `convert(records, config, now_ms)`: one v2 batch that need not be opened.

        `convert` is a module-level function that runs in a worker unless the records are few. It validates as
        `open_batch` does, assigns offsets from 0 and the type CreateTime, and raises AppendRefused.
        """
        queue = partition.queue
        if (
            queue is None
            and _MESSAGE_ATTRIBUTES < len(records) <= _CONVERTED_HERE_BYTES
            and not records[_MESSAGE_ATTRIBUTES] & CODEC_MASK
        ):
            config = partition.log_config
            return partition.append(convert(bytes(records), config, now_ms), now_ms, opened=Opened(config))
        if queue is None:
            queue = partition.queue = AppendQueue(partition)
        step = _Conversion(self, partition, bytes(records), convert)
        step.open()
        return queue.put(step)

    def count(self, waiting: Deferred[None]) -> None:
        """Count a request as waiting until `waiting` is done; it must not be cancelled."""
        self._on_queued(1)
        waiting.add_done_callback(lambda _: self._on_queued(-1))

    def in_order(self, partition: Partition, call: Callable[[], T]) -> T | Deferred[T]:
        """Run `call()` on a partition after all earlier steps: usually at once."""
        if partition.queue is None:
            return call()
        return partition.queue.put(_Call(call))


class _Step(Generic[T]):
    """A step on a partition that runs in its turn.

    A finished step must not keep its batch in a reference cycle, because garbage collection runs rarely.
    """

    __slots__ = ("deferred", "ready", "wake")

    def __init__(self) -> None:
        self.deferred: Deferred[T] = Deferred()
        self.ready = True
        self.wake: Callable[[], None] = _nothing

    def run(self) -> T:
        raise NotImplementedError

    def open(self) -> None:
        """Start the preparation in a worker, if the step needs one; it sets `ready` and calls `wake` afterwards."""

    def end(self) -> None:
        """Release the memory of the finished step."""


def _nothing() -> None:
    """Do nothing, as long as the step is in no queue."""


class _Call(_Step[T]):
    """A call of another part of the broker, in its turn."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], T]) -> None:
        super().__init__()
        self._call = call

    def run(self) -> T:
        return self._call()


class _Append(_Step[AppendResult]):
    """The append of a batch, and the worker's result."""

    __slots__ = ("_appends", "_attempts", "_opened", "_origin", "_partition", "_records")

    def __init__(self, appends: AppendScheduler, partition: Partition, records: Buffer, origin: AppendOrigin) -> None:
        super().__init__()
        self._appends = appends
        self._partition = partition
        self._records = records
        self._origin = origin
        self._opened: Opened | None = None
        self._attempts = 0
        appends._on_held(len(records))

    @property
    def _led(self) -> Partition:
        """The partition. Raises LogOffline if it has been deleted, or another broker leads it now and fills the log."""
        if not self._partition.hosted:
            raise LogOffline(str(self._partition), "it is not led here any more")
        return self._partition

    def is_to_be_opened(self) -> bool:
        """As far as can be seen already: what is overlooked is opened when it is at the front."""
        records, config = self._records, self._partition.log_config
        if len(records) < HEADER_SIZE:
            return False
        header = parse_header(records)
        return must_open(header, config, self._origin) and is_for_worker(header, config)

    def open(self) -> None:
        self._open_with(open_in_worker)

    def _open_with(self, opener: Opener) -> None:
        self.ready = False
        config = self._partition.log_config
        self._attempts += 1
        job = self._appends._workers.submit(opener, bytes(self._records), config, self._appends._clock.now_ms())
        job.add_done_callback(partial(self._on_opened, config))

    def _on_opened(self, config: LogConfig, job: Deferred[bytes | None]) -> None:
        try:
            self._opened = Opened(config, job.result())
        except PoolClosed as error:
            self._opened = Opened(config, error=error)
        except PoolProcessDied as error:
            if self._attempts < _ATTEMPTS:
                self.open()
                return
            log.error("A batch for %s is refused: %d workers ended while opening it", self._partition, self._attempts)
            self._opened = Opened(config, error=error)
        except Exception as error:
            self._opened = Opened(config, error=error)
        self._attempts = 0
        self.ready = True
        self.wake()

    def run(self) -> AppendResult:
        now_ms = self._appends._clock.now_ms()
        return self._led.append(self._records, now_ms, self._origin, self._opened)

    def end(self) -> None:
        self._appends._on_held(-len(self._records))
        self._records = b""
        self._opened = None


class _PlacedAppend(_Append):
    """The append of a large batch: a thread writes it to its place in the file once it is at the front.

    `records` are in memory of their own (network/receive_buffer.py), so they are not copied.
    """

    __slots__ = ("_error", "_placed")

    def __init__(
        self, appends: AppendScheduler, partition: Partition, records: memoryview, origin: AppendOrigin
    ) -> None:
        super().__init__(appends, partition, records, origin)
        self._error: StorageError | None = None
        self._placed: PlacedBatch | None = None

    def is_to_be_opened(self) -> bool:
        return False

    def open(self) -> None:
        self._undo()
        try:
            log = self._led.log
            placed = log.place(memoryview(self._records), self._appends._clock.now_ms(), self._origin)
        except BatchToOpen:
            super().open()
            return
        except StorageError as error:
            self._error = error
            return
        self.ready = False
        self._placed = placed
        self._appends._offload(placed.write).add_done_callback(partial(self._on_written, log))

    def _on_written(self, log: PartitionLog, job: Deferred[None]) -> None:
        try:
            job.result()
        except OSError as error:
            self._error = log.directory.fail(error)
        self.ready = True
        self.wake()

    def run(self) -> AppendResult:
        if self._error is not None:
            raise self._error
        if self._opened is not None:
            return super().run()
        if self._placed is None:
            raise NotInPlace
        now_ms = self._appends._clock.now_ms()
        return self._led.append(self._records, now_ms, self._origin, None, self._placed)

    def end(self) -> None:
        self._undo()
        super().end()

    def _undo(self) -> None:
        """Remove the written bytes, unless they were appended."""
        placed, self._placed = self._placed, None
        if placed is not None:
            with suppress(OSError):  # the bytes are not part of the log: recovery truncates them
                placed.undo()


class _Conversion(_Append):
    """The append of records in an old format."""

    __slots__ = ("_convert",)

    def __init__(self, appends: AppendScheduler, partition: Partition, records: bytes, convert: Opener) -> None:
        super().__init__(appends, partition, records, AppendOrigin.CLIENT)
        self._convert = convert

    def open(self) -> None:
        self._open_with(self._convert)

    def run(self) -> AppendResult:
        opened = self._opened
        if opened is None or opened.config != self._partition.log_config:
            raise BatchToOpen
        if opened.error is not None:
            raise opened.error
        assert opened.batch is not None
        now_ms = self._appends._clock.now_ms()
        return self._led.append(opened.batch, now_ms, opened=Opened(opened.config))


class AppendQueue:
    """The waiting steps of one partition; it has a queue only while any step waits."""

    __slots__ = ("_partition", "_steps")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._steps: deque[_Step[Any]] = deque()

    def put(self, step: _Step[T]) -> Deferred[T]:
        """Run a step after all earlier ones; at once if there are none and it is prepared."""
        step.wake = self._run
        self._steps.append(step)
        if step.ready and len(self._steps) == 1:
            self._run()
        return step.deferred

    def _run(self) -> None:
        steps = self._steps
        while steps and steps[0].ready:
            step = steps[0]
            try:
                outcome = partial(step.deferred.resolve, step.run())
            except (BatchToOpen, NotInPlace):
                step.open()
                continue
            except (StorageError, PoolProcessDied) as error:
                outcome = partial(step.deferred.fail, error.with_traceback(None))  # its frames refer to the batch
            except Exception as error:
                outcome = partial(step.deferred.fail, error)
            steps.popleft()
            step.end()
            if not steps:
                self._partition.queue = None
            outcome()
