"""Batches of aborted transactions, found by known ranges and by the list of a Fetch response."""

from __future__ import annotations

import pytest

from protocol.records.batch import parse_header
from protocol.records.builder import BatchBuilder
from protocol.records.control import build_end_transaction_marker
from pybroker.isolated.aborted import Aborted, AbortedRanges, FetchedAborted
from pybroker.isolated.entries import IsAborted


def data(base_offset: int, producer_id: int = 7, *, transactional: bool = True) -> bytes:
    """Return a batch of two records."""
    builder = BatchBuilder(base_offset, producer_id=producer_id, producer_epoch=0, transactional=transactional)
    builder.append(0, None, b"one")
    builder.append(0, None, b"two")
    return builder.build()


def marker(offset: int, producer_id: int = 7, *, commit: bool = False) -> bytes:
    built = bytearray(build_end_transaction_marker(producer_id, 0, commit=commit, coordinator_epoch=0, timestamp_ms=0))
    built[:8] = offset.to_bytes(8, "big")
    return bytes(built)


def judged(is_aborted: IsAborted, *batches: bytes) -> list[bool]:
    return [is_aborted(parse_header(batch), memoryview(batch)) for batch in batches]


@pytest.mark.parametrize(
    ("batch", "aborted"),
    [
        (data(10), True),
        (data(14), True),
        (data(8), False),
        (data(17), False),
        (data(12, producer_id=8), False),
        (data(12, transactional=False), False),
        (data(31), True),
    ],
)
def test_range_goes_from_the_first_batch_to_the_marker(batch: bytes, aborted: bool) -> None:
    assert judged(AbortedRanges([Aborted(7, 10, 16), Aborted(7, 30, 33)]), batch) == [aborted]


def test_fetched_transaction_ends_at_its_marker() -> None:
    """Later batches of the producer are another transaction, unless that is in the list too."""
    is_aborted = FetchedAborted([(7, 20), (7, 10)])

    batches = data(10), data(12), marker(14), data(15), marker(17, commit=True), data(20), marker(22), data(23)

    assert judged(is_aborted, *batches) == [True, True, False, False, False, True, False, False]


def test_fetched_transactions_of_producers_overlap() -> None:
    is_aborted = FetchedAborted([(7, 10), (8, 12)])

    batches = data(10), data(12, 8), data(14, 9), marker(16), data(17, 8), data(19), marker(21, 8), data(22, 8)

    assert judged(is_aborted, *batches) == [True, True, False, False, True, False, False, False]


def test_commit_marker_ends_no_aborted_transaction() -> None:
    """Only an abort marker does, as in Kafka's clients."""
    is_aborted = FetchedAborted([(7, 10)])

    assert judged(is_aborted, data(10), marker(12, commit=True), data(13)) == [True, False, True]
