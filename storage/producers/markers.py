"""Update the producer state from batches, both appended ones and those that a start finds in the log."""

from __future__ import annotations

from typing import NamedTuple

from protocol.records.batch import BatchHeader
from protocol.records.control import ControlType, control_type, coordinator_epoch
from protocol.records.errors import RecordsError
from protocol.records.record import iter_batch_records
from storage.fs import FileSystem
from storage.index.transaction import AbortedTransaction, TransactionIndex
from storage.producers.state import ProducerState
from storage.segment.scan import Entry

#: A marker has about 20 bytes. A batch that decompresses to more than this is not a marker.
_MARKER_BYTES = 1 << 10


class Marker(NamedTuple):
    """The end of a transaction, as its control batch describes it."""

    aborted: bool
    coordinator_epoch: int
    timestamp: int


def read_marker(batch: memoryview, header: BatchHeader) -> Marker | None:
    """Return the marker in a control batch; None if the batch ends no transaction.

    That is a batch of another control type, one emptied by a cleaner, or an unreadable one.
    """
    try:
        record = next(iter_batch_records(batch, header, _MARKER_BYTES), None)
        if record is None:
            return None
        kind = control_type(record)
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        return Marker(kind is ControlType.ABORT, coordinator_epoch(record), record.timestamp)
    except RecordsError:
        return None


def note_entry(
    fs: FileSystem, handle: int, state: ProducerState, aborted: TransactionIndex | None, entry: Entry
) -> None:
    """Call `note_batch` for an entry whose header was read; a control batch is read from the file. Raises OSError."""
    header = entry.header
    if header is not None and header.producer_id >= 0:
        batch = fs.pread(handle, entry.size_bytes, entry.position) if header.is_control else b""
        note_batch(state, aborted, memoryview(batch), header, entry.last_offset)


def note_batch(
    state: ProducerState,
    aborted: TransactionIndex | list[AbortedTransaction] | None,
    batch: memoryview,
    header: BatchHeader,
    last_offset: int,
) -> Marker | None:
    """Update `state` with a batch in the log. Return its marker, if it is one. Raises OSError.

    An aborted transaction is appended to `aborted`. An unreadable control batch changes nothing: its header and
    checksum are right, so the log keeps it, and readers skip it too.
    """
    if header.producer_id < 0:
        return None
    if not header.is_control:
        state.add_batch(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            last_offset,
            header.last_offset_delta,
            header.max_timestamp,
            header.is_transactional,
        )
        return None
    marker = read_marker(batch, header)
    if marker is None:
        return None
    completed = state.end_transaction(
        header.producer_id,
        header.producer_epoch,
        marker.coordinator_epoch,
        last_offset - header.last_offset_delta,
        marker.timestamp,
        marker.aborted,
    )
    if completed is not None and completed.aborted and aborted is not None:
        stable_offset = state.stable_offset_after(completed)
        aborted.append(
            AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable_offset)
        )
    return marker
