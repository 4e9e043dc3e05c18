"""Share groups without a broker: the harness of groups, heartbeats, and a share coordinator that always succeeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coordinator.group.assignors.java_order import member_order, topic_order
from coordinator.group.assignors.spec import Target
from coordinator.group.cluster import ShareGroupConfig
from coordinator.group.deadlines import on_deadline
from coordinator.group.modern.caller import Caller
from coordinator.group.shard import GroupEffects
from coordinator.group.share.checks import check_request
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.heartbeat import heartbeat
from coordinator.group.share.states import initialized_record
from protocol.messages.share_group_heartbeat import SHARE_GROUP_HEARTBEAT
from protocol.schema import Struct
from tests.support.consumer_groups import Topics, by_name
from tests.support.groups import GroupHarness

#: the sender of all heartbeats
CALLER = Caller("client", "/127.0.0.1")


class ShareTopics(Topics):
    """Topics, and settings of share groups."""

    share = ShareGroupConfig(assignment_interval_ms=0)


@dataclass
class ShareHarness(GroupHarness):
    """A shard with topics."""

    topics: ShareTopics = field(default_factory=lambda: ShareTopics({"t": 4}))

    @property
    def group(self) -> ShareGroup:
        """Return the group "g"."""
        group = self.shard.share("g")
        assert group is not None
        return group

    def beat(
        self, member_id: str, epoch: int, topics: Sequence[str] | None = None, *, group_id: str = "g",
        rack: str | None = None,
    ) -> Struct:  # fmt: skip
        """Send a heartbeat; a refused one returns its code and message."""
        request = SHARE_GROUP_HEARTBEAT.request(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            rack_id=rack,
            subscribed_topic_names=None if topics is None else list(topics),
        )

        def decide(effects: GroupEffects) -> Struct:
            check_request(request)
            return heartbeat(self.shard, request, CALLER, self.now, effects)

        return self.decided(decide, SHARE_GROUP_HEARTBEAT.response)

    def expire(self) -> None:
        """Act on the deadlines that have passed, but send nothing to the share coordinator."""
        for key in list(self.timers.expire(self.tick_ms)):
            self.run(lambda effects, key=key: on_deadline(self.shard, key, self.now, effects))  # type: ignore[misc]

    def initialize(self) -> None:
        """Complete all pending initializations of share states."""
        done = {topic_id: topic.partitions for topic_id, topic in self.group.states.initializing.items()}
        record = initialized_record(self.group, done)
        if record is not None:
            self.run(lambda effects: effects.write([record]))

    def assigned(self) -> dict[str, dict[str, list[int]]]:
        """Return the members' assignments by topic name."""
        return {member_id: by_name(member.assigned) for member_id, member in self.group.members.items()}


Place = tuple[bytes, int]
Given = dict[str, set[Place]]


def simply_assigned(subscriptions: Mapping[str, Mapping[bytes, Sequence[int]]], last: Mapping[str, Target]) -> Given:
    """Return member -> assignment, computed in a simpler way than the broker does, with the same arguments."""
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
