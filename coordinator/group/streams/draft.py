"""A decision about a streams group while it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coordinator.group.modern.draft import ModernDraft
from coordinator.group.shard import GroupEffects
from coordinator.group.streams.group import Soft, StreamsGroup
from coordinator.group.streams.member import MemberState, StreamsMember
from coordinator.group.streams.records import group_record


@dataclass(slots=True)
class Draft(ModernDraft[StreamsGroup]):
    """`group` is the shard's, or a new one that the records will make."""

    def bump(self, metadata_hash: int, validated_topology_epoch: int, assignment_configs: Mapping[str, str]) -> None:
        """Take the group to its next epoch."""
        self.bump_by(group_record, metadata_hash, validated_topology_epoch, assignment_configs)

    def remember(self, change: Callable[[Soft], None]) -> None:
        """Change what the group knows but for its records. A new one does not know it yet: it looks again with its
        next heartbeat.
        """

        def apply(_: GroupEffects) -> None:
            if self.shard.streams(self.group.group_id) is self.group:
                change(self.group.soft)

        self.after.append(apply)

    def extend_session(self, member_id: str) -> None:
        """The member has shown that it lives."""
        self.set_session(member_id, self.shard.cluster.streams_config(self.group.group_id).session_timeout_ms)

    def watch_revocation(self, member: StreamsMember) -> None:
        """A member that has to give tasks up has its rebalance timeout for it."""
        is_due = member.state is MemberState.UNREVOKED_TASKS
        self.set_rebalance(member.member_id, member.rebalance_timeout_ms if is_due else None)
