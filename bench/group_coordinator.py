"""What heartbeats, offset commits and loading groups cost, without sockets: `python -m bench.group_coordinator`.

Decode, handler, encode, with the log in memory; the best of five rounds, in microseconds of one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from timeit import repeat

from broker.clock import Clock
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupShard
from coordinator.load import replay_batches
from coordinator.timers import Timers
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.sync_group import SYNC_GROUP
from protocol.schema import Api, Struct
from tests.support.group_broker import GroupBroker
from tests.support.groups import subscription

ROUNDS = 5
CALLS = 5_000


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
        best = min(repeat(call, number=CALLS, repeat=ROUNDS)) / CALLS
        print(f"{name:24} {best * 1e6:6.1f} us")
    partition = broker.partition_of("group")
    data = b"".join(partition.batches)
    shard = GroupShard(partition.index, GroupSettings(), Timers())
    started = time.perf_counter()
    for _ in replay_batches(shard, data, 0):
        pass
    each = (time.perf_counter() - started) / partition.log_end_offset
    print(f"{'loading of a record':24} {each * 1e6:6.1f} us")


if __name__ == "__main__":
    main()
