"""The interface of all coordinators' shards and records. A shard is the state of one partition of an internal topic.

Replaying the partition's records gives the shard's state; see README.md, rules 1 and 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from protocol.records.batch import NO_PRODUCER_ID
from protocol.records.record import KeyAndValue

R = TypeVar("R", bound="LogRecord")


class LogRecord(Protocol):
    """A record as a value that can encode itself; `value` None deletes the key."""

    @property
    def key(self) -> bytes: ...

    @property
    def value(self) -> bytes | None: ...


class UnknownRecord(Exception):
    """A record type or a value version of a newer Kafka, or bytes that are not a record of Kafka."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Producer(NamedTuple):
    """The producer of records that are part of a transaction."""

    producer_id: int
    producer_epoch: int


def pack_none(records: object) -> None:
    """Return None, as `Shard.pack` for records without a shorter encoding."""


class Skim(Protocol):
    """Reads batches of a piece of a log and skips the records that later ones replace; used by `load.py`.

    `len` is the number of keys whose records were read but not returned by `records` yet.
    """

    def take(self, position: int, from_offset: int) -> tuple[int, int] | None:
        """Read some batches from `position` on. Return the next offset and the end position.

        Returns None if the next batch has to be decoded as a whole, is damaged, begins before `from_offset`, or does
        not exist.
        """
        ...

    def records(self) -> list[KeyAndValue]:
        """Return the records that count, to be replayed, and forget them."""
        ...

    def __len__(self) -> int: ...


class NoSkim:
    """A Skim that reads nothing, because each record counts."""

    def take(self, position: int, from_offset: int) -> None:
        """Return None: each batch has to be decoded."""

    def records(self) -> list[KeyAndValue]:
        """Return no records."""
        return []

    def __len__(self) -> int:
        return 0


def no_skim(data: bytes) -> NoSkim:
    """Return a Skim that reads nothing, as `Shard.skim` where each record counts."""
    return NoSkim()


class Shard(Protocol[R]):
    """The state of one partition of a coordinator's topic. `len` is the number of its groups or ids."""

    partition: int
    #: Records that loading ignored, by the reason.
    unknown_records: Counter[str]

    def parse(self, key: bytes | None, value: bytes | None) -> R:
        """Parse a record. Raises UnknownRecord; the log keeps such a record, and the shard ignores it."""
        ...

    def skim(self, data: bytes) -> Skim:
        """Return an object that may read batches of `data`, a piece of the log."""
        ...

    def pack(self, records: Sequence[R]) -> bytes | None:
        """Return the bytes of records that are written as one batch, or None if they have to be encoded one by one.

        Offset deltas begin at 0, and all records have the batch's timestamp.
        """
        ...

    def replay_all(self, records: Sequence[R], offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply records with consecutive offsets, from `offset` on."""
        ...

    def replay(self, record: R, offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the log; `producer_id` marks a record that is part of a transaction."""
        ...

    def replay_transaction_end(self, producer_id: int, committed: bool) -> None:
        """Apply the marker that ends a producer's transaction."""
        ...

    def __len__(self) -> int: ...
