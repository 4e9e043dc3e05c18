"""AlterPartition requests: one in flight, and what each answer means."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition import ALTER_PARTITION, ResponsePartitionData, ResponseTopicData
from protocol.schema import Struct
from replication.isr_changes import IsrChanges, Outcome
from replication.leading import Proposal

TOPIC, OTHER = bytes(15) + b"\x01", bytes(15) + b"\x02"
PROPOSAL = Proposal(((1, 101), (2, 102)), 5, 7)


def response(*found: tuple[bytes, int, int], error_code: int = 0, **fields: Any) -> Struct:
    """Return a response with an error code for each partition."""
    topics = [
        ResponseTopicData(
            topic_id=topic,
            partitions=[ResponsePartitionData(partition_index=index, error_code=code, **fields)],
        )
        for topic, index, code in found
    ]
    return ALTER_PARTITION.response(error_code=error_code, topics=topics)


@pytest.fixture
def changes() -> IsrChanges:
    made = IsrChanges(1)
    made.propose((TOPIC, 0), PROPOSAL)
    return made


def test_request_has_all_proposals(changes: IsrChanges) -> None:
    changes.propose((TOPIC, 3), PROPOSAL)
    changes.propose((OTHER, 0), Proposal(((1, 101),), 2, 0))
    request = changes.next_request(101)
    assert request is not None
    assert (request.broker_id, request.broker_epoch) == (1, 101)
    assert [(each.topic_id, [part.partition_index for part in each.partitions]) for each in request.topics] == [
        (TOPIC, [0, 3]),
        (OTHER, [0]),
    ]
    sent = request.topics[0].partitions[0]
    assert (sent.leader_epoch, sent.partition_epoch) == (5, 7)
    assert [(each.broker_id, each.broker_epoch) for each in sent.new_isr_with_epochs] == [(1, 101), (2, 102)]
    again, _ = ALTER_PARTITION.request.decode(3, ALTER_PARTITION.request.encode(3, request))
    assert again.topics[0].partitions[0].new_isr_with_epochs == sent.new_isr_with_epochs


def test_one_request_at_a_time(changes: IsrChanges) -> None:
    assert changes.next_request(101) is not None
    changes.propose((TOPIC, 1), PROPOSAL)
    assert changes.in_flight
    assert changes.next_request(101) is None
    (answer,) = changes.answered(response((TOPIC, 0, 0), leader_epoch=5, partition_epoch=8, isr=[1, 2]))
    assert answer == ((TOPIC, 0), PROPOSAL, Outcome.COMMITTED, 0, (1, 2), 5, 8)
    request = changes.next_request(101)
    assert request is not None
    assert [part.partition_index for part in request.topics[0].partitions] == [1]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, Outcome.REFUSED),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, Outcome.REFUSED),
        (ErrorCode.FENCED_LEADER_EPOCH, Outcome.SUPERSEDED),
        (ErrorCode.INVALID_UPDATE_VERSION, Outcome.SUPERSEDED),
        (ErrorCode.INVALID_REQUEST, Outcome.SUPERSEDED),
        (ErrorCode.NEW_LEADER_ELECTED, Outcome.SUPERSEDED),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Outcome.SUPERSEDED),
        (ErrorCode.UNKNOWN_TOPIC_ID, Outcome.SUPERSEDED),
    ],
)
def test_final_errors(changes: IsrChanges, code: ErrorCode, outcome: Outcome) -> None:
    changes.next_request(101)
    (answer,) = changes.answered(response((TOPIC, 0, code)))
    assert (answer.outcome, answer.error_code) == (outcome, code)
    assert len(changes) == 0


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_temporary_errors_are_tried_again(changes: IsrChanges, code: ErrorCode) -> None:
    changes.next_request(101)
    assert changes.answered(response((TOPIC, 0, code))) == []
    assert changes.next_request(101) is not None


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER])
def test_error_of_the_request_tells_nothing(changes: IsrChanges, code: ErrorCode) -> None:
    changes.next_request(101)
    assert changes.answered(response(error_code=code)) == []
    request = changes.next_request(202)
    assert request is not None
    assert request.broker_epoch == 202


def test_partition_without_answer_is_tried_again(changes: IsrChanges) -> None:
    changes.next_request(101)
    assert changes.answered(response((OTHER, 0, 0))) == []
    assert len(changes) == 1


def test_lost_request_is_sent_again(changes: IsrChanges) -> None:
    """A newer proposal of the same partition takes its place."""
    changes.next_request(101)
    newer = PROPOSAL._replace(leader_epoch=6)
    changes.propose((TOPIC, 0), newer)
    changes.failed()
    assert len(changes) == 1
    request = changes.next_request(101)
    assert request is not None
    assert request.topics[0].partitions[0].leader_epoch == 6


def test_forgotten_partition_is_not_sent(changes: IsrChanges) -> None:
    changes.forget((TOPIC, 0))
    assert changes.next_request(101) is None
