"""The fast path for OffsetCommit answers as the handler does, or leaves the request to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.coordinators.group.coordinator import OFFSETS_TOPIC
from broker.coordinators.group.single_commit import commit_single
from coordinator.group.shard import GroupShard
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.schema import Struct
from tests.support.disk_doubles.slow_disk import SlowDisk
from tests.support.network import answers_in
from tests.support.offered import fast_path_of
from tests.support.txn_broker import TxnBroker

VERSIONS = range(8, 11)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TxnBroker]:
    broker = TxnBroker(tmp_path)
    broker.create("t", partitions=2)
    broker.topics.ensure(OFFSETS_TOPIC)
    broker.settle()
    yield broker
    broker.close()


def fields_of(
    broker: TxnBroker, version: int, *, topic: str = "t", partition: int = 0, **fields: Any
) -> dict[str, Any]:
    found = broker.partitions.get(topic, 0)
    topic_id = b"?" * 16 if found is None else found.topic_id
    named = {"name": topic} if version < 10 else {"topic_id": topic_id}
    offsets = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=5, committed_leader_epoch=2)]
    topics = [OffsetCommitRequestTopic(**named, partitions=offsets)]
    return {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": topics, **fields}


def request(broker: TxnBroker, version: int, **fields: Any) -> memoryview:
    """Return the bytes of a request behind six bytes of a header."""
    body = OFFSET_COMMIT.request.encode(version, OFFSET_COMMIT.request(**fields_of(broker, version, **fields)))
    return memoryview(b"header" + body)


def by_fast_path(broker: TxnBroker, version: int, **fields: Any) -> Struct | None:
    serve = fast_path_of(broker, commit_single, version)
    assert serve is not None
    frame = serve(None, request(broker, version, **fields), 6, 77)  # type: ignore[arg-type]
    if frame is None:
        return None
    ((correlation_id, answer),) = answers_in(frame, [(OFFSET_COMMIT, version)])
    assert correlation_id == 77
    return answer


def by_handler(broker: TxnBroker, version: int, **fields: Any) -> Struct:
    return broker.call(OFFSET_COMMIT, version, **fields_of(broker, version, **fields))


def shard_of(broker: TxnBroker, group_id: str = "g") -> GroupShard:
    shard = broker.groups.at(group_id)
    assert isinstance(shard, GroupShard)
    return shard


def log_ends(broker: TxnBroker) -> int:
    return sum(each.log_end_offset for each in broker.partitions.of_topic(OFFSETS_TOPIC).values())


@pytest.mark.parametrize("version", VERSIONS)
def test_accepted_commit_equals_that_of_the_handler(broker: TxnBroker, version: int) -> None:
    answer = by_fast_path(broker, version)
    stored = shard_of(broker).offsets.get("g", "t", 0)
    assert answer == by_handler(broker, version)
    assert stored == shard_of(broker).offsets.get("g", "t", 0)
    assert stored is not None
    assert (stored.offset, stored.leader_epoch) == (5, 2)
    fast_path, handler = (record for index in (0, 1) for record in broker.records(OFFSETS_TOPIC, index))
    assert (fast_path.key, fast_path.value) == (handler.key, handler.value)

    broker.restart()
    assert shard_of(broker).offsets.get("g", "t", 0) == stored


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "nowhere"},
        {"partition": 2},
        {"partition": -1},
        {"group_id": ""},
        {"group_id": "unknown", "generation_id_or_member_epoch": 3, "member_id": "m"},
    ],
)
def test_rejected_commits_are_left_to_the_handler(broker: TxnBroker, version: int, fields: dict[str, Any]) -> None:
    before = log_ends(broker)
    answer = by_fast_path(broker, version, **fields)
    if answer is None:
        assert log_ends(broker) == before
    else:
        assert answer == by_handler(broker, version, **fields)


def test_older_versions_are_left_to_the_handler(broker: TxnBroker) -> None:
    for version in range(8):
        assert fast_path_of(broker, commit_single, version) is None


def test_consumer_group_members_commit_at_their_epoch(broker: TxnBroker) -> None:
    """From v9 on. An older epoch may be valid for some partitions, which only the handler checks."""
    joined = broker.call(
        CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id="c",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    who = {"group_id": "c", "member_id": "m", "generation_id_or_member_epoch": joined.member_epoch}
    answer = by_fast_path(broker, 9, **who)
    assert answer is not None
    assert answer == by_handler(broker, 9, **who)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    for other in ({"generation_id_or_member_epoch": joined.member_epoch - 1}, {"member_id": "other"}):
        assert by_fast_path(broker, 9, **{**who, **other}) is None
    assert by_fast_path(broker, 8, **who) is None


def test_commit_that_has_to_be_flushed_is_left_to_handler(broker: TxnBroker) -> None:
    for partition in broker.partitions.of_topic(OFFSETS_TOPIC).values():
        partition.log.config = replace(partition.log.config, flush_messages=1)
    before = log_ends(broker)
    assert by_fast_path(broker, 9) is None
    assert log_ends(broker) == before


def test_flush_of_another_partition_is_not_waited_for(broker: TxnBroker) -> None:
    """Only a pending flush of its own partition matters."""
    disk = SlowDisk(broker, OFFSETS_TOPIC)
    own = broker.groups.log_at(shard_of(broker).partition)
    other = broker.groups.log_at(1 - shard_of(broker).partition)
    for found, is_own in ((other, False), (own, True)):
        assert not isinstance(found, ErrorCode)
        broker.groups._gate.begun(found.partition.index, broker.background.flush(found.partition.log))
        assert (by_fast_path(broker, 9) is None) == is_own
    disk.release()
    assert by_fast_path(broker, 9) is not None


def test_failed_write_is_answered(broker: TxnBroker) -> None:
    for partition in broker.partitions.of_topic(OFFSETS_TOPIC).values():
        partition.isr = ()
    answer = by_fast_path(broker, 9)
    assert answer is not None
    assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shard_of(broker).offsets.get("g", "t", 0) is None
