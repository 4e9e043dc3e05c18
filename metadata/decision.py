"""What a decision is: records to append, and an answer per thing asked. It changes nothing: replaying them does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

import msgspec
from msgspec import field

from metadata.framing import MetadataRecord
from protocol.errors import ErrorCode

T = TypeVar("T")

Admit: TypeAlias = Callable[[int], None]
"""Asked before so many partitions are made or removed; raises Refused where they are too many."""

MAX_PARTITIONS_PER_REQUEST = 10_000  # Kafka's limit: one request is one batch, and one batch has to stay readable
TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."


class Refused(Exception):
    """Why one topic or partition of a request cannot have what was asked for; `message` is what people get to read."""

    def __init__(self, error_code: ErrorCode, message: str | None = None) -> None:
        super().__init__(error_code, message)
        self.error_code = error_code
        self.message = message


class Decision(msgspec.Struct, Generic[T]):
    """The records of all that was granted, one batch, and the results in the order of the request."""

    records: list[MetadataRecord] = field(default_factory=list)
    results: list[T] = field(default_factory=list)


def unlimited(partitions: int) -> None:
    """An Admit that refuses nothing."""
