"""Transactions of a log on a disk: which were aborted, and up to where all are decided.

The newest producer snapshot that can be read says which were open where it was taken; from there on the records say the
rest. Before it, what was aborted stands in the transaction indexes.
"""

from __future__ import annotations

from typing import NamedTuple

from pybroker.isolated.aborted import Aborted
from pybroker.isolated.stored_log import StoredLog
from storage.errors import CorruptFile
from storage.fs import LOCAL
from storage.producers.markers import read_marker
from storage.producers.snapshot import read_snapshot


class StoredTransactions(NamedTuple):
    """Aborted transactions by their markers' offsets; what lies before `last_stable_offset` is decided."""

    aborted: tuple[Aborted, ...]
    last_stable_offset: int


def find_transactions(log: StoredLog, end: int) -> StoredTransactions:
    """Those of the records before `end`. Errors: as those of StoredLog, CorruptFile."""
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
    """Its offset, and where the transactions begin that were open then, by producer id."""
    for offset in reversed([each for each in log.snapshots if each <= end]):
        try:
            entries = read_snapshot(LOCAL, log.snapshot_path(offset))
        except (CorruptFile, FileNotFoundError):
            continue
        return offset, {each.producer_id: each.transaction_offset for each in entries if each.transaction_offset >= 0}
    return log.segments[0].base_offset, {}
