"""Checks of a ConsumerGroupHeartbeat: first without its group, then against its member.

A request that fails a check raises Refused. The messages are Kafka's, because clients show them to people.
"""

from __future__ import annotations

from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ConsumerMember, Owned
from coordinator.group.modern.checks import (
    ABANDON,
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVE_EPOCH,
    bad_request,
    check_not_blank,
)
from coordinator.group.refused import Refused
from coordinator.group.settings import ConsumerSettings
from protocol.error_codes import ErrorCode
from protocol.schema import Struct

#: From this version on members generate their own ids (KIP-1082).
FIRST_VERSION_WITH_CLIENT_IDS = 1


def check_request(request: Struct, api_version: int, settings: ConsumerSettings) -> None:
    """Check the fields of a request. Raises Refused: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR."""
    epoch = request.member_epoch
    if api_version >= FIRST_VERSION_WITH_CLIENT_IDS or epoch > 0 or epoch == LEAVING_EPOCH:
        check_not_blank(request.member_id, "MemberId")
    check_not_blank(request.group_id, "GroupId")
    check_not_blank(request.instance_id, "InstanceId")
    check_not_blank(request.rack_id, "RackId")
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise bad_request("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise bad_request("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise bad_request("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise bad_request("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise bad_request("MemberEpoch is invalid.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in settings.assignors:
        known = ", ".join(settings.assignors)
        message = f"ServerAssignor {assignor} is not supported. Supported assignors: {known}."
        raise Refused(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def check_room(group: ConsumerGroup, member_id: str, max_size: int) -> None:
    """Raise Refused GROUP_MAX_SIZE_REACHED if the group has no room for the member."""
    if len(group.members) >= max_size and member_id not in group.members:
        message = f"The consumer group has reached its maximum capacity of {max_size} members."
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def check_epoch(member: ConsumerMember, epoch: int, reported: list[Struct] | None) -> None:
    """Raise Refused FENCED_MEMBER_EPOCH unless the epoch is the member's.

    The epoch before is accepted from a member that reports no more partitions than it was given, because the response
    with the new epoch was lost. A member may always join again.
    """
    if epoch == JOINING_EPOCH or epoch == member.epoch:
        return
    if epoch > member.epoch:
        comparison = "greater"
    elif epoch == member.previous_epoch and reported is not None and is_within(reported, member.assigned):
        return
    else:
        comparison = "smaller"
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {comparison} member epoch ({epoch}) than the one known by the group"
        f" coordinator ({member.epoch}). {ABANDON}",
    )


def is_within(reported: list[Struct], owned: Owned) -> bool:
    """Return whether a member owns all partitions that it reports."""
    return all(
        topic.topic_id in owned and all(partition in owned[topic.topic_id] for partition in topic.partitions)
        for topic in reported
    )
