"""Coordinators of a member: their answers wait until replicas have them, and they move with leadership."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.membership.coordination.committed_answers import (
    OF_GROUPS,
    OF_SHARES,
    OF_TRANSACTIONS,
    CommittedAnswers,
    CommittedApi,
)
from broker.membership.coordination.committed_shard_log import CommittedShardLog
from broker.replicas.partition import Partition
from broker.requests.error_code_map import NotCommitted
from broker.requests.error_reply import error_reply
from broker.requests.served_api import discover
from coordinator.shard import Producer
from coordinator.share.state import ShareKey
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.list_groups import LIST_GROUPS
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OFFSET_FETCH, OffsetFetchRequestGroup
from protocol.messages.write_share_group_state import WRITE_SHARE_GROUP_STATE, PartitionData, WriteStateData
from protocol.registry import API_BY_KEY
from protocol.schema import Api, Struct
from runtime.deferred import Deferred
from tests.support.group_broker import GroupBroker, code_of, commit, fetched, heartbeat, join, stable_member

TIMEOUT_MS = 5_000


class ReplicatedBroker(GroupBroker):
    """A member. `wait` is what its coordinators' partitions wait for, None if all of their records are committed.

    `committed`: what is committed in the meantime.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.wait: Deferred[None] | None = None
        self.committed = 0
        self.durability = SimpleNamespace(relied_on=self._relied_on, may_wait=lambda partition: True)
        object.__setattr__(self.groups, "_environment", self)
        self.groups.shard_log = CommittedShardLog
        self.groups._unload()  # the shards are loaded into logs of that class when they are first used
        self.served = discover()

    def _relied_on(self, partition: Partition, end_offset: int | None = None) -> Deferred[None] | None:
        return None if end_offset is not None and end_offset <= self.committed else self.wait

    def handler(self, api: Api) -> Any:
        if api.key not in OF_GROUPS:
            return super().handler(api)
        answers = CommittedAnswers(self.groups, self.durability, self.timers, TIMEOUT_MS)  # type: ignore[arg-type]
        services = _Services(self)
        return CommittedApi(self.served[api.key], OF_GROUPS[api.key], lambda: services, lambda: answers).load().handler

    def resign(self, index: int) -> Any:
        """Lead a partition of the groups no longer, and return it."""
        lost = self.hosted.pop(index)
        self.groups.partition_lost(lost)  # type: ignore[arg-type]
        return lost

    def lead(self, partition: Partition) -> None:
        self.hosted[partition.index] = partition  # type: ignore[assignment]
        self.groups.partition_led(partition)
        self.advance(0)


class _Services(dict[str, object]):
    def __init__(self, broker: GroupBroker) -> None:
        super().__init__()
        self._broker = broker

    def __contains__(self, name: object) -> bool:
        return hasattr(self._broker, str(name))

    def __getitem__(self, name: str) -> object:
        return getattr(self._broker, name)


@pytest.fixture
def broker() -> ReplicatedBroker:
    made = ReplicatedBroker()
    made.controller.add("t")
    return made


def fetch(broker: ReplicatedBroker) -> Deferred[Struct]:
    group = OffsetFetchRequestGroup(group_id="g", topics=None)
    return broker.send(OFFSET_FETCH, 8, groups=[group])


def test_members_that_wait_get_their_answer_once_it_is_committed(broker: ReplicatedBroker) -> None:
    joined = join(broker)
    broker.wait = Deferred()
    broker.advance(0)
    assert not joined.done
    broker.wait.resolve(None)
    assert joined.result().generation_id == 1


def test_reads_wait_for_the_state_behind_them(broker: ReplicatedBroker) -> None:
    assert commit(broker, 5) is ErrorCode.NONE
    broker.wait = Deferred()
    found = fetch(broker)
    assert not found.done
    broker.wait.resolve(None)
    (group,) = found.result().groups
    assert group.topics[0].partitions[0].committed_offset == 5
    broker.wait = None
    assert fetch(broker).done


def beat(broker: ReplicatedBroker, member_id: str, group_id: str) -> Deferred[Struct]:
    return broker.send(HEARTBEAT, 4, group_id=group_id, generation_id=1, member_id=member_id)


@pytest.fixture
def crowded() -> ReplicatedBroker:
    """A member whose groups are in one partition."""
    made = ReplicatedBroker(partitions=1)
    made.controller.add("t")
    return made


def test_answers_wait_for_their_own_group_alone(crowded: ReplicatedBroker) -> None:
    """Below min.insync.replicas a group goes on whose records were committed before."""
    members = {group_id: stable_member(crowded, group_id) for group_id in ("g", "h")}
    crowded.committed, crowded.wait = crowded.hosted[0].log_end_offset, Deferred()
    sent = [OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(committed_offset=5)])]
    written = crowded.send(
        OFFSET_COMMIT, 8, group_id="g", generation_id_or_member_epoch=1, member_id=members["g"], topics=sent
    )
    read, listed = fetch(crowded), crowded.send(LIST_GROUPS, 4)
    assert beat(crowded, members["h"], "h").done
    held = [written, read, listed, beat(crowded, members["g"], "g")]
    assert [each.done for each in held] == [False] * 4
    crowded.wait.resolve(None)
    assert all(each.done for each in held)
    assert {each.group_id for each in listed.result().groups} == {"g", "h"}


