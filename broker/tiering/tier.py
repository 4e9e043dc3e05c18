"""The tier of a broker: remote storage, what is in it, and the work that keeps it up to date.

It begins once clients are served, and ends before the logs are closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.tiering.metadata_log import MetadataLog
from broker.tiering.remote_logs import RemoteLog, RemoteLogs
from broker.tiering.threads import TierThreads
from tiered.lineage import Lineage

if TYPE_CHECKING:
    from broker.tiering.services import TierServices
    from remote.layout import Layout


class Tier:
    """All parts of tiered storage. `layout` may be called in `threads` only."""

    def __init__(self, services: TierServices, layout: Layout) -> None:
        self.layout = layout
        self.threads = TierThreads(services.config, services.loop)
        self.remote_logs = RemoteLogs(services.partitions.topic_name, lambda each: self.metadata_log.is_loaded(each))
        self.metadata_log = MetadataLog(services, self.remote_logs.replay, self._on_loaded)
        self.remote_logs.on_change = self._on_change
        self._services = services

    def start(self) -> None:
        """Replay the metadata, and begin the work. Partitions are hosted, and clients are served."""
        self.metadata_log.start()

    async def close(self) -> None:
        """Begin nothing more, and wait for the calls that run."""
        self.metadata_log.close()
        await self._services.loop.run_in_executor(None, self.threads.close)

    def _on_loaded(self, index: int) -> None:
        for remote_log in self.remote_logs:
            if self.metadata_log.index_of(remote_log.partition) == index:
                self._set_copied_offset(remote_log)

    def _on_change(self, remote_log: RemoteLog) -> None:
        if remote_log.is_loaded:
            self._set_copied_offset(remote_log)

    def _set_copied_offset(self, remote_log: RemoteLog) -> None:
        """Note in an open log how much of it is copied, so that local retention may remove that."""
        topic_id, _, index = remote_log.partition
        partition = self._services.partitions.get_by_id(topic_id, index)
        log = None if partition is None else partition.open_log
        if log is not None:
            lineage = Lineage(tuple((epoch, start) for epoch, start in log.leader_epochs.entries), log.log_end_offset)
            remote_log.copied_offset = log.copied_offset = lineage.copied_up_to(remote_log.segments)
