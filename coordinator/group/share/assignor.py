"""The assignor "simple": who reads which partitions of a share group.

Every partition has a reader, every reader a partition; where there are fewer partitions than readers, these share.
Readers have as many partitions as each other, give or take one, and keep what they have as far as that allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from coordinator.group.assignors.java_order import member_order, topic_order
from coordinator.group.assignors.spec import Target, Targets

NAME = "simple"

_Place: TypeAlias = "tuple[bytes, int]"


def assign(subscriptions: Mapping[str, Mapping[bytes, Sequence[int]]], last: Mapping[str, Target]) -> Targets:
    """The next target of each member.

    `subscriptions`: member -> topic id -> the partitions that may be given out; `last`: what members had.
    """
    members = member_order(subscriptions)
    given: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in members}
    if _are_alike(subscriptions):
        topics = subscriptions[members[0]] if members else {}
        _share_out(members, _places(topics), last, given)
    else:
        for topic_id in topic_order({topic_id for topics in subscriptions.values() for topic_id in topics}):
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
    """Give each place to as many members as it takes for all to have one."""
    if not members or not places:
        return
    readers = -(-len(members) // len(places))  # of a place
    total = readers * len(places)
    wanted = {
        member_id: total * (number + 1) // len(members) - total * number // len(members)
        for number, member_id in enumerate(members)
    }
    room = dict.fromkeys(places, readers)
    for member_id in members:
        had = last.get(member_id, {})
        for place in places:
            if wanted[member_id] and room[place] and place[1] in had.get(place[0], ()):
                _give(member_id, place, wanted, room, given)
    for member_id in members:
        for place in sorted(places, key=lambda place: -room[place]) if wanted[member_id] else ():
            if not wanted[member_id]:
                break
            if room[place] and place[1] not in given[member_id].get(place[0], ()):
                _give(member_id, place, wanted, room, given)
    for place in places:  # what is left is with those who have it already: somebody else takes it over
        if room[place] == readers:
            _give(min(members, key=lambda each: sum(map(len, given[each].values()))), place, wanted, room, given)


def _give(
    member_id: str,
    place: _Place,
    wanted: dict[str, int],
    room: dict[_Place, int],
    given: dict[str, dict[bytes, set[int]]],
) -> None:
    given[member_id].setdefault(place[0], set()).add(place[1])
    wanted[member_id] -= 1
    room[place] -= 1
