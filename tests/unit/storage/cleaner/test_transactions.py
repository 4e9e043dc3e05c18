"""The state of transactions while the cleaner reads batches (KIP-98)."""

from __future__ import annotations

from protocol.records.batch import parse_header
from protocol.records.builder import BatchBuilder
from protocol.records.control import ControlType, build_control_batch, build_end_transaction_marker
from storage.cleaner.records import emptied
from storage.cleaner.transactions import CleanedTransactions
from storage.index.transaction import AbortedTransaction


def data(offset: int, producer_id: int = 7, *, transactional: bool = True) -> bytes:
    builder = BatchBuilder(
        offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=transactional
    )
    builder.append(0, b"k", b"v")
    return builder.build()


def marker(offset: int, producer_id: int = 7, *, commit: bool) -> memoryview:
    batch = bytearray(build_end_transaction_marker(producer_id, 0, commit=commit, coordinator_epoch=0, timestamp_ms=0))
    batch[:8] = offset.to_bytes(8, "big")
    return memoryview(batch)


def is_aborted(transactions: CleanedTransactions, batch: bytes) -> bool:
    return transactions.note_data(parse_header(batch))


def is_obsolete(transactions: CleanedTransactions, batch: memoryview) -> bool:
    return transactions.note_control(batch, parse_header(batch))


def test_marker_is_needed_as_long_as_there_is_data_before_it() -> None:
    aborted = AbortedTransaction(7, 10, 12, 13)
    transactions = CleanedTransactions([aborted])
    assert not is_aborted(transactions, data(9, 8))
    assert is_aborted(transactions, data(10))
    assert not is_aborted(transactions, data(11, transactional=False))
    assert not is_obsolete(transactions, marker(12, commit=False))
    assert transactions.seen_aborted == [aborted]
    assert not is_obsolete(transactions, marker(13, 8, commit=True))
    assert is_obsolete(transactions, marker(14, 8, commit=True))


def test_marker_without_remaining_records_is_obsolete() -> None:
    transactions = CleanedTransactions([AbortedTransaction(7, 10, 12, 13)])
    assert is_obsolete(transactions, marker(12, commit=False))
    assert is_obsolete(transactions, marker(13, commit=True))
    assert transactions.seen_aborted == []
    empty = memoryview(emptied(parse_header(marker(14, commit=True))))
    assert is_obsolete(transactions, empty)


def test_earlier_transaction_does_not_affect_later_ones() -> None:
    """A scan that begins after its marker never reads that marker."""
    later = AbortedTransaction(7, 30, 31, 32)
    transactions = CleanedTransactions([later, AbortedTransaction(7, 10, 12, 13)])
    assert not is_aborted(transactions, data(20))
    assert not is_obsolete(transactions, marker(21, commit=True))
    assert is_aborted(transactions, data(30))
    assert not is_obsolete(transactions, marker(31, commit=False))
    assert transactions.seen_aborted == [later]


def test_control_records_of_other_kinds_stay() -> None:
    batch = memoryview(build_control_batch([(ControlType.LEADER_CHANGE, b"")], 0))
    assert not is_obsolete(CleanedTransactions([]), batch)
