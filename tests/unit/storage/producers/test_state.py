"""Sequence numbers, epochs and transactions of producers: accepted, repeated, rejected (KIP-98, KIP-360)."""

from typing import Any

import pytest

from storage.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from storage.producers.state import BatchMetadata, ProducerEntry, ProducerState

MAX = (1 << 31) - 1


class Appender:
    """Checks and adds batches as a log does, and assigns offsets."""

    def __init__(self) -> None:
        self.state = ProducerState()
        self.offset = 0

    def append(
        self, sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 1, transactional: bool = False
    ) -> BatchMetadata | None:
        """Return None if the batch was new."""
        duplicate = self.state.check(producer_id, epoch, sequence, count - 1, transactional)
        if duplicate is None:
            self.offset += count
            self.state.add_batch(producer_id, epoch, sequence, self.offset - 1, count - 1, 1000, transactional)
        return duplicate

    def end(self, *, aborted: bool, epoch: int = 0, producer_id: int = 1, coordinator_epoch: int = 0) -> object:
        self.state.check_marker(producer_id, epoch, coordinator_epoch)
        self.offset += 1
        return self.state.end_transaction(producer_id, epoch, coordinator_epoch, self.offset - 1, 1000, aborted)


def test_batches_follow_each_other() -> None:
    """S19.2: only last + 1 is accepted."""
    producer = Appender()
    assert producer.append(0, 3) is None
    assert producer.append(3) is None
    with pytest.raises(OutOfOrderSequence) as caught:
        producer.append(5)
    assert (caught.value.expected, caught.value.got) == (4, 5)
    assert producer.append(4) is None


def test_impossible_epoch_is_rejected() -> None:
    """An unknown producer's is rejected too; -1, no epoch, is accepted as in Kafka."""
    with pytest.raises(InvalidProducerEpoch):
        Appender().append(0, epoch=-2)
    assert Appender().append(0, epoch=-1) is None


def test_last_five_batches_are_recognised() -> None:
    """S19.2: the response has their offsets; the sixth is out of order."""
    producer = Appender()
    for number in range(6):
        assert producer.append(2 * number, 2) is None
    for number in range(1, 6):
        duplicate = producer.append(2 * number, 2)
        assert duplicate is not None
        assert (duplicate.first_offset, duplicate.last_offset) == (2 * number, 2 * number + 1)
    with pytest.raises(OutOfOrderSequence):
        producer.append(0, 2)


@pytest.mark.parametrize(("sequence", "count"), [(1, 1), (0, 1), (1, 2), (0, 3)])
def test_part_of_a_batch_is_not_a_repetition(sequence: int, count: int) -> None:
    """Only the same first and last sequence number is a repetition."""
    producer = Appender()
    producer.append(0, 2)
    with pytest.raises(OutOfOrderSequence):
        producer.append(sequence, count)


@pytest.mark.parametrize("first", [MAX, MAX - 2])
def test_sequences_wrap_to_zero(first: int) -> None:
    """S19.2: 0 follows 2147483647, also inside a batch, and such a batch is recognised again."""
    producer = Appender()
    assert producer.append(first, 3) is None
    following = (first + 3) & MAX
    assert producer.append(following) is None
    duplicate = producer.append(first, 3)
    assert duplicate is not None
    assert (duplicate.first_sequence, duplicate.last_sequence) == (first, (first + 2) & MAX)


def test_unknown_producer_may_begin_anywhere() -> None:
    """Its state may have expired, or its records may be deleted (KIP-360)."""
    assert Appender().append(41) is None


def test_higher_epoch_begins_at_zero_and_fences_the_lower() -> None:
    """A producer restarts with the same id."""
    producer = Appender()
    producer.append(0)
    with pytest.raises(OutOfOrderSequence):
        producer.append(1, epoch=1)
    assert producer.append(0, epoch=1) is None
    with pytest.raises(InvalidProducerEpoch) as caught:
        producer.append(1, epoch=0)
    assert (caught.value.current, caught.value.got) == (1, 0)
    assert len(producer.state.producers[1].batches) == 1


def test_batches_without_sequences_are_checked_by_epoch_only() -> None:
    """Offset commits in a transaction come from the group coordinator."""
    state = ProducerState()
    for offset in range(3):
        assert state.check(1, 5, -1, 0, True, sequences=False) is None
        state.add_batch(1, 5, -1, offset, 0, 1000, True)
    with pytest.raises(InvalidProducerEpoch):
        state.check(1, 4, -1, 0, True, sequences=False)
    assert state.producers[1].last_sequence == -1


def test_rejected_batch_changes_nothing() -> None:
    """A check only reads."""
    producer = Appender()
    producer.append(0)
    for sequence, epoch in [(5, 0), (0, -1), (3, 1)]:
        with pytest.raises((OutOfOrderSequence, InvalidProducerEpoch)):
            producer.append(sequence, epoch=epoch)
    entry = producer.state.producers[1]
    assert (entry.producer_epoch, entry.last_sequence, producer.offset) == (0, 0, 1)


