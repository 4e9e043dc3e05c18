"""The image of a member: the committed records of the metadata log, applied in order (KIP-595).

A metadata transaction is applied as a whole, when its end is committed (KIP-868).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.membership.observed_log import ObservedMetadataLog
from controller.metadata_snapshot import Snapshot, SnapshotId, build_snapshot
from controller.quorum import Features, features_of
from metadata.delta import Delta
from metadata.image import MetadataImage
from metadata.loading import MetadataLoader
from metadata.replacement import replace_image
from metadata.snapshot import image_records
from storage.log.partition_log import PartitionLog

log = logging.getLogger(__name__)


class CommittedMetadata:
    """The image, and how far the log is applied to it.

    Until `publish_to` is called, changes are collected only in the image, by the quick way of a start.

    Attributes:
        is_paused: nothing is applied, because threads read the image.
    """

    def __init__(self, metadata_log: ObservedMetadataLog) -> None:
        self.log = metadata_log
        self.is_paused = False
        self._loader = MetadataLoader()
        self.image: MetadataImage = self._loader.image
        self._publish: Callable[[Delta], None] | None = None
        self._high_watermark = -1
        self._read_to = 0
        self._applied_to = 0
        self._epoch = self._timestamp_ms = 0
        self._skipped: tuple[Snapshot, int] | None = None
        snapshot = metadata_log.newest_snapshot()
        if snapshot is not None:
            self._load(snapshot, metadata_log.snapshot_id.end_offset)
        metadata_log.on_snapshot = self._on_snapshot

    @property
    def last_offset(self) -> int:
        """The offset of the last record in the image; -1 without one."""
        return self._applied_to - 1

    @property
    def last_timestamp_ms(self) -> int:
        """When the last record in the image was written; 0 without one."""
        return self._timestamp_ms

    @property
    def is_current(self) -> bool:
        """Whether all records are applied of which the leader has said that they are committed."""
        return 0 <= self._high_watermark <= self._read_to

    def features(self) -> Features:
        """Return the feature levels in force, and the offset at which they are valid."""
        return features_of(self.image, self.log.quorum.kraft_version, self.last_offset)

    # -- snapshots ---------------------------------------------------------------------------------------------------

    @property
    def partition_log(self) -> PartitionLog:
        return self.log.partition_log

    @property
    def path(self) -> str:
        return self.log.partition_log.path

    @property
    def bytes_since_snapshot(self) -> int:
        """The bytes that were read since the newest snapshot."""
        return self.log.bytes_since_snapshot

    @property
    def may_be_covered(self) -> bool:
        """Whether a snapshot may be written. One beyond the end of the log replaces the log at the next start."""
        return self.log.partition_log.directory.is_online and not self.is_paused

    def prepare_snapshot(self, image: MetadataImage, now_ms: int) -> tuple[SnapshotId, bytes] | None:
        """Return a snapshot of the image; None if the last one is as new."""
        if self._applied_to <= self.log.snapshot_id.end_offset:
            return None
        self.log.snapshot_id = SnapshotId(self._applied_to, self._epoch)
        self.log.bytes_since_snapshot = 0
        data = build_snapshot(
            image_records(image),
            now_ms,
            epoch=self._epoch,
            last_contained_ms=self._timestamp_ms,
            quorum=self.log.quorum,
        )
        return self.log.snapshot_id, data

    # -- applying ----------------------------------------------------------------------------------------------------

    def publish_to(self, publish: Callable[[Delta], None]) -> None:
        """Call `publish(delta)` after each later change."""
        self._loader.take_delta()
        self._publish = publish

    def advance(self, high_watermark: int) -> bool:
        """Apply the records below the high watermark. Return whether there were any.

        Raises ProtocolError, RecordsError and ReplayError if the log is damaged or of a later version; LogOffline.
        """
        self._high_watermark = high_watermark
        if self.is_paused:
            return False
        before = self._applied_to
        if self._skipped is not None:
            (snapshot, end_offset), self._skipped = self._skipped, None
            self._on_snapshot(snapshot, end_offset)
        feed = self._loader.feed_value if self._publish is None else self._loader.feed_live
        for record in self.log.read(self._read_to, high_watermark):
            if record.value is not None:
                feed(record.value)
            self._read_to = record.offset + 1
            if not self._loader.in_transaction:
                self._applied_to, self._epoch, self._timestamp_ms = self._read_to, record.epoch, record.timestamp_ms
        if self._publish is not None and self._applied_to > before:
            self._put_in_force(self._publish, self._loader.take_delta())
        return self._applied_to > before

    @staticmethod
    def _put_in_force(publish: Callable[[Delta], None], delta: Delta) -> None:
        """Publish a change. As in Apache Kafka, one that fails is logged, and the broker goes on with the next."""
        try:
            publish(delta)
        except Exception:
            log.exception("A change of the metadata is not in force as a whole")

    def _on_snapshot(self, snapshot: Snapshot, end_offset: int) -> None:
        if self.is_paused:
            self._skipped = snapshot, end_offset
            return
        image = self.image
        self._load(snapshot, end_offset)
        delta = replace_image(image, self._loader.image)
        self.image = self._loader.image = image
        if self._publish is not None:
            self._put_in_force(self._publish, delta)

    def _load(self, snapshot: Snapshot, end_offset: int) -> None:
        self._loader = MetadataLoader()
        for value in snapshot.values if end_offset else ():
            self._loader.feed_value(value)
        self.image = self._loader.image
        self._read_to = self._applied_to = end_offset
        self._epoch = self.log.snapshot_id.epoch
