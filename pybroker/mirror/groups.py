"""Copy the committed offsets of groups. They are valid in the copy, so a group continues there where it was."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Place, Session, failed
from pybroker.cli.groups import committed_offsets

_WITH_OFFSETS = {"CLASSIC", "CONSUMER"}


class MoveResult(NamedTuple):
    """The result for a group: the number of offsets written, or why none was."""

    group: str
    offsets: int
    problem: str | None


class GroupOffsets:
    """Writes the offsets of the source's groups to the copy, up to the records that it has.

    A group may use the copy already, so its offset moves back only if this class wrote it.
    """

    def __init__(self, source: Session, target: Session, pattern: re.Pattern[str] | None) -> None:
        self._source = source
        self._target = target
        self._pattern = pattern
        self._written: dict[tuple[str, Place], int] = {}

    def copy(self, reached: Mapping[Place, int]) -> list[MoveResult]:
        """Copy the offsets of all groups once. `reached`: the end of the copy by partition. Raises CommandError."""
        listed = self._source.wait(self._source.admin.list_consumer_groups(request_timeout=self._source.timeout_s))
        names = sorted(
            each.group_id
            for each in listed.valid
            if each.type.name in _WITH_OFFSETS and (self._pattern is None or self._pattern.fullmatch(each.group_id))
        )
        return [moved for name in names if (moved := self._copy_one(name, reached)) is not None]

    def _copy_one(self, group: str, reached: Mapping[Place, int]) -> MoveResult | None:
        offsets = {
            place: min(offset, reached[place])
            for place, offset in committed_offsets(self._source, group).items()
            if place in reached
        }
        offsets = {place: offset for place, offset in offsets.items() if self._written.get((group, place)) != offset}
        if not offsets:
            return None
        there = committed_offsets(self._target, group)
        wanted = {
            place: offset
            for place, offset in offsets.items()
            if there.get(place) != offset
            and (there.get(place, -1) < offset or there[place] == self._written.get((group, place)))
        }
        problem = self._write(group, wanted) if wanted else None
        if problem is None:
            self._written.update({(group, place): offset for place, offset in offsets.items()})
        return MoveResult(group, len(wanted), problem) if wanted else None

    def _write(self, group: str, offsets: Mapping[Place, int]) -> str | None:
        """Write the offsets of a group; return why they were refused, mostly because it has members at the copy."""
        wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, wanted)]
        (future,) = self._target.admin.alter_consumer_group_offsets(
            request, request_timeout=self._target.timeout_s
        ).values()
        try:
            answer = self._target.wait(future, group)
        except CommandError as error:
            return str(error)
        for each in answer.topic_partitions:
            if each.error is not None:
                return str(failed(KafkaException(each.error), f"{group}: {each.topic}-{each.partition}"))
        return None
