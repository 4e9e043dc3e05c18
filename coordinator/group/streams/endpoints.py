"""The partitions of each application endpoint (application.server), so that instances can query each other's stores.

An epoch shows whether a member already knows the latest endpoints.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from coordinator.group.cluster import Cluster
from coordinator.group.streams.configured import ConfiguredSubtopology
from coordinator.group.streams.draft import Draft
from coordinator.group.streams.member import StreamsMember
from coordinator.group.streams.tasks import by_subtopology, each_task
from protocol.java_order import hash_order, java_hash
from protocol.messages.streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition
from protocol.schema import Struct


def all_endpoints(
    draft: Draft, member: StreamsMember, subtopologies: Mapping[str, ConfiguredSubtopology]
) -> list[Struct]:
    """Return the endpoints of the members, the changed member's last."""
    others = [each for each in draft.members_with(None).values() if each.member_id != member.member_id]
    cluster = draft.shard.cluster
    return [
        endpoint_partitions(each, subtopologies, cluster) for each in (*others, member) if each.endpoint is not None
    ]


def endpoint_partitions(
    member: StreamsMember, subtopologies: Mapping[str, ConfiguredSubtopology], cluster: Cluster
) -> Struct:
    """Return the partitions of a member with an endpoint. Warm-up tasks are listed as standbys."""
    assert member.endpoint is not None
    replicas = by_subtopology((*each_task(member.assigned.standby), *each_task(member.assigned.warmup)))
    return EndpointToPartitions(
        user_endpoint=Endpoint(host=member.endpoint.host, port=member.endpoint.port),
        active_partitions=_partitions(member.assigned.active, subtopologies, cluster),
        standby_partitions=_partitions(replicas, subtopologies, cluster),
    )


def _partitions(
    tasks: Mapping[str, Collection[int]], subtopologies: Mapping[str, ConfiguredSubtopology], cluster: Cluster
) -> list[Struct]:
    """Return the partitions that tasks read. A topic may have fewer partitions than there are tasks."""
    found = []
    for subtopology_id, partitions in tasks.items():
        subtopology = subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        topics = {*subtopology.source_topics, *subtopology.repartition_source_topics}
        for name in hash_order(sorted(topics), java_hash):
            topic = cluster.topic(name)
            count = 0 if topic is None else topic.partition_count
            existing = [each for each in sorted(partitions) if each < count]
            if existing:
                found.append(TopicPartition(topic=name, partitions=existing))
    return found
