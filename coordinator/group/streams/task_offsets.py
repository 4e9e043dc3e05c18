"""The offsets of tasks that members of a streams group report: how much of a task's state each of them has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from coordinator.group.modern.checks import bad_request
from protocol.schema import Struct

#: Subtopology id -> partition -> offset.
Offsets: TypeAlias = Mapping[str, Mapping[int, int]]

NONE: Offsets = MappingProxyType({})


class TaskOffsets(msgspec.Struct, frozen=True):
    """The positions of a member's tasks in their changelogs, summed up by task, and the ends of these."""

    offsets: Offsets = NONE
    end_offsets: Offsets = NONE

    def updated(self, request: Struct) -> TaskOffsets:
        """Return the offsets after a heartbeat, which may leave out either kind.

        Raises Refused: INVALID_REQUEST for a task that is named twice.
        """
        if request.task_offsets is None and request.task_end_offsets is None:
            return self
        return TaskOffsets(
            self.offsets if request.task_offsets is None else by_task(request.task_offsets),
            self.end_offsets if request.task_end_offsets is None else by_task(request.task_end_offsets),
        )


def by_task(reported: Iterable[Struct]) -> Offsets:
    """Return reported offsets by task. Raises Refused: INVALID_REQUEST."""
    found: dict[str, dict[int, int]] = {}
    for each in reported:
        offsets = found.setdefault(each.subtopology_id, {})
        if each.partition in offsets:
            raise bad_request(
                f"Task offsets contain a duplicate entry for subtopology {each.subtopology_id} and partition"
                f" {each.partition}."
            )
        offsets[each.partition] = each.offset
    return found
