"""The producers of a replica: the state that its log gives, rebuilt after each truncation (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from protocol.records.batch import BatchHeader, parse_header
from protocol.records.record import iter_batch_records
from storage.index.transaction import AbortedTransaction
from storage.producers.markers import Marker, note_batch, read_marker
from storage.producers.state import ProducerState

if TYPE_CHECKING:
    from tests.simulation.log import Entry


class TransactionKey(NamedTuple):
    """A transaction. `ordinal` counts those of one producer epoch; it is 0 where each has an epoch of its own."""

    producer_id: int
    producer_epoch: int
    ordinal: int


class Batch(NamedTuple):
    """A batch of one record. `marker` is None for data; `transaction` is None for a marker and for other records."""

    header: BatchHeader
    key: bytes | None
    value: bytes | None
    marker: Marker | None
    transaction: TransactionKey | None


@lru_cache(4096)
def parse(value: bytes) -> Batch:
    """Return what a batch in a log has."""
    header = parse_header(value)
    record = next(iter(iter_batch_records(memoryview(value), header, 1 << 16)))
    key, found = (None if each is None else bytes(each) for each in (record.key, record.value))
    marker = read_marker(memoryview(value), header) if header.is_control else None
    transaction = None
    if marker is None and header.is_transactional:
        ordinal = int(found) if key is None and found is not None else 0
        transaction = TransactionKey(header.producer_id, header.producer_epoch, ordinal)
    return Batch(header, key, found, marker, transaction)


class ProducerLog:
    """The producers of one log, its aborted transactions, and the markers in it: by producer, their offsets."""

    def __init__(self, entries: Iterable[Entry] = (), base: int = 0, high_watermark: int = 0) -> None:
        self.state = ProducerState()
        self.state.ended = {}
        self.state.end_offset = base
        self.aborted: list[AbortedTransaction] = []
        self.markers: dict[tuple[int, int], list[int]] = {}
        #: The check of transactions has seen the records below.
        self.checked = 0
        for offset, (_, value) in enumerate(entries, base):
            self.note(offset, value)
        self.state.note_high_watermark(high_watermark)

    def note(self, offset: int, value: object) -> None:
        """Take over a batch that was appended; records of other clients are ints."""
        if isinstance(value, bytes):
            header = parse(value).header
            note_batch(self.state, self.aborted, memoryview(value), header, offset)
            if header.is_control:
                self.markers.setdefault((header.producer_id, header.producer_epoch), []).append(offset)
        self.state.end_offset = offset + 1

    def is_visible(self, offset: int, producer_id: int) -> bool:
        """Return whether a reader with read_committed gets a record below the last stable offset."""
        return not any(
            each.producer_id == producer_id and each.first_offset <= offset <= each.last_offset for each in self.aborted
        )
