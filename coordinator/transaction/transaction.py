"""The state of a transactional id: its producer, and the progress of its transaction.

Transactions are immutable values. Each step makes the next one, which counts once its record is in the log.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from coordinator.clock import Now
from coordinator.transaction.state import IDLE, LEGAL_FROM, IllegalTransition, TransactionState
from protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

NO_TIME = -1
NO_TIMEOUT_MS = 2**31 - 1
_LARGEST_EPOCH = 32_767

#: The transaction protocols, of clients and as transaction.version. In the newer one (KIP-890) each transaction has an
#: epoch of its own, and the first write to a partition adds it to the transaction.
OLDER, NEWER = 0, 2


class TopicPartition(NamedTuple):
    """A partition in a transaction."""

    topic: str
    partition: int


def is_exhausted(producer_epoch: int) -> bool:
    """Return whether the producer id has no higher epoch to give: the last one is reserved for fencing."""
    return producer_epoch >= _LARGEST_EPOCH - 1


class Transaction(msgspec.Struct, frozen=True):
    """The state of a transactional id.

    - `previous_producer_id`: the producer id before this step, mostly the same one.
    - `next_producer_id`: takes over when the transaction is complete; mostly -1.
    - `start_ms`, `update_ms`: wall clock.
    - `client_version`: the client's transaction protocol, 2 if each transaction bumps the epoch, else 0.
    - `last_producer_epoch`: the owner's epoch before the current one, by which a retry is recognised. -1 after a
      restart, because records do not have it.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    update_ms: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0
    last_producer_epoch: int = NO_PRODUCER_EPOCH

    def _move(self, state: TransactionState, now: Now, **changes: object) -> Transaction:
        if self.state not in LEGAL_FROM[state]:
            raise IllegalTransition(self.transactional_id, self.state, state)
        return replace(
            self,
            state=state,
            update_ms=now.wall_ms,
            previous_producer_id=self.producer_id,
            **changes,
        )

    def is_timed_out(self, now: Now) -> bool:
        """Return whether the transaction is open for too long; never for two-phase commit (KIP-939)."""
        return self.timeout_ms != NO_TIMEOUT_MS and self.start_ms + self.timeout_ms < now.wall_ms

    @property
    def is_exhausted(self) -> bool:
        """Whether the next producer needs another producer id."""
        return is_exhausted(self.producer_epoch)

    def with_epoch(self, epoch: int, last_epoch: int, timeout_ms: int, now: Now) -> Transaction:
        """Return the id with this epoch for its producer."""
        return self._move(
            TransactionState.EMPTY,
            now,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIME,
        )

    def with_producer_id(self, producer_id: int, last_epoch: int, timeout_ms: int, now: Now) -> Transaction:
        """Return the id with another producer id."""
        return replace(self.with_epoch(0, last_epoch, timeout_ms, now), producer_id=producer_id)

    def with_partitions(self, partitions: frozenset[TopicPartition], client_version: int, now: Now) -> Transaction:
        """Return the id with more partitions in its transaction; the first ones begin the transaction."""
        return self._move(
            TransactionState.ONGOING,
            now,
            partitions=self.partitions | partitions,
            start_ms=now.wall_ms if self.state in IDLE else self.start_ms,
            client_version=client_version,
        )

    def prepared(
        self, commit: bool, client_version: int, now: Now, next_producer_id: int = NO_PRODUCER_ID
    ) -> Transaction:
        """Return the id with a decided transaction. With the epoch bump, its markers already have the next epoch."""
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if client_version >= NEWER:
            last_epoch = epoch
            # there is no higher epoch: a broken producer may still end its transaction
            epoch = min(epoch + 1, _LARGEST_EPOCH)
        return self._move(
            TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            now,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=next_producer_id,
            client_version=client_version,
            start_ms=now.wall_ms if self.state in IDLE else self.start_ms,
        )

    def fenced(self) -> Transaction:
        """Return the id with its producer fenced by an epoch that no producer gets, as the older protocol does."""
        epoch = min(self.producer_epoch + 1, _LARGEST_EPOCH)
        return replace(self, producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH)

    def completed(self, now: Now) -> Transaction:
        """Return the id with a complete transaction: all partitions have their markers.

        A new producer id takes over now.
        """
        commits = self.state is TransactionState.PREPARE_COMMIT
        changes: dict[str, object] = {"partitions": frozenset(), "next_producer_id": NO_PRODUCER_ID}
        if self.client_version >= NEWER and self.next_producer_id != NO_PRODUCER_ID:
            changes |= {"producer_id": self.next_producer_id, "producer_epoch": 0}
        after = TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
        return self._move(after, now, **changes)
