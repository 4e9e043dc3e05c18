"""A decision: records to append, and a result for each item of the request. Replaying the records changes the image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

import msgspec
from msgspec import field

from metadata.framing import MetadataRecord
from protocol.error_codes import ErrorCode

T = TypeVar("T")

Admit: TypeAlias = Callable[[int], None]
"""Called before partitions are created or deleted, with their number. Raises Refused if there are too many."""

# Kafka's limits: one request is one batch, and a batch must not become too large to read
MAX_PARTITIONS_PER_REQUEST = 10_000
TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."
MAX_RECORDS_PER_REQUEST = 10_000
"""Also that of the filters of DeleteAcls, which has another error."""


class TooManyRecords(Exception):
    """A request needs more records than one batch may have. Nothing of it is done."""

    def __init__(self) -> None:
        super().__init__("Unable to perform excessively large batch operation.")


def check_size(records: Sequence[MetadataRecord]) -> None:
    """Raise TooManyRecords if the records of one request are more than Kafka's MAX_RECORDS_PER_USER_OP."""
    if len(records) > MAX_RECORDS_PER_REQUEST:
        raise TooManyRecords


class Refused(Exception):
    """Why an item of a request is rejected. Clients show `message` to people."""

    def __init__(self, error_code: ErrorCode, message: str | None = None) -> None:
        super().__init__(error_code, message)
        self.error_code = error_code
        self.message = message


class Decision(msgspec.Struct, Generic[T]):
    """The records of all accepted items, as one batch, and the results in the order of the request."""

    records: list[MetadataRecord] = field(default_factory=list)
    results: list[T] = field(default_factory=list)


class PartitionResult(msgspec.Struct, frozen=True):
    """The result for a partition."""

    topic: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


def unlimited(partitions: int) -> None:
    """Accept any number of partitions."""
