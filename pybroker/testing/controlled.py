"""What a test can do to a running broker but stop it: spoil answers, move its clock, hurry its background work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from typing import Any


class Controlled(ABC):
    """Faults, time and background work of a broker. All raise BrokerError where it is not running, or refuses.

    APIs are called what the protocol calls them, such as `Produce`, `Fetch`, `JoinGroup` or `InitProducerId`; errors,
    too, such as `NOT_LEADER_OR_FOLLOWER`. Faults for one API come in the order in which they are ordered, for requests
    of all clients alike, and a restart forgets them.
    """

    _moved_on_ms = 0

    @abstractmethod
    def _ask(self, command: str, **arguments: object) -> Any:
        """Have the process carry out a command of broker/control/commands.py."""

    # ---- faults

    def delay(self, api: str, seconds: float, count: int = 1) -> None:
        """Serve the next `count` requests of an API so much later; their connections wait as long."""
        self._ask("delay", api=api, delay_ms=round(seconds * 1000), count=count)

    def fail_next(self, api: str, error: str, count: int = 1) -> None:
        """Answer the next `count` requests of an API with an error, and do nothing of what they ask for."""
        self._ask("fail_next", api=api, error=error, count=count)

    def disconnect_next(self, api: str, count: int = 1, *, carried_out: bool = False) -> None:
        """Close the connection at each of the next `count` requests of an API, instead of an answer.

        Args:
            carried_out: do first what they ask for, so that only the answer is lost.
        """
        self._ask("disconnect_next", api=api, count=count, carried_out=carried_out)

    def clear_faults(self) -> None:
        """Forget the faults that have not come yet."""
        self._ask("clear_faults")

    def fence(self, transactional_id: str) -> None:
        """Fence the producer that has a transactional id, as another one does that begins with it."""
        self._ask("fence", transactional_id=transactional_id)

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
        """Let so much time have passed for the broker, and return its new time. It keeps that through restarts.

        What is due by then comes at once: sessions of consumers that were not heard of end, transactions time out,
        requests that wait are answered.

        Args:
            deadlines: False moves the time of day alone, by which records and offsets expire: sessions, timeouts and
                timers go on as if no time had passed.
        """
        by = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        milliseconds = by // timedelta(milliseconds=1)
        now_ms = self._ask("move_time_on", milliseconds=milliseconds, deadlines=deadlines)
        self._moved_on_ms += milliseconds
        return datetime.fromtimestamp(now_ms / 1000, UTC)

    # ---- background work, now

    def run_retention(self) -> None:
        """Delete what retention.ms and retention.bytes do not keep, of all topics. Returns when it is gone."""
        self._ask("run_retention")

    def roll(self, topic: str, partition: int | None = None) -> None:
        """Close the segment that is written to, of one partition or of all, and begin the next."""
        self._ask("roll", topic=topic, partition=partition)

    def clean(self, topic: str) -> None:
        """Compact a topic now, all that it has but what min.compaction.lag.ms keeps. Returns when it is done."""
        self._ask("clean", topic=topic)
