"""A member of share groups by hand: a test builds each request and compares answers as short texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from protocol.error_codes import ErrorCode
from protocol.messages.delete_share_group_state import DELETE_SHARE_GROUP_STATE
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.initialize_share_group_state import (
    INITIALIZE_SHARE_GROUP_STATE,
)
from protocol.messages.read_share_group_state import READ_SHARE_GROUP_STATE
from protocol.messages.read_share_group_state_summary import READ_SHARE_GROUP_STATE_SUMMARY
from protocol.messages.share_acknowledge import SHARE_ACKNOWLEDGE
from protocol.messages.share_fetch import SHARE_FETCH
from protocol.messages.share_group_heartbeat import SHARE_GROUP_HEARTBEAT
from protocol.messages.write_share_group_state import WRITE_SHARE_GROUP_STATE
from protocol.schema import Api, Struct
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.settled import wait_for_changes, wait_for_topic

_GROUP_KEY, _SHARE_KEY = 0, 2
_PATIENCE_S = 90
_SHORT = {
    "wait_ms": "max_wait_ms",
    "most": "max_records",
    "size": "batch_size",
    "mode": "share_acquire_mode",
    "renew": "is_renew_ack",
}
#: the limits of a fetch
FETCH_LIMITS = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
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
        self._retry(lambda: self.call(FIND_COORDINATOR, 6, key_type=_GROUP_KEY, coordinator_keys=[self.group]))
        share = f"{self.group}:{'A' * 22}:0"
        self._retry(lambda: self.call(FIND_COORDINATOR, 6, key_type=_SHARE_KEY, coordinator_keys=[share]))

    def _retry(self, ask: Any) -> None:
        eventually(lambda: not ask().coordinators[0].error_code, timeout_s=_PATIENCE_S)

    def configure(self, **settings: str) -> None:
        """Set configurations of the group, as `set_group_configs` does."""
        self.set_group_configs(self.group, **settings)

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
        **fields: Any,
    ) -> str:
        """Send a ShareFetch: code, and of each partition its code, that of acknowledgements, the acquired records, and
        bytes. `fields` have short names (`_SHORT`).
        """
        own = {_SHORT.get(name, name): value for name, value in fields.items()}
        epoch = self.epoch if epoch is None else epoch
        partitions = []
        if batches or partition is not None or not epoch:
            partitions = [{"partition_index": partition or 0, "acknowledgement_batches": batches_of(batches)}]
        topics = [{"topic_id": self.topic_id, "partitions": partitions}] if partitions else []
        answer = self.call(SHARE_FETCH, 2, self.session_fields(epoch) | FETCH_LIMITS | {"topics": topics} | own)
        self._advance(answer, epoch)
        found = [
            f"{each.partition_index} {_code(each.error_code)} {_code(each.acknowledge_error_code)} "
            f"{_comparable(each.acknowledge_error_message)} {acquired(each)} {len(each.records)}"
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
        epoch = self.epoch if epoch is None else epoch
        partitions = [{"partition_index": 0, "acknowledgement_batches": batches_of(batches)}]
        topics = [{"topic_id": self.topic_id, "partitions": partitions}]
        answer = self.call(SHARE_ACKNOWLEDGE, 2, self.session_fields(epoch), is_renew_ack=renew, topics=topics)
        self._advance(answer, epoch)
        found = [
            f"{each.partition_index} {_code(each.error_code)} {_comparable(each.error_message)}"
            for topic in answer.responses
            for each in topic.partitions
        ]
        return f"{_code(answer.error_code)} {found}"

    def session_fields(self, epoch: int) -> dict[str, Any]:
        """Return the fields of a request that name the member and its share session."""
        return {"group_id": self.group, "member_id": self.member, "share_session_epoch": epoch}

    def _advance(self, answer: Struct, epoch: int) -> None:
        if not answer.error_code:
            self.epoch = 0 if epoch < 0 else epoch + 1

    # -- the share coordinator --------------------------------------------------------------------------------------

    def _ask(self, api: Api, version: int, partition: int, **fields: Any) -> Struct:
        """Send a request about the state of one partition; return the partition's answer."""
        topics = [{"topic_id": self.topic_id, "partitions": [{"partition": partition, **fields}]}]
        answer: Struct = self.call(api, version, group_id=self.group, topics=topics).results[0].partitions[0]
        return answer

    def read(self, leader_epoch: int = 0, partition: int = 0) -> str:
        """Send a ReadShareGroupState."""
        found = self._ask(READ_SHARE_GROUP_STATE, 0, partition, leader_epoch=leader_epoch)
        batches = [(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in found.state_batches]
        return f"{_code(found.error_code)} {found.state_epoch} {found.start_offset} {batches}"

    def summarize(self, partition: int = 0) -> str:
        """Send a ReadShareGroupStateSummary."""
        found = self._ask(READ_SHARE_GROUP_STATE_SUMMARY, 1, partition, leader_epoch=0)
        return (
            f"{_code(found.error_code)} {found.state_epoch} {found.leader_epoch} {found.start_offset} "
            f"{found.delivery_complete_count}"
        )

    def initialize(self, state_epoch: int, start_offset: int, partition: int = 0) -> str:
        """Send an InitializeShareGroupState."""
        fields = {"state_epoch": state_epoch, "start_offset": start_offset}
        return _code(self._ask(INITIALIZE_SHARE_GROUP_STATE, 0, partition, **fields).error_code)

    def write(
        self, state_epoch: int, leader_epoch: int, start_offset: int, *batches: tuple[int, int, int, int],
        done: int = -1,
    ) -> str:  # fmt: skip
        """Send a WriteShareGroupState."""
        names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        found = self._ask(
            WRITE_SHARE_GROUP_STATE, 1, 0, state_epoch=state_epoch, leader_epoch=leader_epoch,
            start_offset=start_offset, delivery_complete_count=done,
            state_batches=[dict(zip(names, each, strict=True)) for each in batches],
        )  # fmt: skip
        return _code(found.error_code)

    def delete(self, partition: int = 0) -> str:
        """Send a DeleteShareGroupState."""
        return _code(self._ask(DELETE_SHARE_GROUP_STATE, 0, partition).error_code)


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


def batches_of(acknowledged: Sequence[Acknowledgement]) -> list[dict[str, Any]]:
    """Return acknowledgements as a request has them."""
    names = ("first_offset", "last_offset", "acknowledge_types")
    return [dict(zip(names, (first, last, list(types)), strict=True)) for first, last, types in acknowledged]


def acquired(partition: Struct) -> list[tuple[int, int, int]]:
    """Return the records that a partition's answer gives to a member: first offset, last offset, delivery count."""
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in partition.acquired_records]


def _code(code: int) -> str:
    return ErrorCode(code).name


def _comparable(message: str | None) -> str | None:
    """Return a message that says more than the code; messages that only repeat it differ between brokers."""
    return message if message is None or "offset" in message or "record" in message else "-"
