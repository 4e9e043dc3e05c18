"""End offsets come from the leaders of the partitions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.membership.coordination.peer_end_offsets import PeerEndOffsets
from coordinator.group.refused import Refused
from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from protocol.schema import Struct
from runtime.deferred import Deferred
from runtime.timers import Timers
from tests.support.fake_loop import FakeClock, FakeLoop
from tests.unit.broker.membership.coordination.peer_requests import Leaders, MemoryRequests


class Cluster:
    """This broker, 1, leads t-0; broker 2 leads t-1, t-2 and u-0; nobody leads u-1."""

    def __init__(self) -> None:
        self.peers = MemoryRequests()
        self.soon: list[Any] = []
        partitions = SimpleNamespace(
            get=lambda topic, index: SimpleNamespace(high_watermark=7) if (topic, index) == ("t", 0) else None,
            absence=lambda topic, index: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
        image: Any = Leaders(t=[1, 2, 2], u=[2, -1])
        self.clock = FakeClock()
        self.loop = FakeLoop(self.clock)
        timers = Timers(self.loop, self.clock)  # type: ignore[arg-type]
        self.ends = PeerEndOffsets(1, image, partitions, self.peers, timers, self.soon.append)  # type: ignore[arg-type]

    def send(self) -> None:
        while self.soon:
            self.soon.pop(0)()

    def answer(self, **offsets: list[tuple[int, int, ErrorCode]]) -> None:
        self.peers.answer(topics=[topic_of(name, found) for name, found in offsets.items()])


def topic_of(name: str, found: list[tuple[int, int, ErrorCode]]) -> Struct:
    partitions = [
        ListOffsetsPartitionResponse(partition_index=index, offset=offset, error_code=code)
        for index, offset, code in found
    ]
    return ListOffsetsTopicResponse(name=name, partitions=partitions)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def code_of(ended: Deferred[int]) -> ErrorCode:
    with pytest.raises(Refused) as caught:
        ended.result()
    return caught.value.code


def test_one_request_asks_for_the_partitions_of_a_leader(cluster: Cluster) -> None:
    asked = [cluster.ends.end_offset("t", 1), cluster.ends.end_offset("t", 2), cluster.ends.end_offset("u", 0)]
    assert cluster.ends.end_offset("t", 0).result() == 7
    cluster.send()
    ((broker_id, request),) = cluster.peers.sent
    assert (broker_id, request.replica_id) == (2, -1)
    wanted = [
        (topic.name, [(each.partition_index, each.timestamp) for each in topic.partitions]) for topic in request.topics
    ]
    assert wanted == [("t", [(1, -1), (2, -1)]), ("u", [(0, -1)])]
    cluster.answer(t=[(1, 30, ErrorCode.NONE), (2, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)])
    assert asked[0].result() == 30
    assert [code_of(each) for each in asked[1:]] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_leader_that_does_not_answer_is_an_error(cluster: Cluster) -> None:
    asked = cluster.ends.end_offset("t", 1)
    cluster.send()
    cluster.peers.lose()
    assert code_of(asked) is ErrorCode.NETWORK_EXCEPTION
    assert code_of(cluster.ends.end_offset("u", 1)) is ErrorCode.LEADER_NOT_AVAILABLE
    assert code_of(cluster.ends.end_offset("v", 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_metrics_learn_what_other_leaders_answer(cluster: Cluster) -> None:
    learned = cluster.ends.learn_ends([("t", 0), ("t", 1), ("t", 2), ("u", 1), ("v", 0)])
    cluster.send()
    cluster.answer(t=[(1, 30, ErrorCode.NONE), (2, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)])
    assert learned.done
    assert cluster.ends.known_ends == {("t", 1): 30}


def test_metrics_do_not_wait_for_a_frozen_leader(cluster: Cluster) -> None:
    learned = cluster.ends.learn_ends([("t", 1)])
    cluster.send()
    cluster.loop.advance(999)
    assert not learned.done
    cluster.loop.advance(1)
    assert learned.done
    assert cluster.ends.known_ends == {}
    cluster.answer(t=[(1, 30, ErrorCode.NONE)])
    assert cluster.ends.learn_ends([("t", 0)]).done
