"""The share groups' assignor in its simplest and slowest form, as the reference for the broker's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.group.assignors.java_order import member_order, topic_order
from coordinator.group.assignors.spec import Target

Place = tuple[bytes, int]
Given = dict[str, set[Place]]


def assign(subscriptions: Mapping[str, Mapping[bytes, Sequence[int]]], last: Mapping[str, Target]) -> Given:
    """Return member -> assignment; arguments as of the broker's."""
    members = member_order(subscriptions)
    topics = {topic_id: parts for each in subscriptions.values() for topic_id, parts in each.items()}
    places = [(topic_id, partition) for topic_id in topic_order(topics) for partition in sorted(topics[topic_id])]
    given: Given = {member_id: set() for member_id in members}
    if all(each.keys() == topics.keys() for each in subscriptions.values()):
        share_out(members, places, last, given)
    else:
        for topic_id in topic_order(topics):
            readers = [member_id for member_id in members if topic_id in subscriptions[member_id]]
            share_out(readers, [place for place in places if place[0] == topic_id], last, given)
    return given


def share_out(members: list[str], places: list[Place], last: Mapping[str, Target], given: Given) -> None:
    """Let every member keep its partitions and take those with most room; the rest goes to the members with least."""
    if not members or not places:
        return
    readers = -(-len(members) // len(places))
    total, count = readers * len(places), len(members)
    wanted = {each: total * (at + 1) // count - total * at // count for at, each in enumerate(members)}
    room = dict.fromkeys(places, readers)

    def give(member_id: str, place: Place) -> None:
        given[member_id].add(place)
        wanted[member_id] -= 1
        room[place] -= 1

    for member_id in members:
        for place in places:
            if wanted[member_id] and room[place] and place[1] in last.get(member_id, {}).get(place[0], ()):
                give(member_id, place)
    for member_id in members:
        for place in sorted(places, key=lambda place: -room[place]):
            if wanted[member_id] and room[place] and place not in given[member_id]:
                give(member_id, place)
    for place in places:
        if room[place] == readers:
            give(min(members, key=lambda each: len(given[each])), place)
