"""The layout of Apache Kafka's LocalTieredStorage: six files of each segment in a folder of its partition.

    <dir>/kafka-tiered-storage/orders-0-sYyf7c_nSwaY_r9QjP-oCQ/00000000000000000130-WMupQAOOTNmn2G9qna4vhA.log

Apache Kafka's own storage of this layout is part of its tests. Its copies are not atomic; here `.log` comes last.
"""

from __future__ import annotations

from protocol.id_text import id_text
from remote.errors import Absent
from remote.guarded_store import GuardedStore
from remote.segment_files import IndexKind, SegmentFiles
from remote.store import Health, Store
from tiered.metadata_records import TopicIdPartition
from tiered.segment import RemoteSegment

FOLDER = "kafka-tiered-storage"
_LOG = "log"
_SUFFIXES = {
    IndexKind.OFFSET: "index",
    IndexKind.TIMESTAMP: "timeindex",
    IndexKind.TRANSACTION: "txnindex",
    IndexKind.PRODUCER_SNAPSHOT: "snapshot",
    IndexKind.LEADER_EPOCH: "leader_epoch_checkpoint",
}


def key_of(partition: TopicIdPartition, segment: RemoteSegment, suffix: str, root: str = FOLDER) -> str:
    """Return the key of one file of the segment; `root` is the folder of all partitions, empty for the store itself."""
    folder = f"{root}/" if root else ""
    folder += f"{partition.topic}-{partition.partition}-{id_text(partition.topic_id)}"
    return f"{folder}/{segment.start_offset:020}-{id_text(segment.id)}.{suffix}"


class LocalTieredLayout:
    """Segments in the layout of LocalTieredStorage."""

    def __init__(
        self, store: Store, *, folder: str = FOLDER, deletes_on_close: bool = False, may_delete: bool = True
    ) -> None:
        """With `may_delete` false `delete` does nothing, as with Kafka's `delete.enable`."""
        self._folder = folder
        self._store = store
        self._deletes_on_close = deletes_on_close
        self._may_delete = may_delete

    def copy(self, partition: TopicIdPartition, segment: RemoteSegment, files: SegmentFiles) -> bytes | None:
        """Store the indexes, then the records."""
        for kind, suffix in _SUFFIXES.items():
            content = getattr(files, kind.value)
            if content is not None:
                self._store.put(self._key(partition, segment, suffix), content)
        self._store.put(self._key(partition, segment, _LOG), files.log)
        return None

    def read(self, partition: TopicIdPartition, segment: RemoteSegment, start: int, size_bytes: int) -> bytes:
        """Return bytes of `.log`."""
        return self._store.get(self._key(partition, segment, _LOG), start, size_bytes)

    def read_index(self, partition: TopicIdPartition, segment: RemoteSegment, kind: IndexKind) -> bytes | None:
        """Return the whole file of an index."""
        try:
            return self._store.get(self._key(partition, segment, _SUFFIXES[kind]))
        except Absent:
            if kind is IndexKind.TRANSACTION:
                return None
            raise

    def delete(self, partition: TopicIdPartition, segment: RemoteSegment) -> None:
        """Delete all files of the segment."""
        if not self._may_delete:
            return
        self._store.delete([self._key(partition, segment, suffix) for suffix in (_LOG, *_SUFFIXES.values())])

    def health(self) -> Health:
        """Return what the store has noted, if it notes anything."""
        return self._store.health() if isinstance(self._store, GuardedStore) else Health()

    def close(self) -> None:
        """Delete everything if Kafka's `delete.on.close` is set: a setting for tests."""
        if self._deletes_on_close:
            self._store.delete([each.key for each in list(self._store.list(f"{self._folder}/"))])

    def _key(self, partition: TopicIdPartition, segment: RemoteSegment, suffix: str) -> str:
        return key_of(partition, segment, suffix, self._folder)
