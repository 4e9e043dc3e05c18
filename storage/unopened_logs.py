"""Logs that wait to be opened: after a clean stop all that are in order, at any start those for which there was no
descriptor, or which cannot be opened at all.

While clients are served, only what is as a clean stop leaves it is opened here: that takes a moment and writes nothing.
What turns out to be otherwise is repaired beside the loop (`Repairs`), and is offline until then. Without anybody for
that, as before the ports are open, it is repaired at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from storage.checkpoints import LOCK, TopicPartition
from storage.errors import EndNotFound, LogOffline, NotInOrder
from storage.log.directory import LogDirectory
from storage.log.partition import PartitionLog
from storage.log.stored_log import StoredLog, UnopenedLog
from storage.recovery.job import Recovered, RecoveryJob
from storage.recovery.loading import load_log
from storage.recovery.order import open_in_order
from storage.recovery.segment import Cut


class Repairs(Protocol):
    """Who has logs repaired, and tells `UnopenedLogs.end_repair` afterwards."""

    def begin(self, key: TopicPartition, job: RecoveryJob) -> None: ...

    def abandon(self, key: TopicPartition) -> None:
        """Nobody may touch the log's files from now on; nothing is told. It need not be in repair."""


class UnopenedLogs(dict[TopicPartition, UnopenedLog]):
    """By topic and partition; each counts as one of its directory. `cuts` gets what repairs have cut off."""

    def __init__(self, cuts: list[Cut]) -> None:
        super().__init__()
        self.repairs: Repairs | None = None
        #: The broker has closed its logs: nothing is opened any more.
        self.closed = False
        self._cuts = cuts
        self._in_repair: set[TopicPartition] = set()

    @property
    def refused(self) -> dict[TopicPartition, LogOffline]:
        """Those that cannot be opened, though their directory works, and why."""
        return {key: LogOffline(each.stored.path, each.offline) for key, each in self.items() if each.offline}

    def is_in_repair(self, directory: LogDirectory) -> bool:
        """Whether one of the directory is: nobody knows how far."""
        return any(self[key].directory is directory for key in self._in_repair)

    def put(self, directory: LogDirectory, stored: StoredLog) -> None:
        """Have one wait."""
        key = stored.topic, stored.partition
        self.take(key)
        self[key] = UnopenedLog(directory, stored)
        directory.log_count += 1

    def take(self, key: TopicPartition) -> UnopenedLog | None:
        """Have one wait no more."""
        unopened = self.pop(key, None)
        self._in_repair.discard(key)
        if unopened is not None:
            unopened.directory.log_count -= 1
            if self.repairs is not None:
                self.repairs.abandon(key)
        return unopened

    def open(self, key: TopicPartition) -> PartitionLog:
        """One that waits, opened: it waits no more. LogOffline: it cannot be opened, or not now.

        What a lack of descriptors has prevented may be tried again.
        """
        directory, stored, _ = unopened = self[key]
        problem = unopened.problem or ("the broker stops" if self.closed else None)
        if problem is not None:
            raise LogOffline(stored.path, problem)
        try:
            log = self._load(directory, stored)
        except FileNotFoundError as error:
            if directory.fs.exists(f"{directory.path}/{LOCK}"):  # what is gone is this log, not the disk
                raise self._refuse(key, error) from error
            raise directory.fail(error) from error
        except OSError as error:
            raise directory.fail(error) from error
        except NotInOrder as error:
            raise self._repair(key, error) from error
        except Exception as error:  # whatever it is: the others, and who looks at it, are not to fail with it (D4)
            raise self._refuse(key, error) from error
        self.take(key)
        return log

    def _load(self, directory: LogDirectory, stored: StoredLog) -> PartitionLog:
        if not stored.recovered:
            try:
                return open_in_order(directory, stored)
            except NotInOrder:
                if self.repairs is not None:
                    raise
        return load_log(directory, stored, self._cuts)

    def _repair(self, key: TopicPartition, found: NotInOrder) -> LogOffline:
        assert self.repairs is not None
        directory, stored, _ = self[key]
        is_whole = isinstance(found, EndNotFound)
        until = "a worker has found that" if is_whole else "it is repaired"
        directory.remarks.append(f"{found}: it is offline until {until}")
        state = "a worker looks for its end" if is_whole else "it is being repaired"
        self[key] = UnopenedLog(directory, stored, f"{state}: {found.reason}")
        self._in_repair.add(key)
        # As after an unclean stop: from the segment of the recovery point on, all that is derived is made anew.
        self.repairs.begin(key, RecoveryJob(directory.path, replace(stored, clean=False), size_bytes=0))
        return LogOffline(stored.path, found.reason)

    def end_repair(self, key: TopicPartition, outcome: Recovered | Exception) -> None:
        """Take over what became of a repair: the log may be opened, or is offline for good, or its directory is."""
        directory, stored, _ = self[key]
        self._in_repair.discard(key)
        if isinstance(outcome, Recovered):
            self._cuts += outcome.cuts
            directory.remarks += outcome.remarks
            self[key] = UnopenedLog(directory, replace(stored, clean=False, recovered=True))
        elif isinstance(outcome, OSError):
            directory.fail(outcome)
            self.wait_again(key)  # if it was for want of descriptors
        else:
            self._refuse(key, outcome)

    def wait_again(self, key: TopicPartition) -> None:
        """A repair has come to nothing: the log may be opened, which begins another."""
        self._in_repair.discard(key)
        self[key] = self[key]._replace(offline=None)

    def _refuse(self, key: TopicPartition, error: Exception) -> LogOffline:
        directory, stored, _ = self[key]
        refused = LogOffline(stored.path, f"{type(error).__name__}: {error}")
        directory.remarks.append(f"A log is offline: {refused}")
        self[key] = UnopenedLog(directory, stored, refused.reason)
        return refused
