"""Internal topics of streams groups (KIP-1071): the broker makes them, since applications only say what they need.

Nobody waits for a topic: members ask again with their next heartbeat. What went wrong is told for two heartbeats, and
not tried again before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from coordinator.group.streams.topology import TopicInfo
from metadata.create_topics import USE_DEFAULT, NewTopic, NewTopicResult
from protocol.errors import ErrorCode
from runtime.log_limit import LimitedLog

if TYPE_CHECKING:
    from controller.controller import Controller
    from runtime.deferred import Deferred

log = logging.getLogger(__name__)
failure_log = LimitedLog(log)

#: How many failures an answer tells.
TOLD = 3
#: How many failures are remembered; beyond that the oldest are forgotten.
REMEMBERED = 1_000


class StreamsTopics:
    """Makes topics, and remembers which could not be made.

    Args:
        now_ms: a monotonic clock.
    """

    def __init__(self, controller: Controller, now_ms: Callable[[], float]) -> None:
        self._controller = controller
        self._now_ms = now_ms
        self._failures: dict[str, tuple[str, float]] = {}  # topic -> why, and until when that is told
        self._under_way: set[str] = set()

    def create(self, wanted: Mapping[str, TopicInfo], told_for_ms: int) -> None:
        """Make those of the topics that are not being made and have not just failed."""
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
                    self._fail(name, str(error), told_for_ms)
                return
            for result in results:
                if result.error_code is not ErrorCode.NONE:
                    self._fail(result.name, result.error_message or result.error_code.text, told_for_ms)

        created.add_done_callback(finish)

    def failures(self, names: Iterable[str]) -> dict[str, str]:
        """Why topics could not be made, by topic."""
        return {name: why for name in names if (why := self._failure_of(name)) is not None}

    def _failure_of(self, name: str) -> str | None:
        why, until_ms = self._failures.get(name, ("", 0))
        return why if self._now_ms() < until_ms else None

    def _fail(self, name: str, why: str, told_for_ms: int) -> None:
        failure_log.warning("Topic %s of a streams group is not made: %s", name, why)
        self._failures.pop(name, None)
        self._failures[name] = why, self._now_ms() + told_for_ms
        if len(self._failures) > REMEMBERED:
            del self._failures[next(iter(self._failures))]


def new_topic(topic: TopicInfo) -> NewTopic:
    """The topic as it is to be made."""
    return NewTopic(topic.name, topic.partitions, topic.replication_factor or USE_DEFAULT, configs=dict(topic.configs))


def told(failures: Mapping[str, str]) -> str:
    """Failures as an answer tells them."""
    listed = ", ".join(f"{name} ({why})" for name, why in list(failures.items())[:TOLD])
    return listed + (f" and {len(failures) - TOLD} more" if len(failures) > TOLD else "")
