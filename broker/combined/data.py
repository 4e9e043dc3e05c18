"""The data of a node that is broker and controller: its log directories, one of which has the metadata log it leads.

The directories are those of a single node, which may open them before and afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.controlling.data import ControllerData, lead
from broker.membership.committed_metadata import CommittedMetadata
from broker.membership.data import MemberData
from broker.membership.observed_log import ObservedMetadataLog
from broker.startup.missing_partitions import find_unfinished_moves
from broker.startup.node import open_metadata
from storage.fs import LOCAL
from storage.log.closing import close_logs
from storage.log.directory import LogDirectory, lock_all

if TYPE_CHECKING:
    from metadata.image import Endpoint


class LedMetadata(ControllerData):
    """The controller's view of the data. The broker's stop closes the log, with all others."""

    def close(self, now_ms: int) -> None:
        """Close nothing: CombinedData does."""


class CombinedData(MemberData):
    """The data of one run. All methods block, and are called in a thread.

    Attributes:
        committed: the image of the broker. It reads the log of the controller.
    """

    committed: CommittedMetadata
    _led: LedMetadata | None = None

    def lock(self) -> None:
        """Lock the directories that have data; `lead` locks the others. Raises DirectoryRefused."""
        unformatted = self._directories.unformatted
        lock_all([each for each in self._directories.usable if each not in unformatted], self._directories.spared)

    @property
    def metadata_directory(self) -> LogDirectory:
        """The directory with the metadata log."""
        return self._directories.metadata

    def lead(self, now_ms: Callable[[], int], controllers: Sequence[Endpoint]) -> LedMetadata:
        """Format what is new, load the metadata log, and lead it with these addresses.

        Raises DirectoryRefused, MetadataLogDamaged, StorageError and OSError.
        """
        config = self._config
        opened = open_metadata(config, LOCAL, self.logs, self._directories, self._now_ms, controllers)
        self.cluster_id = opened.data.cluster_id
        self.directory_ids = opened.data.directory_ids
        paths = [each.path for each in self.logs.directories if each.is_online]
        unfinished = find_unfinished_moves(LOCAL, opened.loader.image, config.node_id, paths)
        self.missing = {**opened.missing, **unfinished}
        self._deleted_topics = opened.loader.deleted_topics
        lead(config, opened.data, opened.metadata_log, opened.loader, controllers, self._now_ms)
        led = self._led = LedMetadata(config, opened.data, opened.metadata_log, opened.loader.image)
        self.metadata_log = ObservedMetadataLog(opened.metadata_log.partition_log, now_ms)
        self.committed = CommittedMetadata(self.metadata_log)
        return led

    def abandon(self) -> None:
        """Close and unlock everything after a start that has failed."""
        if self._led is not None:
            self._led.write_last_snapshot(self._now_ms)
            close_logs([self._led.metadata_log.partition_log], self._now_ms)
        super().abandon()

    def close(self, now_ms: int) -> None:
        """Write the last snapshot, and close all logs."""
        assert self._led is not None
        self._led.write_last_snapshot(now_ms)
        super().close(now_ms)
