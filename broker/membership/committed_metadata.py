"""The image of a member: the committed records of the metadata log, applied in order (KIP-595).

A metadata transaction is applied as a whole, when its end is committed (KIP-868).
"""

from __future__ import annotations

from collections.abc import Callable

from broker.membership.observed_log import ObservedMetadataLog
from controller.metadata_snapshot import Snapshot
from controller.quorum import Features, features_of
from metadata.framing import decode_record
from metadata.image import MetadataImage
from metadata.loading import MetadataLoader
from metadata.replacement import replace_image
from metadata.replay import Delta


class CommittedMetadata:
    """The image, and how far the log is applied to it.

    Until `publish_to` is called, changes are collected only in the image, by the quick way of a start.

    Attributes:
        is_paused: nothing is applied, because threads read the image.
    """

    def __init__(self, metadata_log: ObservedMetadataLog) -> None:
        self.log = metadata_log
        self.is_paused = False
        self.epoch = 0
        self._loader = MetadataLoader()
        self.image: MetadataImage = self._loader.image
        self._publish: Callable[[Delta], None] | None = None
        self._high_watermark = -1
        self._read_to = 0
        self._applied_to = 0
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
    def is_current(self) -> bool:
        """Whether all records are applied of which the leader has said that they are committed."""
        return 0 <= self._high_watermark <= self._read_to

    @property
    def deleted_topics(self) -> set[bytes]:
        """The ids of topics that were deleted before `publish_to`."""
        return self._loader.deleted_topics

    def features(self) -> Features:
        """Return the feature levels in force, and the offset at which they are valid."""
        return features_of(self.image, self.log.quorum.kraft_version, self.last_offset)

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
        feed = self._loader.feed_value if self._publish is None else self._feed
        for record in self.log.read(self._read_to, high_watermark):
            if record.value is not None:
                feed(record.value)
            self.epoch = record.epoch
            self._read_to = record.offset + 1
            if not self._loader.in_transaction:
                self._applied_to = self._read_to
        if self._publish is not None and self._applied_to > before:
            self._publish(self._loader.take_delta())
        return self._applied_to > before

    def _feed(self, value: bytes) -> None:
        self._loader.feed(decode_record(value))

    def _on_snapshot(self, snapshot: Snapshot, end_offset: int) -> None:
        if self.is_paused:
            self._skipped = snapshot, end_offset
            return
        image = self.image
        self._load(snapshot, end_offset)
        delta = replace_image(image, self._loader.image)
        self.image = self._loader.image = image
        if self._publish is not None:
            self._publish(delta)

    def _load(self, snapshot: Snapshot, end_offset: int) -> None:
        self._loader = MetadataLoader()
        for value in snapshot.values if end_offset else ():
            self._loader.feed_value(value)
        self.image = self._loader.image
        self._read_to = self._applied_to = end_offset
        self.epoch = self.log.snapshot_id.epoch
