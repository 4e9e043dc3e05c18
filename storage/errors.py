"""The errors of the storage engine.

Attributes hold the facts; `str()` gives the sentence for a client or an operator. No wire error code is named here:
`broker/requests/error_code_map.py` maps each class to its code. Bytes that are not valid records raise
`protocol.records.errors` (CorruptBatch, InvalidRecord, UnsupportedCodec) where they are decoded.
"""

from __future__ import annotations

from typing import NamedTuple


class StorageError(Exception):
    """The base class of all errors in this file; never raised itself.

    It can be pickled with its attributes, so a worker process can send it to the broker.
    """

    def __reduce__(self) -> tuple[object, ...]:
        return _made_again, (type(self), self.args, self.__dict__)


def _made_again(kind: type[StorageError], args: tuple[object, ...], fields: dict[str, object]) -> StorageError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class RecordError(NamedTuple):
    """One invalid record of a rejected batch: its index in the batch and the reason (KIP-467)."""

    batch_index: int
    message: str


class AppendRefused(StorageError):
    """The records were rejected and the log is unchanged. The base class of the append errors below."""

    def __init__(self, message: str, record_errors: tuple[RecordError, ...] = (), error_count: int = 0) -> None:
        """`error_count` is the number of invalid records, if `record_errors` does not list all of them."""
        super().__init__(message)
        self.record_errors = record_errors
        self.error_count = error_count or len(record_errors)


class CorruptRecords(AppendRefused):
    """A length, magic byte or checksum is wrong."""


class InvalidRecords(AppendRefused):
    """The bytes are intact but break a rule: the number of batches, a count, a control bit, a missing key."""


class InvalidTimestamp(AppendRefused):
    """A timestamp is outside message.timestamp.before.max.ms or message.timestamp.after.max.ms."""


class UnknownCodec(AppendRefused):
    """The compression id is unknown."""


class UnreadableRecords(AppendRefused):
    """Compressed records cannot be decompressed, and they had to be inspected."""


class RecordTooLarge(AppendRefused):
    """The batch is larger than max.message.bytes."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"The batch has {size_bytes} bytes, more than max.message.bytes of {limit_bytes} allows.")
        self.size_bytes, self.limit_bytes = size_bytes, limit_bytes


class TooMuchToOpen(AppendRefused):
    """The batch must be decompressed, but has more bytes or records than the broker decompresses at a time."""


class RecordBatchTooLarge(AppendRefused):
    """The batch is larger than segment.bytes."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"The batch has {size_bytes} bytes, more than segment.bytes of {limit_bytes} allows.")
        self.size_bytes, self.limit_bytes = size_bytes, limit_bytes


class OutOfOrderSequence(AppendRefused):
    """A batch of an idempotent producer neither follows its last batch nor repeats one of its last five."""

    def __init__(self, producer_id: int, expected: int, got: int) -> None:
        super().__init__(f"Out of order sequence number of producer {producer_id}: got {got}, expected {expected}.")
        self.producer_id, self.expected, self.got = producer_id, expected, got


class InvalidProducerEpoch(AppendRefused):
    """The producer epoch is older than the current epoch of this producer id."""

    def __init__(self, producer_id: int, current: int, got: int) -> None:
        super().__init__(f"Epoch {got} of producer {producer_id} is older than the last seen epoch {current}.")
        self.producer_id, self.current, self.got = producer_id, current, got


class InvalidTransactionState(AppendRefused):
    """A non-transactional batch of a producer that has an open transaction in this partition."""

    def __init__(self, producer_id: int) -> None:
        super().__init__(f"Expected a transactional write of producer {producer_id}, which has a transaction open.")
        self.producer_id = producer_id


class TransactionCoordinatorFenced(AppendRefused):
    """A transaction marker from a coordinator that has been replaced."""

    def __init__(self, producer_id: int, current: int, got: int) -> None:
        super().__init__(f"Coordinator epoch {got} for producer {producer_id} is older than {current}.")
        self.producer_id, self.current, self.got = producer_id, current, got


class UnexpectedAppendOffset(AppendRefused):
    """A replicated batch has an offset below the log end offset, or its offsets are out of order."""

    def __init__(self, offset: int, log_end_offset: int) -> None:
        super().__init__(f"Offset {offset} in an append is below the log end offset {log_end_offset}.")
        self.offset, self.log_end_offset = offset, log_end_offset


class OffsetOutOfRange(StorageError):
    """The log does not contain the offset: it was deleted, or it was not written yet."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"Offset {offset} is not within [{log_start_offset}, {log_end_offset}].")
        self.offset, self.log_start_offset, self.log_end_offset = offset, log_start_offset, log_end_offset


class LogOffline(StorageError):
    """The log directory has failed (disk full, I/O error, failed fsync), or the log is closed."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is offline: {reason}")
        self.path, self.reason = path, reason


class LogQueued(LogOffline):
    """The log is queued to be opened soon. Retry the request."""


class CorruptFile(StorageError):
    """An index, checkpoint, snapshot or properties file is unreadable. It is rebuilt or treated as missing."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


class DirectoryRefused(StorageError):
    """A log directory must not be used; nothing in it was changed. `reason` is one line for the operator."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


class SourceUnreadable(StorageError):
    """A source file of a partition copy is unreadable. The disk of the source log is at fault, not the disk of the
    copy.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error
