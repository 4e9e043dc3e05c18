"""A classic group: its members, its generation, and the state that joins and syncs need.

The group has two kinds of state. `replay` alone sets the *stored* state: protocol type and name, generation, leader,
members with metadata and assignment, all as of the last stable generation. A rebalance in progress is in memory only,
as in Kafka: after a restart the coordinator has the last stable generation, and its members join again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from coordinator.effects import Waiter
from coordinator.group.classic.member import NO_ASSIGNMENT, Member, MemberProtocol
from coordinator.group.classic.state import LEGAL_FROM, GroupState, IllegalTransition
from coordinator.group.classic.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from coordinator.group.group import Group
from coordinator.group.records import CommittedOffset, GroupMetadata, GroupRecord
from protocol.error_codes import ErrorCode
from protocol.java_order import hash_order, java_hash


class ClassicGroup(Group):
    """A group of the classic protocol (JoinGroup, SyncGroup), or a *simple* group that only stores offsets.

    - `state_timestamp_ms`: wall clock of the last change of state; None if the log has only records before v2.
    - `protocol_type`: None if no member has joined since the group was created.
    """

    __slots__ = (
        "_awaiting_join_count",
        "_supported",
        "generation",
        "group_id",
        "initial_delay",
        "leader_id",
        "members",
        "new_member_added",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
    )

    group_type = "classic"

    def __init__(self, group_id: str, now_ms: int | None = None) -> None:
        self.group_id = group_id
        self.state: GroupState = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_timestamp_ms = now_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation = 0
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # group instance id -> member id
        self.subscribed_topics: frozenset[str] | None = None
        # State of a rebalance: ids that no member has joined with yet (KIP-394), and members whose sync is missing.
        self.pending_joins: dict[str, None] = {}  # a set in order of arrival
        self.pending_syncs: set[str] = set()
        self.new_member_added = False
        # (this delay, the rest that may follow), in ms; see rebalance.py
        self.initial_delay: tuple[int, int] | None = None
        self._awaiting_join_count = 0
        self._supported: Counter[str] = Counter()  # protocol name -> number of members that support it

    # -- stored state -----------------------------------------------------------------------------------------------

    def replay(self, metadata: GroupMetadata) -> None:
        """Apply stored metadata, when it is loaded or when it was just written.

        Members that the group already has keep their parked requests. They keep all of their protocols if the stored
        protocol is among them, because a record that was just written has what the members sent last. While a log is
        loaded, a later record replaces an earlier one.
        """
        known = self.members
        self.members, self.static_members, self._supported = {}, {}, Counter()
        self._awaiting_join_count = 0
        for stored in metadata.members:
            member = known.get(stored.member_id)
            if member is None:
                member = Member.loaded(stored, metadata.protocol_name)
            else:
                member.update_from(stored, metadata.protocol_name)
            self._add(member)
        self.protocol_type = metadata.protocol_type or None
        self.protocol_name = metadata.protocol_name
        self.generation = metadata.generation
        self.leader_id = metadata.leader_id
        self.state_timestamp_ms = None if metadata.state_timestamp_ms == -1 else metadata.state_timestamp_ms
        self.previous_state = self.state
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        self.subscribed_topics = self.compute_subscribed_topics()

    def metadata(self, assignments: Mapping[str, bytes] | None = None) -> GroupMetadata:
        """Return the group's record with the given assignments (None: the members' current ones)."""
        return GroupMetadata(
            self.protocol_type or "",
            self.generation,
            self.protocol_name,
            self.leader_id,
            -1 if self.state_timestamp_ms is None else self.state_timestamp_ms,
            tuple(
                member.stored(
                    self.protocol_name,
                    member.assignment if assignments is None else assignments.get(member.member_id, NO_ASSIGNMENT),
                )
                for member in self.members.values()
            ),
        )

    # -- states -----------------------------------------------------------------------------------------------------

    def move_to(self, state: GroupState, now_ms: int) -> None:
        """Change the state. Raises IllegalTransition if the table does not allow it."""
        if self.state not in LEGAL_FROM[state]:
            raise IllegalTransition(self.group_id, self.state, state)
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return self.state in LEGAL_FROM[GroupState.PREPARING_REBALANCE]

    @property
    def is_simple(self) -> bool:
        """Whether the group only stores offsets: no member has joined or is about to join."""
        return self.protocol_type is None and self.state is GroupState.EMPTY and not self.pending_joins

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    def retention_start(self) -> Callable[[CommittedOffset], int] | None:
        """Return the start of an offset's retention, as `Group.retention_start`; expiry.py has the table of cases."""
        if self.protocol_type is None:
            return super().retention_start()
        if self.state is GroupState.EMPTY:
            became_empty_ms = self.state_timestamp_ms
            return super().retention_start() if became_empty_ms is None else lambda _: became_empty_ms
        knows_topics = self.uses_consumer_protocol and self.subscribed_topics is not None
        return super().retention_start() if knows_topics and self.state is GroupState.STABLE else None

    def check_offset_delete(self) -> ErrorCode:
        """Return NONE or NON_EMPTY_GROUP: only members that are consumers say which topics they read."""
        if self.state is not GroupState.EMPTY and not self.uses_consumer_protocol:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def tombstones(self) -> list[GroupRecord]:
        """Return the record that deletes the group."""
        return [GroupRecord(self.group_id, None)]

    # -- members ----------------------------------------------------------------------------------------------------

    def add(self, member: Member, waiter: Waiter | None, protocol_type: str) -> None:
        """Add a member that joins. The first member sets the group's protocol type and becomes its leader."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._add(member)
        self._set_join(member, waiter)
        self.pending_joins.pop(member.member_id, None)

    def _add(self, member: Member) -> None:
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self._supported.update(protocol.name for protocol in member.protocols)
        self._awaiting_join_count += member.awaiting_join is not None

    def ids_with_deadlines(self) -> Iterable[str]:
        return [*self.members, *self.pending_joins]

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending one. If it was the leader, another member becomes the leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._supported.subtract(protocol.name for protocol in member.protocols)
            self._awaiting_join_count -= member.awaiting_join is not None
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.discard(member_id)

    def update(self, member: Member, protocols: tuple[MemberProtocol, ...], rebalance_ms: int, session_ms: int) -> None:
        """Update a member that joins again."""
        self._supported.subtract(protocol.name for protocol in member.protocols)
        member.protocols = protocols
        self._supported.update(protocol.name for protocol in protocols)
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms

    def replace_static(self, old_id: str, new_id: str) -> Member:
        """Replace a static member by its next incarnation, which has no parked requests and no session yet."""
        old = self.members.pop(old_id)
        self._awaiting_join_count -= old.awaiting_join is not None
        member = Member(
            new_id,
            old.group_instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocols,
            old.assignment,
        )
        self.members[new_id] = member
        assert old.group_instance_id is not None
        self.static_members[old.group_instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return NONE, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if a later member has the instance id."""
        if group_instance_id is not None:
            owner = self.static_members.get(group_instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of the members' timeouts, at least 0: how long the group waits for joins."""
        return max((0, *(member.rebalance_timeout_ms for member in self.members.values())))

    # -- parked joins -----------------------------------------------------------------------------------------------

    def park_join(self, member: Member, waiter: Waiter) -> None:
        """Park the member's join request, in place of an earlier one."""
        self._set_join(member, waiter)

    def take_join(self, member: Member) -> Waiter | None:
        """Remove the member's parked join request and return it; None if it has none."""
        return self._set_join(member, None)

    def _set_join(self, member: Member, waiter: Waiter | None) -> Waiter | None:
        before = member.awaiting_join
        member.awaiting_join = waiter
        self._awaiting_join_count += (waiter is not None) - (before is not None)
        return before

    @property
    def awaiting_join_count(self) -> int:
        return self._awaiting_join_count

    @property
    def all_members_joined(self) -> bool:
        return len(self.members) == self._awaiting_join_count and not self.pending_joins

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader has joined. Return False if no member has joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is None:
            joined = next((m.member_id for m in self.members.values() if m.awaiting_join is not None), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    # -- protocols --------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Return whether a member with these protocols fits: same type, and a protocol that all members support."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        if self.protocol_type != protocol_type:
            return False
        return any(self._supported[name] == len(self.members) for name in names)

    def select_protocol(self, instead: Mapping[str, tuple[MemberProtocol, ...]] | None = None) -> str:
        """Return the protocol with most votes among those that all members support.

        Ties: the first in Java's hash table.

        `instead`: protocols by member id, to use instead of the members' current ones.
        """
        lists = [(instead or {}).get(member.member_id, member.protocols) for member in self.members.values()]
        candidates = set.intersection(*({protocol.name for protocol in protocols} for protocols in lists))
        votes = Counter(next(p.name for p in protocols if p.name in candidates) for protocols in lists)
        return max(hash_order(votes, java_hash), key=votes.__getitem__)

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics that members read under the chosen protocol; None if they are unknown."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        return subscribed_topics(self._subscriptions(self.protocol_name))

    def _subscriptions(self, protocol_name: str) -> Iterable[bytes]:
        return (member.metadata_for(protocol_name) for member in self.members.values())

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether the topic's offsets are in use. Consumers whose topics are unknown may read any topic."""
        return self.uses_consumer_protocol if self.subscribed_topics is None else topic in self.subscribed_topics
