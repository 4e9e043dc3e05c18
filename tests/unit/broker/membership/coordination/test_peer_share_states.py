"""Share state at whichever broker coordinates it: routed, in order, and again while the coordinator moves."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.membership.coordination.peer_share_states import PeerShareStates
from broker.membership.coordination.share_state_requests import ShareStateRequests
from coordinator.group.refused import Refused
from coordinator.partition_for_key import partition_for
from coordinator.share.state import ShareKey, ShareState, StateBatch
from protocol.error_codes import ErrorCode
from protocol.messages import delete_share_group_state as delete_api
from protocol.messages import initialize_share_group_state as initialize_api
from protocol.messages import read_share_group_state as read_api
from protocol.messages import read_share_group_state_summary as summary_api
from protocol.messages import write_share_group_state as write_api
from runtime.deferred import Deferred
from runtime.timers import Timers
from tests.support.fake_loop import FakeClock, FakeLoop
from tests.unit.broker.membership.coordination.peer_requests import Leaders, MemoryRequests

TOPIC = b"t" * 16
PATIENCE_MS = 10_000
MOVING = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Own:
    """The coordinator of this broker. `refusal`: its error; `wait`: that of its log."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []
        self.refusal: ErrorCode | None = None
        self.wait: Deferred[ErrorCode] | None = None

    def _note(self, name: str, value: object) -> ShareState:
        if self.refusal is not None:
            raise Refused(self.refusal)
        self.calls.append((name, value))
        return ShareState(3, 10)

    def read(self, share: ShareKey, leader_epoch: int) -> ShareState:
        return self._note("read", leader_epoch)

    def write(self, share: ShareKey, **values: Any) -> None:
        self._note("write", values["batches"])

    def summarize(self, share: ShareKey) -> ShareState:
        return self._note("summarize", None)

    def once_committed(
        self, key: str, serve: Callable[[], ErrorCode], failed: Callable[[ErrorCode], ErrorCode]
    ) -> Deferred[ErrorCode] | None:
        return self.wait


class Cluster:
    """This broker is 1; the states are at broker `leader`."""

    def __init__(self, leader: int = 2) -> None:
        self.image = Leaders(__share_group_state=[leader])
        self.image.topic_by_id = lambda topic_id: SimpleNamespace(partitions=[0])  # type: ignore[attr-defined]
        self.peers = MemoryRequests()
        self.own = Own()
        self.clock = FakeClock()
        self.loop = FakeLoop(self.clock)
        timers: Any = Timers(self.loop, self.clock)  # type: ignore[arg-type]
        image, own, peers = self.image, self.own, self.peers
        arguments: Any = (1, image, own, peers, self.clock, timers, self.loop.call_soon, PATIENCE_MS)
        self.requests = ShareStateRequests(*arguments)
        self.states = PeerShareStates(self.requests, own, timers)  # type: ignore[arg-type]

    def lead(self, *leaders: int) -> None:
        self.image.topics["__share_group_state"] = list(leaders)
        self.requests.coordinators_moved()
        self.advance(0)

    def advance(self, milliseconds: int) -> None:
        self.loop.settle()
        self.loop.advance(milliseconds)
        self.loop.settle()

    def write(self, first: int, partition: int = 0, group: str = "g", epoch: int = 5) -> Deferred[None] | None:
        written = self.states.write(
            ShareKey(group, TOPIC, partition),
            state_epoch=3,
            leader_epoch=epoch,
            start_offset=first,
            delivery_complete_count=1,
            batches=(StateBatch(first, first, 2, 1),),
        )
        self.advance(0)
        return written

    def pending(self, first: int, **options: Any) -> Deferred[None]:
        written = self.write(first, **options)
        assert written is not None
        return written

    def answer(self, *codes: int) -> None:
        """Answer the oldest write."""
        (topic,) = self.peers.sent[0][1].topics
        results = [
            write_api.PartitionResult(partition=each.partition, error_code=code)
            for each, code in zip(topic.partitions, codes, strict=True)
        ]
        self.peers.answer(results=[write_api.WriteStateResult(topic_id=TOPIC, partitions=results)])
        self.advance(0)

    def sent(self) -> list[tuple[int, list[tuple[int, list[int]]]]]:
        """Return the broker of each write that waits, with the first offsets by partition."""
        return [
            (broker, [(each.partition, [one.first_offset for one in each.state_batches]) for each in topic.partitions])
            for broker, request in self.peers.sent
            for topic in request.topics
        ]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def code_of(done: Deferred[Any]) -> ErrorCode:
    with pytest.raises(Refused) as caught:
        done.result()
    return caught.value.code


