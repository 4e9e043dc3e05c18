"""Where the parts of a segment are in a store (RemoteStorageManager)."""

from __future__ import annotations

from typing import Protocol

from remote.segment_files import IndexKind, SegmentFiles
from remote.store import Health
from tiered.metadata_records import TopicIdPartition
from tiered.segment import RemoteSegment


class Layout(Protocol):
    """Segments in a store. All calls block, and raise the errors of `remote/errors.py`."""

    def copy(self, partition: TopicIdPartition, segment: RemoteSegment, files: SegmentFiles) -> bytes | None:
        """Store a segment; when the call returns, all of it is safe. Returns its custom metadata."""

    def read(self, partition: TopicIdPartition, segment: RemoteSegment, start: int, size_bytes: int) -> bytes:
        """Return bytes of its records."""

    def read_index(self, partition: TopicIdPartition, segment: RemoteSegment, kind: IndexKind) -> bytes | None:
        """Return an index; None if the segment has none of this kind."""

    def delete(self, partition: TopicIdPartition, segment: RemoteSegment) -> None:
        """Delete all that `copy` has or may have stored."""

    def health(self) -> Health:
        """Return what is known about the store, at once."""

    def close(self) -> None:
        """Stop using the store. Nothing else is called afterwards."""
