"""OffsetForLeaderEpoch returns where the records of an epoch end."""

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.records.builder import BatchBuilder
from tests.support.data_broker import DataBroker


@pytest.fixture
def filled(broker: DataBroker) -> DataBroker:
    """Epoch 1 has the offsets 0 and 1, epoch 4 has 2, 3 and 4."""
    partition = broker.topic(leader_epoch=1)
    for epoch, count in ((1, 2), (4, 3)):
        partition.lead(epoch)
        builder = BatchBuilder()
        for _ in range(count):
            builder.append(broker.clock.now_ms(), b"k", b"v")
        partition.append(builder.build(), broker.clock.now_ms())
    return broker


def ask(
    broker: DataBroker, epoch: int, *, current: int = -1, topic: str = "t", index: int = 0, version: int = 4
) -> tuple[int, ...]:
    """Return (error code, leader epoch, end offset)."""
    wanted = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
    response = broker.call(
        OFFSET_FOR_LEADER_EPOCH, version, topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
    )
    [answer] = response.topics[0].partitions
    assert answer.partition == index
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("epoch", "answer"), [(1, (1, 2)), (2, (1, 2)), (3, (1, 2)), (4, (4, 5)), (5, (-1, -1)), (-1, (-1, -1))]
)
def test_an_epoch_ends_where_the_next_begins(
    filled: DataBroker, version: int, epoch: int, answer: tuple[int, int]
) -> None:
    """The largest epoch at or below the requested one (KIP-279). A future epoch has no end."""
    assert ask(filled, epoch, version=version) == (0, *answer)


def test_errors(filled: DataBroker) -> None:
    assert ask(filled, 1, current=4) == (0, 1, 2)
    assert ask(filled, 1, current=5) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert ask(filled, 1, current=3) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert ask(filled, 1, topic="nope") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert ask(filled, 1, index=7) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
