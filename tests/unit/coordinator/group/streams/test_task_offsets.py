"""Offsets of tasks, which members of streams groups report (KIP-1071)."""

from __future__ import annotations

from typing import Any

from coordinator.group.streams.task_offsets import TaskOffsets
from protocol.error_codes import ErrorCode
from protocol.messages.streams_group_heartbeat import TaskOffset
from tests.support.streams_groups import StreamsHarness


def offsets(*reported: tuple[str, int, int]) -> list[Any]:
    return [TaskOffset(subtopology_id=each, partition=partition, offset=offset) for each, partition, offset in reported]


def test_either_kind_may_be_left_out(h: StreamsHarness) -> None:
    h.enter_streams("a")
    h.follow("a", task_offsets=offsets(("0", 1, 7)), task_end_offsets=offsets(("0", 1, 9)))
    h.follow("a", task_end_offsets=offsets(("0", 1, 10), ("1", 0, 0)))
    h.follow("a")
    assert h.group.offsets_of("a") == TaskOffsets({"0": {1: 7}}, {"0": {1: 10}, "1": {0: 0}})
    h.follow("a", task_offsets=[])
    assert h.group.offsets_of("a").offsets == {}
    h.beat("a", -1)
    assert h.group.soft.task_offsets == {}


def test_no_task_is_named_twice(h: StreamsHarness) -> None:
    h.enter_streams("a")
    twice = offsets(("0", 1, 7), ("1", 1, 7), ("0", 1, 8))
    for fields in ({"task_offsets": twice}, {"task_end_offsets": twice}):
        answer = h.follow("a", **fields)
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "Task offsets contain a duplicate entry for subtopology 0 and partition 1.",
        )
    assert h.group.soft.task_offsets == {}
