"""Rules of APIs about groups that need more than a table row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from broker.access.authorization.rule import (
    Handle,
    Rule,
    add_refused,
    changed,
    each,
    joined,
    one,
    split,
    then,
    to_named,
    to_topic,
    together,
    visible_items,
)
from broker.requests.offset_fetch_answers import old_form, topic_error
from broker.requests.served_api import Reply
from protocol.error_codes import ErrorCode
from protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from protocol.messages.find_coordinator import FIND_COORDINATOR, Coordinator
from protocol.messages.offset_delete import (
    OFFSET_DELETE,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequestTopics, OffsetFetchResponseGroup
from protocol.schema import Struct
from security.acl import Operation, ResourceType

if TYPE_CHECKING:
    from broker.access.authorization.access import Access

_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC
_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_KINDS = {0: _GROUP, 1: ResourceType.TRANSACTIONAL_ID}
_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."
_HIDDEN_TOPOLOGY = "The described group uses topics that the client is not authorized to describe."

_read_group = one(Operation.READ, _GROUP, "group_id")
_delete_group = one(Operation.DELETE, _GROUP, "group_id")
_describe_group = one(Operation.DESCRIBE, _GROUP, "group_id")
_describe_groups = each("groups", to_named(Operation.DESCRIBE, _GROUP, "group_id"))
_describe_group_ids = each("group_ids", to_named(Operation.DESCRIBE, _GROUP))
_listed = visible_items("groups", to_named(Operation.DESCRIBE, _GROUP, "group_id"))
_describe_topic = to_topic(Operation.DESCRIBE)


def list_groups(access: Access, request: Struct, handle: Handle) -> Reply:
    """List all groups to a client that may describe the cluster, to others those that they may describe."""
    if access.may_cluster(Operation.DESCRIBE, log_if_denied=False):
        return handle(request)
    return _listed(access, request, handle)


def find_coordinator(access: Access, request: Struct, handle: Handle) -> Reply:
    """DESCRIBE on groups and transactional ids by name; share keys are for brokers only."""
    kind = _KINDS.get(request.key_type)
    if kind is None:
        if access.may_cluster(Operation.CLUSTER_ACTION):
            return handle(request)
        return access.refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    ask = to_named(Operation.DESCRIBE, kind)
    if access.version < _FIRST_VERSION_WITH_MANY_KEYS:
        _, refused = split(access, [request.key], ask)
        return (
            FIND_COORDINATOR.response(error_code=code, error_message=code.text, node_id=-1, host="", port=-1)
            if (code := next(iter(refused), None)) is not None
            else handle(request)
        )
    allowed, refused = split(access, request.coordinator_keys, ask)
    if not refused:
        return handle(request)
    coordinators = [
        Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message="")
        for code, keys in refused.items()
        for key in keys
    ]
    answer = FIND_COORDINATOR.response(coordinators=coordinators)
    if not allowed:
        return answer
    return then(handle(changed(request, coordinator_keys=allowed)), lambda reply: joined([reply, answer]))


_FIRST_VERSION_WITH_MANY_KEYS = 4


def sync(access: Access, request: Struct, handle: Handle) -> Reply:
    """READ on the group. A missing protocol is reported first, to every client."""
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if access.version >= _FIRST_VERSION_NAMING_PROTOCOLS and not names_protocol:
        return handle(request)
    return _read_group(access, request, handle)


_FIRST_VERSION_NAMING_PROTOCOLS = 5


def offset_delete(access: Access, request: Struct, handle: Handle) -> Reply:
    """DELETE on the group, and READ on each topic. An error of the whole group is returned alone."""
    return _delete_group(access, request, lambda allowed: _delete_offsets(access, allowed, handle))


def _delete_offsets(access: Access, request: Struct, handle: Handle) -> Reply:
    allowed, refused = split(access, request.topics, to_topic(Operation.READ))
    answer = OFFSET_DELETE.response(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for code, topics in refused.items()
            for topic in topics
        ]
    )
    return add_refused(handle(changed(request, topics=allowed)), answer)


def offset_fetch(access: Access, request: Struct, handle: Handle) -> Reply:
    """DESCRIBE on each group and its topics. If all topics are requested, the others are left out."""
    if access.version < _FIRST_VERSION_WITH_GROUPS:
        return together(_describe_group, _offsets_of_one)(access, request, handle)
    return together(_describe_groups, _offsets_of_each)(access, request, handle)


_FIRST_VERSION_WITH_GROUPS = 8


def _offsets_of_one(access: Access, request: Struct, handle: Handle) -> Reply:
    if request.topics is None:
        return visible_items("topics", _describe_topic)(access, request, handle)
    allowed, refused = split(access, request.topics, _describe_topic)
    hidden = [
        topic_error(OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes), code)
        for code, topics in refused.items()
        for topic in topics
    ]
    answer = old_form(OffsetFetchResponseGroup(group_id=request.group_id, topics=hidden))
    return then(handle(changed(request, topics=allowed)), lambda reply: joined([reply, answer]))


def _offsets_of_each(access: Access, request: Struct, handle: Handle) -> Reply:
    return _of_described_topics(access, request, handle, topic_error)


def _of_described_topics(
    access: Access, request: Struct, handle: Handle, refuse: Callable[[Struct, ErrorCode], Struct]
) -> Reply:
    """Refuse topics that are named and may not be described; leave them out if all topics are requested."""
    hidden: dict[str, list[Struct]] = {}
    groups = []
    for group in request.groups:
        allowed, refused = split(access, group.topics or (), _describe_topic)
        hidden[group.group_id] = [refuse(topic, code) for code, topics in refused.items() for topic in topics]
        groups.append(group if group.topics is None else changed(group, topics=allowed))

    def complete(reply: Struct) -> Struct:
        for group in reply.groups:
            group.topics = split(access, group.topics, _describe_topic, log_if_denied=False)[0]
            if not group.error_code:
                group.topics += hidden[group.group_id]
        return reply

    return then(handle(changed(request, groups=groups)), complete)


def describe(access: Access, request: Struct, handle: Handle) -> Reply:
    """DESCRIBE on each group. A group with a topic that may not be described is refused as a whole (KIP-848)."""
    return _describe_open(access, request, handle, _topics_of_members, _HIDDEN_TOPICS)


def describe_streams(access: Access, request: Struct, handle: Handle) -> Reply:
    """DESCRIBE on each group. A group with such a topic in its topology is refused as a whole (KIP-1071)."""
    return _describe_open(access, request, handle, _topics_of_topology, _HIDDEN_TOPOLOGY)


def _describe_open(
    access: Access, request: Struct, handle: Handle, names_in: Callable[[Struct], Iterable[str]], text: str
) -> Reply:
    """Return the groups of which the client may describe all topics; the others have an error with `text`."""

    def checked(group: Struct) -> Struct:
        if all(access.may(Operation.DESCRIBE, _TOPIC, name) for name in dict.fromkeys(names_in(group))):
            return group
        return group.struct_type(group_id=group.group_id, error_code=_FAILED, error_message=text)

    def check(reply: Struct) -> Struct:
        return changed(reply, groups=[checked(group) for group in reply.groups])

    return _describe_group_ids(access, request, lambda allowed: then(handle(allowed), check))


def _topics_of_members(group: Struct) -> Iterator[str]:
    """Yield the topics that members have, or are to get."""
    for member in group.members:
        fields = {field.name for field in member.struct_type.fields}
        for assignment in ("assignment", "target_assignment"):
            if assignment in fields:
                yield from (topic.topic_name for topic in getattr(member, assignment).topic_partitions)


def consumer_heartbeat(access: Access, request: Struct, handle: Handle) -> Reply:
    """READ on the group, and DESCRIBE on all topics that a member names."""
    return together(_read_group, _describe_all(lambda request: request.subscribed_topic_names or ()))(
        access, request, handle
    )


def streams_heartbeat(access: Access, request: Struct, handle: Handle) -> Reply:
    """READ on the group, and DESCRIBE on all topics of the topology in the request."""
    return together(_read_group, _describe_all(_topics_of_topology))(access, request, handle)


def _topics_of_topology(value: Struct) -> Iterator[str]:
    topology = value.topology
    for part in (topology.subtopologies or ()) if topology is not None else ():
        yield from part.source_topics
        yield from part.repartition_sink_topics
        yield from (topic.name for topic in (*part.repartition_source_topics, *part.state_changelog_topics))


def _describe_all(names_in: Callable[[Struct], Iterable[str]]) -> Rule:
    """Whether the client may describe all of these topics."""

    def rule(access: Access, request: Struct, handle: Handle) -> Reply:
        if all(access.may(Operation.DESCRIBE, _TOPIC, name) for name in dict.fromkeys(names_in(request))):
            return handle(request)
        return access.refused(request, _FAILED)

    return rule


def describe_share_offsets(access: Access, request: Struct, handle: Handle) -> Reply:
    """DESCRIBE on each group; the answer has the topics that may be described."""
    return _describe_groups(access, request, lambda allowed: _share_offsets(access, allowed, handle))


def _share_offsets(access: Access, request: Struct, handle: Handle) -> Reply:
    return _of_described_topics(access, request, handle, _no_share_offsets)


def _no_share_offsets(topic: Struct, code: ErrorCode) -> Struct:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index, start_offset=-1, error_code=code, error_message=code.text
            )
            for index in topic.partitions
        ],
    )
