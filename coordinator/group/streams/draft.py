"""A decision about a streams group while it is made: the group as it is, what to write, and what follows.

Everything that changes the group goes into `records`. `after` holds what is to be done once they are in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from coordinator.clock import Now
from coordinator.group.records import StoredRecord
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from coordinator.group.streams.group import Soft, StreamsGroup
from coordinator.group.streams.member import MemberState, StreamsMember
from coordinator.group.streams.records import GroupEpoch, group_record
from protocol.errors import ErrorCode


@dataclass(slots=True)
class Draft:
    """`group` is the shard's, or a new one that the records will make.

    `on_failed`: called with the reason if the records cannot be written.
    """

    shard: GroupShard
    group: StreamsGroup
    now: Now
    records: list[StoredRecord] = field(default_factory=list)
    after: list[Callable[[GroupEffects], None]] = field(default_factory=list)
    on_failed: Callable[[ErrorCode], None] | None = None
    epoch: int = field(init=False)
    """The group's, once the records are in the log."""

    def __post_init__(self) -> None:
        self.epoch = self.group.epoch

    def bump(self, metadata_hash: int, validated_topology_epoch: int, assignment_configs: Mapping[str, str]) -> None:
        """Take the group to its next epoch."""
        self.epoch = self.group.epoch + 1
        content = GroupEpoch(self.epoch, metadata_hash, validated_topology_epoch, assignment_configs)
        self.records.append(group_record(self.group.group_id, content))

    def remember(self, change: Callable[[Soft], None]) -> None:
        """Change what the group knows but for its records. A new one does not know it yet: it looks again with its
        next heartbeat.
        """

        def apply(_: GroupEffects) -> None:
            if self.shard.streams(self.group.group_id) is self.group:
                change(self.group.soft)

        self.after.append(apply)

    def carry_out(self, effects: GroupEffects) -> None:
        """Want it done: the records, and then what follows; at once if there are none."""

        def follow_up() -> None:
            for step in self.after:
                step(effects)

        if self.records:
            effects.write(self.records, follow_up, self.on_failed)
        else:
            follow_up()

    # -- deadlines ----------------------------------------------------------------------------------------------------

    def extend_session(self, member_id: str) -> None:
        """The member has shown that it lives."""
        group_id = self.group.group_id
        timeout_ms = self.shard.cluster.streams_config(group_id).session_timeout_ms
        self.shard.timers.schedule(TimerKey("session", group_id, member_id), self.now.tick_ms + timeout_ms)

    def watch_revocation(self, member: StreamsMember) -> None:
        """A member that has to give tasks up has its rebalance timeout for it."""
        key = TimerKey("rebalance", self.group.group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_TASKS:
            self.shard.timers.schedule(key, self.now.tick_ms + member.rebalance_timeout_ms)
        else:
            self.shard.timers.cancel(key)
