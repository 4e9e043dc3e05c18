"""The producers of a log: sequence numbers, epochs, open transactions (KIP-98, KIP-360). Pure.

Theory. An idempotent producer numbers its records per partition from 0, wrapping after 2147483647. A batch is accepted
if it follows the producer's last batch. If it equals one of its last five, it was appended before, and the response is
repeated. Any other batch is out of order. A higher epoch starts again at 0; a lower one is a zombie. If the producer is
unknown or expired, every sequence is accepted. A transactional batch opens a transaction at its first offset, and the
coordinator's marker ends it. Offsets before the first open transaction are stable: `first_unstable_offset`.

`check` changes nothing. `add_batch` and `end_transaction` are called after the write, and in the same way when a log is
loaded. So a restart restores the same state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from protocol.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from storage.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)

#: Batches remembered per producer: the maximum that an idempotent Java client has in flight.
BATCHES_KEPT = 5
#: producer.id.expiration.ms
DEFAULT_EXPIRATION_MS = 86_400_000

_NO_OFFSET = -1
_SEQUENCE_MASK = 0x7FFFFFFF
_new = tuple.__new__


class BatchMetadata(NamedTuple):
    """An appended batch: sequence and offset of its last record, offset delta, and largest timestamp (ms)."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _SEQUENCE_MASK

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    """A transaction that a marker ended: its first offset, the marker's offset, and whether it was aborted."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerEntry:
    """The state of one producer.

    `transaction_offset` is where its open transaction begins, -1 if none is open. `batches` are ordered oldest first.
    `complete` is false if the entry comes from a snapshot, which has only the last batch; the log may have the others.
    """

    __slots__ = (
        "batches",
        "complete",
        "coordinator_epoch",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
        "transaction_offset",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = NO_TIMESTAMP,
        transaction_offset: int = _NO_OFFSET,
        batches: Iterable[BatchMetadata] = (),
        *,
        complete: bool = True,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.transaction_offset = transaction_offset
        self.batches: list[BatchMetadata] = list(batches)
        self.complete = complete

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The offset of the last data record; -1 if no batch is remembered."""
        return self.batches[-1].last_offset if self.batches else _NO_OFFSET

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def find_duplicate(self, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """Return the remembered batch with exactly these sequence numbers, or None."""
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None


class ProducerState:
    """The producers of one log by id, in the order of their first batch.

    `end_offset`: all batches below it are included. `transactions` maps the first offset of each open transaction to
    its producer id, in ascending order. `expiration_ms` may change at any time.

    Where a partition has other replicas, a transaction is decided only when all in-sync replicas have its marker. Until
    then it stays in `transactions`, and `ended` has the offset of its marker by its first offset. `ended` is None where
    markers decide at once.
    """

    __slots__ = ("end_offset", "ended", "expiration_ms", "producers", "transactions")

    def __init__(self, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> None:
        self.producers: dict[int, ProducerEntry] = {}
        self.transactions: dict[int, int] = {}
        self.ended: dict[int, int] | None = None
        self.end_offset = 0
        self.expiration_ms = expiration_ms

    # -- data batches ------------------------------------------------------------------------------------------------

    def check(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        offset_delta: int,
        transactional: bool = False,
        sequences: bool = True,
    ) -> BatchMetadata | None:
        """Return None if a batch may be appended, or the remembered batch that it repeats.

        With `sequences` False only the epoch is checked, because batches of coordinators have no sequence. Raises
        InvalidProducerEpoch, OutOfOrderSequence or InvalidTransactionState if it may not be appended.
        """
        entry = self.producers.get(producer_id)
        if entry is None:
            if producer_epoch < NO_PRODUCER_EPOCH:
                raise InvalidProducerEpoch(producer_id, NO_PRODUCER_EPOCH, producer_epoch)
            return None
        if producer_epoch == entry.producer_epoch:
            if sequences:
                batches = entry.batches
                last_sequence = batches[-1][0] if batches else NO_SEQUENCE
                if base_sequence != (last_sequence + 1) & _SEQUENCE_MASK:
                    duplicate = entry.find_duplicate(base_sequence, (base_sequence + offset_delta) & _SEQUENCE_MASK)
                    if duplicate is not None:
                        return duplicate
                    raise OutOfOrderSequence(producer_id, (last_sequence + 1) & _SEQUENCE_MASK, base_sequence)
        elif producer_epoch < entry.producer_epoch:
            raise InvalidProducerEpoch(producer_id, entry.producer_epoch, producer_epoch)
        elif sequences and base_sequence != 0 and entry.producer_epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequence(producer_id, 0, base_sequence)
        if entry.transaction_offset >= 0 and not transactional:
            raise InvalidTransactionState(producer_id)
        return None

    def add_batch(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        last_offset: int,
        offset_delta: int,
        timestamp: int,
        transactional: bool,
    ) -> None:
        """Record a data batch that was appended or found in the log."""
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id, producer_epoch)
        batches = entry.batches
        if entry.producer_epoch != producer_epoch:
            entry.producer_epoch = producer_epoch
            batches.clear()
        elif len(batches) == BATCHES_KEPT:
            del batches[0]
        last_sequence = NO_SEQUENCE if base_sequence < 0 else (base_sequence + offset_delta) & _SEQUENCE_MASK
        batches.append(_new(BatchMetadata, (last_sequence, last_offset, offset_delta, timestamp)))
        entry.last_timestamp = timestamp
        if transactional and entry.transaction_offset < 0:
            entry.transaction_offset = first_offset = last_offset - offset_delta
            self.transactions[first_offset] = producer_id

    # -- transactions ------------------------------------------------------------------------------------------------

    def check_marker(self, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> None:
        """Check that a marker may be appended. Raises InvalidProducerEpoch or TransactionCoordinatorFenced if not."""
        entry = self.producers.get(producer_id)
        if entry is None:
            return
        if producer_epoch < entry.producer_epoch:
            raise InvalidProducerEpoch(producer_id, entry.producer_epoch, producer_epoch)
        if coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFenced(producer_id, entry.coordinator_epoch, coordinator_epoch)

    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        offset: int,
        timestamp: int,
        aborted: bool,
    ) -> CompletedTransaction | None:
        """Record a marker that was appended at `offset` or found there. Return the transaction it ended, or None."""
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id, producer_epoch)
        if entry.producer_epoch != producer_epoch:
            entry.producer_epoch = producer_epoch
            entry.batches.clear()
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        first_offset = entry.transaction_offset
        if first_offset < 0:
            return None
        entry.transaction_offset = _NO_OFFSET
        if self.ended is None:
            self.transactions.pop(first_offset, None)
        else:
            self.ended[first_offset] = offset
        return CompletedTransaction(producer_id, first_offset, offset, aborted)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the earliest open transaction, or None."""
        return next(iter(self.transactions), None)

    def stable_offset_after(self, completed: CompletedTransaction) -> int:
        """Return the last stable offset after `completed` ended, for its entry in the transaction index."""
        ended = self.ended or ()
        first = next((offset for offset in self.transactions if offset not in ended), None)
        return completed.last_offset + 1 if first is None else first

    def note_high_watermark(self, offset: int) -> None:
        """Forget the ended transactions whose markers are below `offset`: all in-sync replicas have them."""
        if self.ended:
            for first_offset in [first for first, marker in self.ended.items() if marker < offset]:
                del self.ended[first_offset]
                self.transactions.pop(first_offset, None)

    # -- expiry and loading ------------------------------------------------------------------------------------------

    def is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        """Return whether a producer was idle for producer.id.expiration.ms and has no open transaction."""
        return entry.transaction_offset < 0 and now_ms - entry.last_timestamp >= self.expiration_ms

    def remove_expired(self, now_ms: int) -> int:
        """Forget expired producers and return their number."""
        expired = [producer_id for producer_id, entry in self.producers.items() if self.is_expired(entry, now_ms)]
        for producer_id in expired:
            del self.producers[producer_id]
        return len(expired)

    def load(self, entries: Iterable[ProducerEntry], end_offset: int, now_ms: int) -> None:
        """Replace the state with the entries of a snapshot at `end_offset`, except the expired ones."""
        self.clear(end_offset)
        for entry in entries:
            if not self.is_expired(entry, now_ms):
                self.producers[entry.producer_id] = entry
        opened = [entry for entry in self.producers.values() if entry.transaction_offset >= 0]
        for entry in sorted(opened, key=lambda entry: entry.transaction_offset):
            self.transactions[entry.transaction_offset] = entry.producer_id

    def clear(self, end_offset: int) -> None:
        self.producers.clear()
        self.transactions.clear()
        if self.ended is not None:
            self.ended.clear()
        self.end_offset = end_offset
