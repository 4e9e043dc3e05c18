"""A decision about a share group while it is made."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.group.modern.draft import ModernDraft
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.records import group_record


@dataclass(slots=True)
class Draft(ModernDraft[ShareGroup]):
    """A decision in progress. `group` is the shard's, or one that the records will create."""

    def bump(self, metadata_hash: int) -> None:
        """Move the group to its next epoch."""
        self.bump_by(group_record, metadata_hash)

    def extend_session(self, member_id: str) -> None:
        """Restart the member's session."""
        self.set_session(member_id, self.shard.cluster.share_config(self.group.group_id).session_timeout_ms)

    def initialize_soon(self) -> None:
        """Have the share coordinator initialize states, in a separate step."""
        self.act_soon("initialize")
