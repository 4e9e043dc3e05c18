"""ListOffsets of a new leader that does not know yet what is committed (KIP-207)."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from tests.support.held_appends import batch
from tests.unit.broker.replication.leading_broker import REGISTERED, LeadingBroker

LATEST, EARLIEST = -1, -2
CONSUMER, FOLLOWER = -1, 2


def ask(broker: LeadingBroker, timestamp: int, version: int = 5, replica_id: int = CONSUMER) -> tuple[ErrorCode, int]:
    """Return the error code and the offset of an answer."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = [ListOffsetsTopic(name="t", partitions=[wanted])]
    answer = broker.call(LIST_OFFSETS, version, replica_id=replica_id, topics=topics).topics[0].partitions[0]
    return ErrorCode(answer.error_code), answer.offset


@pytest.fixture
def elected(broker: LeadingBroker) -> LeadingBroker:
    """Three records were committed when the leader was elected again; its high watermark lacks three others."""
    for _ in range(2):
        broker.produce(batch(3))
    for follower in (2, 3):
        broker.follow(follower, 3)
    broker.partition.lead_again(REGISTERED._replace(leader_epoch=5))
    return broker


@pytest.mark.parametrize(
    ("version", "code"), [(1, ErrorCode.LEADER_NOT_AVAILABLE), (4, ErrorCode.LEADER_NOT_AVAILABLE)]
    + [(version, ErrorCode.OFFSET_NOT_AVAILABLE) for version in (5, 9, 11)],
)  # fmt: skip
def test_the_end_is_not_known_until_the_epoch_has_begun(elected: LeadingBroker, version: int, code: ErrorCode) -> None:
    assert ask(elected, LATEST, version) == (code, -1)
    elected.follow(2, 5, leader_epoch=5)
    elected.follow(3, 6, leader_epoch=5)
    assert ask(elected, LATEST, version) == (code, -1)
    elected.follow(2, 6, leader_epoch=5)
    assert ask(elected, LATEST, version) == (ErrorCode.NONE, 6)


def test_what_is_committed_for_certain_is_found(elected: LeadingBroker) -> None:
    assert ask(elected, EARLIEST) == (ErrorCode.NONE, 0)
    assert ask(elected, 0) == (ErrorCode.NONE, 0)
    assert ask(elected, LATEST, replica_id=FOLLOWER) == (ErrorCode.NONE, 6)


def test_a_later_time_may_be_that_of_a_record_that_is_committed(elected: LeadingBroker) -> None:
    later = 1 << 60
    assert ask(elected, later) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    for follower in (2, 3):
        elected.follow(follower, 6, leader_epoch=5)
    assert ask(elected, later) == (ErrorCode.NONE, -1)
