"""Operations on the state of a share-partition: calls to this broker's coordinator, or requests to another (KIP-932).

Each has the same result in both forms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from coordinator.share.state import UNKNOWN_COUNT, ShareKey, ShareState, StateBatch
from protocol.messages import delete_share_group_state as delete_api
from protocol.messages import initialize_share_group_state as initialize_api
from protocol.messages import read_share_group_state as read_api
from protocol.messages import read_share_group_state_summary as summary_api
from protocol.messages import write_share_group_state as write_api

if TYPE_CHECKING:
    from broker.coordinators.share.coordinator import ShareCoordinator
    from protocol.schema import Api, Struct, StructType

T = TypeVar("T")


class ShareOperation(ABC, Generic[T]):
    """An operation on one share-partition."""

    api: ClassVar[Api]
    topic_type: ClassVar[StructType]
    #: Whether the caller has created the coordinator's topic before: this broker may not know it yet.
    has_topic: ClassVar[bool] = False

    def __init__(self, share: ShareKey) -> None:
        self.share = share

    @abstractmethod
    def run(self, states: ShareCoordinator) -> T:
        """Carry it out in this broker's coordinator. Raises Refused."""

    @abstractmethod
    def partition(self) -> Struct:
        """Return the request's part for the partition."""

    @abstractmethod
    def result(self, answered: Struct) -> T:
        """Return the result from an answer without an error."""


class Read(ShareOperation[ShareState]):
    """Read the state for the leader of an epoch."""

    api = read_api.READ_SHARE_GROUP_STATE
    topic_type = read_api.ReadStateData

    def __init__(self, share: ShareKey, leader_epoch: int) -> None:
        super().__init__(share)
        self.leader_epoch = leader_epoch

    def run(self, states: ShareCoordinator) -> ShareState:
        return states.read(self.share, self.leader_epoch)

    def partition(self) -> Struct:
        return read_api.PartitionData(partition=self.share.partition, leader_epoch=self.leader_epoch)

    def result(self, answered: Struct) -> ShareState:
        batches = tuple(
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in answered.state_batches
        )
        return ShareState(answered.state_epoch, answered.start_offset, leader_epoch=self.leader_epoch, batches=batches)


class Write(ShareOperation[None]):
    """Write changes. Later changes of the same epochs may be added until it is carried out."""

    api = write_api.WRITE_SHARE_GROUP_STATE
    topic_type = write_api.WriteStateData

    def __init__(
        self,
        share: ShareKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: tuple[StateBatch, ...],
    ) -> None:
        super().__init__(share)
        self.epochs = state_epoch, leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.batches = batches

    def add(self, later: Write) -> bool:
        """Add later changes; return False if they are of other epochs."""
        if later.epochs != self.epochs:
            return False
        self.start_offset = later.start_offset
        self.delivery_complete_count = later.delivery_complete_count
        self.batches += later.batches
        return True

    def run(self, states: ShareCoordinator) -> None:
        state_epoch, leader_epoch = self.epochs
        states.write(
            self.share,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            batches=self.batches,
        )

    def partition(self) -> Struct:
        state_epoch, leader_epoch = self.epochs
        return write_api.PartitionData(
            partition=self.share.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            state_batches=[
                write_api.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in self.batches
            ],
        )

    def result(self, answered: Struct) -> None:
        """Return nothing: the changes are written."""


class Initialize(ShareOperation[None]):
    """Create the state, or reset it."""

    api = initialize_api.INITIALIZE_SHARE_GROUP_STATE
    topic_type = initialize_api.InitializeStateData
    has_topic = True

    def __init__(self, share: ShareKey, state_epoch: int, start_offset: int) -> None:
        super().__init__(share)
        self.state_epoch = state_epoch
        self.start_offset = start_offset

    def run(self, states: ShareCoordinator) -> None:
        states.initialize(self.share, self.state_epoch, self.start_offset)

    def partition(self) -> Struct:
        return initialize_api.PartitionData(
            partition=self.share.partition, state_epoch=self.state_epoch, start_offset=self.start_offset
        )

    def result(self, answered: Struct) -> None:
        """Return nothing: the state is initialized."""


class Delete(ShareOperation[None]):
    """Delete the state, if there is any."""

    api = delete_api.DELETE_SHARE_GROUP_STATE
    topic_type = delete_api.DeleteStateData

    def run(self, states: ShareCoordinator) -> None:
        states.delete(self.share)

    def partition(self) -> Struct:
        return delete_api.PartitionData(partition=self.share.partition)

    def result(self, answered: Struct) -> None:
        """Return nothing: the state is deleted."""


class Summarize(ShareOperation[ShareState]):
    """Read the state without its batches, whatever the leader epoch is."""

    api = summary_api.READ_SHARE_GROUP_STATE_SUMMARY
    topic_type = summary_api.ReadStateSummaryData

    def run(self, states: ShareCoordinator) -> ShareState:
        return states.summarize(self.share)

    def partition(self) -> Struct:
        return summary_api.PartitionData(partition=self.share.partition, leader_epoch=0)

    def result(self, answered: Struct) -> ShareState:
        return ShareState(
            answered.state_epoch,
            answered.start_offset,
            leader_epoch=answered.leader_epoch,
            delivery_complete_count=getattr(answered, "delivery_complete_count", UNKNOWN_COUNT),
        )