def test_all_groups_wait_for_a_marker(crowded: ReplicatedBroker) -> None:
    """It decides about the offsets of the groups in the transaction."""
    member_id = stable_member(crowded, "h")
    crowded.committed, crowded.wait = crowded.hosted[0].log_end_offset, Deferred()
    assert beat(crowded, member_id, "h").done
    found = crowded.groups.log_at(0)
    assert not isinstance(found, ErrorCode)
    assert found.end_transaction(Producer(7, 0), 1, True) is ErrorCode.NONE
    assert not beat(crowded, member_id, "h").done
    crowded.committed += 1
    assert beat(crowded, member_id, "h").done


def test_a_new_leader_answers_once_all_it_has_found_is_committed(crowded: ReplicatedBroker) -> None:
    member_id = stable_member(crowded)
    lost = crowded.resign(0)
    crowded.committed, crowded.wait = lost.log_end_offset - 1, Deferred()
    crowded.lead(lost)
    assert not beat(crowded, member_id, "g").done
    crowded.committed += 1
    assert beat(crowded, member_id, "g").done


def test_a_wait_that_takes_too_long_is_an_error(broker: ReplicatedBroker) -> None:
    assert commit(broker, 5) is ErrorCode.NONE
    broker.wait = Deferred()
    found = fetch(broker)
    broker.advance(TIMEOUT_MS - 1)
    assert not found.done
    broker.advance(1)
    assert code_of(found.result().groups[0]) is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("lost_with", "code"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_wait_that_fails_says_where_to_ask(broker: ReplicatedBroker, lost_with: ErrorCode, code: ErrorCode) -> None:
    member_id = stable_member(broker)
    broker.wait = Deferred()
    beat = broker.send(HEARTBEAT, 4, group_id="g", generation_id=1, member_id=member_id)
    broker.wait.fail(NotCommitted(lost_with))
    assert code_of(beat.result()) is code


def test_a_shard_is_given_up_and_loaded_again_with_what_others_wrote(broker: ReplicatedBroker) -> None:
    assert commit(broker, 5) is ErrorCode.NONE
    member_id = stable_member(broker)
    waiting = join(broker, member_id=member_id), join(broker, "g")
    index = broker.partition_of("g").index
    broker.advance(0)
    lost = broker.resign(index)
    broker.advance(0)
    assert ErrorCode.NOT_COORDINATOR in {code_of(each.result()) for each in waiting}
    assert code_of(broker.send(HEARTBEAT, 4, group_id="g", generation_id=1, member_id=member_id).result()) is (
        ErrorCode.NOT_COORDINATOR
    )
    elsewhere = ReplicatedBroker(partitions=4)
    elsewhere.controller.add("t")
    elsewhere.resign(index)
    elsewhere.lead(lost)
    assert fetched(elsewhere) == 5
    assert commit(elsewhere, 6) is ErrorCode.UNKNOWN_MEMBER_ID  # the group has members: its state moved, too
    broker.lead(elsewhere.resign(index))
    assert fetched(broker) == 5
    assert heartbeat(broker, member_id) in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)


def test_sessions_go_on_without_a_request_to_the_new_coordinator(broker: ReplicatedBroker) -> None:
    """The shard is loaded when leadership comes, not with the first request."""
    stable_member(broker)
    index = broker.partition_of("g").index
    lost = broker.resign(index)
    broker.lead(lost)
    written = lost.log_end_offset
    broker.advance(10_000)
    assert lost.log_end_offset > written  # the member has left


def test_all_records_of_the_former_leader_are_replayed(broker: ReplicatedBroker) -> None:
    """Also those above the high watermark: the new leader will commit them."""
    assert commit(broker, 5) is ErrorCode.NONE
    lost = broker.resign(broker.partition_of("g").index)
    behind = type("Behind", (type(lost),), {"high_watermark": 0})
    lost.__class__ = behind
    broker.lead(lost)
    assert fetched(broker) == 5


def test_after_the_end_nothing_is_loaded(broker: ReplicatedBroker) -> None:
    lost = broker.resign(broker.partition_of("g").index)
    broker.groups.stop()
    broker.lead(lost)
    assert broker.groups.at("g") is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("key", [*OF_GROUPS, *OF_TRANSACTIONS, *OF_SHARES])
def test_each_request_has_keys_and_a_form_for_errors(key: int) -> None:
    """Without an error of its own a request would end the connection."""
    api = API_BY_KEY[key]
    request = api.request()
    keys = (OF_GROUPS | OF_TRANSACTIONS | OF_SHARES)[key](request)  # type: ignore[operator]
    assert keys is None or isinstance(tuple(keys), tuple)
    assert error_reply(api, api.versions.max, request, ErrorCode.NOT_COORDINATOR) is not None


def test_keys_of_shares_are_those_of_their_coordinators() -> None:
    partitions = [PartitionData(partition=index) for index in (0, 2)]
    request = WRITE_SHARE_GROUP_STATE.request(
        group_id="g", topics=[WriteStateData(topic_id=b"t" * 16, partitions=partitions)]
    )
    keys = list(OF_SHARES[ApiKey.WRITE_SHARE_GROUP_STATE](request))
    assert keys == [ShareKey("g", b"t" * 16, index).coordinator_key for index in (0, 2)]
    refused = error_reply(WRITE_SHARE_GROUP_STATE, 0, request, ErrorCode.NOT_COORDINATOR)
    assert refused is not None
    assert [each.error_code for each in refused.results[0].partitions] == [ErrorCode.NOT_COORDINATOR] * 2
