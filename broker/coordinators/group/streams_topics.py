"""Internal topics of streams groups (KIP-1071). Applications only name what they need, and the broker creates it.

No request waits for a topic: members ask again with their next heartbeat. A failure is reported for two heartbeats,
and the topic is not retried before that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from metadata.create_topics import USE_DEFAULT, NewTopic, NewTopicResult
from protocol.error_codes import ErrorCode
from runtime.log_limit import LimitedLog

if TYPE_CHECKING:
    from coordinator.group.streams.topology import TopicInfo
    from runtime.deferred import Deferred

log = logging.getLogger(__name__)
failure_log = LimitedLog(log)

#: How many failures a response reports.
REPORTED = 3
#: How many failures are remembered. Beyond that the oldest are dropped.
REMEMBERED = 1_000


class TopicController(Protocol):
    """Creates topics."""

    def create_topics(self, topics: Sequence[NewTopic]) -> Deferred[list[NewTopicResult]]:
        """Create topics, each on its own. Resolves to a result for each."""


class StreamsTopics:
    """Creates topics, and remembers which could not be created.

    Args:
        now_ms: a monotonic clock.
    """

    def __init__(self, controller: TopicController, now_ms: Callable[[], float]) -> None:
        self._controller = controller
        self._now_ms = now_ms
        self._failures: dict[str, tuple[str, float]] = {}  # topic -> reason, and the time until which it is reported
        self._under_way: set[str] = set()

    def create(self, wanted: Mapping[str, TopicInfo], report_for_ms: int) -> None:
        """Create the wanted topics, except those that are being created or have just failed."""
        topics = [
            topic for name, topic in wanted.items() if name not in self._under_way and self._failure_of(name) is None
        ]
        if not topics:
            return
        created = self._controller.create_topics([new_topic(topic) for topic in topics])
        names = [topic.name for topic in topics]
        self._under_way.update(names)

        def finish(done: Deferred[list[NewTopicResult]]) -> None:
            self._under_way.difference_update(names)
            try:
                results = done.result()
            except Exception as error:
                for name in names:
                    self._fail(name, str(error), report_for_ms)
                return
            for result in results:
                if result.error_code is not ErrorCode.NONE:
                    self._fail(result.name, result.error_message or result.error_code.text, report_for_ms)

        created.add_done_callback(finish)

    def failures(self, names: Iterable[str]) -> dict[str, str]:
        """Return why topics could not be created, by topic."""
        return {name: why for name in names if (why := self._failure_of(name)) is not None}

    def _failure_of(self, name: str) -> str | None:
        why, until_ms = self._failures.get(name, ("", 0))
        return why if self._now_ms() < until_ms else None

    def _fail(self, name: str, why: str, report_for_ms: int) -> None:
        failure_log.warning("Topic %s of a streams group cannot be created: %s", name, why)
        self._failures.pop(name, None)
        self._failures[name] = why, self._now_ms() + report_for_ms
        if len(self._failures) > REMEMBERED:
            del self._failures[next(iter(self._failures))]


def new_topic(topic: TopicInfo) -> NewTopic:
    """Return the topic to create."""
    return NewTopic(topic.name, topic.partitions, topic.replication_factor or USE_DEFAULT, configs=dict(topic.configs))


def failure_text(failures: Mapping[str, str]) -> str:
    """Return the text by which a response reports failures."""
    listed = ", ".join(f"{name} ({why})" for name, why in list(failures.items())[:REPORTED])
    return listed + (f" and {len(failures) - REPORTED} more" if len(failures) > REPORTED else "")
