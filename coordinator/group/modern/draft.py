"""A decision about a modern group in progress: the group's next state, the records, and the steps that follow.

Every change of the group goes into `records`. `after` has the steps to take once they are in the log: deadlines, and
answers to parked requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Literal, Self, TypeVar

from coordinator.clock import Now
from coordinator.group.records import StoredRecord
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from coordinator.group.consumer.group import ConsumerGroup
    from coordinator.group.share.group import ShareGroup
    from coordinator.group.streams.group import StreamsGroup

#: How long after a failed write a deadline is due again.
RETRY_MS = 500

G = TypeVar("G", "ConsumerGroup", "StreamsGroup", "ShareGroup")


@dataclass(slots=True)
class ModernDraft(Generic[G]):
    """A decision in progress. `group` is the shard's, or one that the records will create or convert from another type.

    `on_failed` is called with the error if the records cannot be written.
    """

    shard: GroupShard
    group: G
    now: Now
    records: list[StoredRecord] = field(default_factory=list)
    after: list[Callable[[GroupEffects], None]] = field(default_factory=list)
    on_failed: Callable[[ErrorCode], None] | None = None
    epoch: int = field(init=False)
    """The group's epoch once the records are in the log."""

    def __post_init__(self) -> None:
        self.epoch = self.group.epoch

    @classmethod
    def at_deadline(cls, shard: GroupShard, group: G, key: TimerKey, now: Now) -> Self:
        """Return the draft of a decision at a deadline. If the write fails, the deadline is due again soon."""
        again_ms = now.tick_ms + RETRY_MS
        return cls(shard, group, now, on_failed=lambda _: shard.timers.schedule(key, again_ms))

    def bump_by(self, record: Callable[..., StoredRecord], *content: object) -> None:
        """Move the group to its next epoch, with `record(group id, epoch, *content)`."""
        self.epoch = self.group.epoch + 1
        self.records.append(record(self.group.group_id, self.epoch, *content))

    def settle_if_empty(self, leaving: int, record: Callable[[str, int, int], StoredRecord]) -> None:
        """Raise the epoch of the targets with `record` if all members leave: no member needs a target.

        Its timestamp is 0, as in Kafka, so the next member gets a target without waiting for the assignment interval.
        """
        if leaving == len(self.group.members):
            self.records.append(record(self.group.group_id, self.epoch, 0))

    def carry_out(self, effects: GroupEffects) -> None:
        """Add the records to the effects, and the steps that follow. Without records, take these steps at once."""

        def follow_up() -> None:
            while self.after:  # the steps refer to this draft: a list of them would be a reference cycle
                self.after.pop(0)(effects)

        if self.records:
            effects.write(self.records, follow_up, self.on_failed)
        else:
            follow_up()

    # -- deadlines ----------------------------------------------------------------------------------------------------

    def set_session(self, member_id: str, timeout_ms: int) -> None:
        """Restart the member's session."""
        self._schedule(TimerKey("session", self.group.group_id, member_id), timeout_ms)

    def set_rebalance(self, member_id: str, timeout_ms: int | None) -> None:
        """Start the time in which the member has to give up what it must; None: it has nothing to give up."""
        key = TimerKey("rebalance", self.group.group_id, member_id)
        if timeout_ms is None:
            self.shard.timers.cancel(key)
        else:
            self._schedule(key, timeout_ms)

    def act_soon(self, kind: Literal["regex", "initialize"]) -> None:
        """Act in a separate step, soon."""
        self._schedule(TimerKey(kind, self.group.group_id), 0)

    def _schedule(self, key: TimerKey, after_ms: int) -> None:
        self.shard.timers.schedule(key, self.now.tick_ms + after_ms)
