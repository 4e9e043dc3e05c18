"""The group coordinator goes on once another broker has changed the states of share-partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.coordinators.group.coordinator import GroupCoordinator
from coordinator.group.refused import Refused
from coordinator.share.state import ShareKey
from protocol.error_codes import ErrorCode
from protocol.messages.alter_share_group_offsets import ALTER_SHARE_GROUP_OFFSETS
from protocol.messages.delete_groups import DELETE_GROUPS
from protocol.messages.delete_share_group_offsets import DELETE_SHARE_GROUP_OFFSETS
from protocol.messages.describe_share_group_offsets import DESCRIBE_SHARE_GROUP_OFFSETS
from runtime.deferred import Deferred
from tests.support.share_broker import SETTINGS, ShareBroker, ShareMemberClient


class LaterStates:
    """The states of share-partitions, whose results come later. `refusal`: the error of all changes."""

    def __init__(self, broker: ShareBroker) -> None:
        self._broker = broker
        self.refusal: ErrorCode | None = None
        self.initialized: list[int] = []

    def _later(self, change: Callable[[], Any]) -> Deferred[Any]:
        answered: Deferred[Any] = Deferred()

        def finish() -> None:
            if self.refusal is not None:
                answered.fail(Refused(self.refusal))
                return
            try:
                answered.resolve(change())
            except Refused as refusal:
                answered.fail(refusal)

        self._broker.loop.call_soon(finish)
        return answered

    def initialize(self, share: ShareKey, state_epoch: int, start_offset: int) -> Deferred[None]:
        self.initialized.append(start_offset)
        return self._later(lambda: self._broker.share_coordinator.initialize(share, state_epoch, start_offset))

    def delete(self, share: ShareKey) -> Deferred[None]:
        return self._later(lambda: self._broker.share_coordinator.delete(share))

    def summarize(self, share: ShareKey) -> Deferred[Any]:
        return self._later(lambda: self._broker.share_coordinator.summarize(share))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker.share_coordinator, name)


class SplitBroker(ShareBroker):
    """A broker whose group coordinator has no states itself."""

    def start_coordinators(self) -> None:
        super().start_coordinators()
        self.states = self.share_states = LaterStates(self)
        self.groups = GroupCoordinator(self, self.controller, self.states)  # type: ignore[arg-type]
        self.groups.start()


pytestmark = pytest.mark.broker(SplitBroker, SETTINGS)


def altered(broker: ShareBroker, offset: int) -> ErrorCode:
    topic = {"topic_name": "t", "partitions": [{"partition_index": 0, "start_offset": offset}]}
    answer = broker.call(ALTER_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=[topic])
    return ErrorCode(answer.error_code or answer.responses[0].partitions[0].error_code)


def offsets(broker: ShareBroker) -> list[tuple[int, int]]:
    """Return (start offset, lag or error) of the group's partitions."""
    (found,) = broker.call(DESCRIBE_SHARE_GROUP_OFFSETS, 1, groups=[{"group_id": "g", "topics": None}]).groups
    return [(each.start_offset, each.error_code or each.lag) for topic in found.topics for each in topic.partitions]


def test_members_get_partitions_whose_states_are_initialized(broker: SplitBroker, member: ShareMemberClient) -> None:
    broker.fill(3)
    assert member.acquire(wait_ms=0) == [(0, 2, 1)]
    assert broker.states.initialized == [-1]


def test_offsets_are_set_and_described(broker: SplitBroker, member: ShareMemberClient) -> None:
    broker.fill(5)
    assert altered(broker, 2) is ErrorCode.NON_EMPTY_GROUP
    member.beat(-1)
    assert altered(broker, 2) is ErrorCode.NONE
    assert offsets(broker) == [(2, 3)]


def test_an_offset_that_is_being_set_is_not_reset(broker: SplitBroker) -> None:
    """The coordinator must not initialize the state of a partition meanwhile: the offset would be lost."""
    broker.fill(5)
    assert altered(broker, 4) is ErrorCode.NONE
    topic = {"topic_name": "t", "partitions": [{"partition_index": 0, "start_offset": 2}]}
    reply = broker.send(ALTER_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=[topic])
    broker.groups.share_states.initialize("g")
    broker.settle()
    assert reply is not None
    assert reply.done
    broker.advance(1_000)
    broker.settle()
    assert offsets(broker) == [(2, 3)]
    assert broker.states.initialized == [4, 2]


def test_errors_of_the_other_broker_are_answered(broker: SplitBroker, member: ShareMemberClient) -> None:
    member.beat(-1)
    broker.states.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert altered(broker, 2) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert offsets(broker) == [(-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    answer = broker.call(DELETE_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=[{"topic_name": "t"}])
    assert answer.responses[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    (deleted,) = broker.call(DELETE_GROUPS, 2, groups_names=["g"]).results
    assert deleted.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_states_are_deleted_before_their_topic_or_group_goes(broker: SplitBroker, member: ShareMemberClient) -> None:
    member.beat(-1)
    answer = broker.call(DELETE_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=[{"topic_name": "t"}])
    assert [each.error_code for each in answer.responses] == [ErrorCode.NONE]
    assert offsets(broker) == []
    assert altered(broker, 1) is ErrorCode.NONE
    (deleted,) = broker.call(DELETE_GROUPS, 2, groups_names=["g"]).results
    assert deleted.error_code == ErrorCode.NONE
    share = ShareKey("g", broker.partition("t").topic_id, 0)
    assert broker.share_coordinator.summarize(share).start_offset == -1
