"""The records of a streams group in `__consumer_offsets` as values, and their bytes.

| type | of a | content |
|---|---|---|
| 17 | group | epoch, hash of its topics, epoch of the validated topology, settings of the assignment |
| 19 | member | its identity |
| 20 | group | epoch and time of the target assignment |
| 21 | member | its target |
| 22 | member | its epoch and its tasks |
| 23 | group | its topology |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

import msgspec

from coordinator.group.assignors.java_order import string_rank
from coordinator.group.modern.record import Kind, ModernRecord, TargetEpoch, target_epoch_kind
from coordinator.group.streams.member import Endpoint, MemberState, StreamsMember
from coordinator.group.streams.tasks import Epochs, OwnedTasks, Tasks, TaskSet
from coordinator.group.streams.topology import Topology, topology_of, topology_struct
from protocol.messages.coordinator import streams_group as messages
from protocol.schema import Struct

GROUP, MEMBER, TARGET_EPOCH, TARGET, CURRENT, TOPOLOGY = 17, 19, 20, 21, 22, 23


class GroupEpoch(msgspec.Struct, frozen=True):
    """A group's epoch, the hash of its topics, the epoch of the validated topology, and the settings of its assignment.

    The epoch of the validated topology is -1 if there is none. So are the epochs of the topology whose description is
    stored, and of one whose description cannot be stored (KIP-1331). A stored epoch of -2 is uncertain.
    """

    epoch: int
    metadata_hash: int
    validated_topology_epoch: int
    assignment_configs: Mapping[str, str]
    stored_description_epoch: int = -1
    failed_description_epoch: int = -1


class Current(msgspec.Struct, frozen=True):
    """A member's epochs, state and tasks."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: OwnedTasks
    revoking: OwnedTasks


Content: TypeAlias = GroupEpoch | TargetEpoch | StreamsMember | Tasks | Current | Topology


# -- bytes ------------------------------------------------------------------------------------------------------------


def _group_struct(group: GroupEpoch) -> Struct:
    return messages.StreamsGroupMetadataValue(
        epoch=group.epoch,
        metadata_hash=group.metadata_hash,
        validated_topology_epoch=group.validated_topology_epoch,
        last_assignment_configs=[
            messages.LastAssignmentConfig(key=key, value=group.assignment_configs[key])
            for key in sorted(group.assignment_configs)
        ],
        stored_description_topology_epoch=group.stored_description_epoch,
        failed_description_topology_epoch=group.failed_description_epoch,
    )


def _group(stored: Struct) -> GroupEpoch:
    configs = {config.key: config.value for config in stored.last_assignment_configs or ()}
    return GroupEpoch(
        stored.epoch,
        stored.metadata_hash,
        stored.validated_topology_epoch,
        configs,
        stored.stored_description_topology_epoch,
        stored.failed_description_topology_epoch,
    )


def _member_struct(member: StreamsMember) -> Struct:
    endpoint = member.endpoint
    return messages.StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else messages.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[
            messages.KeyValue(key=key, value=member.client_tags[key])
            for key in sorted(member.client_tags, key=string_rank)
        ],
    )


def _member(stored: Struct) -> StreamsMember:
    endpoint = stored.user_endpoint
    return StreamsMember(
        member_id="",
        instance_id=stored.instance_id,
        rack_id=stored.rack_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        topology_epoch=stored.topology_epoch,
        process_id=stored.process_id,
        endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags={tag.key: tag.value for tag in stored.client_tags},
    )


def _target_struct(target: Tasks) -> Struct:
    def structs(tasks: TaskSet) -> list[Struct]:
        return [
            messages.StreamsGroupTargetAssignmentMemberTaskIds(subtopology_id=each, partitions=sorted(tasks[each]))
            for each in sorted(tasks, key=string_rank)
        ]

    return messages.StreamsGroupTargetAssignmentMemberValue(
        active_tasks=structs(target.active), standby_tasks=structs(target.standby), warmup_tasks=structs(target.warmup)
    )


def _target(stored: Struct) -> Tasks:
    return Tasks(_tasks(stored.active_tasks), _tasks(stored.standby_tasks), _tasks(stored.warmup_tasks))


def _tasks(stored: Collection[Struct]) -> TaskSet:
    return {each.subtopology_id: frozenset(each.partitions) for each in stored}


def _current_struct(current: Current) -> Struct:
    has, revoking = current.assigned, current.revoking
    return messages.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=current.state,
        active_tasks=_active_structs(has.active),
        standby_tasks=_owned_structs(has.standby),
        warmup_tasks=_owned_structs(has.warmup),
        active_tasks_pending_revocation=_active_structs(revoking.active),
        standby_tasks_pending_revocation=_owned_structs(revoking.standby),
        warmup_tasks_pending_revocation=_owned_structs(revoking.warmup),
    )


