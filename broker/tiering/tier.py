"""The tier of a broker: remote storage, what is in it, and the work that keeps it up to date.

It begins once clients are served, and ends before the logs are closed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.tiering.copier import Copier
from broker.tiering.counts import TierCounts
from broker.tiering.expirer import Expirer
from broker.tiering.joiner import Joiner
from broker.tiering.local_segments import lineage_of
from broker.tiering.metadata_log import MetadataLog
from broker.tiering.rate_quota import RateQuota
from broker.tiering.reading.reader import RemoteReader
from broker.tiering.regular_work import RegularWork
from broker.tiering.remote_logs import RemoteLog, RemoteLogs
from broker.tiering.remover import Remover
from broker.tiering.threads import closed_within
from storage.log.leader_epoch import EpochEntry
from tiered.lineage import with_epochs_of_copies
from tiered.metadata_records import TopicIdPartition

if TYPE_CHECKING:
    from broker.tiering.services import TierServices
    from broker.tiering.threads import TierThreads
    from config import BrokerConfig
    from remote.layout import Layout
    from storage.log.partition_log import PartitionLog

#: The keys of each quota: its rate, the number of windows, and their length in seconds.
QUOTAS = {
    "copy": (
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.copy.quota.window.num",
        "remote.log.manager.copy.quota.window.size.seconds",
    ),
    "fetch": (
        "remote.log.manager.fetch.max.bytes.per.second",
        "remote.log.manager.fetch.quota.window.num",
        "remote.log.manager.fetch.quota.window.size.seconds",
    ),
}


log = logging.getLogger(__name__)

#: How long a stop waits for the calls that run. An unfinished copy is deleted after the next start.
_CLOSE_S = 5


class Tier:
    """All parts of tiered storage. `layout` may be called in `threads` only."""

    def __init__(self, services: TierServices, layout: Layout, threads: TierThreads) -> None:
        self.config = services.config
        self.layout = layout
        self.counts = TierCounts()
        self.threads = threads
        self.remote_logs = RemoteLogs(services.partitions.topic_name, lambda each: self.metadata_log.is_loaded(each))
        self.metadata_log = MetadataLog(services, self.remote_logs.replay, self._on_loaded, self._needed)
        self.remote_logs.on_change = self._on_change
        self.copy_quota = make_quota(services.config, "copy")
        self.reader = RemoteReader(
            services.config,
            services.clock,
            services.timers,
            self.threads.reading,
            make_quota(services.config, "fetch"),
            self.counts,
            self.remote_logs,
            layout,
            next((each.path for each in services.logs.directories if each.is_online), ""),
        )
        remover = Remover(services, layout, self.threads, self.metadata_log, self.counts, self.reader.forget)
        self.copier = Copier(services, layout, self.threads, self.metadata_log, remover, self.copy_quota, self.counts)
        expirer = Expirer(services, remover)
        self.work = RegularWork(services, self.remote_logs, self.metadata_log, self.copier, expirer)
        self.joiner = Joiner(services, layout, self.threads, self.remote_logs, self.counts)
        self.metadata_log.on_poll = self.joiner.look
        self.services = services

    def start(self) -> None:
        """Replay the metadata, and begin the work. Partitions are hosted, and clients are served."""
        self.metadata_log.start()
        self.work.start()

    async def close(self) -> None:
        """Begin nothing more, and wait for the calls that run."""
        self.work.close()
        self.joiner.close()
        self.metadata_log.close()
        if not await closed_within(_CLOSE_S, self._close_storage):
            log.warning("Calls to remote storage have not ended within %d s: the broker stops without them", _CLOSE_S)

    def _close_storage(self) -> None:
        self.threads.close()
        self.layout.close()

    def _needed(self) -> set[int]:
        """Return which partitions of the metadata topic have the records of the logs that are on this disk."""
        logs = [each for each in self.services.logs.logs.values() if each.config.tiered]
        indexes = [self.metadata_log.index_of(_place_of(log)) for log in logs]
        return {index for index in indexes if index is not None}

    def _on_loaded(self, index: int) -> None:
        for remote_log in self.remote_logs:
            if self.metadata_log.index_of(remote_log.partition) == index:
                self._set_copied_offset(remote_log)
        self.work.begin_loaded(index)

    def _on_change(self, remote_log: RemoteLog) -> None:
        if remote_log.is_loaded:
            self._set_copied_offset(remote_log)

    def _set_copied_offset(self, remote_log: RemoteLog) -> None:
        """Note in an open log how much of it is copied, so that local retention may remove that.

        Also in one that another broker leads: each replica has its own local retention.
        """
        topic_id, topic, index = remote_log.partition
        log = self.services.logs.logs.get((topic, index))
        if log is not None and log.topic_id == topic_id:
            self._restore_epochs(log, remote_log)
            copied_offset = lineage_of(log).copied_up_to(remote_log.segments, log.log_start_offset)
            remote_log.copied_offset = log.copied_offset = copied_offset

    @staticmethod
    def _restore_epochs(local_log: PartitionLog, remote_log: RemoteLog) -> None:
        """Restore leader epochs of remote records that a damaged leader-epoch-checkpoint has lost."""
        entries = local_log.leader_epochs.entries
        start_offset = local_log.log_start_offset
        if not local_log.config.tiered or not entries or entries[0].start_offset <= start_offset:
            return
        epochs = with_epochs_of_copies(remote_log.segments, lineage_of(local_log), start_offset)
        if epochs == entries or not local_log.directory.is_online or local_log.closed:
            return
        try:
            local_log.leader_epochs.replace([EpochEntry(*each) for each in epochs])
        except OSError as error:
            local_log.directory.fail(error)
            return
        local_log.mark_unsynced(local_log.leader_epochs.path)
        restored = ", ".join(
            f"{epoch} from offset {start}" for epoch, start in epochs[: len(epochs) - len(entries) + 1]
        )
        log.warning("Leader epochs of %s were restored from remote storage: %s", local_log.name, restored)


def _place_of(log: PartitionLog) -> TopicIdPartition:
    return TopicIdPartition(log.topic_id or b"", log.topic, log.partition)


def make_quota(config: BrokerConfig, kind: str) -> RateQuota:
    """Return the quota of copies or fetches; its rate is dynamic."""
    rate, windows, seconds = QUOTAS[kind]
    quota = RateQuota(config.get_int(rate), config.get_int(windows), config.get_int(seconds) * 1000)

    def change(changed: BrokerConfig) -> None:
        quota.bytes_per_second = changed.get_int(rate)

    config.subscribe(rate, change)
    return quota
