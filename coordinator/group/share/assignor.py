"""The assignor "simple": which members of a share group read which partitions.

Every partition has a member, and every member has a partition. If there are fewer partitions than members, members
share partitions. The numbers of partitions of two members differ by at most one, and members keep their partitions as
far as possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import TypeAlias

from coordinator.group.assignors.java_order import member_order, topic_order
from coordinator.group.assignors.spec import Target, Targets

NAME = "simple"

_Place: TypeAlias = "tuple[bytes, int]"


def assign(subscriptions: Mapping[str, Mapping[bytes, Sequence[int]]], last: Mapping[str, Target]) -> Targets:
    """Return the next target of each member.

    `subscriptions`: member -> topic id -> the partitions that may be assigned; `last`: the last targets.
    """
    members = member_order(subscriptions)
    given: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in members}
    if _are_alike(subscriptions):
        topics = subscriptions[members[0]] if members else {}
        _share_out(members, _places(topics), last, given)
    else:
        for topic_id in topic_order(dict.fromkeys(chain.from_iterable(subscriptions.values()))):
            readers = [member_id for member_id in members if topic_id in subscriptions[member_id]]
            _share_out(readers, _places({topic_id: subscriptions[readers[0]][topic_id]}), last, given)
    return {
        member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
        for member_id, topics in given.items()
    }


def _are_alike(subscriptions: Mapping[str, Mapping[bytes, Sequence[int]]]) -> bool:
    return len({frozenset(topics) for topics in subscriptions.values()}) <= 1


def _places(topics: Mapping[bytes, Sequence[int]]) -> list[_Place]:
    return [(topic_id, partition) for topic_id in topic_order(topics) for partition in sorted(topics[topic_id])]


def _share_out(
    members: Sequence[str],
    places: Sequence[_Place],
    last: Mapping[str, Target],
    given: dict[str, dict[bytes, set[int]]],
) -> None:
    """Assign each partition to as many members as needed, so that every member has one.

    First each member keeps its partitions, in the order of `places`, as far as there is room. Then members that need
    more get the partitions with the most room. The members need as many as there is room for, so that no partition
    stays free.
    """
    if not members or not places:
        return
    readers = -(-len(members) // len(places))  # members per partition
    total = readers * len(places)
    room = [readers] * len(places)
    numbers: dict[bytes, dict[int, int]] = {}  # index of each partition in `places`
    for number, (topic_id, partition) in enumerate(places):
        numbers.setdefault(topic_id, {})[partition] = number

    unfilled: list[tuple[str, int]] = []
    for place, member_id in enumerate(members):
        wanted = total * (place + 1) // len(members) - total * place // len(members)
        had = last.get(member_id, {})
        for number in sorted(
            known[partition]
            for topic_id, known in numbers.items()
            for partition in had.get(topic_id, ())
            if partition in known
        ):
            if wanted and room[number]:
                _give(given[member_id], places[number])
                room[number] -= 1
                wanted -= 1
        if wanted:
            unfilled.append((member_id, wanted))

    line = [(-left, number) for number, left in enumerate(room) if left]
    heapify(line)
    for member_id, wanted in unfilled:
        seen = []
        while wanted and line:
            taken, number = heappop(line)
            topic_id, partition = places[number]
            if partition not in given[member_id].get(topic_id, ()):
                _give(given[member_id], places[number])
                taken += 1
                wanted -= 1
            if taken:
                seen.append((taken, number))
        for each in seen:
            heappush(line, each)


def _give(target: dict[bytes, set[int]], place: _Place) -> None:
    topic_id, partition = place
    target.setdefault(topic_id, set()).add(partition)
