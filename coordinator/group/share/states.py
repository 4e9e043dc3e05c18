"""Which partitions of a share group have a state at the share coordinator.

Each change is written before the request to the share coordinator (*initializing*, *deleting*) and after its response.
So no change is lost when the broker crashes in between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from coordinator.group.cluster import Cluster
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.records import ShareGroupRecord, States, TopicStates, states_record

_NONE = TopicStates("", frozenset())


def to_initialize(group: ShareGroup, names: Iterable[str], cluster: Cluster) -> States:
    """Return the states with all partitions of these topics initialized or initializing."""
    missing: dict[bytes, TopicStates] = {}
    for name in sorted(names):
        topic = cluster.topic(name)
        if topic is None:
            continue
        known = partitions_of(group.states, topic.topic_id)
        lacking = frozenset(range(topic.partition_count)) - known
        if lacking:
            missing[topic.topic_id] = TopicStates(name, lacking)
    return with_initializing(group.states, missing) if missing else group.states


def partitions_of(states: States, topic_id: bytes) -> frozenset[int]:
    """Return the partitions that are initialized or initializing."""
    initialized, initializing = states.initialized.get(topic_id, _NONE), states.initializing.get(topic_id, _NONE)
    return initialized.partitions | initializing.partitions


def with_initializing(states: States, added: Mapping[bytes, TopicStates]) -> States:
    """Return the states with these partitions added as initializing."""
    deleting = {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in added}
    return replace(states, initializing=merged(states.initializing, added), deleting=deleting)


def merged(old: Mapping[bytes, TopicStates], new: Mapping[bytes, TopicStates]) -> dict[bytes, TopicStates]:
    """Return the partitions of both."""
    result = dict(old)
    for topic_id, topic in new.items():
        result[topic_id] = TopicStates(topic.name, topic.partitions | result.get(topic_id, _NONE).partitions)
    return result


def initialized_record(group: ShareGroup, done: Mapping[bytes, Collection[int]]) -> ShareGroupRecord | None:
    """Return the record that marks these partitions as initialized; None if none of them is still initializing."""
    initializing = dict(group.states.initializing)
    found: dict[bytes, TopicStates] = {}
    for topic_id, partitions in done.items():
        topic = initializing.get(topic_id, _NONE)
        ready = topic.partitions.intersection(partitions)
        if not ready:
            continue
        found[topic_id] = TopicStates(topic.name, ready)
        left = topic.partitions - ready
        if left:
            initializing[topic_id] = TopicStates(topic.name, left)
        else:
            del initializing[topic_id]
    if not found:
        return None
    states = replace(group.states, initializing=initializing, initialized=merged(group.states.initialized, found))
    return states_record(group.group_id, states)


def without(states: States, topic_ids: Collection[bytes]) -> States:
    """Return the states without these topics."""
    return States(
        {topic_id: topic for topic_id, topic in states.initializing.items() if topic_id not in topic_ids},
        {topic_id: topic for topic_id, topic in states.initialized.items() if topic_id not in topic_ids},
        {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in topic_ids},
    )


def to_delete(states: States, topic_ids: Collection[bytes]) -> States:
    """Return the states with these topics marked for deletion."""
    names = {
        topic_id: topic.name
        for topics in (states.initializing, states.initialized)
        for topic_id, topic in topics.items()
        if topic_id in topic_ids
    }
    left = without(states, names.keys())
    return replace(left, deleting={**states.deleting, **names})
