"""What all coordinators have in common: shards, which one partition of an internal topic stands for, and their records.

A shard's state is what its records replay to; see README, rules 1 and 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from protocol.records.batch import NO_PRODUCER_ID
from protocol.records.record import KeyAndValue

R = TypeVar("R", bound="LogRecord")


class LogRecord(Protocol):
    """A record as a value that knows its bytes; `value` None deletes what the key names."""

    @property
    def key(self) -> bytes: ...

    @property
    def value(self) -> bytes | None: ...


class UnknownRecord(Exception):
    """A record type or value version from a newer Kafka, or bytes that are none of its records."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Producer(NamedTuple):
    """Who writes records that are part of a transaction."""

    producer_id: int
    producer_epoch: int


def pack_none(records: object) -> None:
    """`Shard.pack` where there is no shorter way."""


class Skim(Protocol):
    """Takes in batches of a piece of a log without opening records that later ones make void: for `load.py`.

    `len`: of how many keys it has records that were not given out.
    """

    def take(self, position: int, from_offset: int) -> tuple[int, int] | None:
        """Take in batches from `position` on, some at a time. Gives the offset that follows, and where they end; None
        where there is a batch to be opened, a damaged one, one that begins before `from_offset`, or none.
        """
        ...

    def records(self) -> list[KeyAndValue]:
        """Give out what counts of what was taken in, to be replayed."""
        ...

    def __len__(self) -> int: ...


class NoSkim:
    """Takes in nothing: each record counts."""

    def take(self, position: int, from_offset: int) -> None:
        """None: any batch is to be opened."""

    def records(self) -> list[KeyAndValue]:
        """None."""
        return []

    def __len__(self) -> int:
        return 0


def no_skim(data: bytes) -> NoSkim:
    """`Shard.skim` where each record counts."""
    return NoSkim()


class Shard(Protocol[R]):
    """The state of one partition of a coordinator's topic. `len` counts what it is full of: groups, ids."""

    partition: int
    #: Records that loading left alone, by what is strange about them.
    unknown_records: Counter[str]

    def parse(self, key: bytes | None, value: bytes | None) -> R:
        """The record of these bytes. Raises UnknownRecord; the log keeps such records, the shard goes on without."""
        ...

    def skim(self, data: bytes) -> Skim:
        """What may take in batches of `data`, which is read from the log."""
        ...

    def pack(self, records: Sequence[R]) -> bytes | None:
        """Records that are written together as the bytes of a batch, with offset deltas from 0 on and all of the
        batch's time, where that takes less than one after the other; None where it does not.
        """
        ...

    def replay_all(self, records: Sequence[R], offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply records that stand one behind the other in the log, from `offset` on."""
        ...

    def replay(self, record: R, offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the log; `producer_id` marks one that is part of a transaction."""
        ...

    def replay_transaction_end(self, producer_id: int, committed: bool) -> None:
        """Apply the marker that ends a producer's transaction."""
        ...

    def __len__(self) -> int: ...
