"""Logs that wait to be opened: after a clean stop those that are in order, after any stop those for which there was no
descriptor, or which cannot be opened at all.

They are opened as at a start. A log that is in order by the names of its files takes a moment. If it turns out not to
be as its stop left it, it is repaired there and then, and clients wait for that as they would for a longer start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from storage.checkpoints import TopicPartition
from storage.errors import LogOffline
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog, UnopenedLog
from storage.recovery.clean_shutdown_manifest import ClosedLog, FoundInOrder
from storage.recovery.loading import load_log
from storage.recovery.segment import Cut


class UnopenedLogs(dict[TopicPartition, UnopenedLog]):
    """By topic and partition; each counts as one of its directory. `cuts` gets what is cut off them."""

    def __init__(self, cuts: list[Cut]) -> None:
        super().__init__()
        #: The broker has closed its logs: nothing is opened any more.
        self.closed = False
        #: Of those that were opened: how the start found each that was in order.
        self.found_in_order: dict[TopicPartition, FoundInOrder] = {}
        self._cuts = cuts

    @property
    def refused(self) -> dict[TopicPartition, LogOffline]:
        """The logs that cannot be opened, though their directory works, and why."""
        return {key: LogOffline(each.stored.path, each.offline) for key, each in self.items() if each.offline}

    def were_closed(self, directory: LogDirectory) -> bool:
        """Whether a clean stop has closed all of a directory: the others have still to be checked."""
        return all(each.stored.clean for each in self.values() if each.directory is directory)

    def left_by_stop(self, directory: LogDirectory, logs: Mapping[TopicPartition, PartitionLog]) -> Iterator[ClosedLog]:
        """All logs of a directory as a stop leaves them: those of `logs`, which are closed, and those that wait."""
        for key, log in logs.items():
            if log.directory is directory:
                yield ClosedLog(key, log.path, log.config, log.topic_id, self.found_in_order.get(key))
        for key, (its_directory, stored, _) in self.items():
            if its_directory is directory:
                found = _found(stored) if stored.in_order else None
                yield ClosedLog(key, stored.path, stored.config, stored.topic_id, found)

    def put(self, directory: LogDirectory, stored: StoredLog) -> None:
        """Add a log that waits."""
        key = stored.topic, stored.partition
        self.take(key)
        self[key] = UnopenedLog(directory, stored)
        directory.log_count += 1

    def take(self, key: TopicPartition) -> UnopenedLog | None:
        """Take out a log that waits; None where none does."""
        unopened = self.pop(key, None)
        if unopened is not None:
            unopened.directory.log_count -= 1
        return unopened

    def open(self, key: TopicPartition) -> PartitionLog:
        """Open a log that waits, and take it out. LogOffline: it cannot be opened, or not now.

        What a lack of descriptors has prevented may be tried again.
        """
        directory, stored, _ = unopened = self[key]
        problem = unopened.problem or ("the broker stops" if self.closed else None)
        if problem is not None:
            raise LogOffline(stored.path, problem)
        try:
            log = load_log(directory, stored, self._cuts)
        except Exception as error:
            if isinstance(error, OSError) and not directory.is_there_without(error):
                raise directory.fail(error) from error
            # Whatever else it is: the others, and who looks at it, are not to fail with it (D4).
            offline = LogOffline(stored.path, f"{type(error).__name__}: {error}")
            directory.remarks.append(f"A log is offline: {offline}")
            self[key] = unopened._replace(offline=offline.reason)
            raise offline from error
        self.take(key)
        if stored.in_order:
            self.found_in_order[key] = _found(stored)
        return log


def _found(stored: StoredLog) -> FoundInOrder:
    return FoundInOrder(stored.recovery_point, stored.log_start_offset, stored.state)
