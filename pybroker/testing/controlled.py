"""Control a running node from a test: inject faults, move its clock, run the background work of a broker now."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from typing import Any


class Controlled(ABC):
    """Faults and clock of a node. All methods raise BrokerError if it does not run, or refuses.

    APIs and errors have the protocol's names, such as `Produce`, `JoinGroup`, `NOT_LEADER_OR_FOLLOWER`. Faults of one
    API apply to requests of all clients, in the order in which they were added. A restart removes them.

    Of a node that is broker and controller, `controller=True` fails requests to its controller listeners; other faults
    are those of its other listeners.
    """

    _moved_on_ms = 0

    @abstractmethod
    def _ask(self, command: str, **arguments: object) -> Any:
        """Run a command of broker/control/ in the node's process."""

    # ---- faults

    def delay(self, api: str, seconds: float, count: int = 1, *, controller: bool = False) -> None:
        """Delay the next `count` requests of an API. Their connections wait as long."""
        self._ask("delay", api=api, delay_ms=round(seconds * 1000), count=count, controller=controller)

    def fail_next(self, api: str, error: str, count: int = 1, *, controller: bool = False) -> None:
        """Fail the next `count` requests of an API with an error, without executing them."""
        self._ask("fail_next", api=api, error=error, count=count, controller=controller)

    def disconnect_next(self, api: str, count: int = 1, *, carried_out: bool = False, controller: bool = False) -> None:
        """Close the connection instead of responding, for the next `count` requests of an API.

        Args:
            carried_out: execute the requests first, so that only the response is lost.
        """
        self._ask("disconnect_next", api=api, count=count, carried_out=carried_out, controller=controller)

    def clear_faults(self) -> None:
        """Remove all faults that have not happened yet."""
        self._ask("clear_faults")

    # ---- time

    def move_time_on(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        deadlines: bool = True,
    ) -> datetime:
        """Move the node's clock forward, and return its new time. Restarts keep the difference.

        Everything that is due by then happens at once: sessions of silent consumers expire, transactions time out,
        waiting requests complete. A controller does not fence brokers because of it.

        Args:
            deadlines: False moves only the time of day, by which records and offsets expire. Sessions, timeouts and
                timers do not change.
        """
        by = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        milliseconds = by // timedelta(milliseconds=1)
        now_ms = self._ask("move_time_on", milliseconds=milliseconds, deadlines=deadlines)
        self._moved_on_ms += milliseconds
        return datetime.fromtimestamp(now_ms / 1000, UTC)


class ControlledBroker(Controlled):
    """Producers and background work of a broker, besides what every node has."""

    def fence(self, transactional_id: str) -> None:
        """Fence the producer of a transactional id, as a new producer with this id would."""
        self._ask("fence", transactional_id=transactional_id)

    # ---- background work, now

    def run_retention(self) -> None:
        """Apply retention.ms and retention.bytes to all topics now. Returns once the segments are deleted."""
        self._ask("run_retention")

    def roll(self, topic: str, partition: int | None = None) -> None:
        """Roll the active segment of one partition, or of all."""
        self._ask("roll", topic=topic, partition=partition)

    def clean(self, topic: str) -> None:
        """Compact a topic now, except what min.compaction.lag.ms protects. Returns once it is compacted."""
        self._ask("clean", topic=topic)
