"""All segments of one partition in remote storage (KIP-405), in 80 bytes each (RemoteLogMetadataCache)."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from heapq import merge
from itertools import takewhile
from operator import attrgetter
from struct import Struct

from tiered.epoch_segments import EpochSegments
from tiered.id_table import IdTable
from tiered.segment import Epochs, RemoteSegment, SegmentState, SegmentUpdate, may_follow

#: A row: id; start, end, largest and event timestamp; broker, size, first epoch; state, whether it has no aborted
#: transactions.
_ROW = Struct("<16sqqqqiiibB")
_STATE = _ROW.size - 2
_END, _SIZE = Struct("<16sq").size, Struct("<16sqqqqi").size
_INT64, _INT32 = Struct("<q"), Struct("<i")
_BY_START = attrgetter("start_offset")
#: A row that was deleted. No segment has this id, as Kafka reserves it.
_NO_ID = bytes(16)
#: Rows are moved together when so many are deleted, and they are the majority.
_MOST_DELETED = 64


class RemoteSegments:
    """The state of one partition after all its records in `__remote_log_metadata`.

    Each segment has a row of packed values; the rows are in the order of the copies.
    """

    __slots__ = ("_custom", "_epochs", "_ids", "_of_epoch", "_rows", "count", "deleted_up_to", "size_bytes")

    def __init__(self) -> None:
        self._rows = bytearray()
        self._ids = IdTable(self._id)
        #: Epochs of the segments that have several, and custom metadata of those that have any; by row.
        self._epochs: dict[int, Epochs] = {}
        self._custom: dict[int, bytes] = {}
        self._of_epoch: dict[int, EpochSegments] = {}
        #: The last offset of a copy that was the one to read and whose deletion has begun; -1: there was none.
        self.deleted_up_to = -1
        #: The number of segments, in any state, and their bytes.
        self.count = 0
        self.size_bytes = 0

    # -- records -----------------------------------------------------------------------------------------------------

    def add(self, segment: RemoteSegment) -> bool:
        """A copy has begun. Returns False, and changes nothing, if the id is in another state already."""
        row = self._ids.find(segment.id)
        if row is None:
            row = len(self._rows) // _ROW.size
            self._rows += segment.id + bytes(_ROW.size - len(segment.id))
            self._ids.add(segment.id, row)
            self.count += 1
        elif self._state(row) is not SegmentState.COPY_STARTED:
            return False
        else:
            earlier = self._segment(row)
            self.size_bytes -= earlier.size_bytes
            for epoch, _ in earlier.epochs:
                self._of_epoch[epoch].forget(row)
        self.size_bytes += segment.size_bytes
        self._write(row, segment)
        is_odd = row in self._epochs
        for epoch, _ in segment.epochs:
            of_epoch = self._of_epoch.get(epoch)
            if of_epoch is None:
                of_epoch = self._of_epoch[epoch] = EpochSegments(self._size)
            of_epoch.start(row, is_odd=is_odd)
        return True

    def update(self, update: SegmentUpdate) -> bool:
        """A segment enters a state. Returns False, and changes nothing, if it is unknown or may not enter it."""
        row = self._ids.find(update.id)
        if row is None or not may_follow(update.state, self._state(row)) or update.state is SegmentState.COPY_STARTED:
            return False
        segment = self._segment(row)._replace(**update._asdict())
        self._write(row, segment)
        for epoch, start_offset in segment.epochs:
            of_epoch = self._of_epoch[epoch]
            if update.state is SegmentState.COPY_FINISHED:
                of_epoch.finish(row, start_offset, segment.end_of_epoch(epoch))
            elif update.state is SegmentState.DELETE_STARTED:
                if of_epoch.delete(row, start_offset):
                    self.deleted_up_to = max(self.deleted_up_to, segment.end_offset)
            else:
                of_epoch.forget(row)
        if update.state is SegmentState.DELETE_FINISHED:
            self._forget(row, segment)
        return True

    # -- look-ups ----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[RemoteSegment]:
        for row in range(len(self._rows) // _ROW.size):
            if self._id(row) != _NO_ID:
                yield self._segment(row)

    def of_epoch(self, epoch: int) -> list[RemoteSegment]:
        """Return the segments that have records of `epoch`, in any state, by start offset."""
        of_epoch = self._of_epoch.get(epoch)
        found = [self._segment(row) for row in of_epoch.rows()] if of_epoch else []
        return sorted(found, key=lambda segment: segment.start_offset)

    def walk(self, epoch: int, goes_on: Callable[[int], bool] = lambda start_offset: True) -> Iterator[RemoteSegment]:
        """Return what `of_epoch` returns, but read segments as they are needed.

        All exceptions are among them, but no other segment once `goes_on` returns False for its start.
        """
        of_epoch = self._of_epoch.get(epoch)
        if of_epoch is None:
            return iter(())
        ordered = (self._segment(row) for _, row in takewhile(lambda entry: goes_on(entry[0]), of_epoch.ordered()))
        return merge(ordered, self.exceptions(epoch), key=_BY_START)

    def exceptions(self, epoch: int) -> list[RemoteSegment]:
        """Return the segments of `epoch` that are unreferenced, have other epochs or were finished late, by start.

        All others are finished and not replaced, and their starts and ends ascend. The exceptions are few.
        """
        of_epoch = self._of_epoch.get(epoch)
        if of_epoch is None:
            return []
        odd = [self._segment(row) for row in of_epoch.referenced_odd()]
        odd.sort(key=lambda segment: dict(segment.epochs)[epoch])  # of those with one start, as `of_epoch` has them
        return sorted([*odd, *(self._segment(row) for row in of_epoch.unreferenced)], key=_BY_START)

    def ordered_bytes(self, epoch: int, first_start: int, first_end: int, end_offset: int) -> int:
        """Return the size of the segments of `epoch` that are no exceptions, within bounds.

        They start at `first_start` or above, and their last offset is from `first_end` up to `end_offset` (exclusive).
        The time depends on the number of those that are out of bounds.
        """
        of_epoch = self._of_epoch.get(epoch)
        if of_epoch is None:
            return 0
        size_bytes, kept = of_epoch.ordered_bytes, None
        for start, row in of_epoch.ordered():
            if start >= first_start and self._end(row) >= first_end:
                kept = row
                break
            size_bytes -= self._size(row)
        if kept is None:
            return 0
        for _, row in of_epoch.ordered_from_last():
            if self._end(row) < end_offset:
                break
            size_bytes -= self._size(row)
            if row == kept:
                break
        return size_bytes

    def before(self, epoch: int) -> list[RemoteSegment]:
        """Return the segments of which all epochs are before `epoch`, in the order of the copies."""
        rows = {row for each, segments in self._of_epoch.items() if each < epoch for row in segments.rows()}
        found = (self._segment(row) for row in sorted(rows))
        return [segment for segment in found if segment.epochs[-1][0] < epoch]

    @property
    def epochs(self) -> list[int]:
        """The leader epochs of all segments, ascending."""
        return sorted(epoch for epoch, segments in self._of_epoch.items() if segments)

    def find(self, epoch: int, offset: int) -> RemoteSegment | None:
        """Return the finished segment that has the record at `offset` of leader epoch `epoch`."""
        of_epoch = self._of_epoch.get(epoch)
        row = None if of_epoch is None else of_epoch.at_or_before(offset)
        if row is None:
            return None
        segment = self._segment(row)
        return segment if offset <= segment.end_of_epoch(epoch) else None

    def is_replaced(self, segment: RemoteSegment, counts: Callable[[RemoteSegment], bool] = lambda other: True) -> bool:
        """Return whether readers find all records of a finished copy in others that count: of each epoch in one."""
        for epoch, start_offset in segment.epochs:
            other = self.find(epoch, start_offset)
            if other is None or other.id == segment.id:
                return False
            if other.end_of_epoch(epoch) < segment.end_of_epoch(epoch) or not counts(other):
                return False
        return True

    def highest_offset(self, epoch: int) -> int | None:
        """Return the last offset of `epoch` that was ever copied; None if none was."""
        of_epoch = self._of_epoch.get(epoch)
        return None if of_epoch is None else of_epoch.highest_offset

    # -- rows --------------------------------------------------------------------------------------------------------

    def _id(self, row: int) -> bytes:
        return bytes(self._rows[row * _ROW.size : row * _ROW.size + len(_NO_ID)])

    def _state(self, row: int) -> SegmentState:
        return SegmentState(self._rows[row * _ROW.size + _STATE])

    def _end(self, row: int) -> int:
        end_offset: int = _INT64.unpack_from(self._rows, row * _ROW.size + _END)[0]
        return end_offset

    def _size(self, row: int) -> int:
        size_bytes: int = _INT32.unpack_from(self._rows, row * _ROW.size + _SIZE)[0]
        return size_bytes

    def _segment(self, row: int) -> RemoteSegment:
        segment_id, start, end, largest, event, broker, size_bytes, epoch, state, has_no_aborted = _ROW.unpack_from(
            self._rows, row * _ROW.size
        )
        return RemoteSegment(
            id=segment_id,
            start_offset=start,
            end_offset=end,
            max_timestamp_ms=largest,
            event_timestamp_ms=event,
            broker_id=broker,
            size_bytes=size_bytes,
            epochs=self._epochs.get(row) or ((epoch, start),),
            state=SegmentState(state),
            custom=self._custom.get(row),
            has_no_aborted=bool(has_no_aborted),
        )

    def _write(self, row: int, segment: RemoteSegment) -> None:
        first_epoch = segment.epochs[0][0]
        if segment.epochs == ((first_epoch, segment.start_offset),):
            self._epochs.pop(row, None)
        else:
            self._epochs[row] = segment.epochs
        if segment.custom is None:
            self._custom.pop(row, None)
        else:
            self._custom[row] = segment.custom
        _ROW.pack_into(
            self._rows,
            row * _ROW.size,
            segment.id,
            segment.start_offset,
            segment.end_offset,
            segment.max_timestamp_ms,
            segment.event_timestamp_ms,
            segment.broker_id,
            segment.size_bytes,
            first_epoch,
            segment.state,
            segment.has_no_aborted,
        )

    def _forget(self, row: int, segment: RemoteSegment) -> None:
        self.count -= 1
        self.size_bytes -= segment.size_bytes
        self._epochs.pop(row, None)
        self._custom.pop(row, None)
        self._ids.remove(segment.id)
        self._rows[row * _ROW.size : row * _ROW.size + len(_NO_ID)] = _NO_ID
        deleted = len(self._rows) // _ROW.size - self.count
        if deleted > max(_MOST_DELETED, self.count):
            self._move_together()

    def _move_together(self) -> None:
        size, kept = _ROW.size, bytearray()
        moved = array("I")
        for row in range(len(self._rows) // size):
            moved.append(len(kept) // size)
            if self._id(row) != _NO_ID:
                kept += self._rows[row * size : (row + 1) * size]
        self._rows = kept
        self._ids.rebuild(list(range(self.count)))
        self._epochs = {moved[row]: epochs for row, epochs in self._epochs.items()}
        self._custom = {moved[row]: custom for row, custom in self._custom.items()}
        for of_epoch in self._of_epoch.values():
            of_epoch.renumber(moved)
