"""A consumer group (KIP-848), as its records define it, and the counters that decisions use.

Only `replay` changes stored state. Not stored, and lost with a restart, are the deadlines, which the shard has,
`checked_version`, `may_describe` and `resolved_tick_ms`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from enum import Enum

import msgspec
from msgspec.structs import replace

from coordinator.group.assignors.spec import Target
from coordinator.group.consumer import records as stored
from coordinator.group.consumer.member import NOTHING, ConsumerMember
from coordinator.group.consumer.records import ConsumerRecord, Current, ResolvedRegex
from coordinator.group.modern.group import ModernGroup
from coordinator.group.modern.record import GroupEpoch, ModernRecord, TargetEpoch
from protocol.java_order import hash_order, java_hash

#: The epoch of a new group; its first members bump it.
FIRST_EPOCH = 1
#: No member owns the partition.
FREE = -1

NO_TARGET: Target = {}


class ConsumerGroupState(Enum):
    """States of a consumer group. The values are the names that clients see."""

    EMPTY = "Empty"
    """No members."""
    ASSIGNING = "Assigning"
    """The group has changed since its targets were computed."""
    RECONCILING = "Reconciling"
    """Some members do not have their targets yet."""
    STABLE = "Stable"
    """All members have their targets."""


class Subscription(msgspec.Struct, frozen=True):
    """The topics that all members together read.

    `by_name`: topic -> number of members that name it; `by_regex`: topic -> number of expressions that match it;
    `regexes`: expression -> number of members that have it.
    """

    by_name: Counter[str]
    by_regex: Counter[str]
    regexes: Counter[str]
    member_count: int

    @property
    def topics(self) -> Collection[str]:
        return self.by_name.keys() | self.by_regex.keys()

    @property
    def is_homogeneous(self) -> bool:
        """Return whether all members are known to read the same topics."""
        if not self.regexes:
            return all(count == self.member_count for count in self.by_name.values())
        if self.by_name or next(iter(self.regexes.values())) != self.member_count:
            return False
        return all(count == 1 for count in self.by_regex.values())


class ConsumerGroup(ModernGroup):
    """The group. `targets` belong to `target_epoch`; a member without a target gets no partitions.

    - `checked_version`: version of the topics for which the metadata hash was last computed; None: not since loading.
    - `may_describe`: whether the client that last had expressions resolved may know of a topic; None: of all topics.
    - `resolved_tick_ms`: when expressions were resolved or loaded, on the monotonic clock.
    """

    __slots__ = (
        "_owners",
        "_subscription",
        "checked_version",
        "epoch",
        "group_id",
        "has_partition_metadata",
        "may_describe",
        "members",
        "metadata_hash",
        "regexes",
        "resolved_tick_ms",
        "static_members",
        "target_epoch",
        "target_timestamp_ms",
        "targets",
    )

    group_type = "consumer"

    def __init__(self, group_id: str, records: Iterable[ConsumerRecord] = ()) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.targets: dict[str, Target] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.resolved_tick_ms = 0.0
        self.has_partition_metadata = False
        self.checked_version: int | None = None
        self.may_describe: Callable[[str], bool] | None = None
        self._owners: dict[tuple[bytes, int], int] = {}  # (topic id, partition) -> epoch of the owner
        self._subscription = Subscription(Counter(), Counter(), Counter(), 0)
        for record in records:
            self.replay(record)

    # -- state ------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        """Compute the state, which takes a look at every member: only for descriptions and lists."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def classic_member_count(self) -> int:
        return sum(member.uses_classic_protocol for member in self.members.values())

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member of an instance id, or None."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member_id: str, instance_id: str | None = None) -> Target:
        """Return a member's target; a static member has the target of its instance, whatever its member id."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, "")
        return self.targets.get(member_id, NO_TARGET)

    def owner_epoch(self, topic_id: bytes, partition: int) -> int:
        """Return the epoch of the member that owns the partition, or FREE."""
        return self._owners.get((topic_id, partition), FREE)

    # -- subscriptions ----------------------------------------------------------------------------------------------

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether any member reads the topic."""
        return topic in self._subscription.by_name or topic in self._subscription.by_regex

    def reads(self, member: ConsumerMember, topic: str) -> bool:
        """Return whether a member reads the topic, by its name or by the member's expression."""
        if topic in member.topic_names:
            return True
        resolved = self.regexes.get(member.topic_regex or "")
        return resolved is not None and topic in resolved.topics

    def regex_subscribers(self, expression: str) -> int:
        """Return the number of members with the expression."""
        return self._subscription.regexes[expression]

    @property
    def subscribed_regexes(self) -> Collection[str]:
        return self._subscription.regexes.keys()

    def subscription(self, old: Collection[ConsumerMember] = (), new: Collection[ConsumerMember] = ()) -> Subscription:
        """Return what members read once the old members are replaced by the new ones.

        The topics of an expression go with the last member that had it. The topics of a new expression are not known
        yet.
        """
        now = self._subscription
        if not old and not new:
            return now
        by_name, by_regex, regexes = now.by_name.copy(), now.by_regex.copy(), now.regexes.copy()
        for member in old:
            by_name.subtract(member.topic_names)
            regexes.subtract(_regex_of(member))
        for member in new:
            by_name.update(member.topic_names)
            regexes.update(_regex_of(member))
        for expression, count in regexes.items():
            if not count and expression in self.regexes:
                by_regex.subtract(self.regexes[expression].topics)
        return Subscription(+by_name, +by_regex, +regexes, now.member_count - len(old) + len(new))

    def subscription_with(self, member: ConsumerMember) -> Subscription:
        """Return what members read once one of them has changed, joined, or replaced a static member."""
        known = self.members.get(member.member_id) or self.static_member(member.instance_id)
        if known is not None and known.topic_names == member.topic_names and known.topic_regex == member.topic_regex:
            return self._subscription
        return self.subscription([] if known is None else [known], [member])

    def preferred_assignor(self, old: ConsumerMember | None = None, new: ConsumerMember | None = None) -> str | None:
        """Return the assignor that most members ask for, with one of them changed; None if no member asks for one."""
        votes = Counter(m.server_assignor for m in self.members.values() if m.server_assignor is not None)
        if old is not None and old.server_assignor is not None:
            votes[old.server_assignor] -= 1
        if new is not None and new.server_assignor is not None:
            votes[new.server_assignor] += 1
        names = hash_order([name for name, count in votes.items() if count], java_hash)
        return max(names, key=votes.__getitem__, default=None)

    # -- replay -----------------------------------------------------------------------------------------------------

    def replay(self, record: ModernRecord[object]) -> None:
        """Apply a record. The shard itself removes the group on a tombstone of type GROUP."""
        content, item = record.content, record.item
        if record.record_type == stored.PARTITION_METADATA:
            self.has_partition_metadata = content is not None
        elif record.record_type == stored.REGEX:
            self._replay_regex(item, content if isinstance(content, ResolvedRegex) else None)
        elif record.record_type == stored.MEMBER:
            self._replay_member(item, content if isinstance(content, ConsumerMember) else None)
        elif record.record_type == stored.CURRENT:
            self._replay_current(item, content if isinstance(content, Current) else None)
        elif isinstance(content, GroupEpoch):
            self.epoch, self.metadata_hash = content.epoch, content.metadata_hash
        elif record.record_type == stored.TARGET_EPOCH:
            target = content if isinstance(content, TargetEpoch) else TargetEpoch(-1, 0)
            self.target_epoch, self.target_timestamp_ms = target.epoch, target.timestamp_ms
        elif record.record_type == stored.TARGET:
            if content is None:
                self.targets.pop(item, None)
            else:
                self.targets[item] = content  # type: ignore[assignment] # a Target, by the record's type

    def _replay_member(self, member_id: str, content: ConsumerMember | None) -> None:
        """Apply a member's own fields; its epoch and its assignment are in another record."""
        old = self.members.get(member_id)
        if content is None:
            if old is not None:
                self._put(old, None)
            return
        known = old or ConsumerMember(member_id)
        kept = {name: getattr(known, name) for name in ("epoch", "previous_epoch", "state", "assigned", "revoking")}
        self._put(old, replace(content, member_id=member_id, **kept))

    def _replay_current(self, member_id: str, current: Current | None) -> None:
        old = self.members.get(member_id)
        if current is None:
            if old is not None:
                gone = replace(old, epoch=-1, previous_epoch=-1, assigned=NOTHING, revoking=NOTHING)
                self._put(old, gone)
            return
        self._put(
            old,
            replace(
                old or ConsumerMember(member_id),
                epoch=current.epoch,
                previous_epoch=current.previous_epoch,
                state=current.state,
                assigned=current.assigned,
                revoking=current.revoking,
            ),
        )

    def _replay_regex(self, expression: str, resolved: ResolvedRegex | None) -> None:
        old = self.regexes.pop(expression, None)
        by_regex = self._subscription.by_regex
        if old is not None:
            _subtract(by_regex, old.topics)
        if resolved is not None:
            self.regexes[expression] = resolved
            by_regex.update(resolved.topics)

    def _put(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Replace, add or remove a member, and update the counters."""
        now = self._subscription
        if old is not None:
            _subtract(now.by_name, old.topic_names)
            _subtract(now.regexes, _regex_of(old))
            for place in old.owned():
                if self._owners.get(place) == old.epoch:
                    del self._owners[place]
            if new is None:
                del self.members[old.member_id]
            if old.instance_id is not None and self.static_members.get(old.instance_id) == old.member_id:
                del self.static_members[old.instance_id]
        if new is not None:
            now.by_name.update(new.topic_names)
            now.regexes.update(_regex_of(new))
            for place in new.owned():
                self._owners[place] = new.epoch
            self.members[new.member_id] = new
            if new.instance_id is not None:
                self.static_members[new.instance_id] = new.member_id
        self._subscription = replace(now, member_count=len(self.members))

    # -- removal ----------------------------------------------------------------------------------------------------

    def tombstones(self) -> list[ConsumerRecord]:
        """Return the records that delete the group, in the order in which they have to be written."""
        group_id = self.group_id
        members = list(self.members)
        records = [stored.tombstone(group_id, stored.CURRENT, member_id) for member_id in members]
        records += [stored.tombstone(group_id, stored.TARGET, member_id) for member_id in members]
        records.append(stored.tombstone(group_id, stored.TARGET_EPOCH))
        records += [stored.tombstone(group_id, stored.MEMBER, member_id) for member_id in members]
        records += [stored.tombstone(group_id, stored.REGEX, expression) for expression in self.regexes]
        records.append(stored.tombstone(group_id, stored.PARTITION_METADATA))
        records.append(stored.tombstone(group_id, stored.GROUP))
        return records


def regex_of(member: ConsumerMember | None) -> str | None:
    """Return the member's expression, or None."""
    return (member.topic_regex or None) if member is not None else None


def _regex_of(member: ConsumerMember) -> tuple[str, ...]:
    return (member.topic_regex,) if member.topic_regex else ()


def _subtract(counts: Counter[str], keys: Iterable[str]) -> None:
    for key in keys:
        counts[key] -= 1
        if not counts[key]:
            del counts[key]
