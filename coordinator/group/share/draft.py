"""A decision about a share group while it is made: what to write, and what follows once that is in the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.clock import Now
from coordinator.group.records import StoredRecord
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.records import group_record
from protocol.errors import ErrorCode


@dataclass(slots=True)
class Draft:
    """`group` is the shard's, or one that the records will make.

    `on_failed`: called with the reason if the records cannot be written.
    """

    shard: GroupShard
    group: ShareGroup
    now: Now
    records: list[StoredRecord] = field(default_factory=list)
    after: list[Callable[[], None]] = field(default_factory=list)
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
                step()

        if self.records:
            effects.write(self.records, follow_up, self.on_failed)
        else:
            follow_up()

    # -- deadlines ----------------------------------------------------------------------------------------------------

    def extend_session(self, member_id: str) -> None:
        """The member has shown that it lives."""
        group_id = self.group.group_id
        timeout_ms = self.shard.cluster.share_config(group_id).session_timeout_ms
        self.shard.timers.schedule(TimerKey("session", group_id, member_id), self.now.tick_ms + timeout_ms)

    def initialize_soon(self) -> None:
        """Have states begun at the share coordinator, in a turn of its own."""
        self.shard.timers.schedule(TimerKey("initialize", self.group.group_id), self.now.tick_ms)
