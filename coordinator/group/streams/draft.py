"""A decision about a streams group while it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coordinator.group.modern.draft import ModernDraft
from coordinator.group.shard import GroupEffects
from coordinator.group.streams.group import StreamsGroup, VolatileState
from coordinator.group.streams.member import MemberState, StreamsMember
from coordinator.group.streams.records import group_record
from coordinator.group.streams.tasks import Tasks


@dataclass(slots=True)
class Draft(ModernDraft[StreamsGroup]):
    """A decision in progress. `group` is the shard's, or a new one that the records will create.

    `replaced`: the static member in whose place another one joins.
    """

    replaced: StreamsMember | None = None

    def members_with(self, member: StreamsMember | None) -> dict[str, StreamsMember]:
        """Return the members once one of them has changed, joined, or replaced a static member."""
        members = dict(self.group.members)
        if self.replaced is not None:
            del members[self.replaced.member_id]
        if member is not None:
            members[member.member_id] = member
        return members

    def target_of(self, member: StreamsMember) -> Tasks | None:
        """Return the last target of a member, if it has one. A static member inherits that of the one it replaces."""
        if self.replaced is not None and self.replaced.instance_id == member.instance_id:
            return self.group.targets.get(self.replaced.member_id)
        return self.group.targets.get(member.member_id)

    def bump(self, metadata_hash: int, validated_topology_epoch: int, assignment_configs: Mapping[str, str]) -> None:
        """Move the group to its next epoch."""
        self.bump_by(
            group_record,
            metadata_hash,
            validated_topology_epoch,
            assignment_configs,
            self.group.stored_description_epoch,
            self.group.failed_description_epoch,
        )

    def remember(self, change: Callable[[VolatileState], None]) -> None:
        """Change state that is not stored. A new group loses the change and computes it again at its next heartbeat."""

        def apply(_: GroupEffects) -> None:
            if self.shard.streams(self.group.group_id) is self.group:
                change(self.group.soft)

        self.after.append(apply)

    def extend_session(self, member_id: str) -> None:
        """Restart the member's session."""
        self.set_session(member_id, self.shard.cluster.streams_config(self.group.group_id).session_timeout_ms)

    def watch_revocation(self, member: StreamsMember) -> None:
        """Start the rebalance timeout of a member that has to give tasks up."""
        is_due = member.state is MemberState.UNREVOKED_TASKS
        self.set_rebalance(member.member_id, member.rebalance_timeout_ms if is_due else None)
