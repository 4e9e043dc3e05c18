"""A decision about a consumer group while it is made: the group as it will be, what to write, and what follows.

Everything that changes the group goes into `records`. `after` holds what is to be done once they are in the log:
deadlines, and answers to those who wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.clock import Now
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ConsumerMember, MemberState
from coordinator.group.consumer.records import group_record
from coordinator.group.records import StoredRecord
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from protocol.errors import ErrorCode


@dataclass(slots=True)
class Draft:
    """`group` is the shard's, or one that the records will make: a new one, or one turned from classic to consumer.

    `on_failed`: called with the reason if the records cannot be written.
    """

    shard: GroupShard
    group: ConsumerGroup
    now: Now
    records: list[StoredRecord] = field(default_factory=list)
    after: list[Callable[[GroupEffects], None]] = field(default_factory=list)
    on_failed: Callable[[ErrorCode], None] | None = None
    epoch: int = field(init=False)
    """The group's, once the records are in the log."""

    def __post_init__(self) -> None:
        self.epoch = self.group.epoch

    def bump(self, metadata_hash: int) -> None:
        """Take the group to its next epoch."""
        self.epoch = self.group.epoch + 1
        self.records.append(group_record(self.group.group_id, self.epoch, metadata_hash))

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

    def extend_session(self, member_id: str, timeout_ms: int | None = None) -> None:
        """The member has shown that it lives; `timeout_ms` of its own where it speaks the classic protocol."""
        group_id = self.group.group_id
        if timeout_ms is None:
            timeout_ms = self.shard.cluster.consumer_config(group_id).session_timeout_ms
        self.shard.timers.schedule(TimerKey("session", group_id, member_id), self.now.tick_ms + timeout_ms)

    def watch_revocation(self, member: ConsumerMember) -> None:
        """A member that has to give partitions up has its rebalance timeout for it."""
        key = TimerKey("rebalance", self.group.group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self.shard.timers.schedule(key, self.now.tick_ms + member.rebalance_timeout_ms)
        else:
            self.shard.timers.cancel(key)

    def resolve_regexes_soon(self) -> None:
        """In a turn of its own."""
        self.shard.timers.schedule(TimerKey("regex", self.group.group_id), self.now.tick_ms)
