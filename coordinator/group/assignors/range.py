"""The range assignor: each member gets adjacent partitions of each topic, so that topics can be joined locally.

Members are ordered by instance id, then by member id: a static member keeps its place. With n partitions and m members
each member gets n // m partitions, and the first n % m members get one more.
"""

from __future__ import annotations

from collections import Counter

from coordinator.group.assignors.java_order import string_rank
from coordinator.group.assignors.spec import GroupSpec, Targets

NAME = "range"


def assign(group: GroupSpec) -> Targets:
    """Return the next target of each member."""
    line = sorted(group.members, key=lambda member_id: _rank(group, member_id))
    readers = Counter(topic_id for member in group.members.values() for topic_id in member.topics)
    taken: dict[bytes, int] = dict.fromkeys(readers, 0)
    extra = {
        topic_id: count % readers[topic_id]
        for member in group.members.values()
        for topic_id, count in member.topics.items()
    }
    targets: Targets = {}
    for member_id in line:
        target = {}
        for topic_id, count in group.members[member_id].topics.items():
            begin = taken[topic_id]
            size = count // readers[topic_id]
            if extra[topic_id]:
                extra[topic_id] -= 1
                size += 1
            taken[topic_id] = begin + size
            if size:
                target[topic_id] = frozenset(range(begin, begin + size))
        targets[member_id] = target
    return targets


def _rank(group: GroupSpec, member_id: str) -> tuple[bool, bytes]:
    instance_id = group.members[member_id].instance_id
    is_dynamic = instance_id is None
    return is_dynamic, string_rank(member_id if instance_id is None else instance_id)
