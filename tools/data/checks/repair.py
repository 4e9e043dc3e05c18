"""Repair log directories: do what a broker's recovery would do, where a check has findings.

A log with damaged segments, or damaged files beside them, is recovered from its beginning. It is truncated at the first
invalid batch; the bytes cut off are kept in a `.corrupt` file. Its indexes, epochs and snapshots are rebuilt. Unusable
files are removed if a start does not need them. Impossible checkpoint entries are dropped, which at worst makes the
next start check more. Findings that need a decision are left as they are: strays, duplicate partitions, missing
partitions, meta.properties.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence

from config import BrokerConfig
from controller.metadata_log import TOPIC_ID
from controller.metadata_snapshot import build_snapshot, snapshots_in
from metadata.features import KRAFT_VERSION
from metadata.registration import feature_records
from storage.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, TopicPartition, format_offsets, write_topic_id
from storage.fs import LOCAL
from storage.log.directory import LogDirectory
from storage.log.stored_log import StoredLog
from storage.log_config import LogConfig
from storage.recovery.loading import load_log
from storage.recovery.log_dir_scan import METADATA_TOPIC
from storage.recovery.segment import Cut
from tools.data.checks.directory import CHECKPOINTS, DataCheck, DirectoryCheck
from tools.data.checks.findings import Finding, Kind, Severity

_METADATA = METADATA_TOPIC, 0
#: Findings that a recovery of the log repairs.
_OF_LOGS = {
    Kind.RECORDS,
    Kind.OFFSET_INDEX,
    Kind.TIME_INDEX,
    Kind.TRANSACTION_INDEX,
    Kind.PRODUCER_SNAPSHOT,
    Kind.LEADER_EPOCHS,
    Kind.LEFTOVER,
}
#: Files that a start does not need, or creates again.
_REMOVABLE = {Kind.PRODUCER_SNAPSHOT, Kind.LEADER_EPOCHS, Kind.CLEAN_SHUTDOWN, Kind.QUORUM_STATE}


class Repair:
    """Repairs the findings of `check` in locked directories. `config` has the broker's defaults for topics."""

    def __init__(self, check: DataCheck, findings: Sequence[Finding], config: BrokerConfig, now_ms: int) -> None:
        self._check = check
        self._findings = [each for each in findings if each.severity is not Severity.NOTE]
        self._config = config
        self._now_ms = now_ms

    def run(self) -> Iterator[str]:
        """Repair; yield a line for each change. Raises OSError."""
        for path in self._paths(_REMOVABLE):
            if LOCAL.exists(path):
                LOCAL.remove(path)
                yield f"{path}: removed"
        for path in self._paths({Kind.METADATA_SNAPSHOT}):
            if self._check.image is not None:  # the log, or another snapshot, has the same records
                LOCAL.remove(path)
                yield f"{path}: removed"
        yield from self._bootstrap()
        yield from self._topic_ids()
        ends: dict[str, int] = {}
        for directory in self._check.directories:
            before = dict(directory.offsets)
            self._drop_offsets(directory, ends)
            yield from self._logs(directory, ends)
            self._drop_offsets(directory, ends)
            yield from self._checkpoints(directory, before)

    def _paths(self, kinds: Collection[Kind]) -> list[str]:
        return list(dict.fromkeys(each.path for each in self._findings if each.kind in kinds))

    def _bootstrap(self) -> Iterator[str]:
        image = self._check.image
        for path in self._paths({Kind.BOOTSTRAP}):
            if image is not None and image.features:
                levels = {name: level for name, level in image.features.items() if name != KRAFT_VERSION}
                LOCAL.replace_file(path, build_snapshot(feature_records(levels), self._now_ms), sync=True)
                yield f"{path}: rewritten with the cluster's feature levels"

    def _topic_ids(self) -> Iterator[str]:
        image = self._check.image
        for path in self._paths({Kind.TOPIC_ID}):
            directory = os.path.dirname(path)
            name = os.path.basename(directory).rpartition("-")[0]
            topic = image.topic(name) if image is not None else None
            topic_id = TOPIC_ID if name == METADATA_TOPIC else topic.topic_id if topic is not None else None
            if topic_id is not None:
                write_topic_id(LOCAL, directory, topic_id)
                yield f"{path}: rewritten with the topic id of the metadata"

    def _drop_offsets(self, directory: DirectoryCheck, ends: Mapping[str, int]) -> None:
        """Drop impossible checkpoint entries; `ends` has the end offsets of recovered logs, by path."""
        for name in CHECKPOINTS:
            kept = {
                key: offset
                for key, offset in directory.offsets[name].items()
                if offset <= self._end(directory, key, ends) and self._is_known(directory, key)
            }
            if (
                name == RECOVERY_POINTS and directory.clean
            ):  # all records were flushed to the disk, by the stop or by this repair
                for key in directory.extents.keys() - {_METADATA}:
                    kept[key] = self._end(directory, key, ends)
            directory.offsets[name] = kept

    def _checkpoints(self, directory: DirectoryCheck, before: Mapping[str, object]) -> Iterator[str]:
        """Rewrite the files that were damaged, or whose content differs from `before`."""
        damaged = set(self._paths({Kind.CHECKPOINT}))
        for name, kept in directory.offsets.items():
            path = f"{directory.path}/{name}"
            if kept != before[name] or path in damaged:
                LOCAL.replace_file(path, format_offsets(kept), sync=True)
                yield f"{path}: rewritten with {len(kept)} entries"

    def _is_known(self, directory: DirectoryCheck, key: TopicPartition) -> bool:
        if key in directory.partitions or self._check.image is None:
            return True
        topic = self._check.image.topic(key[0])
        return topic is not None and key[1] in topic.partitions

    def _end(self, directory: DirectoryCheck, key: TopicPartition, ends: Mapping[str, int]) -> int:
        extent = directory.extents.get(key)
        if extent is None:
            return 1 << 62  # for a partition that is not here, so never read
        return ends.get(extent.path, extent.end_offset)

    def _logs(self, directory: DirectoryCheck, ends: dict[str, int]) -> Iterator[str]:
        wanted = {os.path.dirname(path) for path in self._paths(_OF_LOGS)}
        for (topic, partition), path in directory.partitions.items():
            if path in wanted:
                cuts: list[Cut] = []
                ends[path] = self._recover(directory, topic, partition, path, cuts)
                yield from map(str, cuts)
                yield f"{path}: indexes, epochs and snapshots were rebuilt from the records"

    def _recover(self, directory: DirectoryCheck, topic: str, partition: int, path: str, cuts: list[Cut]) -> int:
        """Recover a log from its beginning, leave it as a clean stop does, and return its end offset."""
        gapless_from = None
        if topic == METADATA_TOPIC:
            snapshots = snapshots_in(LOCAL, path)
            gapless_from = snapshots[-1].end_offset if snapshots else 0
        stored = StoredLog(
            path,
            topic,
            partition,
            self._log_config(topic),
            self._now_ms,
            log_start_offset=directory.offsets[LOG_START_OFFSETS].get((topic, partition), 0),
            gapless_from=gapless_from,
        )
        log = load_log(LogDirectory(directory.path), stored, cuts)
        try:
            log.complete()
        finally:
            log.close_files()
        for entry in LOCAL.list(path):
            LOCAL.sync_path(f"{path}/{entry.name}")
        LOCAL.sync_path(path)
        return log.log_end_offset

    def _log_config(self, topic: str) -> LogConfig:
        image = self._check.image
        return self._config.log_config(image.topic_config(topic) if image is not None else {}, topic)
