"""The reference controller decides as Apache Kafka's did in a recorded cluster of three brokers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from metadata.partition_registration import PartitionRegistration
from protocol.messages.alter_partition import ALTER_PARTITION, BrokerState, RequestPartitionData, RequestTopicData
from replication.partition_key import PartitionKey
from tests.simulation.controller import Controller
from tests.simulation.invariants import Invariants
from tests.simulation.metadata import BrokerState as Registered
from tests.simulation.metadata import ChangeBroker, ChangePartition, RegisterBroker
from tests.simulation.transport import Config
from tests.simulation.world import World

RECORDS = Path(__file__).parents[1] / "data" / "cluster" / "records.tsv"
_LISTS = {
    "replicas": "replicas",
    "isr": "isr",
    "eligibleLeaderReplicas": "eligible_leader_replicas",
    "lastKnownElr": "last_known_elr",
    "addingReplicas": "adding_replicas",
    "removingReplicas": "removing_replicas",
}


class Recorded(NamedTuple):
    """A record of the recorded metadata log."""

    kind: str
    fields: dict[str, Any]

    @property
    def key(self) -> PartitionKey:
        return bytes.fromhex(self.fields["topicId"]), self.fields.get("partitionId", 0)


def batches() -> Iterator[list[Recorded]]:
    """Return the recorded batches: records of consecutive offsets that were written together."""
    batch: list[Recorded] = []
    expected = -1
    for line in RECORDS.read_text().splitlines()[1:]:
        _, offset, count, kind, fields = line.split("\t")
        record = Recorded(kind, json.loads(fields))
        is_next_change = kind == "PartitionChangeRecord" and any(
            each.kind == kind and each.key == record.key for each in batch
        )
        if batch and (count == "1" or int(offset) != expected or is_next_change):
            yield batch
            batch = []
        batch.append(record)
        expected = int(offset) + 1
    yield batch


class Unchecked(Invariants):
    """Checks of a world without brokers."""

    def partition_changed(self, record: ChangePartition, before: PartitionRegistration | None) -> None:
        """Check nothing."""


class Replayed(Controller):
    """A controller with the state of the recorded one."""

    def __init__(self) -> None:
        super().__init__(1, Unchecked(World(Config())))

    def changed(self, record: Recorded) -> PartitionRegistration:
        """Return a partition after a recorded change."""
        old = self.image.partitions[record.key]
        found = record.fields
        lists: dict[str, Any] = {name: tuple(found[each]) for each, name in _LISTS.items() if each in found}
        new = old._replace(**lists)
        epoch = old.leader_epoch + ("leader" in found)
        return new._replace(
            leader=found.get("leader", old.leader), leader_epoch=epoch, partition_epoch=old.partition_epoch + 1
        )

    def take(self, record: Recorded) -> None:
        """Apply a record."""
        found = record.fields
        if record.kind == "RegisterBrokerRecord":
            self.image.apply(RegisterBroker(found["brokerId"], Registered(found["brokerEpoch"], b"")))
        elif record.kind == "BrokerRegistrationChangeRecord":
            fenced = {1: True, -1: False}.get(found.get("fenced", 0))
            leaves = found.get("inControlledShutdown") == 1
            self.image.apply(ChangeBroker(found["brokerId"], found["brokerEpoch"], fenced, leaves))
        elif record.kind == "PartitionRecord":
            replicas = tuple(found["replicas"])
            state = PartitionRegistration(replicas, tuple(found["isr"]), found["leader"], 0, 0)
            self.image.apply(ChangePartition(record.key, state))
        elif record.kind == "PartitionChangeRecord":
            self.image.apply(ChangePartition(record.key, self.changed(record)))


def _without_directories(partition: PartitionRegistration) -> PartitionRegistration:
    """Return a partition without its directories, which the recording lacks."""
    return partition._replace(directories=())


def altered(controller: Replayed, record: Recorded) -> dict[PartitionKey, PartitionRegistration]:
    """Ask the controller for a recorded ISR, as the leader did. One with all added replicas ends a reassignment."""
    old = controller.image.partitions[record.key]
    asked_isr = dict.fromkeys((*old.isr, *old.adding_replicas)) if "replicas" in record.fields else record.fields["isr"]
    isr = [BrokerState(broker_id=each, broker_epoch=controller.image.brokers[each].epoch) for each in asked_isr]
    asked = RequestPartitionData(
        partition_index=record.key[1],
        leader_epoch=old.leader_epoch,
        new_isr_with_epochs=isr,
        partition_epoch=old.partition_epoch,
    )
    leader = controller.image.brokers[old.leader]
    before = dict(controller.image.partitions)
    controller.alter_partition(
        ALTER_PARTITION.request(
            broker_id=old.leader,
            broker_epoch=leader.epoch,
            topics=[RequestTopicData(topic_id=record.key[0], partitions=[asked])],
        )
    )
    found, controller.image.partitions = controller.image.partitions, before
    return {record.key: found[record.key]}


def preferred(controller: Replayed, record: Recorded) -> dict[PartitionKey, PartitionRegistration]:
    """Elect the preferred replica of a partition."""
    before = dict(controller.image.partitions)
    controller.prefer(record.key, before[record.key].replicas[0])
    found, controller.image.partitions = controller.image.partitions, before
    return {record.key: found[record.key]}


def reassigned(controller: Replayed, record: Recorded) -> dict[PartitionKey, PartitionRegistration]:
    """Begin a recorded reassignment."""
    before = dict(controller.image.partitions)
    removed = record.fields["removingReplicas"]
    controller.reassign(record.key, tuple(each for each in record.fields["replicas"] if each not in removed))
    found, controller.image.partitions = controller.image.partitions, before
    return {record.key: found[record.key]}


def test_decisions_are_those_of_the_recorded_controller() -> None:
    controller = Replayed()
    compared = Counter[str]()
    for batch in batches():
        changes = [each for each in batch if each.kind == "PartitionChangeRecord"]
        gone = [
            each.fields["brokerId"]
            for each in batch
            if each.fields.get("fenced") == 1 or each.fields.get("inControlledShutdown") == 1
        ]
        expected = {each.key: controller.changed(each) for each in changes}
        if gone:
            moves = controller.moves(removed=gone[0])
            found = {each.key: each.state for each in moves if isinstance(each, ChangePartition)}
            assert {key: _without_directories(state) for key, state in found.items()} == expected
            compared["broker goes"] += 1
        else:
            for each in changes:
                begins = bool(each.fields.get("addingReplicas"))
                decide = reassigned if begins else altered if "isr" in each.fields else preferred
                assert _without_directories(decide(controller, each)[each.key]) == expected[each.key]
                compared[decide.__name__] += 1
        for record in batch:
            controller.take(record)
    assert compared == {"broker goes": 11, "altered": 23, "preferred": 6, "reassigned": 2}
