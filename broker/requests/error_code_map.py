"""The table from exceptions of the other packages to error codes of the protocol.

The packages raise their own exceptions, with fields. Only this file maps them to Kafka's codes. A subclass has the code
of its nearest listed ancestor.
"""

from __future__ import annotations

from config.errors import ConfigError
from metadata.decision import Refused, TooManyRecords
from protocol.error_codes import ErrorCode
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
    LogQueued,
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
    """The time-out of a request is 0 or less: nothing was done."""


class NotCommitted(Exception):
    """Records are in the leader's log, and it is not known that all in-sync replicas have them.

    `code` is REQUEST_TIMED_OUT, NOT_LEADER_OR_FOLLOWER or NOT_ENOUGH_REPLICAS_AFTER_APPEND. The records may still be
    committed.
    """

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class OffsetNotAvailable(Exception):
    """A new leader does not know yet which records are committed (KIP-207)."""


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
    LogQueued: ErrorCode.NOT_LEADER_OR_FOLLOWER,  # every client retries after it, without a message
    OffsetNotAvailable: ErrorCode.OFFSET_NOT_AVAILABLE,
    OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    OSError: ErrorCode.KAFKA_STORAGE_ERROR,
    OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    RecordBatchTooLarge: ErrorCode.RECORD_LIST_TOO_LARGE,
    RecordTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    SourceUnreadable: ErrorCode.KAFKA_STORAGE_ERROR,
    RequestTimedOut: ErrorCode.REQUEST_TIMED_OUT,
    TooManyRecords: ErrorCode.POLICY_VIOLATION,
    TooMuchToOpen: ErrorCode.MESSAGE_TOO_LARGE,
    TransactionCoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    UnsupportedCodec: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    # Kafka has no code for these either (tried on 4.3.1, except for the offset).
    UnexpectedAppendOffset: ErrorCode.UNKNOWN_SERVER_ERROR,
    UnknownCodec: ErrorCode.UNKNOWN_SERVER_ERROR,
    UnreadableRecords: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def error_code_of(error: BaseException) -> ErrorCode:
    """Return the code of an exception; UNKNOWN_SERVER_ERROR for an unexpected one."""
    if isinstance(error, NotCommitted):
        return error.code
    if isinstance(error, Refused):
        return error.error_code
    for kind in type(error).__mro__:
        code = ERROR_CODES.get(kind)
        if code is not None:
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR


def fenced_code_for(api_version: int, knows_fenced_from: int, code: ErrorCode) -> ErrorCode:
    """Return INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED (KIP-588) in versions that do not know that code."""
    if code is ErrorCode.PRODUCER_FENCED and api_version < knows_fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
