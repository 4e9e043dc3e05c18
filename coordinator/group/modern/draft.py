"""A decision about a modern group while it is made: the group as it will be, what to write, and what follows.

Everything that changes the group goes into `records`. `after` holds what is to be done once they are in the log:
deadlines, and answers to those who wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Literal, Self, TypeVar

from coordinator.clock import Now
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.records import StoredRecord
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from coordinator.group.share.group import ShareGroup
from coordinator.group.streams.group import StreamsGroup
from protocol.errors import ErrorCode

#: After which a deadline comes again that could not be acted on.
RETRY_MS = 500

G = TypeVar("G", ConsumerGroup, StreamsGroup, ShareGroup)


@dataclass(slots=True)
class ModernDraft(Generic[G]):
    """`group` is the shard's, or one that the records will make: a new one, or one of another type until now.

    `on_failed`: called with the reason if the records cannot be written.
    """

    shard: GroupShard
    group: G
    now: Now
    records: list[StoredRecord] = field(default_factory=list)
    after: list[Callable[[GroupEffects], None]] = field(default_factory=list)
    on_failed: Callable[[ErrorCode], None] | None = None
    epoch: int = field(init=False)
    """The group's, once the records are in the log."""

    def __post_init__(self) -> None:
        self.epoch = self.group.epoch

    @classmethod
    def at_deadline(cls, shard: GroupShard, group: G, key: TimerKey, now: Now) -> Self:
        """What a deadline leads to; it comes again soon if that cannot be written."""
        again_ms = now.tick_ms + RETRY_MS
        return cls(shard, group, now, on_failed=lambda _: shard.timers.schedule(key, again_ms))

    def bump_by(self, record: Callable[..., StoredRecord], *content: object) -> None:
        """Take the group to its next epoch, by `record(group id, epoch, *content)`."""
        self.epoch = self.group.epoch + 1
        self.records.append(record(self.group.group_id, self.epoch, *content))

    def carry_out(self, effects: GroupEffects) -> None:
        """Want it done: the records, and then what follows; at once if there are none."""

        def follow_up() -> None:
            while self.after:  # whose steps know this: together they would be garbage
                self.after.pop(0)(effects)

        if self.records:
            effects.write(self.records, follow_up, self.on_failed)
        else:
            follow_up()

    # -- deadlines ----------------------------------------------------------------------------------------------------

    def set_session(self, member_id: str, timeout_ms: int) -> None:
        """The member has shown that it lives."""
        self._schedule(TimerKey("session", self.group.group_id, member_id), timeout_ms)

    def set_rebalance(self, member_id: str, timeout_ms: int | None) -> None:
        """The member has so long to give up what it must; None: there is nothing."""
        key = TimerKey("rebalance", self.group.group_id, member_id)
        if timeout_ms is None:
            self.shard.timers.cancel(key)
        else:
            self._schedule(key, timeout_ms)

    def act_soon(self, kind: Literal["regex", "initialize"]) -> None:
        """In a turn of its own."""
        self._schedule(TimerKey(kind, self.group.group_id), 0)

    def _schedule(self, key: TimerKey, after_ms: int) -> None:
        self.shard.timers.schedule(key, self.now.tick_ms + after_ms)
