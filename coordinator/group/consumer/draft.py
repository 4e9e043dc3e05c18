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
    """`group` is the shard's, or one that the records will make: a new one, or one turned from classic to consumer.

    `may_describe`: whether who caused it may know of a topic; None: of all.
    """

    may_describe: Callable[[str], bool] | None = None

    def bump(self, metadata_hash: int) -> None:
        """Take the group to its next epoch."""
        self.bump_by(group_record, metadata_hash)

    def extend_session(self, member_id: str, timeout_ms: int | None = None) -> None:
        """The member has shown that it lives; `timeout_ms` of its own where it speaks the classic protocol."""
        if timeout_ms is None:
            timeout_ms = self.shard.cluster.consumer_config(self.group.group_id).session_timeout_ms
        self.set_session(member_id, timeout_ms)

    def watch_revocation(self, member: ConsumerMember) -> None:
        """A member that has to give partitions up has its rebalance timeout for it."""
        is_due = member.state is MemberState.UNREVOKED_PARTITIONS
        self.set_rebalance(member.member_id, member.rebalance_timeout_ms if is_due else None)

    def resolve_regexes_soon(self) -> None:
        """In a turn of its own. Topics that the client may not know of are left out, as in Kafka."""
        group = self.shard.consumer(self.group.group_id)
        if group is not None:
            group.may_describe = self.may_describe
            self.act_soon("regex")
