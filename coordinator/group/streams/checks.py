"""Checks of a StreamsGroupHeartbeat: first without its group, then against its member.

A request that fails a check raises Refused. The messages are Kafka's, because clients show them to people.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from coordinator.group.modern.checks import (
    ABANDON,
    JOINING_EPOCH,
    STATIC_LEAVE_EPOCH,
    bad_request,
    check_not_blank,
)
from coordinator.group.refused import Refused
from coordinator.group.streams.configured import ConfiguredSubtopology, invalid
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.member import StreamsMember
from protocol.error_codes import ErrorCode
from protocol.schema import Struct


def check_request(request: Struct) -> None:
    """Check the fields of a request. Raises Refused: INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY."""
    _check_supported(request)
    check_not_blank(request.member_id, "MemberId")
    check_not_blank(request.group_id, "GroupId")
    check_not_blank(request.instance_id, "InstanceId")
    check_not_blank(request.rack_id, "RackId")
    epoch, topology = request.member_epoch, request.topology
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise bad_request("RebalanceTimeoutMs must be provided in first request.")
        for role, tasks in zip(("Active", "Standby", "Warmup"), roles, strict=True):
            if tasks is None or tasks:
                raise bad_request(f"{role}Tasks must be empty when (re-)joining.")
        if topology is None:
            raise bad_request("Topology must be non-null when (re-)joining.")
        _check_changelogs(topology)
    elif epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise bad_request("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise bad_request(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    if any(tasks is not None for tasks in roles) and any(tasks is None for tasks in roles):
        raise bad_request("If one task-type is non-null, all must be non-null.")
    if epoch != JOINING_EPOCH and topology is not None:
        raise bad_request("Topology can only be provided when (re-)joining.")


def _check_supported(request: Struct) -> None:
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        raise bad_request("Regular expressions for source topics are not supported yet.")


def _check_changelogs(topology: Struct) -> None:
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise invalid(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to"
                    f" {topic.partitions}."
                )


def check_room(group: StreamsGroup, member_id: str, instance_id: str | None, max_size: int) -> None:
    """Raise Refused GROUP_MAX_SIZE_REACHED if the group has no room for the member. Known ones may join again."""
    if instance_id in group.static_members or member_id in group.members:
        return
    if len(group.members) >= max_size:
        message = f"The streams group has reached its maximum capacity of {max_size} members."
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def check_epoch(member: StreamsMember, request: Struct) -> None:
    """Raise Refused FENCED_MEMBER_EPOCH unless the epoch is the member's.

    The epoch before is accepted from a member that reports no more tasks than it was given, because the response with
    the new epoch was lost. A member may always join again.
    """
    epoch = request.member_epoch
    if epoch in (JOINING_EPOCH, member.epoch):
        return
    has = member.assigned
    if epoch > member.epoch:
        comparison = "greater"
    elif (
        epoch == member.previous_epoch
        and _is_within(request.active_tasks, has.active)
        and _is_within(request.standby_tasks, has.standby)
        and _is_within(request.warmup_tasks, has.warmup)
    ):
        return
    else:
        comparison = "smaller"
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {comparison} member epoch ({epoch}) than the one known by the group"
        f" coordinator ({member.epoch}). {ABANDON}",
    )


def _is_within(reported: list[Struct] | None, owned: Mapping[str, Collection[int]]) -> bool:
    return reported is not None and all(
        each.subtopology_id in owned and all(partition in owned[each.subtopology_id] for partition in each.partitions)
        for each in reported
    )


def check_tasks(request: Struct, subtopologies: Mapping[str, ConfiguredSubtopology]) -> None:
    """Raise Refused INVALID_REQUEST for tasks that the topology does not have."""
    for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        for each in tasks or ():
            subtopology = subtopologies.get(each.subtopology_id)
            if subtopology is None:
                raise bad_request(f"Subtopology {each.subtopology_id} does not exist in the topology.")
            for partition in each.partitions:
                if not 0 <= partition < subtopology.task_count:
                    raise bad_request(
                        f"Task {partition} for subtopology {each.subtopology_id} is invalid. Number of tasks for this"
                        f" subtopology: {subtopology.task_count}"
                    )
