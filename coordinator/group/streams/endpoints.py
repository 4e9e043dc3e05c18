"""Which partitions are where: what applications with an endpoint (application.server) are told of each other, so that
they can send queries to whoever has the store.

An epoch tells who knows the latest already.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from coordinator.group.cluster import Cluster
from coordinator.group.streams.configured import ConfiguredSubtopology
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.member import StreamsMember
from protocol.java_order import hash_order, java_hash
from protocol.messages.streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition
from protocol.schema import Struct


def all_endpoints(
    group: StreamsGroup,
    member: StreamsMember,
    known: Mapping[str, Struct],
    subtopologies: Mapping[str, ConfiguredSubtopology],
    cluster: Cluster,
) -> dict[str, Struct]:
    """By member id, the changed member last. `known`: those that have not changed since they were computed."""
    others = (each for each in group.members.values() if each.member_id != member.member_id)
    return {
        each.member_id: known.get(each.member_id) or endpoint_partitions(each, subtopologies, cluster)
        for each in (*others, member)
        if each.endpoint is not None
    }


def endpoint_partitions(
    member: StreamsMember, subtopologies: Mapping[str, ConfiguredSubtopology], cluster: Cluster
) -> Struct:
    """What a member with an endpoint has."""
    assert member.endpoint is not None
    return EndpointToPartitions(
        user_endpoint=Endpoint(host=member.endpoint.host, port=member.endpoint.port),
        active_partitions=_partitions(member.assigned.active, subtopologies, cluster),
        standby_partitions=_partitions(member.assigned.standby, subtopologies, cluster),
    )


def _partitions(
    tasks: Mapping[str, Collection[int]], subtopologies: Mapping[str, ConfiguredSubtopology], cluster: Cluster
) -> list[Struct]:
    """The partitions that tasks read. A topic with fewer partitions than there are tasks has its first ones."""
    found = []
    for subtopology_id, partitions in tasks.items():
        subtopology = subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        topics = {*subtopology.source_topics, *subtopology.repartition_source_topics}
        for name in hash_order(sorted(topics), java_hash):
            topic = cluster.topic(name)
            if topic is not None:
                found.append(TopicPartition(topic=name, partitions=sorted(partitions)[: topic.partition_count]))
    return found
