"""The uniform assignor: all members get the same number of partitions, and keep as many of their last ones as possible.

If all members read the same topics, each gets total // members partitions, and some get one more. For members that read
different topics, see mixed.py.
"""

from __future__ import annotations

from collections.abc import Container

from coordinator.group.assignors import mixed
from coordinator.group.assignors.java_order import partition_set_order, topic_order, topic_set_order
from coordinator.group.assignors.spec import GroupSpec, MemberSpec, Targets

NAME = "uniform"


def assign(group: GroupSpec) -> Targets:
    """Return the next target of each member."""
    if not group.members:
        return {}
    return assign_evenly(group) if group.is_homogeneous else mixed.assign(group)


def assign_evenly(group: GroupSpec) -> Targets:
    """Return the targets of members that all read the topics of the first one."""
    member_ids = group.member_ids
    topics = group.members[member_ids[0]].topics
    if not topics:
        return {}
    unassigned = {topic_id: set(range(topics[topic_id])) for topic_id in topic_set_order(topics)}
    for member in group.members.values():
        for topic_id, partitions in member.target.items():
            if topic_id in unassigned:
                unassigned[topic_id] -= partitions
    free = [(topic_id, index) for topic_id, left in unassigned.items() for index in sorted(left)]
    quota, extras = divmod(sum(topics.values()), len(member_ids))

    kept: dict[str, dict[bytes, set[int]]] = {}
    unfilled: list[tuple[str, int]] = []
    for place, member_id in enumerate(member_ids):
        takes_extra = extras > 0
        kept[member_id], room = keep(group.members[member_id], topics, quota + takes_extra, free)
        if room and takes_extra and len(member_ids) - place > extras:
            # A later member may already have more partitions than the quota: leave the extra partition for it.
            room -= 1
            takes_extra = False
        if room:
            unfilled.append((member_id, room))
        extras -= takes_extra
    supply = iter(free)
    for member_id, room in unfilled:
        # the shorter iterable comes first, so that `zip` drops no partition
        for _, (topic_id, partition) in zip(range(room), supply, strict=False):
            kept[member_id].setdefault(topic_id, set()).add(partition)
    return {
        member_id: {topic_id: frozenset(partitions) for topic_id, partitions in each.items() if partitions}
        for member_id, each in kept.items()
    }


def keep(
    member: MemberSpec, topics: Container[bytes], quota: int, free: list[tuple[bytes, int]]
) -> tuple[dict[bytes, set[int]], int]:
    """Return the part of a member's last target that it keeps, up to the quota, and how many more it may get.

    The partitions that it does not keep are added to `free`.
    """
    kept: dict[bytes, set[int]] = {}
    for topic_id in topic_order(member.target):
        if topic_id not in topics:
            continue
        partitions = member.target[topic_id]
        if len(partitions) <= quota:
            kept[topic_id] = set(partitions)
            quota -= len(partitions)
            continue
        in_order = partition_set_order(partitions)
        kept[topic_id] = set(in_order[:quota])
        free += [(topic_id, partition) for partition in in_order[quota:]]
        quota = 0
    return kept, quota
