"""Requests to change in-sync replicas: one AlterPartition at a time, with all proposals that have gathered (KIP-497).

Kafka's AlterPartitionManager. A partition has one proposal at most until it gets an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition import (
    ALTER_PARTITION,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from protocol.schema import Struct
from replication.leading import Proposal
from replication.partition_key import PartitionKey


class Outcome(Enum):
    """The end of a proposal."""

    COMMITTED = auto()  # the answer has the ISR
    REFUSED = auto()  # the controller changed nothing: the committed ISR holds
    SUPERSEDED = auto()  # the leader or the partition has changed; the metadata log will say how


class Answer(NamedTuple):
    """The controller's answer to a proposal. `isr` and the epochs are those of the response if it is COMMITTED."""

    key: PartitionKey
    proposal: Proposal
    outcome: Outcome
    error_code: int = ErrorCode.NONE
    isr: tuple[int, ...] = ()
    leader_epoch: int = -1
    partition_epoch: int = -1


#: Any other error of a partition is temporary, and the proposal is sent again.
_OUTCOMES = {
    ErrorCode.OPERATION_NOT_ATTEMPTED: Outcome.REFUSED,
    ErrorCode.INELIGIBLE_REPLICA: Outcome.REFUSED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Outcome.SUPERSEDED,
    ErrorCode.UNKNOWN_TOPIC_ID: Outcome.SUPERSEDED,
    ErrorCode.FENCED_LEADER_EPOCH: Outcome.SUPERSEDED,
    ErrorCode.INVALID_UPDATE_VERSION: Outcome.SUPERSEDED,
    ErrorCode.INVALID_REQUEST: Outcome.SUPERSEDED,
    ErrorCode.NEW_LEADER_ELECTED: Outcome.SUPERSEDED,
}


class IsrChanges:
    """Proposals of all partitions that this broker leads."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._waiting: dict[PartitionKey, Proposal] = {}
        self._sent: dict[PartitionKey, Proposal] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._sent)

    @property
    def in_flight(self) -> bool:
        return bool(self._sent)

    def propose(self, key: PartitionKey, proposal: Proposal) -> None:
        """Add a proposal; it replaces one of an earlier epoch that was not sent yet."""
        self._waiting[key] = proposal

    def forget(self, key: PartitionKey) -> None:
        """The partition is no longer led here. An answer to what was sent is ignored by its epoch."""
        self._waiting.pop(key, None)

    def next_request(self, broker_epoch: int) -> Struct | None:
        """Return an AlterPartition request with all proposals, or None if there is none or one is in flight."""
        if self._sent or not self._waiting:
            return None
        self._sent, self._waiting = self._waiting, {}
        topics: dict[bytes, list[Struct]] = {}
        for (topic_id, index), proposal in self._sent.items():
            isr = [BrokerState(broker_id=each, broker_epoch=epoch) for each, epoch in proposal.isr]
            topics.setdefault(topic_id, []).append(
                RequestPartitionData(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=isr,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return ALTER_PARTITION.request(
            broker_id=self._node_id,
            broker_epoch=broker_epoch,
            topics=[RequestTopicData(topic_id=topic_id, partitions=each) for topic_id, each in topics.items()],
        )

    def failed(self) -> None:
        """The request got no answer, or none of a controller that serves: its outcome is unknown. Send it again."""
        self._waiting = self._sent | self._waiting
        self._sent = {}

    def answered(self, response: Struct) -> list[Answer]:
        """Return the answers for proposals. Those with temporary errors, or without an answer, wait to be sent again.

        After an error of the whole request, such as STALE_BROKER_EPOCH, nothing is known: as `failed`.
        """
        if response.error_code != ErrorCode.NONE:
            self.failed()
            return []
        sent, self._sent = self._sent, {}
        answers = [each for each in self._answers(sent, response) if each is not None]
        for key in {each.key for each in answers}:
            sent.pop(key)
        self._waiting = sent | self._waiting
        return answers

    @staticmethod
    def _answers(sent: dict[PartitionKey, Proposal], response: Struct) -> Iterator[Answer | None]:
        for topic in response.topics:
            for found in topic.partitions:
                key = topic.topic_id, found.partition_index
                proposal = sent.get(key)
                if proposal is None:
                    continue
                if found.error_code == ErrorCode.NONE:
                    isr, epochs = tuple(found.isr), (found.leader_epoch, found.partition_epoch)
                    yield Answer(key, proposal, Outcome.COMMITTED, ErrorCode.NONE, isr, *epochs)
                elif (outcome := _OUTCOMES.get(found.error_code)) is not None:
                    yield Answer(key, proposal, outcome, found.error_code)
