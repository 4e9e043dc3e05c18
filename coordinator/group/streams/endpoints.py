"""The partitions of each application endpoint (application.server), so that instances can query each other's stores.

An epoch shows whether a member already knows the latest endpoints.
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
    """Return the endpoints by member id, the changed member last. `known`: endpoints that have not changed."""
    others = (each for each in group.members.values() if each.member_id != member.member_id)
    return {
        each.member_id: known.get(each.member_id) or endpoint_partitions(each, subtopologies, cluster)
        for each in (*others, member)
        if each.endpoint is not None
    }


def endpoint_partitions(
    member: StreamsMember, subtopologies: Mapping[str, ConfiguredSubtopology], cluster: Cluster
) -> Struct:
    """Return the partitions of a member with an endpoint."""
    assert member.endpoint is not None
    return EndpointToPartitions(
        user_endpoint=Endpoint(host=member.endpoint.host, port=member.endpoint.port),
        active_partitions=_partitions(member.assigned.active, subtopologies, cluster),
        standby_partitions=_partitions(member.assigned.standby, subtopologies, cluster),
    )


def _partitions(
    tasks: Mapping[str, Collection[int]], subtopologies: Mapping[str, ConfiguredSubtopology], cluster: Cluster
) -> list[Struct]:
    """Return the partitions that tasks read. A topic with fewer partitions than tasks has its first partitions only."""
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
