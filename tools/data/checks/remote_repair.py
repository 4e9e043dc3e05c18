"""Upload damaged copies of segments again that are still on the disk, under their own keys.

The metadata stays as it is: a copy keeps its id. Objects are only replaced when the segment on the disk has the same
size and readable records of the same offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from protocol.records.errors import RecordsError
from remote.errors import RemoteStorageError
from remote.layout import Layout
from remote.segment_files import IndexKind, SegmentFiles
from remote.store import Source
from storage.checkpoints import format_lines
from storage.fs import LOCAL
from storage.log.leader_epoch import LeaderEpochs
from storage.producers.snapshot import snapshot_path
from storage.segment.files import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, file_name
from storage.segment.scan import scan_valid
from tools.data.checks.remote import Copied


class CannotRepair(Exception):
    """A copy cannot be uploaded again; the text has the reason."""


def repair_copies(layout: Layout, copies: Sequence[Copied]) -> Iterator[tuple[str, bool]]:
    """Upload what the disk has; yield a line for each copy, and whether it is repaired. Raises RemoteStorageError."""
    for copy in copies:
        try:
            files = local_files(layout, copy)
        except (CannotRepair, OSError) as error:
            yield f"{copy}: {error}", False
            continue
        layout.delete(copy.partition, copy.segment)
        layout.copy(copy.partition, copy.segment, files)
        yield f"{copy}: uploaded again", True


def local_files(layout: Layout, copy: Copied) -> SegmentFiles:
    """Return the files of a segment on the disk. Raises CannotRepair, OSError."""
    path, segment = copy.local_log, copy.segment
    if path is None or copy.directory is None:
        raise CannotRepair("the segment is no longer on the disk")
    _check_records(path, copy)
    directory = copy.directory

    def small(suffix: str) -> bytes:
        return LOCAL.read_file(f"{directory}/{file_name(segment.start_offset, suffix)}")

    epochs = LeaderEpochs(LOCAL, directory).entries
    lines = [f"{epoch} {start}" for epoch, start in epochs if start <= segment.end_offset]
    return SegmentFiles(
        log=Source(path, segment.size_bytes),
        offset_index=small(INDEX_SUFFIX),
        time_index=small(TIME_INDEX_SUFFIX),
        producer_snapshot=_snapshot(layout, copy, directory),
        leader_epochs=format_lines(lines),
        transaction_index=None if segment.has_no_aborted else small(TXN_INDEX_SUFFIX),
    )


def _check_records(path: str, copy: Copied) -> None:
    segment, end, position = copy.segment, copy.segment.start_offset - 1, 0
    try:
        with LOCAL.reading(path) as handle:
            for entry, _ in scan_valid(LOCAL, handle, 0, segment.size_bytes):
                if not end < entry.base_offset <= segment.end_offset:
                    raise CannotRepair(f"{path}: a batch of offset {entry.base_offset} follows offset {end}")
                end, position = entry.last_offset, entry.position + entry.size_bytes
    except RecordsError as error:
        raise CannotRepair(f"{path}: {error}") from None
    if position != segment.size_bytes or end > segment.end_offset:
        raise CannotRepair(f"{path} does not have the records of the copy: it ends at offset {end}")


def _snapshot(layout: Layout, copy: Copied, directory: str) -> bytes:
    """Return the producers at the end of the segment, from the disk or from the copy. Raises CannotRepair."""
    try:
        return LOCAL.read_file(snapshot_path(directory, copy.segment.end_offset + 1))
    except FileNotFoundError:
        pass
    try:
        found = layout.read_index(copy.partition, copy.segment, IndexKind.PRODUCER_SNAPSHOT)
    except RemoteStorageError:
        found = None
    if found is None:
        raise CannotRepair("there is no snapshot of the producers at its end; a start of the broker may write one")
    return found
