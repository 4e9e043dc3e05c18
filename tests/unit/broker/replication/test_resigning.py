"""A leader resigns while appends wait: its log belongs to the next leader, and gets nothing more from clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from storage.append.placing import AT_ONCE_BYTES
from storage.log_config import LogConfig
from tests.support.held_appends import LARGE, answer, batch, delete, send
from tests.unit.broker.replication.leading_broker import LeadingBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LeadingBroker]:
    """The topic's batches are compressed by a worker, which the test holds."""
    made = LeadingBroker(
        tmp_path, LogConfig(compression_type="gzip", min_insync_replicas=1, max_message_bytes=100_000_000)
    )
    yield made
    made.close()


def test_a_waiting_batch_is_not_appended(broker: LeadingBroker) -> None:
    partition = broker.partition
    broker.workers.held = True
    reply = send(broker, batch(LARGE))
    broker.partitions.give_up(partition)
    broker.workers.release()
    broker.settle()
    assert answer(reply).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.log.log_end_offset == 0


def test_a_waiting_deletion_does_not_take_place(broker: LeadingBroker) -> None:
    partition = broker.partition
    send(broker, batch(3))
    for follower in (2, 3):
        broker.follow(follower, 0)
        broker.follow(follower, 3)
    assert partition.high_watermark == 3
    broker.workers.held = True
    send(broker, batch(LARGE))
    reply = delete(broker, 2)
    broker.partitions.give_up(partition)
    broker.workers.release()
    broker.settle()
    assert reply.result().topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.log.log_start_offset == 0


def test_no_thread_writes_where_records_of_the_next_leader_come(tmp_path: Path) -> None:
    """Very large batches of other topics are written by a thread first."""
    broker = LeadingBroker(tmp_path, LogConfig(min_insync_replicas=1, max_message_bytes=100_000_000))
    written: list[object] = []
    broker.offload = lambda function, *args: written.append(function)  # type: ignore[assignment, func-returns-value]
    reply = send(broker, batch(1, value=bytes(AT_ONCE_BYTES)))
    assert (answer(reply).base_offset, broker.partition.log.log_end_offset) == (0, 1)
    assert not written
    broker.close()
