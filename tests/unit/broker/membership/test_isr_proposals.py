"""Proposals of in-sync replicas reach the controller one request at a time, until each is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.membership.isr_proposals import IsrProposals
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition import ResponsePartitionData, ResponseTopicData
from replication.isr_changes import Answer, Outcome
from replication.leading import Proposal
from replication.observing import Endpoint
from runtime.timers import Timers
from tests.support.fake_loop import FakeLoop
from tests.unit.broker.membership.channels import CONTROLLER, MemoryChannel

TOPIC = b"orders-id-of-16b"
FIRST, SECOND = (TOPIC, 0), (TOPIC, 1)
ALONE = Proposal(isr=((1, 5),), leader_epoch=3, partition_epoch=7)


class Stage:
    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.channel: Any = MemoryChannel()
        self.leader: Endpoint | None = CONTROLLER
        self.answers: list[Answer] = []
        self.on_answer: Callable[[Answer], None] = self.answers.append
        self.proposals = IsrProposals(
            1,
            self.channel,
            lambda: self.leader,
            lambda: 5,
            Timers(self.loop, self.loop.clock),
            lambda answer: self.on_answer(answer),
        )

    def named(self, request: int) -> list[int]:
        """Return the partitions of a request."""
        return [each.partition_index for each in self.channel.requests[request].topics[0].partitions]

    def accept(self, *partitions: int, code: ErrorCode = ErrorCode.NONE) -> None:
        found = [ResponsePartitionData(partition_index=index, error_code=code, isr=[1]) for index in partitions]
        self.channel.answer(topics=[ResponseTopicData(topic_id=TOPIC, partitions=found)])


def test_proposals_gather_while_a_request_is_in_flight() -> None:
    stage = Stage()
    stage.proposals.propose(FIRST, ALONE)
    stage.proposals.propose(SECOND, ALONE)
    assert len(stage.channel.requests) == 1
    stage.accept(0)
    stage.loop.advance(0)
    assert (stage.named(0), stage.named(1)) == ([0], [1])
    assert [(each.key, each.outcome) for each in stage.answers] == [(FIRST, Outcome.COMMITTED)]
    assert stage.channel.requests[0].broker_epoch == 5


def test_proposal_without_an_answer_is_sent_again_after_a_pause() -> None:
    stage = Stage()
    stage.proposals.propose(FIRST, ALONE)
    stage.channel.lose()
    assert len(stage.channel.requests) == 1
    stage.loop.advance(50)
    assert stage.named(1) == [0]
    assert (stage.proposals.failures, stage.answers) == (1, [])


def test_proposal_waits_until_a_controller_is_active() -> None:
    stage = Stage()
    stage.leader = None
    stage.proposals.propose(FIRST, ALONE)
    stage.loop.advance(200)
    assert not stage.channel.requests
    stage.leader = CONTROLLER
    stage.loop.advance(50)
    assert stage.named(0) == [0]


def test_stale_broker_epoch_answers_no_proposal() -> None:
    stage = Stage()
    stage.proposals.propose(FIRST, ALONE)
    stage.channel.answer(error_code=ErrorCode.STALE_BROKER_EPOCH)
    stage.loop.advance(50)
    assert stage.named(1) == [0]
    stage.accept(0, code=ErrorCode.INVALID_UPDATE_VERSION)
    assert [each.outcome for each in stage.answers] == [Outcome.SUPERSEDED]


def test_nothing_is_sent_after_the_end() -> None:
    stage = Stage()
    stage.proposals.propose(FIRST, ALONE)
    stage.channel.lose()
    stage.proposals.close()
    stage.loop.advance(1000)
    assert len(stage.channel.requests) == 1
    assert stage.channel.is_closed


def test_answer_may_lead_to_the_next_proposal() -> None:
    stage = Stage()
    stage.on_answer = lambda answer: stage.proposals.propose(SECOND, ALONE)
    stage.proposals.propose(FIRST, ALONE)
    stage.accept(0)
    stage.loop.advance(0)
    assert stage.named(1) == [1]
