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
    """A member, live or loaded; a loaded one knows only the protocol that its group had chosen.

    `group_instance_id` makes it a static member (KIP-345). `protocols` in the member's order of preference.
    `awaiting_join` and `awaiting_sync` are its parked requests. `is_new`: in its first join, so that not even its
    waiting keeps it from timing out.
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
        """Whether the member counts as alive though its session has run out: it waits for the coordinator."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata_for(self, protocol_name: str | None) -> bytes:
        """What the member sent for a protocol, one that it offered."""
        return next(protocol.metadata for protocol in self.protocols if protocol.name == (protocol_name or ""))

    def stored(self, protocol_name: str | None, assignment: bytes) -> MemberMetadata:
        """The member as it goes into the log."""
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

    def take_over(self, stored: MemberMetadata, protocol_name: str | None) -> None:
        """Become what a record says of the member; protocols that go beyond it stay if they agree with it."""
        self.rebalance_timeout_ms = stored.rebalance_timeout_ms
        self.session_timeout_ms = stored.session_timeout_ms
        self.assignment = stored.assignment
        chosen = stored_protocol(stored, protocol_name)
        if chosen not in self.protocols:
            self.protocols = (chosen,)

    @classmethod
    def loaded(cls, stored: MemberMetadata, protocol_name: str | None) -> Member:
        """A member out of the log."""
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
    """The one protocol that a record tells of. Kafka too gives a member without a chosen protocol one with no name."""
    return MemberProtocol(protocol_name or "", stored.subscription)
