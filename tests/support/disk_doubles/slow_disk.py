"""A disk that is slow, or fails, for the partitions of one topic: flushes end when a test releases them."""

from __future__ import annotations

from runtime.deferred import Deferred
from storage.errors import LogOffline
from storage.log.partition_log import PartitionLog
from tests.support.data_broker import DataBroker


class SlowDisk:
    """From now on flushes of the topic wait for `release`, or for `fail`."""

    def __init__(self, broker: DataBroker, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        self._flush = broker.background.flush
        self._waiting: list[tuple[PartitionLog, Deferred[None]]] = []
        broker.background.flush = self._wait  # type: ignore[method-assign]

    def __len__(self) -> int:
        """Return how many flushes wait."""
        return len(self._waiting)

    def _wait(self, partition_log: PartitionLog) -> Deferred[None]:
        if partition_log.topic != self._topic:
            return self._flush(partition_log)
        waiting: Deferred[None] = Deferred()
        self._waiting.append((partition_log, waiting))
        return waiting

    def release(self) -> None:
        """Complete all waiting flushes; later ones are fast."""
        self._broker.background.flush = self._flush  # type: ignore[method-assign]
        for log, waiting in self._take():
            self._flush(log).add_done_callback(lambda _, waiting=waiting: waiting.resolve(None))  # type: ignore[misc]
        self._broker.settle()

    def fail(self) -> None:
        """Fail all waiting flushes, although the disk still works: for example no descriptor was left."""
        for log, waiting in self._take():
            waiting.fail(LogOffline(log.path, "too many open files"))
        self._broker.settle()

    def _take(self) -> list[tuple[PartitionLog, Deferred[None]]]:
        taken, self._waiting = self._waiting, []
        return taken
