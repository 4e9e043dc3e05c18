"""A worker's part of the node's data: its own logs. The main process has locked and checked their directories."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from broker.process.placement import worker_of
from broker.startup.missing_partitions import Missing
from broker.startup.node import load_logs, log_damage_report
from broker.workers.messages import Begin
from config import BrokerConfig
from metadata.framing import decode_record
from metadata.image import MetadataImage
from metadata.loading import MetadataLoader
from storage.errors import LogOffline
from storage.log.directory import LogDirectory
from storage.log_manager import LogManager


class WorkerData(msgspec.Struct, frozen=True):
    """A worker's counterpart of broker.startup.node.Node."""

    cluster_id: str
    directory_ids: dict[str, bytes]
    logs: LogManager
    image: MetadataImage
    missing: Missing

    def close(self, now_ms: int, mark_clean: bool = True) -> None:
        """Flush and close all logs. The main process marks the directories as clean once all workers have done so.

        Raises LogOffline if a log could not be flushed, or has not been checked yet.
        """
        self.logs.close(now_ms, mark_clean=False)
        for directory in self.logs.directories:
            if not self.logs.unopened.all_were_closed(directory):
                raise LogOffline(directory.path, "one of its logs has not been checked yet")


def open_data(
    config: BrokerConfig,
    begin: Begin,
    now_ms: int,
    *,
    max_open_files: int,
    on_failure: Callable[[LogDirectory], None] | None = None,
) -> WorkerData:
    """Replay the metadata of `begin`, and open the logs. Raises what `load_logs` raises."""
    loader = MetadataLoader()
    for record in begin.records:
        loader.feed(decode_record(record))
    count = config.num_workers
    logs = LogManager(
        [each.path for each in begin.directories],
        max_open_files=max_open_files,
        on_failure=on_failure,
        on_remark=log_damage_report,
        owns=lambda topic, partition: worker_of(topic, partition, count) == begin.number,
    )
    for directory, given in zip(logs.directories, begin.directories, strict=True):
        directory.had_clean_shutdown = given.had_clean_shutdown
        directory.failure = given.failure
        if given.failure is None:
            directory.lock_part(begin.number)
    directory_ids = {each.path: each.directory_id for each in begin.directories if each.directory_id is not None}
    load_logs(config, logs, loader.image, directory_ids, set(begin.deleted_topics), now_ms)
    return WorkerData(begin.cluster_id, directory_ids, logs, loader.image, begin.missing)
