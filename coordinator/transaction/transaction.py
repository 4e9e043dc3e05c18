"""What is known of a transactional id: who may produce for it, and how far its transaction is.

Values, never changed: each step makes the next one, which goes into the log as a record, and only then counts.
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

#: The transaction protocols, of clients and as transaction.version: with the newer one (KIP-890) each transaction has
#: an epoch of its own, and partitions join by being written to.
OLDER, NEWER = 0, 2


class TopicPartition(NamedTuple):
    """A partition that takes part in a transaction."""

    topic: str
    partition: int


def is_exhausted(producer_epoch: int) -> bool:
    """Whether no producer may be given a higher epoch: the very last one is kept for fencing it."""
    return producer_epoch >= _LARGEST_EPOCH - 1


class Transaction(msgspec.Struct, frozen=True):
    """The state of a transactional id.

    `previous_producer_id`: the one before this step, which is the same one mostly; `next_producer_id`: takes over when
    the transaction is complete, -1 mostly. `start_ms`, `update_ms`: wall clock. `client_version`: the transaction
    protocol of the client, 2 where epochs are bumped with each transaction, else 0. `last_producer_epoch`: the epoch
    that its owner gave up for the present one, which makes requests that come again known; -1 after a restart, since
    records do not have it.
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
        """Whether it has been open for too long; never in two phases with others (KIP-939), who decide when it ends."""
        return self.timeout_ms != NO_TIMEOUT_MS and self.start_ms + self.timeout_ms < now.wall_ms

    @property
    def is_exhausted(self) -> bool:
        """Whether the next producer needs another id."""
        return is_exhausted(self.producer_epoch)

    def with_epoch(self, epoch: int, last_epoch: int, timeout_ms: int, now: Now) -> Transaction:
        """Its producer starts anew, with this epoch."""
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
        """Its producer starts anew, with another id."""
        return replace(self.with_epoch(0, last_epoch, timeout_ms, now), producer_id=producer_id)

    def with_partitions(self, partitions: frozenset[TopicPartition], client_version: int, now: Now) -> Transaction:
        """More partitions take part; the first ones begin the transaction."""
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
        """Decided. With the epoch bump its markers have the next epoch already."""
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if client_version >= NEWER:
            last_epoch = epoch
            epoch = min(epoch + 1, _LARGEST_EPOCH)  # beyond it there is nothing: a broken producer may end all the same
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
        """Its producer is shut out by an epoch that nobody is given: the older protocol's way, before an abort."""
        epoch = min(self.producer_epoch + 1, _LARGEST_EPOCH)
        return replace(self, producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH)

    def completed(self, now: Now) -> Transaction:
        """All partitions have their markers. A producer id that takes over does so now."""
        commits = self.state is TransactionState.PREPARE_COMMIT
        changes: dict[str, object] = {"partitions": frozenset(), "next_producer_id": NO_PRODUCER_ID}
        if self.client_version >= NEWER and self.next_producer_id != NO_PRODUCER_ID:
            changes |= {"producer_id": self.next_producer_id, "producer_epoch": 0}
        after = TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
        return self._move(after, now, **changes)
