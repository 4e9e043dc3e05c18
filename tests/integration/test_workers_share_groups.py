"""Share groups with num.workers=2: the partition's worker delivers records, the main process keeps their state."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from broker.process.placement import worker_of
from protocol.error_codes import ErrorCode
from protocol.messages.alter_share_group_offsets import (
    ALTER_SHARE_GROUP_OFFSETS,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.messages.describe_share_group_offsets import (
    DESCRIBE_SHARE_GROUP_OFFSETS,
    DescribeShareGroupOffsetsRequestGroup,
)
from protocol.messages.share_fetch import SHARE_FETCH, FetchPartition, FetchTopic
from protocol.messages.share_group_heartbeat import SHARE_GROUP_HEARTBEAT
from tests.support.brokers import HOST
from tests.support.data_client import batch
from tests.support.several_workers import WorkersBroker, until
from tests.support.share_client import SHARE_PROPERTIES, ShareClient, member_of

RECORDS = 10
#: A topic whose only partition is at worker 1.
NAME = next(name for name in map("shared-{}".format, range(9)) if worker_of(name, 0, 2) == 1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkersBroker]:
    started = WorkersBroker(tmp_path_factory.mktemp("workers"), properties=SHARE_PROPERTIES)
    yield started
    assert started.stop() == 0
    assert "Traceback" not in started.output


@pytest.fixture(scope="module")
def owner(broker: WorkersBroker) -> Iterator[ShareClient]:
    """A member of a group with `RECORDS` records to read, connected to the coordinator."""
    with member_of(broker, NAME) as client:
        broker.client(1).produce(NAME, batch(*[b"v%d" % number for number in range(RECORDS)]))
        client.join(NAME)
        yield client


def at_leader(broker: WorkersBroker, owner: ShareClient, member: str = "member") -> ShareClient:
    """Return a client of the worker that leads the partition."""
    client = ShareClient(HOST, broker.port + 1, timeout_s=180)
    client.group, client.topic_id, client.member = owner.group, owner.topic_id, member
    return client


def offsets(member: ShareClient) -> list[int]:
    """Fetch once; return the offsets of the acquired records."""
    return [each for first, last, _ in member.acquire(wait_ms=60_000) for each in range(first, last + 1)]


def lag(owner: ShareClient) -> int:
    """Return the lag that the coordinator reports; it asks the worker for the end offset."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=owner.group, topics=None)
    [group] = owner.call(DESCRIBE_SHARE_GROUP_OFFSETS, 1, groups=[asked]).groups
    [partition] = group.topics[0].partitions
    assert partition.error_code == ErrorCode.NONE
    return int(partition.lag)


def read_all(broker: WorkersBroker, owner: ShareClient) -> None:
    """Accept all records that the group has not finished yet."""
    with at_leader(broker, owner, "reader") as member:
        while lag(owner):
            for first, last, _ in member.acquire(wait_ms=60_000):
                assert member.acknowledge((first, last, [1])) == "NONE ['0 NONE None']"


def test_records_are_acquired_from_the_leader(broker: WorkersBroker, owner: ShareClient) -> None:
    """An acknowledged record is in the coordinator's log before the response, and no other member gets it."""
    with at_leader(broker, owner) as member:
        assert member.acquire(most=4, mode=1, wait_ms=60_000) == [(0, 3, 1)]
        assert member.acknowledge((0, 1, [1]), (2, 2, [2])) == "NONE ['0 NONE None']"
        assert owner.read().endswith("[(0, 1, 2, 1), (2, 2, 0, 1)]")
        assert member.acknowledge((0, 0, [1])).startswith("NONE ['0 NONE")  # already accepted: no error
        assert member.acknowledge((9, 9, [1])).startswith("NONE ['0 INVALID_RECORD_STATE")
        assert lag(owner) == RECORDS - 2
    with at_leader(broker, owner, "second") as second:
        given: list[int] = []
        while len(given) < RECORDS - 2:  # records of the first member are released when its connection closes
            given += offsets(second)
        assert sorted(given) == list(range(2, RECORDS))
        assert second.acknowledge((2, RECORDS - 1, [1])) == "NONE ['0 NONE None']"
    assert lag(owner) == 0


def test_share_fetch_elsewhere_returns_the_leader(broker: WorkersBroker, owner: ShareClient) -> None:
    """Only the main process coordinates."""
    topic_to_fetch = FetchTopic(topic_id=owner.topic_id, partitions=[FetchPartition(partition_index=0)])
    answer = owner.call(
        SHARE_FETCH, 1, group_id=owner.group, member_id="m", topics=[topic_to_fetch], max_bytes=1, max_records=1
    )
    [partition] = answer.responses[0].partitions
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.current_leader.leader_id == 2
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(2, broker.port + 1)]
    answer = broker.client(1).call(SHARE_GROUP_HEARTBEAT, 1, group_id=owner.group, member_id="m")
    assert answer.error_code == ErrorCode.NOT_COORDINATOR


def test_restarted_worker_knows_acknowledged_records(broker: WorkersBroker, owner: ShareClient) -> None:
    """Accepted records are not delivered again. Offsets altered at the coordinator apply at the worker."""
    read_all(broker, owner)
    first = broker.client(1).produce(NAME, batch(*[b"v"] * RECORDS))
    with at_leader(broker, owner, "third") as member:
        assert member.acquire(wait_ms=60_000) == [(first, first + RECORDS - 1, 1)]
        assert member.acknowledge((first + 1, first + 2, [1])) == "NONE ['0 NONE None']"
        [process_id] = broker.worker_ids()
        os.kill(process_id, signal.SIGKILL)
    broker.forget_clients()
    until(lambda: broker.client(1).topics())
    with at_leader(broker, owner, "fourth") as member:
        given: list[int] = []
        while len(given) < RECORDS - 2:
            given += offsets(member)
        assert sorted(given) == [first, *range(first + 3, first + RECORDS)]
        owner.beat(-1)  # the group is empty now
        partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=first + 5)
        topic = AlterShareGroupOffsetsRequestTopic(topic_name=NAME, partitions=[partition])
        answer = owner.call(ALTER_SHARE_GROUP_OFFSETS, 0, group_id=owner.group, topics=[topic])
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
        assert offsets(member) == list(range(first + 5, first + RECORDS))
