"""A cleaning round: keep the last record of each key in the closed segments of a log (cleanup.policy compact).

It is a job for a worker process: plain values in, plain values out; files are opened here by name.

There are two passes. The first reads the dirty part, which was appended since the last round, and records the last
offset of each key (`KeyTable`), until all is read or the table is full. The second reads everything up to there and
writes the kept records to `.cleaned` segments, several small ones together. The broker's event loop puts them in place
(`swap.py`).

As in Apache Kafka 4.3, these are kept:

- the last record of each key;
- a record without a value (tombstone) until the delete horizon of its batch. The first cleaning sets it to
  delete.retention.ms from now (KIP-534); for v0 and v1 the age of the file decides;
- a transaction marker until no record of its transaction is left and its horizon has passed;
- the last batch of each producer and of the round, without records if necessary, so that sequences and the log end stay
  known.

Records of aborted transactions and records without a key are removed at once. Offsets, order and formats do not change.
A batch whose records are all kept is copied unchanged. A batch with a wrong checksum is not cleaned, because the
rewritten batch would get a valid one.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from itertools import compress

from protocol.records.batch import CODEC_MASK, CONTROL_BIT, HEADER_SIZE, TRANSACTIONAL_BIT, BatchHeader, parse_header
from storage.cleaner.batches import BatchWindow, KnownBatches, read_windows
from storage.cleaner.job import CleanJob, CleanResult, SourceSegment, group_segments
from storage.cleaner.keys import DROP, KEEP, STAYS, TOMBSTONE, KeyTable
from storage.cleaner.output import CleanedOutput, CleanedSegment, remove_cleaned
from storage.cleaner.record_keys import BatchKeys, add_keys, read_keys, uncompressed
from storage.cleaner.records import emptied, legacy_records, rewrite, rewrite_legacy
from storage.cleaner.single_batches import note_single, single_marks
from storage.cleaner.throttle import Throttle
from storage.cleaner.transactions import CleanedTransactions
from storage.fs import LOCAL, FileSystem
from storage.index.transaction import AbortedTransaction, TransactionIndex
from storage.open_files import OpenFiles
from storage.segment.files import LOG_SUFFIX, file_name

#: Records are recorded in groups of this size, to spread the cost of each call.
_MANY_RECORDS = 1024
#: The attributes of batches that depend on the state of a transaction.
_OF_TRANSACTIONS = TRANSACTIONAL_BIT | CONTROL_BIT
#: A worker has the files of one output open and reads one segment.
_OPEN_FILES = 8


def clean(job: CleanJob, fs: FileSystem = LOCAL) -> CleanResult:
    """Run a round. Raises OSError, OversizedRecord, and CorruptFile if a segment is damaged; the log stays as it is."""
    remove_cleaned(fs, job.directory)
    collects = gc.isenabled()
    # A round creates millions of objects and no cycles; the garbage collector would take a tenth of the time.
    gc.disable()
    try:
        return _Round(job, fs).run()
    except BaseException:
        remove_cleaned(fs, job.directory)
        raise
    finally:
        if collects:
            gc.enable()


class _Round:
    """The state of one round."""

    def __init__(self, job: CleanJob, fs: FileSystem) -> None:
        self.job = job
        self.fs = fs
        self.files = OpenFiles(fs, _OPEN_FILES)
        self._most_record_bytes = job.config.max_decompressed_message_bytes
        resources = job.resources
        self.throttle = Throttle(resources.bytes_per_second)
        self.table = KeyTable(job.first_dirty_offset, job.end_offset, resources.memory_bytes, resources.load_factor)
        self.read_bytes = self.read_records = self.kept_records = 0
        #: Last offsets of batches that may have to be kept without records: see `_is_kept_empty`.
        lasts = (last.offset for last in job.producers.values() if last.offset is not None)
        self._kept_empty = {job.end_offset - 1, *lasts}
        self._kept_empty_in_order = sorted(self._kept_empty)
        #: Segments whose checksums the first pass has verified.
        self._verified: set[int] = set()
        #: Windows that the first pass remembers for the second.
        self._known = KnownBatches(resources.memory_bytes)
        #: Whether tombstones v0 and v1 in the current segment have not expired.
        self.keeps_legacy_tombstones = True

    def run(self) -> CleanResult:
        job = self.job
        aborted = self._aborted()
        self._build_table(CleanedTransactions(aborted))
        self.table.finish()
        end_offset = self.table.latest_offset + 1
        sources = [segment for segment in job.segments if segment.base_offset < end_offset]
        horizon_ms = self._legacy_horizon_ms()
        transactions = CleanedTransactions(aborted)
        finished = []
        for group in group_segments(sources, job.config, job.end_offset):
            finished.append(self._clean_group(group, transactions, horizon_ms))
        return CleanResult(
            segments=tuple(finished),
            end_offset=end_offset,
            read_bytes=self.read_bytes,
            kept_bytes=sum(segment.sizes[LOG_SUFFIX] for segment in finished),
            read_records=self.read_records,
            kept_records=self.kept_records,
            keys=self.table.size,
        )

    def _aborted(self) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap the cleaned part, without duplicates."""
        found: dict[AbortedTransaction, None] = {}
        for path in self.job.transaction_indexes:
            found.update(dict.fromkeys(TransactionIndex(self.files, path, exists=True).entries()))
        start, end = self.job.segments[0].base_offset, self.job.end_offset
        return [each for each in found if each.last_offset >= start and each.first_offset < end]

    def _legacy_horizon_ms(self) -> int:
        """Return the time (ms) after which a file must have been written for its v0 and v1 tombstones to be kept."""
        before = [each for each in self.job.segments if each.base_offset < self.job.first_dirty_offset]
        return self._modified_ms(before[-1]) - self.job.config.delete_retention_ms if before else 0

    def _modified_ms(self, segment: SourceSegment) -> int:
        with self.fs.reading(self._path(segment)) as handle:
            return self.fs.modified_ms(handle)

    def _path(self, segment: SourceSegment) -> str:
        return f"{self.job.directory}/{file_name(segment.base_offset, LOG_SUFFIX)}"

    def _windows(self, segment: SourceSegment, *, verify: bool) -> Iterator[BatchWindow]:
        window_bytes = max(self.job.resources.io_buffer_bytes // 2, 1 << 12)
        path = self._path(segment)
        known = self._known.of(segment.base_offset)
        return read_windows(self.fs, path, segment.size_bytes, window_bytes, self.throttle, known=known, verify=verify)

    # -- the first pass ----------------------------------------------------------------------------------------------

    def _build_table(self, transactions: CleanedTransactions) -> None:
        job, table = self.job, self.table
        ends = [*(segment.base_offset for segment in job.segments[1:]), job.end_offset]
        for segment, end in zip(job.segments, ends, strict=True):
            if end <= job.first_dirty_offset:
                continue
            for window in self._windows(segment, verify=True):
                if not self._note_window(window, transactions):
                    return
                self._known.keep(segment.base_offset, window)
            self._verified.add(segment.base_offset)
            table.latest_offset = max(table.latest_offset, min(end, table.end_offset) - 1)
            if end > table.end_offset:
                return

    def _note_window(self, window: BatchWindow, transactions: CleanedTransactions) -> bool:
        """Record the keys of a window's batches. Returns False when the table is full."""
        if note_single(window, self.table):
            return True
        table, data = self.table, window.data
        waiting = BatchKeys([], [], [])
        room = table.max_keys - table.size
        for start, stop, header in window.spans:
            if header is None:
                last_offset = int.from_bytes(data[start : start + 8], "big")
                count = room + 1  # unknown
            else:
                last_offset, count = header[0] + header[6], header[12]
            if last_offset < table.start_offset:
                continue
            if header is not None and header[5] & CONTROL_BIT:
                transactions.note_control(memoryview(data)[start:stop], header)
            elif header is None or not header[5] & TRANSACTIONAL_BIT or not transactions.note_data(header):
                room -= count
                if room < 0 or last_offset >= table.end_offset:
                    # Not all of them may fit, so they are added one by one, and then the remaining room is computed.
                    table.note(*waiting)
                    waiting = BatchKeys([], [], [])
                    if not table.record_fitting_keys(*self._keys(header, memoryview(data)[start:stop])):
                        return False
                    room = table.max_keys - table.size
                elif header is not None:
                    if header[5] & CODEC_MASK:
                        records = uncompressed(memoryview(data)[start:stop], header, self._most_record_bytes)
                        add_keys(waiting, records, 0, len(records), header)
                    else:
                        add_keys(waiting, data, start + HEADER_SIZE, stop, header)
                    if len(waiting.keys) >= _MANY_RECORDS:
                        table.note(*waiting)
                        waiting = BatchKeys([], [], [])
            if last_offset > table.latest_offset:
                table.latest_offset = last_offset
        table.note(*waiting)
        return True

    # -- the second pass ---------------------------------------------------------------------------------------------

    def _clean_group(
        self, group: Sequence[SourceSegment], transactions: CleanedTransactions, legacy_horizon_ms: int
    ) -> CleanedSegment:
        job = self.job
        output = CleanedOutput(self.files, job.directory, group[0].base_offset, job.config, self.throttle)
        modified_ms = 0
        for segment in group:
            modified_ms = self._modified_ms(segment)
            self.keeps_legacy_tombstones = modified_ms > legacy_horizon_ms
            for window in self._windows(segment, verify=segment.base_offset not in self._verified):
                self._clean_window(window, output, transactions)
            self.read_bytes += segment.size_bytes
        output.add_aborted(transactions.seen_aborted)
        transactions.seen_aborted = []
        return output.finish([segment.base_offset for segment in group], modified_ms)

    def _clean_window(self, window: BatchWindow, output: CleanedOutput, transactions: CleanedTransactions) -> None:
        """Write the kept records of a window's batches to the output."""
        single = single_marks(window, self.table, self._kept_empty_in_order)
        if single is not None:
            self._clean_single(window, single, output, transactions)
            return
        marks, noted_from, noted_to = self.table.marks, self.table.start_offset, self.table.latest_offset
        view, kept_empty, read_records, kept_records = memoryview(window.data), self._kept_empty, 0, 0
        for start, stop, header in window.spans:
            if header is None:
                message = self._filter_legacy(view[start:stop])
                if message is not None:
                    output.append(message)
                continue
            base_offset, _, _, _, _, attributes, last_delta, _, max_timestamp, _, _, _, count = header
            last_offset = base_offset + last_delta
            if (
                not attributes & _OF_TRANSACTIONS
                and count == last_delta + 1
                and base_offset >= noted_from
                and last_offset <= noted_to
            ):
                # The usual case: the marks decide, and they are mostly the same for all records of the batch.
                at = base_offset - noted_from
                dropped = marks.count(DROP, at, at + count)
                if dropped == count and last_offset not in kept_empty:
                    read_records += count
                    continue
                if not dropped and marks.find(TOMBSTONE, at, at + count) < 0:
                    read_records += count
                    kept_records += count
                    output.copy(view, start, stop, last_offset, max_timestamp)
                    continue
            self._put(view, start, stop, header, output, transactions)
        self.read_records += read_records
        self.kept_records += kept_records

    def _put(
        self,
        view: memoryview,
        start: int,
        stop: int,
        header: BatchHeader,
        output: CleanedOutput,
        transactions: CleanedTransactions,
    ) -> None:
        """Write the kept records of one batch of any kind to the output."""
        batch = view[start:stop]
        kept = self._filter(header, batch, transactions)
        if kept is batch:
            output.copy(view, start, stop, header.last_offset, header.max_timestamp)
        elif kept is not None:
            output.append(kept)

    def _clean_single(
        self, window: BatchWindow, marks: bytearray, output: CleanedOutput, transactions: CleanedTransactions
    ) -> None:
        """Write the kept batches of one record each to the output. `marks`: the mark of each record."""
        view, starts, ends = memoryview(window.data), window.starts, window.ends
        self.read_records += len(marks) - marks.count(TOMBSTONE)
        self.kept_records += marks.count(KEEP)
        stays = marks.translate(STAYS)
        spans = zip(compress(starts, stays), compress(ends, stays), strict=True)
        if TOMBSTONE not in marks:
            output.copy_single(view, spans)
            return
        for mark, (start, stop) in zip(compress(marks, stays), spans, strict=True):
            if mark == TOMBSTONE:
                self._put(view, start, stop, parse_header(view, start), output, transactions)
            else:
                output.copy_single(view, [(start, stop)])

    def _filter(
        self, header: BatchHeader, batch: memoryview, transactions: CleanedTransactions
    ) -> memoryview | bytes | None:
        """Return what is kept of a batch, or None."""
        count = header.record_count
        self.read_records += count
        is_control = header.is_control
        obsolete = transactions.note_control(batch, header) if is_control else transactions.note_data(header)
        horizon, now_ms = header.delete_horizon, self.job.now_ms
        if obsolete and (not is_control or (horizon is not None and horizon <= now_ms)):
            return self._without_records(header)
        if is_control:
            if not count:
                return self._without_records(header)
            self.kept_records += count
            if not obsolete or horizon is not None:
                return batch
            marks: Sequence[int] = bytes(count)
        else:
            marks = self._marks(header, batch)
            tombstones = marks.count(TOMBSTONE)
            if tombstones and horizon is not None and horizon <= now_ms:
                marks, tombstones = self._without_tombstones(marks, header, batch)
            kept = count - marks.count(DROP)
            self.kept_records += kept
            if not kept:
                return self._without_records(header)
            if kept == count and (not tombstones or horizon is not None):
                return batch
            if tombstones == 0 or horizon is not None:
                return rewrite(uncompressed(batch, header), header, marks, horizon)
        horizon = now_ms + self.job.config.delete_retention_ms
        return rewrite(uncompressed(batch, header), header, marks, horizon)

    def _without_records(self, header: BatchHeader) -> bytes | None:
        """Return the empty batch if it must be kept, or None."""
        return emptied(header) if self._is_kept_empty(header) else None

    def _is_kept_empty(self, header: BatchHeader) -> bool:
        """Return whether a batch is kept even without records.

        It is a producer's last batch or the last batch of the round: no other batch has the information in its header.
        """
        if header.next_offset == self.job.end_offset:
            return True
        last = self.job.producers.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.offset is not None:
            return last.offset == header.last_offset
        return header.is_control and last.producer_epoch == header.producer_epoch

    def _marks(self, header: BatchHeader, batch: memoryview) -> Sequence[int]:
        """Return the mark of each record in order."""
        table = self.table
        count = header.record_count
        noted = header.base_offset >= table.start_offset and header.last_offset <= table.latest_offset
        if noted and count == header.last_offset_delta + 1:
            first = header.base_offset - table.start_offset
            return table.marks[first : first + count]
        return self._marks_by_keys(self._keys(header, batch))

    def _marks_by_keys(self, found: BatchKeys) -> bytearray:
        """Return the marks of any records by their keys. Records after the round are kept."""
        table = self.table
        marks = table.look_up(found.keys, found.tombstones)
        for number, offset in enumerate(found.offsets):
            if offset > table.latest_offset:
                marks[number] = TOMBSTONE if number in found.tombstones else KEEP
            elif offset >= table.start_offset:
                marks[number] = table.marks[offset - table.start_offset]
        return marks

    def _without_tombstones(self, marks: Sequence[int], header: BatchHeader, batch: memoryview) -> tuple[bytes, int]:
        """Drop the tombstones in the round, whose horizon has passed. Return the marks and how many are left."""
        if header.last_offset <= self.table.latest_offset:
            return bytes(marks).replace(bytes([TOMBSTONE]), bytes([DROP])), 0
        offsets = read_keys(uncompressed(batch, header), header).offsets
        left = bytes(
            DROP if mark == TOMBSTONE and offset <= self.table.latest_offset else mark
            for mark, offset in zip(marks, offsets, strict=True)
        )
        return left, left.count(TOMBSTONE)

    def _filter_legacy(self, batch: memoryview) -> memoryview | bytes | None:
        """Return what is kept of a message v0 or v1 or a wrapper, or None. They have no horizon and cannot be empty."""
        records = legacy_records(batch)
        self.read_records += len(records)
        marks = self._marks_by_keys(self._keys(None, batch))
        if not self.keeps_legacy_tombstones:
            marks = bytearray(
                DROP if mark == TOMBSTONE and record.offset <= self.table.latest_offset else mark
                for mark, record in zip(marks, records, strict=True)
            )
        kept = [record for record, mark in zip(records, marks, strict=True) if mark != DROP]
        if not kept and records[-1].offset + 1 == self.job.end_offset:
            kept = records  # no other message shows where the log ends
        self.kept_records += len(kept)
        if len(kept) == len(records):
            return batch
        return rewrite_legacy(batch, kept) if kept else None

    def _keys(self, header: BatchHeader | None, batch: memoryview) -> BatchKeys:
        """Return the keys of a batch of any format. Raises OversizedRecord, as `uncompressed` does."""
        if header is not None:
            return read_keys(uncompressed(batch, header, self._most_record_bytes), header)
        records = legacy_records(batch)
        return BatchKeys(
            [record.key for record in records],
            [record.offset for record in records],
            [number for number, record in enumerate(records) if record.value is None],
        )
