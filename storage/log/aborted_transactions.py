"""Aborted transactions, for readers of committed records: from the transaction indexes, once the records bear them out.

A transaction index has no checksum, and who believed a wrong entry would skip records that were committed, or give away
some that were not. So the first time that one is asked its entries are compared with the batches that they name: at
their ends stand the producers' abort markers, at their beginnings, where they are still there, batches of theirs (rule
R6, README). One that is not right is made anew, with the producers as they were where the segment begins. Of a very
long one that would take too long: it is believed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from storage.errors import CorruptFile
from storage.index.transaction import AbortedTransaction
from storage.producers.loading import load_producers
from storage.producers.markers import note_entry
from storage.producers.state import ProducerState
from storage.segment.segment import Segment

if TYPE_CHECKING:
    from storage.log.partition_log import PartitionLog

#: More entries than these are not compared: each takes two look-ups, while everybody waits.
_CHECKED = 200


def aborted_transactions(log: PartitionLog, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
    """The aborted transactions that overlap [start, end), by their ends. OSError."""
    found: list[AbortedTransaction] = []
    for segment in log.segments.from_offset(start_offset):
        if not segment.txn_index.trusted:
            _check(log, segment)
        here, complete = segment.txn_index.collect(start_offset, end_offset)
        found += here
        if complete:
            break
    return found


def _check(log: PartitionLog, segment: Segment) -> None:
    try:
        entries = segment.txn_index.entries()
        right = _ascending(entries) and (
            len(entries) > _CHECKED or all(_bears_out(log, segment, entry) for entry in entries)
        )
    except CorruptFile:
        right = False
    if not right:
        _make_anew(log, segment)
    segment.txn_index.trusted = True


def _ascending(entries: list[AbortedTransaction]) -> bool:
    pairs = pairwise(entries)
    return all(entry.last_stable_offset <= entry.last_offset + 1 for entry in entries) and all(
        one.last_offset < other.last_offset and one.last_stable_offset <= other.last_stable_offset
        for one, other in pairs
    )


def _bears_out(log: PartitionLog, segment: Segment, claim: AbortedTransaction) -> bool:
    marker = segment.find(claim.last_offset)
    header = None if marker is None else marker.header
    if header is None or header.last_offset != claim.last_offset:
        return False
    if header.producer_id != claim.producer_id or not header.is_control:
        return False
    if claim.first_offset < log.log_start_offset:
        return True  # nobody can look any more
    first = log.segments[log.segments.floor(claim.first_offset)].find(claim.first_offset)
    if first is None or first.base_offset > claim.first_offset:
        return log.config.compacted
    return (
        first.base_offset == claim.first_offset
        and first.header is not None
        and (first.header.producer_id == claim.producer_id)
    )


def _make_anew(log: PartitionLog, segment: Segment) -> None:
    """As recovery does; the records are left as they are."""
    fs, base_offset = log.directory.fs, segment.base_offset
    state = ProducerState(log.producer_state.expiration_ms)
    snapshots = [offset for offset in log.snapshots if offset <= base_offset]
    load_producers(fs, log.path, state, snapshots, log.segments, log.segments[0].base_offset, base_offset, 0)
    segment.txn_index.reset()
    for entry in segment.scan(0):
        note_entry(fs, segment.log.open().handle, state, segment.txn_index, entry)
    log.mark_unsynced(segment.txn_index.path)
