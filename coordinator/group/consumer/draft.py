"""A decision about a consumer group while it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ConsumerMember, MemberState
from coordinator.group.consumer.records import group_record
from coordinator.group.modern.draft import ModernDraft


@dataclass(slots=True)
class Draft(ModernDraft[ConsumerGroup]):
    """A decision in progress. `group` is the shard's, or one that the records will create or convert from classic.

    `may_describe`: whether the sender may know that a topic exists; None: it may know of all.
    """

    may_describe: Callable[[str], bool] | None = None

    def bump(self, metadata_hash: int) -> None:
        """Move the group to its next epoch."""
        self.bump_by(group_record, metadata_hash)

    def extend_session(self, member_id: str, timeout_ms: int | None = None) -> None:
        """Restart the member's session; `timeout_ms` is its own timeout if it uses the classic protocol."""
        if timeout_ms is None:
            timeout_ms = self.shard.cluster.consumer_config(self.group.group_id).session_timeout_ms
        self.set_session(member_id, timeout_ms)

    def watch_revocation(self, member: ConsumerMember) -> None:
        """Start the rebalance timeout of a member that has to give partitions up."""
        is_due = member.state is MemberState.UNREVOKED_PARTITIONS
        self.set_rebalance(member.member_id, member.rebalance_timeout_ms if is_due else None)

    def resolve_regexes_soon(self) -> None:
        """Resolve expressions in a separate step. As in Kafka, topics that the client may not describe are left out."""
        group = self.shard.consumer(self.group.group_id)
        if group is not None:
            group.may_describe = self.may_describe
            self.act_soon("regex")