def test_writes_of_a_turn_are_one_request_for_each_group(cluster: Cluster) -> None:
    arguments = [(0, "g"), (1, "g"), (0, "h")]
    written = []
    for partition, group in arguments:
        share = ShareKey(group, TOPIC, partition)
        write = {"state_epoch": 3, "leader_epoch": 5, "start_offset": 7, "delivery_complete_count": 4}
        written.append(cluster.states.write(share, **write, batches=(StateBatch(7, 9, 2, 1),)))
    cluster.advance(0)
    assert [(broker, request.group_id) for broker, request in cluster.peers.sent] == [(2, "g"), (2, "h")]
    first, second = cluster.peers.sent[0][1].topics[0].partitions
    assert (first.partition, second.partition) == (0, 1)
    assert (first.state_epoch, first.leader_epoch, first.start_offset, first.delivery_complete_count) == (3, 5, 7, 4)
    (sent,) = first.state_batches
    assert (sent.first_offset, sent.last_offset, sent.delivery_state, sent.delivery_count) == (7, 9, 2, 1)
    cluster.answer(ErrorCode.NONE, ErrorCode.FENCED_STATE_EPOCH)
    assert written[0] is not None
    assert written[1] is not None
    assert written[2] is not None
    assert written[0].result() is None
    assert code_of(written[1]) is ErrorCode.FENCED_STATE_EPOCH
    assert not written[2].done


def test_writes_of_a_share_partition_stay_in_order(cluster: Cluster) -> None:
    """One is in flight at a time; those that wait are combined."""
    first, second, third = (cluster.pending(offset) for offset in (1, 2, 3))
    assert cluster.sent() == [(2, [(0, [1])])]
    cluster.answer(ErrorCode.NONE)
    assert first.done
    assert cluster.sent() == [(2, [(0, [2, 3])])]
    assert cluster.peers.sent[0][1].topics[0].partitions[0].start_offset == 3
    cluster.answer(ErrorCode.NONE)
    assert second.done
    assert third.done


def test_writes_of_another_epoch_are_not_combined(cluster: Cluster) -> None:
    cluster.pending(1)
    cluster.pending(2)
    last = cluster.pending(3, epoch=6)
    for _ in range(2):
        cluster.answer(ErrorCode.NONE)
    assert cluster.sent() == [(2, [(0, [3])])]
    cluster.answer(ErrorCode.FENCED_LEADER_EPOCH)
    assert code_of(last) is ErrorCode.FENCED_LEADER_EPOCH


def test_writes_after_a_failed_one_fail_until_the_state_is_read(cluster: Cluster) -> None:
    """They build on the missing one."""
    share = ShareKey("g", TOPIC, 0)
    first, second = cluster.pending(1), cluster.pending(2)
    with pytest.raises(Refused):
        cluster.states.read(share, 5)
    later = cluster.pending(3)
    cluster.answer(ErrorCode.FENCED_STATE_EPOCH)
    assert [code_of(each) for each in (first, second)] == [ErrorCode.FENCED_STATE_EPOCH] * 2
    assert not later.done
    read = read_api.PartitionResult(partition=0, state_epoch=3, start_offset=1)
    cluster.peers.answer(results=[read_api.ReadStateResult(topic_id=TOPIC, partitions=[read])])
    cluster.advance(0)
    assert cluster.states.read(share, 5) == ShareState(3, 1, leader_epoch=5)
    cluster.answer(ErrorCode.NONE)
    assert later.result() is None


@pytest.mark.parametrize("code", MOVING)
def test_a_moving_coordinator_is_asked_again(cluster: Cluster, code: ErrorCode) -> None:
    written = cluster.pending(1)
    cluster.answer(code)
    assert cluster.peers.sent == []
    cluster.image.topics["__share_group_state"] = [3]
    cluster.advance(100)
    assert cluster.sent() == [(3, [(0, [1])])]
    cluster.peers.lose()
    cluster.advance(200)
    cluster.answer(ErrorCode.NONE)
    assert written.result() is None


def test_a_frozen_coordinator_is_left_once_another_leads(cluster: Cluster) -> None:
    """Its late answer does not count."""
    written = cluster.pending(1)
    cluster.lead(3)
    assert [broker for broker, _ in cluster.peers.sent] == [2, 3]
    cluster.answer(ErrorCode.FENCED_LEADER_EPOCH)
    assert not written.done
    cluster.answer(ErrorCode.NONE)
    assert written.result() is None


def test_a_topic_unknown_to_the_coordinator_is_asked_for_again(cluster: Cluster) -> None:
    """That broker may follow the metadata later than this one."""
    written = cluster.pending(1)
    cluster.answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    cluster.advance(100)
    cluster.image.topic_by_id = lambda topic_id: None  # type: ignore[attr-defined]
    cluster.answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert code_of(written) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_code_of_a_newer_release_ends_the_operation(cluster: Cluster) -> None:
    """The next operation on the share-partition is not held up."""
    written = cluster.pending(1)
    cluster.answer(9_999)
    assert code_of(written) is ErrorCode.UNKNOWN_SERVER_ERROR
    later = cluster.pending(2)
    cluster.answer(ErrorCode.NONE)
    assert later.result() is None


def test_patience_ends(cluster: Cluster) -> None:
    cluster.image.topics["__share_group_state"] = [-1]
    written = cluster.pending(1)
    cluster.advance(PATIENCE_MS - 1)
    assert not written.done
    for _ in range(3):
        cluster.advance(1_000)
    assert code_of(written) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert cluster.peers.sent == []


