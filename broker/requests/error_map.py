"""What the exceptions of the rooms below mean to a client: one table from exception to error code.

The rooms raise their own exceptions, with fields; only here are they turned into Kafka's codes. Subclasses follow
their nearest listed ancestor.
"""

from __future__ import annotations

from config.errors import ConfigError
from protocol.errors import ErrorCode
from protocol.records.errors import CorruptBatch, InvalidRecord, UnsupportedCodec
from storage.errors import (
    CorruptFile,
    CorruptRecords,
    DirectoryRefused,
    InvalidProducerEpoch,
    InvalidRecords,
    InvalidTimestamp,
    InvalidTransactionState,
    LogOffline,
    LogWaits,
    OffsetOutOfRange,
    OutOfOrderSequence,
    RecordBatchTooLarge,
    RecordTooLarge,
    SourceUnreadable,
    TooMuchToOpen,
    TransactionCoordinatorFenced,
    UnexpectedAppendOffset,
    UnknownCodec,
    UnreadableRecords,
)


class RequestTimedOut(Exception):
    """A request that leaves no time for what it asks: nothing was done."""


ERROR_CODES: dict[type[BaseException], ErrorCode] = {
    ConfigError: ErrorCode.INVALID_CONFIG,
    CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    CorruptFile: ErrorCode.KAFKA_STORAGE_ERROR,
    CorruptRecords: ErrorCode.CORRUPT_MESSAGE,
    DirectoryRefused: ErrorCode.KAFKA_STORAGE_ERROR,
    InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    InvalidRecord: ErrorCode.INVALID_RECORD,
    InvalidRecords: ErrorCode.INVALID_RECORD,
    InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    LogOffline: ErrorCode.KAFKA_STORAGE_ERROR,
    LogWaits: ErrorCode.NOT_LEADER_OR_FOLLOWER,  # at which every client asks again, and says nothing
    OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    OSError: ErrorCode.KAFKA_STORAGE_ERROR,
    OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    RecordBatchTooLarge: ErrorCode.RECORD_LIST_TOO_LARGE,
    RecordTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    SourceUnreadable: ErrorCode.KAFKA_STORAGE_ERROR,
    RequestTimedOut: ErrorCode.REQUEST_TIMED_OUT,
    TooMuchToOpen: ErrorCode.MESSAGE_TOO_LARGE,
    TransactionCoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    UnsupportedCodec: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    # Kafka has no code for these either, and answers so (tried on 4.3.1 but for the offset).
    UnexpectedAppendOffset: ErrorCode.UNKNOWN_SERVER_ERROR,
    UnknownCodec: ErrorCode.UNKNOWN_SERVER_ERROR,
    UnreadableRecords: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def error_code_of(error: BaseException) -> ErrorCode:
    """The code that stands for an exception; UNKNOWN_SERVER_ERROR for one that nobody expected."""
    for kind in type(error).__mro__:
        code = ERROR_CODES.get(kind)
        if code is not None:
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR


def fenced_in_words_of(api_version: int, knows_fenced_from: int, code: ErrorCode) -> ErrorCode:
    """PRODUCER_FENCED (KIP-588) to clients of a version before the one that knows it: INVALID_PRODUCER_EPOCH."""
    if code is ErrorCode.PRODUCER_FENCED and api_version < knows_fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
