"""Share groups without a broker: the harness of groups, heartbeats, and a share coordinator that always succeeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator.group.cluster import ShareGroupConfig
from coordinator.group.deadlines import on_deadline, on_loaded
from coordinator.group.kinds import GROUP_KINDS
from coordinator.group.modern.caller import Caller
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupEffects, GroupShard
from coordinator.group.share.checks import check_request
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.heartbeat import heartbeat
from coordinator.group.share.states import initialized_record
from protocol.error_codes import ErrorCode
from protocol.messages.share_group_heartbeat import SHARE_GROUP_HEARTBEAT
from protocol.schema import Struct
from tests.support.consumer_groups import Topics, by_name
from tests.support.groups import GroupHarness

#: the sender of all heartbeats
CALLER = Caller("client", "/127.0.0.1")


class ShareTopics(Topics):
    """Topics, and settings of share groups."""

    share = ShareGroupConfig(assignment_interval_ms=0)

    def share_config(self, group_id: str) -> ShareGroupConfig:
        return self.share


@dataclass
class ShareHarness(GroupHarness):
    """A shard with topics."""

    topics: ShareTopics = field(default_factory=lambda: ShareTopics({"t": 4}))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.shard = GroupShard(GROUP_KINDS, 0, self.settings, self.timers, self.topics)

    def reloaded(self) -> ShareHarness:
        """Return a coordinator that loads this one's log, at the same time."""
        other = ShareHarness(self.settings, self.wall_ms, self.tick_ms, list(self.log), topics=self.topics)
        for offset, (key, value) in enumerate(self.log):
            other.shard.replay(other.shard.parse(key, value), offset)
        other.run(lambda effects: on_loaded(other.shard, other.now, effects))
        return other

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
        answers: list[Struct] = []

        def decide(effects: GroupEffects) -> None:
            check_request(request)
            answers.append(heartbeat(self.shard, request, CALLER, self.now, effects))

        try:
            code = self.run(decide)
        except Refused as refusal:
            return SHARE_GROUP_HEARTBEAT.response(error_code=refusal.code, error_message=refusal.message)
        return SHARE_GROUP_HEARTBEAT.response(error_code=code) if code is not ErrorCode.NONE else answers[0]

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
