"""A line of the log for the partitions that this broker begins or ceases to lead, as in Kafka's state-change log."""

from __future__ import annotations

import logging

from metadata.partition_registration import PartitionRegistration

log = logging.getLogger(__name__)

#: How many partitions a line names.
_NAMED = 10


class LeadershipMoves:
    """The moves of one change of the metadata. An election of thousands of partitions is one short line."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._gained: list[str] = []
        self._lost: list[str] = []

    def note(self, topic: str, index: int, before: PartitionRegistration | None, after: PartitionRegistration) -> None:
        """Note a change of a partition; `before` is None for a partition that is new here, which has not moved."""
        if before is None or (before.leader == self._node_id) == (after.leader == self._node_id):
            return
        (self._gained if after.leader == self._node_id else self._lost).append(f"{topic}-{index}")

    def report(self) -> None:
        """Log the moves since the last call."""
        if self._gained or self._lost:
            log.info("Leadership moved: to this broker %s; from it %s", _text(self._gained), _text(self._lost))
            self._gained, self._lost = [], []


def _text(partitions: list[str]) -> str:
    if not partitions:
        return "0"
    more = f" and {len(partitions) - _NAMED} more" if len(partitions) > _NAMED else ""
    return f"{len(partitions)} ({', '.join(partitions[:_NAMED])}{more})"
