"""AssignReplicasToDirs requests."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.assign_replicas_to_dirs import (
    ASSIGN_REPLICAS_TO_DIRS,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from protocol.schema import Struct
from replication.directory_assignments import MOST_ASSIGNMENTS, DirectoryAssignments

TOPIC, FIRST, SECOND = bytes(15) + b"\x09", bytes([1]) * 16, bytes([2]) * 16


def response(*codes: tuple[bytes, int, int], error_code: int = 0) -> Struct:
    """Return a response with an error code for each directory and partition."""
    directories = [
        ResponseDirectoryData(
            id=directory,
            topics=[
                ResponseTopicData(
                    topic_id=TOPIC, partitions=[ResponsePartitionData(partition_index=index, error_code=code)]
                )
            ],
        )
        for directory, index, code in codes
    ]
    return ASSIGN_REPLICAS_TO_DIRS.response(error_code=error_code, directories=directories)


def assigned(request: Struct | None) -> dict[int, bytes]:
    """Return the directory of each partition in a request."""
    assert request is not None
    return {
        each.partition_index: directory.id
        for directory in request.directories
        for topic in directory.topics
        for each in topic.partitions
    }


@pytest.fixture
def done() -> list[int]:
    return []


@pytest.fixture
def assignments(done: list[int]) -> DirectoryAssignments:
    made = DirectoryAssignments(1)
    made.assign((TOPIC, 0), FIRST, lambda: done.append(0))
    made.assign((TOPIC, 1), SECOND, lambda: done.append(1))
    return made


def test_request_has_all_that_waits(assignments: DirectoryAssignments, done: list[int]) -> None:
    request = assignments.next_request(55)
    assert request is not None
    assert (request.broker_id, request.broker_epoch) == (1, 55)
    assert assigned(request) == {0: FIRST, 1: SECOND}
    assert assignments.next_request(55) is None
    assignments.answered(response((FIRST, 0, 0), (SECOND, 1, 0)))
    assert done == [0, 1]
    assert len(assignments) == 0


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_replica_that_is_gone_is_finished(assignments: DirectoryAssignments, done: list[int], code: ErrorCode) -> None:
    assignments.next_request(55)
    assignments.answered(response((FIRST, 0, code), (SECOND, 1, ErrorCode.UNKNOWN_SERVER_ERROR)))
    assert done == [0]
    assert assigned(assignments.next_request(56)) == {1: SECOND}


def test_failed_request_is_sent_again(assignments: DirectoryAssignments, done: list[int]) -> None:
    """A newer assignment of the same replica takes the place of the one that was sent."""
    assignments.next_request(55)
    assignments.assign((TOPIC, 0), SECOND)
    assignments.answered(response(error_code=ErrorCode.STALE_BROKER_EPOCH))
    assert assigned(assignments.next_request(55)) == {0: SECOND, 1: SECOND}
    assignments.failed()
    assert len(assignments) == 2
    assert done == []


def test_answer_for_another_directory_finishes_nothing(assignments: DirectoryAssignments, done: list[int]) -> None:
    assignments.next_request(55)
    assignments.answered(response((SECOND, 0, 0), (SECOND, 1, 0)))
    assert done == [1]
    assert assigned(assignments.next_request(55)) == {0: FIRST}


def test_request_has_a_limit() -> None:
    assignments = DirectoryAssignments(1)
    for index in range(MOST_ASSIGNMENTS + 5):
        assignments.assign((TOPIC, index), FIRST)
    assert len(assigned(assignments.next_request(55))) == MOST_ASSIGNMENTS
    assignments.answered(response(*((FIRST, index, 0) for index in range(MOST_ASSIGNMENTS))))
    assert len(assigned(assignments.next_request(55))) == 5
