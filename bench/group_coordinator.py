"""Measure heartbeats, offset commits and loading of groups without sockets: `python -m bench.group_coordinator`.

A figure is the time from the bytes of a request to those of its response, with a real log in a temporary directory.
Loading is measured with commits of a hundred partitions, and of one, where each record is a batch of its own. Prints
the best of many rounds, in microseconds of processor time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from timeit import repeat
from types import SimpleNamespace
from typing import Any

from coordinator.group.kinds import GROUP_KINDS
from coordinator.group.records import CommittedOffset, OffsetRecord
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupShard
from coordinator.load import replay_batches
from coordinator.timers import Timers
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.sync_group import SYNC_GROUP
from protocol.records.builder import BatchBuilder
from protocol.schema import Api
from runtime.clock import Clock
from tests.support.groups import subscription
from tests.support.network import request_frame
from tests.support.offered import dispatcher_for
from tests.support.txn_broker import TxnBroker

ROUNDS = 200
CALLS = 100
LOADS = 5
RECORDS = 20_000
TOPIC_ID = b"0123456789abcdef"


def classic_member(broker: TxnBroker, group_id: str) -> str:
    """Create a stable classic group; return the id of its only member."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription("t"))]
    parked = broker.send(
        JOIN_GROUP,
        3,
        group_id=group_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    broker.advance(0)  # the initial delay of a rebalance
    assert parked is not None
    joined = parked.result()
    broker.call(SYNC_GROUP, 4, group_id=group_id, generation_id=1, member_id=joined.member_id)
    member_id: str = joined.member_id
    return member_id


def consumer_member(broker: TxnBroker, group_id: str, member_id: str) -> int:
    """Create a stable group of the KIP-848 protocol; return the epoch of its only member."""
    joined = broker.call(
        CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id=group_id,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    epoch: int = joined.member_epoch
    return epoch


def request(broker: TxnBroker, api: Api, version: int, **fields: Any) -> Callable[[], object]:
    """Return a call that serves the request once."""
    frame = memoryview(request_frame(api, version, 7, **fields))[4:]
    dispatcher = dispatcher_for(broker)
    connection: Any = SimpleNamespace(client_host="127.0.0.1", listener_name="PLAINTEXT")
    return lambda: dispatcher.dispatch(connection, frame)


def commit(broker: TxnBroker, member_id: str, version: int, partitions: int) -> Callable[[], object]:
    """Return a call that commits offsets of `partitions` partitions."""
    offsets = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata="")
        for index in range(partitions)
    ]
    topics = [OffsetCommitRequestTopic(name="t", topic_id=broker.partition("t").topic_id, partitions=offsets)]
    generation = 1 if member_id else -1
    return request(
        broker,
        OFFSET_COMMIT,
        version,
        group_id="group" if member_id else "outside",
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=topics,
    )


def log_of_commits(partitions: int) -> bytes:
    """Return the batches of commits of `partitions` partitions each, of two groups in turn."""
    batches = []
    for first in range(0, RECORDS, partitions):
        builder = BatchBuilder(first)
        for offset in range(first, first + partitions):
            committed = CommittedOffset(offset, -1, "", 1_700_000_000_000, topic_id=TOPIC_ID)
            record = OffsetRecord(f"group-{first // partitions % 2}", "t", offset % 100, committed)
            builder.append(1_700_000_000_000, record.key, record.value)
        batches.append(builder.build())
    return b"".join(batches)


def load(data: bytes) -> None:
    """Replay a log into an empty shard."""
    for _ in replay_batches(GroupShard(GROUP_KINDS, 0, GroupSettings(), Timers()), data, 0):
        pass


def serve(directory: Path) -> None:
    """Time each kind of request."""
    broker = TxnBroker(directory)
    broker.create("t", partitions=10)
    broker.call(HEARTBEAT, 4, group_id="group")  # creates the coordinator's topic
    member_id = classic_member(broker, "group")
    epoch = consumer_member(broker, "consumers", "member")
    broker.clock = Clock()  # type: ignore[assignment]
    calls = {
        "heartbeat": request(broker, HEARTBEAT, 4, group_id="group", generation_id=1, member_id=member_id),
        "heartbeat of KIP-848": request(
            broker, CONSUMER_GROUP_HEARTBEAT, 1, group_id="consumers", member_id="member", member_epoch=epoch
        ),
        "commit of 1 partition": commit(broker, member_id, 9, 1),
        "commit of 10 partitions": commit(broker, member_id, 9, 10),
        "the same by topic id": commit(broker, member_id, 10, 10),
        "the same without membership": commit(broker, "", 8, 10),
    }
    for name, call in calls.items():
        best = min(repeat(call, timer=time.process_time, number=CALLS, repeat=ROUNDS)) / CALLS
        print(f"{name:24} {best * 1e6:6.1f} us")
    broker.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        serve(Path(directory))
    for partitions in (100, 1):
        call = partial(load, log_of_commits(partitions))
        best = min(repeat(call, timer=time.process_time, number=1, repeat=LOADS)) / RECORDS
        print(f"{f'loading, {partitions} a commit':24} {best * 1e6:6.1f} us")


if __name__ == "__main__":
    main()
