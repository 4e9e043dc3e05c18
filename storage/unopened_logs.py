"""Logs that are not open yet.

After a clean shutdown these are the logs in order. After any shutdown they also include the logs for which no
descriptor was free and those that cannot be opened. They are opened as at a start. A log that is in order by its file
names opens quickly. If it differs from what the shutdown left, it is repaired at that moment, and clients wait for it
as they would for a longer start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from storage.checkpoints import TopicPartition
from storage.errors import LogOffline
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog, UnopenedLog
from storage.recovery.clean_shutdown_manifest import CleanState, ClosedLog
from storage.recovery.loading import load_log
from storage.recovery.segment import Cut


class UnopenedLogs(dict[TopicPartition, UnopenedLog]):
    """The unopened logs by topic and partition. Each counts for its directory. `cuts` collects what is cut off them."""

    def __init__(self, cuts: list[Cut]) -> None:
        super().__init__()
        #: Whether the broker has closed its logs. Then no log is opened any more.
        self.closed = False
        #: For each log that was opened: how the start found it, if it was in order.
        self.found_in_order: dict[TopicPartition, CleanState] = {}
        self._cuts = cuts

    @property
    def refused(self) -> dict[TopicPartition, LogOffline]:
        """Return the logs that cannot be opened although their directory works, with the reason."""
        return {key: LogOffline(each.stored.path, each.offline) for key, each in self.items() if each.offline}

    def all_were_closed(self, directory: LogDirectory) -> bool:
        """Return whether a clean shutdown closed all unopened logs of a directory. The others still need recovery."""
        return all(each.stored.clean for each in self.values() if each.directory is directory)

    def closed_logs(self, directory: LogDirectory, logs: Mapping[TopicPartition, PartitionLog]) -> Iterator[ClosedLog]:
        """Yield all logs of a directory as a shutdown leaves them: the closed ones in `logs`, and the unopened ones."""
        for key, log in logs.items():
            if log.directory is directory:
                yield ClosedLog(key, log.path, log.config, log.topic_id, self.found_in_order.get(key))
        for key, (its_directory, stored, _) in self.items():
            if its_directory is directory:
                found = _found(stored) if stored.in_order else None
                yield ClosedLog(key, stored.path, stored.config, stored.topic_id, found)

    def put(self, directory: LogDirectory, stored: StoredLog) -> None:
        """Add an unopened log."""
        key = stored.topic, stored.partition
        self.take(key)
        self[key] = UnopenedLog(directory, stored)
        directory.log_count += 1

    def take(self, key: TopicPartition) -> UnopenedLog | None:
        """Remove and return an unopened log; None if there is none."""
        unopened = self.pop(key, None)
        if unopened is not None:
            unopened.directory.log_count -= 1
        return unopened

    def load(
        self, directory: LogDirectory, stored: StoredLog, *, is_alone: bool, may_wait: bool, has_other: bool
    ) -> PartitionLog | None:
        """Open a log that a start found. Return None if it stays unopened, or is left out because it cannot be opened.

        `is_alone`: no other directory has the partition. `has_other`: another log of the partition is open already.
        Raises LogOffline if two logs of a partition cannot be compared.
        """
        key = stored.topic, stored.partition
        self.put(directory, stored)
        if stored.in_order and is_alone and may_wait:
            return None
        try:
            return self.open(key)
        except LogOffline:
            is_refused = self[key].offline is not None
            if not is_alone and not is_refused and directory.is_online:
                raise
            # The partition's other log is used then. If only a descriptor was missing, a log may wait only if its state
            # is known.
            if has_other or not (is_refused or may_wait):
                self.take(key)
            return None

    def open(self, key: TopicPartition) -> PartitionLog:
        """Open a log and remove it from this collection.

        Raises LogOffline if it cannot be opened. If only a descriptor was missing, the caller may try again.
        """
        directory, stored, _ = unopened = self[key]
        problem = unopened.problem or ("the broker is shutting down" if self.closed else None)
        if problem is not None:
            raise LogOffline(stored.path, problem)
        try:
            log = load_log(directory, stored, self._cuts)
        except Exception as error:
            if isinstance(error, OSError) and not directory.is_only_missing_file(error):
                raise directory.fail(error) from error
            # Other errors take only this log offline: they must not fail other logs or the caller (rule D4).
            offline = LogOffline(stored.path, f"{type(error).__name__}: {error}")
            directory.remarks.append(f"A log is offline: {offline}")
            self[key] = unopened._replace(offline=offline.reason)
            raise offline from error
        self.take(key)
        if stored.in_order:
            self.found_in_order[key] = _found(stored)
        return log


def _found(stored: StoredLog) -> CleanState:
    return CleanState(stored.recovery_point, stored.log_start_offset, stored.state)
