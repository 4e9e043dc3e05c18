"""What heartbeats, offset commits and loading groups cost, without sockets: `python -m bench.group_coordinator`.

Decode, handler, encode, with the log in memory; loading with commits of a hundred partitions and of one, where each
record is a batch of its own. The best of five rounds, in microseconds of processor time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from timeit import repeat

from broker.clock import Clock
from coordinator.group.records import CommittedOffset, OffsetRecord
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupShard
from coordinator.load import replay_batches
from coordinator.timers import Timers
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.sync_group import SYNC_GROUP
from protocol.records.builder import BatchBuilder
from protocol.schema import Api, Struct
from tests.support.group_broker import GroupBroker
from tests.support.groups import subscription

ROUNDS = 5
CALLS = 5_000
RECORDS = 20_000
TOPIC_ID = b"0123456789abcdef"


def stable_member(broker: GroupBroker, group_id: str) -> str:
    """The only member of a stable group."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription("t"))]
    joined = broker.call(
        JOIN_GROUP,
        3,
        group_id=group_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    broker.call(SYNC_GROUP, 4, group_id=group_id, generation_id=1, member_id=joined.member_id)
    member_id: str = joined.member_id
    return member_id


def requests(broker: GroupBroker, api: Api, version: int, request: Struct) -> Callable[[], object]:
    """A call that serves the request once."""
    data = api.request.encode(version, request)
    decode, encode = api.request.decoder(version), api.response.encoder(version)
    handler, context = broker.handlers[api.key], broker.context(api, version)
    return lambda: encode(handler(context, decode(data, 0)[0]))  # type: ignore[arg-type]


def commit(member_id: str, partitions: int) -> Struct:
    """An OffsetCommit of so many partitions."""
    offsets = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata="")
        for index in range(partitions)
    ]
    topics = [OffsetCommitRequestTopic(name="t", partitions=offsets)]
    return OFFSET_COMMIT.request(group_id="group", generation_id_or_member_epoch=1, member_id=member_id, topics=topics)


def log_of_commits(partitions: int) -> bytes:
    """The batches of commits of so many partitions each, of two groups in turn."""
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
    for _ in replay_batches(GroupShard(0, GroupSettings(), Timers()), data, 0):
        pass


def main() -> None:
    broker = GroupBroker()
    broker.controller.add("t", partitions=10)
    member_id = stable_member(broker, "group")
    broker.clock = Clock()  # type: ignore[assignment]
    beat = HEARTBEAT.request(group_id="group", generation_id=1, member_id=member_id)
    calls = {
        "heartbeat": requests(broker, HEARTBEAT, 4, beat),
        "commit of 1 partition": requests(broker, OFFSET_COMMIT, 9, commit(member_id, 1)),
        "commit of 10 partitions": requests(broker, OFFSET_COMMIT, 9, commit(member_id, 10)),
    }
    for name, call in calls.items():
        best = min(repeat(call, timer=time.process_time, number=CALLS, repeat=ROUNDS)) / CALLS
        print(f"{name:24} {best * 1e6:6.1f} us")
    for partitions in (100, 1):
        call = partial(load, log_of_commits(partitions))
        best = min(repeat(call, timer=time.process_time, number=1, repeat=ROUNDS)) / RECORDS
        print(f"{f'loading, {partitions} a commit':24} {best * 1e6:6.1f} us")


if __name__ == "__main__":
    main()