def test_without_the_topic_there_is_no_coordinator(cluster: Cluster) -> None:
    del cluster.image.topics["__share_group_state"]
    with pytest.raises(Refused) as caught:
        cluster.states.summarize(ShareKey("g", TOPIC, 0))
    assert caught.value.code is ErrorCode.NOT_COORDINATOR


def test_a_state_is_initialized_once_the_new_topic_is_known(cluster: Cluster) -> None:
    """Another broker or this one has created the topic; the metadata log brings it later."""
    [leader] = cluster.image.topics.pop("__share_group_state")
    written = cluster.states.initialize(ShareKey("g", TOPIC, 0), 3, 7)
    assert written is not None
    cluster.advance(100)
    assert not written.done
    cluster.lead(leader)
    cluster.advance(1_000)
    [(broker, request)] = cluster.peers.sent
    assert (broker, request.topics[0].partitions[0].start_offset) == (leader, 7)


def test_the_coordinator_here_answers_at_once_or_when_it_is_committed() -> None:
    cluster = Cluster(leader=1)
    assert cluster.write(1) is None
    cluster.own.wait = Deferred()
    written = cluster.pending(2)
    assert not written.done
    cluster.own.wait.resolve(ErrorCode.NONE)
    assert written.done
    assert cluster.own.calls == [("write", (StateBatch(offset, offset, 2, 1),)) for offset in (1, 2)]


def test_a_write_here_that_is_not_committed_goes_to_the_next_coordinator() -> None:
    cluster = Cluster(leader=1)
    cluster.own.wait = lost = Deferred()
    written = cluster.pending(1)
    cluster.image.topics["__share_group_state"] = [2]
    lost.resolve(ErrorCode.NOT_COORDINATOR)
    cluster.advance(100)
    assert cluster.sent() == [(2, [(0, [1])])]
    cluster.answer(ErrorCode.NONE)
    assert written.result() is None


def test_a_state_arrives_later_and_is_read_once(cluster: Cluster) -> None:
    share = ShareKey("g", TOPIC, 0)

    def asked(epoch: int = 5) -> ErrorCode:
        with pytest.raises(Refused) as caught:
            cluster.states.read(share, epoch)
        cluster.advance(0)
        return caught.value.code

    assert [asked(), asked()] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
    assert len(cluster.peers.sent) == 1
    batch = read_api.StateBatch(first_offset=4, last_offset=6, delivery_state=0, delivery_count=2)
    found = read_api.PartitionResult(partition=0, state_epoch=3, start_offset=4, state_batches=[batch])
    cluster.peers.answer(results=[read_api.ReadStateResult(topic_id=TOPIC, partitions=[found])])
    assert cluster.states.read(share, 5) == ShareState(3, 4, leader_epoch=5, batches=(StateBatch(4, 6, 0, 2),))
    asked()
    assert len(cluster.peers.sent) == 1


def test_reads_wait_for_a_coordinator_that_does_not_answer(cluster: Cluster) -> None:
    """Clients of share groups do not expect COORDINATOR_NOT_AVAILABLE."""
    share = ShareKey("g", TOPIC, 0)
    for _ in range(3):
        with pytest.raises(Refused) as caught:
            cluster.states.read(share, 5)
        assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        cluster.advance(0)
        while cluster.peers.sent:
            cluster.peers.lose()
            cluster.advance(1_000)


def test_other_operations_reach_the_coordinator(cluster: Cluster) -> None:
    share = ShareKey("g", TOPIC, 0)
    made, gone, found = cluster.states.initialize(share, 4, 20), cluster.states.delete(share), None
    cluster.advance(0)
    (asked,) = cluster.peers.sent[0][1].topics[0].partitions
    assert (asked.state_epoch, asked.start_offset) == (4, 20)
    done = initialize_api.PartitionResult(partition=0)
    cluster.peers.answer(results=[initialize_api.InitializeStateResult(topic_id=TOPIC, partitions=[done])])
    cluster.advance(0)
    assert made is not None
    assert made.result() is None
    deleted = delete_api.PartitionResult(partition=0)
    cluster.peers.answer(results=[delete_api.DeleteStateResult(topic_id=TOPIC, partitions=[deleted])])
    assert gone is not None
    assert gone.result() is None
    found = cluster.states.summarize(share)
    cluster.advance(0)
    summary = summary_api.PartitionResult(
        partition=0, state_epoch=4, leader_epoch=2, start_offset=20, delivery_complete_count=6
    )
    cluster.peers.answer(results=[summary_api.ReadStateSummaryResult(topic_id=TOPIC, partitions=[summary])])
    assert isinstance(found, Deferred)
    assert found.result() == ShareState(4, 20, leader_epoch=2, delivery_complete_count=6)


def test_the_key_chooses_the_coordinator(cluster: Cluster) -> None:
    cluster.image.topics["__share_group_state"] = [1, 2, 3]
    for partition in range(20):
        share = ShareKey("g", TOPIC, partition)
        assert cluster.requests.coordinator_of(share) == partition_for(share.coordinator_key, 3) + 1
