"""Follow the metadata log in a worker: the main process sends each batch that its controller appends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.metadata_publisher import MetadataPublisher
from broker.workers.messages import Records
from controller.quorum import Features, features_of
from metadata.framing import decode_record
from metadata.image import MetadataImage
from metadata.replay import replay_all

if TYPE_CHECKING:
    from runtime.deferred import Deferred


class MetadataFollower:
    """Replays batches into the image, and publishes it."""

    def __init__(self, image: MetadataImage, publisher: MetadataPublisher, last_offset: int) -> None:
        self.image = image
        #: The offset of the last record that the image holds.
        self.last_offset = last_offset
        self._publisher = publisher

    def follow(self, batch: Records) -> Deferred[None]:
        """Apply a batch of the metadata log. Resolves once its partitions are hosted."""
        self.last_offset = batch.last_offset
        self._publisher.publish(replay_all(self.image, map(decode_record, batch.records)))
        return self._publisher.when_published()


class RemoteFeatures:
    """The feature levels in force, as far as this process has followed the metadata log."""

    def __init__(self, follower: MetadataFollower, kraft_version: int) -> None:
        self._follower = follower
        self._kraft_version = kraft_version

    def features(self) -> Features:
        """Return the levels, and the offset at which they are valid."""
        return features_of(self._follower.image, self._kraft_version, self._follower.last_offset)
