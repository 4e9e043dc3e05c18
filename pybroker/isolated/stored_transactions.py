"""Transactions of a log on a disk: the aborted ones, and the last stable offset.

The newest readable producer snapshot has the transactions that were open at its offset; the records after it have the
rest. Aborted transactions before it are in the transaction indexes.
"""

from __future__ import annotations

from typing import NamedTuple

from pybroker.isolated.aborted import Aborted
from pybroker.isolated.stored_log import StoredLog
from storage.errors import CorruptFile
from storage.producers.markers import read_marker
from storage.producers.snapshot import read_snapshot


class StoredTransactions(NamedTuple):
    """Aborted transactions by their markers' offsets. All transactions before `last_stable_offset` are decided."""

    aborted: tuple[Aborted, ...]
    last_stable_offset: int


def find_transactions(log: StoredLog, end: int) -> StoredTransactions:
    """Return the transactions of the records before `end`. Errors: those of StoredLog, CorruptFile."""
    begun, opened = _newest_snapshot(log, end)
    aborted = [
        Aborted(each.producer_id, each.first_offset, each.last_offset)
        for each in log.aborted(begun)
        if each.last_offset < begun
    ]
    for entry, batch in log.headers(begun, end):
        header = entry.header
        if header is None or not header.is_transactional or header.producer_id < 0:
            continue
        if not header.is_control:
            opened.setdefault(header.producer_id, header.base_offset)
            continue
        marker = read_marker(batch, header)
        first_offset = opened.pop(header.producer_id, None) if marker is not None else None
        if marker is not None and marker.aborted and first_offset is not None:
            aborted.append(Aborted(header.producer_id, first_offset, header.last_offset))
    return StoredTransactions(tuple(aborted), min([*opened.values(), end]))


def _newest_snapshot(log: StoredLog, end: int) -> tuple[int, dict[int, int]]:
    """Return a snapshot's offset, and the first offsets of its open transactions by producer id."""
    for offset in reversed([each for each in log.snapshots if each <= end]):
        try:
            entries = read_snapshot(log.fs, log.snapshot_path(offset))
        except (CorruptFile, FileNotFoundError):
            continue
        return offset, {each.producer_id: each.transaction_offset for each in entries if each.transaction_offset >= 0}
    return log.segments[0].base_offset, {}
