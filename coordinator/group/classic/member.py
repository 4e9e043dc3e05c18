"""A member of a classic group."""

from __future__ import annotations

import msgspec
from msgspec import field

from coordinator.effects import Waiter
from coordinator.group.classic.member_protocol import MemberProtocol
from coordinator.group.records import MemberMetadata

__all__ = ["NO_ASSIGNMENT", "Member", "MemberProtocol"]

NO_ASSIGNMENT = b""


class Member(msgspec.Struct, eq=False):
    """A member. A loaded member knows only the protocol that its group had chosen.

    `group_instance_id` makes it a static member (KIP-345). `protocols` are in the member's order of preference.
    `awaiting_join` and `awaiting_sync` are its parked requests. `is_new`: the member is in its first join, and so times
    out even while its request is parked.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = NO_ASSIGNMENT
    awaiting_join: Waiter | None = field(default=None)
    awaiting_sync: Waiter | None = field(default=None)
    is_new: bool = False

    @property
    def satisfies_heartbeat(self) -> bool:
        """Whether the member counts as alive without a session: it waits for the coordinator."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata_for(self, protocol_name: str | None) -> bytes:
        """Return the metadata that the member sent for a protocol; the member has to support the protocol."""
        return next(protocol.metadata for protocol in self.protocols if protocol.name == (protocol_name or ""))

    def stored(self, protocol_name: str | None, assignment: bytes) -> MemberMetadata:
        """Return the member as it is stored."""
        return MemberMetadata(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata_for(protocol_name),
            assignment,
        )

    def update_from(self, stored: MemberMetadata, protocol_name: str | None) -> None:
        """Apply a stored member. The member keeps its other protocols if the stored one agrees with them."""
        self.rebalance_timeout_ms = stored.rebalance_timeout_ms
        self.session_timeout_ms = stored.session_timeout_ms
        self.assignment = stored.assignment
        chosen = stored_protocol(stored, protocol_name)
        if chosen not in self.protocols:
            self.protocols = (chosen,)

    @classmethod
    def loaded(cls, stored: MemberMetadata, protocol_name: str | None) -> Member:
        """Return a member that was loaded from the log."""
        return cls(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            stored.rebalance_timeout_ms,
            stored.session_timeout_ms,
            (stored_protocol(stored, protocol_name),),
            stored.assignment,
        )


def stored_protocol(stored: MemberMetadata, protocol_name: str | None) -> MemberProtocol:
    """Return the protocol in a record. As in Kafka, a member without a chosen protocol has one without a name."""
    return MemberProtocol(protocol_name or "", stored.subscription)