def test_open_transaction_limits_the_stable_offset() -> None:
    """The earliest open transaction decides."""
    producer = Appender()
    producer.append(0, producer_id=1, transactional=True)
    producer.append(0, 5, producer_id=3)
    producer.append(0, producer_id=2, transactional=True)
    assert producer.state.first_unstable_offset == 0
    assert producer.end(aborted=True, producer_id=1) == (1, 0, 7, True)
    assert producer.state.first_unstable_offset == 6
    assert producer.end(aborted=False, producer_id=2) == (2, 6, 8, False)
    assert producer.state.first_unstable_offset is None


def test_stable_offset_after_an_abort() -> None:
    """Its index entry has the start of the next open transaction, else the offset after the marker."""
    producer = Appender()
    producer.append(0, producer_id=1, transactional=True)
    producer.append(0, producer_id=2, transactional=True)
    completed = producer.end(aborted=True, producer_id=1)
    assert producer.state.stable_offset_after(completed) == 1  # type: ignore[arg-type]
    completed = producer.end(aborted=True, producer_id=2)
    assert producer.state.stable_offset_after(completed) == 4  # type: ignore[arg-type]


def test_end_of_transaction_reads_only_the_earliest_open_one() -> None:
    """A partition may have thousands of open transactions."""

    class Watched(dict[int, int]):
        def items(self) -> Any:
            pytest.fail("all of them are looked at")

    producer = Appender()
    for producer_id in range(1, 5):
        producer.append(0, producer_id=producer_id, transactional=True)
    producer.state.transactions = Watched(producer.state.transactions)
    completed = producer.end(aborted=True, producer_id=2)
    assert completed is not None
    assert producer.state.stable_offset_after(completed) == 0


def test_plain_batch_inside_a_transaction_is_rejected() -> None:
    """INVALID_TXN_STATE."""
    producer = Appender()
    producer.append(0, transactional=True)
    with pytest.raises(InvalidTransactionState):
        producer.append(1)
    assert producer.state.first_unstable_offset == 0
    producer.end(aborted=False)
    assert producer.state.first_unstable_offset is None
    assert producer.append(1) is None


def test_marker_without_data_only_raises_the_epochs() -> None:
    """A coordinator also ends transactions in partitions that the producer never wrote to."""
    producer = Appender()
    assert producer.end(aborted=True, epoch=3, coordinator_epoch=2) is None
    with pytest.raises(InvalidProducerEpoch):
        producer.end(aborted=True, epoch=2, coordinator_epoch=2)
    with pytest.raises(TransactionCoordinatorFenced):
        producer.end(aborted=True, epoch=3, coordinator_epoch=1)
    assert producer.append(0, epoch=4) is None


def test_marker_of_a_higher_epoch_forgets_the_batches() -> None:
    """The coordinator has fenced the producer, so its sequence starts again (KIP-890)."""
    producer = Appender()
    producer.append(0, transactional=True)
    producer.end(aborted=True, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        producer.append(1, transactional=True)
    assert producer.append(0, epoch=1, transactional=True) is None


def test_idle_producer_expires_unless_in_a_transaction() -> None:
    """producer.id.expiration.ms."""
    producer = Appender()
    producer.append(0, producer_id=1)
    producer.append(0, producer_id=2, transactional=True)
    producer.state.expiration_ms = 500
    assert producer.state.remove_expired(1499) == 0
    assert producer.state.remove_expired(1500) == 1
    assert list(producer.state.producers) == [2]


def test_load_skips_expired_producers() -> None:
    """The entries of a snapshot may be old."""
    state = ProducerState(expiration_ms=500)
    old = ProducerEntry(1, 0, -1, 1000, -1, [BatchMetadata(5, 9, 0, 1000)])
    young = ProducerEntry(2, 0, -1, 2000, 7, [BatchMetadata(5, 9, 0, 2000)])
    state.load([old, young], 10, 2100)
    assert (list(state.producers), state.transactions, state.end_offset) == ([2], {7: 2}, 10)
    state.clear(3)
    assert (state.producers, state.transactions, state.end_offset) == ({}, {}, 3)


def test_earliest_open_transaction_in_any_snapshot_order():
    state = ProducerState()
    opened = {1: 30, 2: -1, 3: 10, 4: 20}
    entries = [ProducerEntry(number, 0, transaction_offset=offset) for number, offset in opened.items()]
    state.load(entries, 40, 0)
    assert state.first_unstable_offset == 10
    state.end_transaction(3, 0, 0, 40, 0, aborted=False)
    assert state.first_unstable_offset == 20
    state.add_batch(5, 0, 0, 41, 0, 0, True)
    assert list(state.transactions) == [20, 30, 41]
