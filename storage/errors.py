"""What can go wrong in this room. Fields first; `str()` gives the sentence a client or an operator reads.

No wire error code is named here: `broker/requests/error_map.py` gives each class its own. Records that are no records
at all raise `protocol.records.errors` (CorruptBatch, InvalidRecord, UnsupportedCodec) where they are opened.
"""

from __future__ import annotations

from typing import NamedTuple


class StorageError(Exception):
    """Base of everything below; never raised itself. Passes from a worker to the broker as it is, with its fields."""

    def __reduce__(self) -> tuple[object, ...]:
        return _made_again, (type(self), self.args, self.__dict__)


def _made_again(kind: type[StorageError], args: tuple[object, ...], fields: dict[str, object]) -> StorageError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class RecordError(NamedTuple):
    """One record of a refused batch: its place in the batch and what is wrong with it (KIP-467)."""

    batch_index: int
    message: str


class AppendRefused(StorageError):
    """The records may not be appended as they are; the log is unchanged. Base of the classes that follow."""

    def __init__(self, message: str, record_errors: tuple[RecordError, ...] = (), error_count: int = 0) -> None:
        """`error_count`: how many records are wrong, where not all of them are told."""
        super().__init__(message)
        self.record_errors = record_errors
        self.error_count = error_count or len(record_errors)


class CorruptRecords(AppendRefused):
    """A length, magic or checksum that cannot be right."""


class InvalidRecords(AppendRefused):
    """Whole bytes that break a rule: more or less than one batch, a count, a control bit, a missing key."""


class InvalidTimestamp(AppendRefused):
    """A timestamp outside message.timestamp.before.max.ms / after.max.ms."""


class UnknownCodec(AppendRefused):
    """A compression id that no codec has."""


class UnreadableRecords(AppendRefused):
    """Compressed records that cannot be uncompressed, where they have to be looked at."""


class RecordTooLarge(AppendRefused):
    """A batch of more bytes than max.message.bytes."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"The batch has {size_bytes} bytes, more than max.message.bytes of {limit_bytes} allows.")
        self.size_bytes, self.limit_bytes = size_bytes, limit_bytes


class TooMuchToOpen(AppendRefused):
    """A batch that has to be opened, and holds more bytes or records than are opened at a time."""


class RecordBatchTooLarge(AppendRefused):
    """A batch of more bytes than a whole segment may have."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"The batch has {size_bytes} bytes, more than segment.bytes of {limit_bytes} allows.")
        self.size_bytes, self.limit_bytes = size_bytes, limit_bytes


class OutOfOrderSequence(AppendRefused):
    """An idempotent producer's batch does not follow its last one, nor is it one of its last five."""

    def __init__(self, producer_id: int, expected: int, got: int) -> None:
        super().__init__(f"Out of order sequence number of producer {producer_id}: got {got}, expected {expected}.")
        self.producer_id, self.expected, self.got = producer_id, expected, got


class InvalidProducerEpoch(AppendRefused):
    """A producer whose epoch has been overtaken by a later one with its id."""

    def __init__(self, producer_id: int, current: int, got: int) -> None:
        super().__init__(f"Epoch {got} of producer {producer_id} is older than the last seen epoch {current}.")
        self.producer_id, self.current, self.got = producer_id, current, got


class InvalidTransactionState(AppendRefused):
    """A plain batch of a producer that has a transaction open here."""

    def __init__(self, producer_id: int) -> None:
        super().__init__(f"Expected a transactional write of producer {producer_id}, which has a transaction open.")
        self.producer_id = producer_id


class TransactionCoordinatorFenced(AppendRefused):
    """A marker of a transaction coordinator that another has replaced."""

    def __init__(self, producer_id: int, current: int, got: int) -> None:
        super().__init__(f"Coordinator epoch {got} for producer {producer_id} is older than {current}.")
        self.producer_id, self.current, self.got = producer_id, current, got


class UnexpectedAppendOffset(AppendRefused):
    """Records that come with offsets, which lie below the end of the log or are out of order."""

    def __init__(self, offset: int, log_end_offset: int) -> None:
        super().__init__(f"Offset {offset} in an append is below the log end offset {log_end_offset}.")
        self.offset, self.log_end_offset = offset, log_end_offset


class OffsetOutOfRange(StorageError):
    """An offset that the log does not have (any more, or yet)."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"Offset {offset} is not within [{log_start_offset}, {log_end_offset}].")
        self.offset, self.log_start_offset, self.log_end_offset = offset, log_start_offset, log_end_offset


class LogOffline(StorageError):
    """The log's directory failed (disk full, I/O error, failed fsync), or the log was closed."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is offline: {reason}")
        self.path, self.reason = path, reason


class LogWaits(LogOffline):
    """The log will be opened in a moment, after others have had their turn: ask again."""


class CorruptFile(StorageError):
    """An index, checkpoint, snapshot or properties file that cannot be read: rebuilt or treated as missing."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


class DirectoryRefused(StorageError):
    """A log directory that may not be used; nothing in it was touched. `reason` is a line for the operator."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


class SourceUnreadable(StorageError):
    """A file of a log that is being copied cannot be read: the fault of that log's disk, not of the copy's."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error
