"""A member of share groups by hand: a test builds each request and compares answers as short texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from protocol.error_codes import ErrorCode
from protocol.messages import share_acknowledge, share_fetch
from protocol.messages.delete_share_group_state import DELETE_SHARE_GROUP_STATE, DeleteStateData
from protocol.messages.delete_share_group_state import PartitionData as DeletePartition
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from protocol.messages.initialize_share_group_state import (
    INITIALIZE_SHARE_GROUP_STATE,
    InitializeStateData,
)
from protocol.messages.initialize_share_group_state import PartitionData as InitializePartition
from protocol.messages.read_share_group_state import READ_SHARE_GROUP_STATE, ReadStateData
from protocol.messages.read_share_group_state import PartitionData as ReadPartition
from protocol.messages.read_share_group_state_summary import READ_SHARE_GROUP_STATE_SUMMARY, ReadStateSummaryData
from protocol.messages.read_share_group_state_summary import PartitionData as SummaryPartition
from protocol.messages.share_group_heartbeat import SHARE_GROUP_HEARTBEAT
from protocol.messages.write_share_group_state import WRITE_SHARE_GROUP_STATE, StateBatch, WriteStateData
from protocol.messages.write_share_group_state import PartitionData as WritePartition
from protocol.schema import Struct
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.settled import wait_for_changes, wait_for_topic

_GROUP_RESOURCE = 32
_GROUP_KEY, _SHARE_KEY = 0, 2
_PATIENCE_S = 90
#: (first offset, last offset, types) of records.
Acknowledgement: TypeAlias = "tuple[int, int, Sequence[int]]"


SHARE_PROPERTIES = {
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.record.lock.duration.ms": "600000",
    "group.share.max.record.lock.duration.ms": "600000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.session.timeout.ms": "600000",
    "group.share.max.session.timeout.ms": "600000",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
}
"""For a broker on a busy machine: members lose neither records nor their membership while they wait."""


class ShareClient(DataClient):
    """One connection of one member. Its group and topic id are set later."""

    group = ""
    member = "member"
    topic_id = bytes(16)
    epoch = 0

    def wait_for_group(self) -> None:
        """Wait for the coordinators of the group and of its share states."""
        self._patiently(lambda: self.call(FIND_COORDINATOR, 6, key_type=_GROUP_KEY, coordinator_keys=[self.group]))
        share = f"{self.group}:{'A' * 22}:0"
        self._patiently(lambda: self.call(FIND_COORDINATOR, 6, key_type=_SHARE_KEY, coordinator_keys=[share]))

    def _patiently(self, ask: Any) -> None:
        eventually(lambda: not ask().coordinators[0].error_code, timeout_s=_PATIENCE_S)

    def configure(self, **settings: str) -> None:
        """Set configurations of the group: share_isolation_level for share.isolation.level."""
        configs = [
            AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
            for key, value in settings.items()
        ]
        resource = AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=self.group, configs=configs)
        answer = self.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
        assert not answer.responses[0].error_code, answer

    def beat(self, epoch: int, topics: list[str] | None = None, *, member: str | None = None) -> Struct:
        return self.call(
            SHARE_GROUP_HEARTBEAT,
            1,
            group_id=self.group,
            member_id=self.member if member is None else member,
            member_epoch=epoch,
            subscribed_topic_names=topics,
        )

    def join(self, topic: str) -> None:
        """Send heartbeats until the member is assigned partitions."""
        epoch = 0

        def beat() -> Struct:
            nonlocal epoch
            answer = self.beat(epoch, [topic])
            epoch = epoch if answer.error_code else answer.member_epoch
            return answer

        eventually(
            beat,
            until=lambda answer: not answer.error_code and answer.assignment and answer.assignment.topic_partitions,
            timeout_s=_PATIENCE_S,
            interval_s=0.1,
        )

    # -- records ----------------------------------------------------------------------------------------------------

    def share_fetch(
        self,
        *batches: Acknowledgement,
        epoch: int | None = None,
        partition: int | None = None,
        wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        most: int = 500,
        size: int = 500,
        mode: int = 0,
        renew: bool = False,
    ) -> str:
        """Send a ShareFetch: code, and of each partition its code, that of acknowledgements, the acquired records, and
        bytes.
        """
        asked = [
            share_fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
            for first, last, types in batches
        ]
        epoch = self.epoch if epoch is None else epoch
        partitions = []
        if batches or partition is not None or not epoch:
            partitions = [share_fetch.FetchPartition(partition_index=partition or 0, acknowledgement_batches=asked)]
        answer = self.call(
            share_fetch.SHARE_FETCH,
            2,
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=epoch,
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            max_records=most,
            batch_size=size,
            share_acquire_mode=mode,
            is_renew_ack=renew,
            topics=[share_fetch.FetchTopic(topic_id=self.topic_id, partitions=partitions)] if partitions else [],
        )
        self._advance(answer, epoch)
        found = [
            f"{each.partition_index} {_code(each.error_code)} {_code(each.acknowledge_error_code)} "
            f"{_telling(each.acknowledge_error_message)} "
            f"{[(a.first_offset, a.last_offset, a.delivery_count) for a in each.acquired_records]} {len(each.records)}"
            for topic in answer.responses
            for each in topic.partitions
        ]
        return f"{_code(answer.error_code)} {answer.acquisition_lock_timeout_ms} {found}"

    def acquire(self, **options: Any) -> list[tuple[int, int, int]]:
        """Return the records that a fetch acquires: (first offset, last offset, delivery count)."""
        text = self.share_fetch(**options)
        assert text.startswith("NONE"), text
        given = text.partition("[(")[2].partition(")]")[0]
        return [tuple(map(int, each.split(", "))) for each in given.split("), (") if each]  # type: ignore[misc]

    def acknowledge(self, *batches: Acknowledgement, epoch: int | None = None, renew: bool = False) -> str:
        """Send a ShareAcknowledge: code, and that of each partition."""
        asked = [
            share_acknowledge.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
            for first, last, types in batches
        ]
        partitions = [share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=asked)]
        epoch = self.epoch if epoch is None else epoch
        answer = self.call(
            share_acknowledge.SHARE_ACKNOWLEDGE,
            2,
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=epoch,
            is_renew_ack=renew,
            topics=[share_acknowledge.AcknowledgeTopic(topic_id=self.topic_id, partitions=partitions)],
        )
        self._advance(answer, epoch)
        found = [
            f"{each.partition_index} {_code(each.error_code)} {_telling(each.error_message)}"
            for topic in answer.responses
            for each in topic.partitions
        ]
        return f"{_code(answer.error_code)} {found}"

    def _advance(self, answer: Struct, epoch: int) -> None:
        if not answer.error_code:
            self.epoch = 0 if epoch < 0 else epoch + 1

    # -- the share coordinator --------------------------------------------------------------------------------------

    def read(self, leader_epoch: int = 0, partition: int = 0) -> str:
        """Send a ReadShareGroupState."""
        data = ReadPartition(partition=partition, leader_epoch=leader_epoch)
        answer = self.call(
            READ_SHARE_GROUP_STATE,
            0,
            group_id=self.group,
            topics=[ReadStateData(topic_id=self.topic_id, partitions=[data])],
        )
        found = answer.results[0].partitions[0]
        batches = [(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in found.state_batches]
        return f"{_code(found.error_code)} {found.state_epoch} {found.start_offset} {batches}"

    def summarize(self, partition: int = 0) -> str:
        """Send a ReadShareGroupStateSummary."""
        data = SummaryPartition(partition=partition, leader_epoch=0)
        answer = self.call(
            READ_SHARE_GROUP_STATE_SUMMARY,
            1,
            group_id=self.group,
            topics=[ReadStateSummaryData(topic_id=self.topic_id, partitions=[data])],
        )
        found = answer.results[0].partitions[0]
        return (
            f"{_code(found.error_code)} {found.state_epoch} {found.leader_epoch} {found.start_offset} "
            f"{found.delivery_complete_count}"
        )

    def initialize(self, state_epoch: int, start_offset: int, partition: int = 0) -> str:
        """Send an InitializeShareGroupState."""
        data = InitializePartition(partition=partition, state_epoch=state_epoch, start_offset=start_offset)
        answer = self.call(
            INITIALIZE_SHARE_GROUP_STATE,
            0,
            group_id=self.group,
            topics=[InitializeStateData(topic_id=self.topic_id, partitions=[data])],
        )
        return _code(answer.results[0].partitions[0].error_code)

    def write(
        self,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        *batches: tuple[int, int, int, int],
        done: int = -1,
    ) -> str:
        """Send a WriteShareGroupState."""
        data = WritePartition(
            partition=0,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=done,
            state_batches=[
                StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in batches
            ],
        )
        answer = self.call(
            WRITE_SHARE_GROUP_STATE,
            1,
            group_id=self.group,
            topics=[WriteStateData(topic_id=self.topic_id, partitions=[data])],
        )
        return _code(answer.results[0].partitions[0].error_code)

    def delete(self, partition: int = 0) -> str:
        """Send a DeleteShareGroupState."""
        data = DeleteStateData(topic_id=self.topic_id, partitions=[DeletePartition(partition=partition)])
        answer = self.call(DELETE_SHARE_GROUP_STATE, 0, group_id=self.group, topics=[data])
        return _code(answer.results[0].partitions[0].error_code)


def member_of(broker: RunningBroker, name: str, *, partitions: int = 1) -> ShareClient:
    """Return a member of a new group that begins at the start of a new topic, both with this name."""
    client = ShareClient(HOST, broker.port, timeout_s=180)
    client.group = name
    client.topic_id = client.create_topic(name, partitions)
    wait_for_topic(broker, name, partitions)
    client.wait_for_group()
    client.configure(share_auto_offset_reset="earliest")
    wait_for_changes(broker)
    return client


def _code(code: int) -> str:
    return ErrorCode(code).name


def _telling(message: str | None) -> str | None:
    """Return a message that says more than the code; messages that only repeat it differ between brokers."""
    return message if message is None or "offset" in message or "record" in message else "-"
