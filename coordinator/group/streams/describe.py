"""StreamsGroupDescribe: a streams group with its topology, its members, their assignments and their targets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from coordinator.group.assignors.java_order import string_rank
from coordinator.group.shard import GroupShard
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.member import StreamsMember
from coordinator.group.streams.membership import existing_group
from coordinator.group.streams.task_offsets import Offsets
from coordinator.group.streams.tasks import Tasks
from coordinator.group.streams.topology import TopicInfo
from protocol.java_order import hash_order, java_hash
from protocol.messages import streams_group_describe as messages
from protocol.schema import Struct

#: The name of the only assignor (group.streams.assignors).
ASSIGNOR = "sticky"


def describe(shard: GroupShard, group_id: str) -> Struct:
    """Describe the group. Raises Refused: GROUP_ID_NOT_FOUND, also for a group of another type."""
    group = existing_group(shard, group_id)
    return messages.DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=describe_topology(group),
        members=[describe_member(group, member) for member in group.members.values()],
        assignor_name=ASSIGNOR,
    )


def describe_topology(group: StreamsGroup) -> Struct | None:
    """Return the topology, with the partitions of its internal topics if it is configured."""
    configured = group.soft.configured
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        return messages.Topology(
            epoch=configured.epoch,
            subtopologies=[
                _subtopology(
                    each.subtopology_id,
                    each.source_topics,
                    each.repartition_sink_topics,
                    each.repartition_source_topics.values(),
                    each.state_changelog_topics.values(),
                )
                for each in configured.subtopologies.values()
            ],
        )
    if group.topology is None:
        return None
    return messages.Topology(
        epoch=group.topology.epoch,
        subtopologies=[
            _subtopology(
                each.subtopology_id,
                each.source_topics,
                each.repartition_sink_topics,
                each.repartition_source_topics,
                each.state_changelog_topics,
            )
            for each in sorted(group.topology.subtopologies, key=lambda each: string_rank(each.subtopology_id))
        ],
    )


def _subtopology(
    subtopology_id: str,
    sources: Collection[str],
    sinks: Collection[str],
    repartition_sources: Iterable[TopicInfo],
    changelogs: Iterable[TopicInfo],
) -> Struct:
    return messages.Subtopology(
        subtopology_id=subtopology_id,
        source_topics=sorted(sources, key=string_rank),
        repartition_sink_topics=sorted(sinks, key=string_rank),
        repartition_source_topics=_topics(repartition_sources),
        state_changelog_topics=_topics(changelogs),
    )


def _topics(topics: Iterable[TopicInfo]) -> list[Struct]:
    return [
        messages.TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[messages.KeyValue(key=key, value=value) for key, value in topic.configs],
        )
        for topic in sorted(topics, key=lambda topic: string_rank(topic.name))
    ]


def describe_member(group: StreamsGroup, member: StreamsMember) -> Struct:
    """Describe a member. Its assignment leaves out the tasks that it has to give up."""
    endpoint, has = member.endpoint, member.assigned
    wanted = group.targets.get(member.member_id) or Tasks()
    reported = group.offsets_of(member.member_id)
    return messages.Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else messages.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[
            messages.KeyValue(key=key, value=member.client_tags[key])
            for key in hash_order(list(member.client_tags), java_hash)
        ],
        task_offsets=_task_offsets(reported.offsets),
        task_end_offsets=_task_offsets(reported.end_offsets),
        assignment=messages.Assignment(
            active_tasks=_task_ids(has.active),
            standby_tasks=_task_ids(has.standby),
            warmup_tasks=_task_ids(has.warmup),
        ),
        target_assignment=messages.Assignment(
            active_tasks=_task_ids(wanted.active),
            standby_tasks=_task_ids(wanted.standby),
            warmup_tasks=_task_ids(wanted.warmup),
        ),
    )


def _task_offsets(reported: Offsets) -> list[Struct]:
    return [
        messages.TaskOffset(subtopology_id=each, partition=partition, offset=reported[each][partition])
        for each in sorted(reported, key=string_rank)
        for partition in sorted(reported[each])
    ]


def _task_ids(tasks: Mapping[str, Collection[int]]) -> list[Struct]:
    return [
        messages.TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks, key=string_rank)
    ]