def _owned_structs(tasks: TaskSet) -> list[Struct]:
    return [
        messages.StreamsGroupCurrentMemberAssignmentTaskIds(subtopology_id=each, partitions=sorted(tasks[each]))
        for each in sorted(tasks, key=string_rank)
    ]


def _active_structs(tasks: Epochs) -> list[Struct]:
    return [
        messages.StreamsGroupCurrentMemberAssignmentTaskIds(
            subtopology_id=each,
            partitions=sorted(tasks[each]),
            assignment_epochs=[tasks[each][partition] for partition in sorted(tasks[each])],
        )
        for each in sorted(tasks, key=string_rank)
    ]


def _current(stored: Struct) -> Current:
    known = frozenset(MemberState)
    epoch = stored.member_epoch
    return Current(
        epoch,
        stored.previous_member_epoch,
        MemberState(stored.state) if stored.state in known else MemberState.UNKNOWN,
        OwnedTasks(_active(stored.active_tasks, epoch), _tasks(stored.standby_tasks), _tasks(stored.warmup_tasks)),
        OwnedTasks(
            _active(stored.active_tasks_pending_revocation, epoch),
            _tasks(stored.standby_tasks_pending_revocation),
            _tasks(stored.warmup_tasks_pending_revocation),
        ),
    )


def _active(stored: Collection[Struct], member_epoch: int) -> Epochs:
    """Return active tasks. Brokers before 4.3 wrote no epochs of tasks: the member's epoch serves for all."""
    active: dict[str, Mapping[int, int]] = {}
    for each in stored:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [member_epoch] * len(each.partitions)
        active[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return active


# -- the record -------------------------------------------------------------------------------------------------------


class StreamsRecord(ModernRecord[Content], frozen=True):
    """A record of a streams group; `item` is a member id."""

    group_type, member_type, target_type, current_type = GROUP, MEMBER, TARGET, CURRENT
    kinds = {
        GROUP: Kind(messages.StreamsGroupMetadataKey, "", messages.StreamsGroupMetadataValue, _group_struct, _group),
        MEMBER: Kind(
            messages.StreamsGroupMemberMetadataKey,
            "member_id",
            messages.StreamsGroupMemberMetadataValue,
            _member_struct,
            _member,
        ),
        TARGET_EPOCH: target_epoch_kind(
            messages.StreamsGroupTargetAssignmentMetadataKey, messages.StreamsGroupTargetAssignmentMetadataValue
        ),
        TARGET: Kind(
            messages.StreamsGroupTargetAssignmentMemberKey,
            "member_id",
            messages.StreamsGroupTargetAssignmentMemberValue,
            _target_struct,
            _target,
        ),
        CURRENT: Kind(
            messages.StreamsGroupCurrentMemberAssignmentKey,
            "member_id",
            messages.StreamsGroupCurrentMemberAssignmentValue,
            _current_struct,
            _current,
        ),
        TOPOLOGY: Kind(
            messages.StreamsGroupTopologyKey, "", messages.StreamsGroupTopologyValue, topology_struct, topology_of
        ),
    }


# -- records that decisions write -------------------------------------------------------------------------------------


def group_record(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_topology_epoch: int,
    assignment_configs: Mapping[str, str],
    stored_description_epoch: int = -1,
    failed_description_epoch: int = -1,
) -> StreamsRecord:
    content = GroupEpoch(
        epoch,
        metadata_hash,
        validated_topology_epoch,
        assignment_configs,
        stored_description_epoch,
        failed_description_epoch,
    )
    return StreamsRecord(group_id, GROUP, "", content)


def topology_record(group_id: str, topology: Topology) -> StreamsRecord:
    return StreamsRecord(group_id, TOPOLOGY, "", topology)


def member_record(group_id: str, member: StreamsMember) -> StreamsRecord:
    return StreamsRecord(group_id, MEMBER, member.member_id, member)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> StreamsRecord:
    return StreamsRecord(group_id, TARGET_EPOCH, "", TargetEpoch(epoch, timestamp_ms))


def target_record(group_id: str, member_id: str, target: Tasks) -> StreamsRecord:
    return StreamsRecord(group_id, TARGET, member_id, target)


def current_record(group_id: str, member: StreamsMember) -> StreamsRecord:
    current = Current(member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking)
    return StreamsRecord(group_id, CURRENT, member.member_id, current)


tombstone = StreamsRecord.tombstone
member_tombstones = StreamsRecord.member_tombstones
