"""Find the aborted transactions that overlap a range of offsets, for consumers with read_committed isolation.

They come from the transaction indexes. An index has no checksum, and a wrong entry would hide committed records or
expose aborted ones. So the entries of an index are compared with the batches that they name when the index is first
used: an abort marker of the producer must be at the end of each entry, and a batch of it at the beginning, if that
still exists (rule R6, README). A wrong index is rebuilt, from the producer state at the start of its segment. A very
long index is trusted, because the comparison would take too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from storage.errors import CorruptFile
from storage.fetch_slice import FetchSlice
from storage.index.transaction import AbortedTransaction
from storage.log.local_log import LocalLog
from storage.producers.loading import load_producers
from storage.producers.markers import note_entry
from storage.producers.state import ProducerState
from storage.segment.segment import Segment

#: Indexes with more entries are not compared: each entry takes two look-ups on the event loop.
_CHECKED = 200


def aborted_transactions(
    log: LocalLog, snapshots: Sequence[int], expiration_ms: int, start_offset: int, end_offset: int
) -> list[AbortedTransaction]:
    """Return the aborted transactions that overlap [start, end), ordered by their end. Raises OSError.

    `snapshots` are the offsets of the log's producer snapshots, `expiration_ms` is producer.id.expiration.ms: they are
    needed to rebuild an index.
    """
    found: list[AbortedTransaction] = []
    for segment in log.segments.from_offset(start_offset):
        if not segment.txn_index.trusted:
            _check(log, snapshots, expiration_ms, segment)
        here, complete = segment.txn_index.collect(start_offset, end_offset)
        found += here
        if complete:
            break
    return found


def fetch_upper_bound(log: LocalLog, offset: int, part: FetchSlice) -> int:
    """Return an offset above all in `part`, the result of a read at `offset`: the end for `aborted_transactions`.

    It comes from the index and may be higher than necessary, exactly as in Apache Kafka. Raises LogOffline.
    """
    found = log.locate(offset)
    if found is None:
        return log.log_end_offset
    segment = found[0]
    upper = segment.offset_index.above_position(part.position + len(part))
    if upper is not None:
        return upper
    following = log.segments.after(segment)
    return log.log_end_offset if following is None else following.base_offset


def _check(log: LocalLog, snapshots: Sequence[int], expiration_ms: int, segment: Segment) -> None:
    try:
        entries = segment.txn_index.entries()
        right = _ascending(entries) and (
            len(entries) > _CHECKED or all(_confirms(log, segment, entry) for entry in entries)
        )
    except CorruptFile:
        right = False
    if not right:
        _rebuild(log, snapshots, expiration_ms, segment)
    segment.txn_index.trusted = True


def _ascending(entries: list[AbortedTransaction]) -> bool:
    pairs = pairwise(entries)
    return all(entry.last_stable_offset <= entry.last_offset + 1 for entry in entries) and all(
        one.last_offset < other.last_offset and one.last_stable_offset <= other.last_stable_offset
        for one, other in pairs
    )


def _confirms(log: LocalLog, segment: Segment, claim: AbortedTransaction) -> bool:
    marker = segment.find(claim.last_offset)
    header = None if marker is None else marker.header
    if header is None or header.last_offset != claim.last_offset:
        return False
    if header.producer_id != claim.producer_id or not header.is_control:
        return False
    if claim.first_offset < log.local_start_offset:
        return True  # the first batch was removed here and cannot be compared
    first = log.segments[log.segments.floor(claim.first_offset)].find(claim.first_offset)
    if first is None or first.base_offset > claim.first_offset:
        return log.config.compacted
    return (
        first.base_offset == claim.first_offset
        and first.header is not None
        and (first.header.producer_id == claim.producer_id)
    )


def _rebuild(log: LocalLog, snapshots: Sequence[int], expiration_ms: int, segment: Segment) -> None:
    """Rebuild the transaction index of a segment from its records, as recovery does."""
    fs, base_offset = log.directory.fs, segment.base_offset
    state = ProducerState(expiration_ms)
    earlier = [offset for offset in snapshots if offset <= base_offset]
    first = min(log.segments[0].base_offset, log.log_start_offset)
    load_producers(fs, log.path, state, earlier, log.segments, first, base_offset, 0)
    segment.txn_index.reset()
    for entry in segment.scan(0):
        note_entry(fs, segment.log.open().handle, state, segment.txn_index, entry)
    log.mark_unsynced(segment.txn_index.path)
