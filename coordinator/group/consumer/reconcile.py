r"""The way of a member to its target: first give partitions up, then move to the next epoch, then take free partitions.

     STABLE --- partitions to give up ---> UNREVOKED_PARTITIONS --- reported without them ---> the next epoch
       \---- nothing to give up ---------------------------------------------------------->/
     the next epoch: STABLE, or UNRELEASED_PARTITIONS while other members still own some of the target

A member stays at its epoch until it has given up what it must. So no partition has two members that may read it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from coordinator.group.assignors.spec import Target
from coordinator.group.consumer.group import FREE
from coordinator.group.consumer.member import NOTHING, ConsumerMember, MemberState, Owned, Reported
from coordinator.group.modern.checks import ABANDON
from coordinator.group.refused import Refused
from protocol.error_codes import ErrorCode


class Reconciliation(msgspec.Struct, frozen=True):
    """The input of a step.

    `reported`: the partitions that the member reports, None if it reports none; `readable`: those of the topics in
    question that it reads now; `owner_epoch`: the epoch of a partition's owner, or FREE.
    """

    target_epoch: int
    target: Target
    has_new_subscription: bool
    reported: Reported | None
    readable: frozenset[bytes]
    owner_epoch: Callable[[bytes, int], int]

    def step(self, member: ConsumerMember) -> ConsumerMember:
        """Return the member after this step; the same object if nothing changes.

        Raises Refused: FENCED_MEMBER_EPOCH for a member in a state of a later version of Kafka.
        """
        if member.state is MemberState.STABLE:
            if member.epoch != self.target_epoch:
                return self._next(member, member.epoch)
        elif member.state is MemberState.UNREVOKED_PARTITIONS:
            if not self._reports(member.revoking):
                return self._next(member, member.epoch)
        elif member.state is MemberState.UNRELEASED_PARTITIONS:
            return self._next(member, member.epoch)
        else:
            if self.reported is None or self.reported:
                message = f"The consumer group member is in a unknown state. {ABANDON}"
                raise Refused(ErrorCode.FENCED_MEMBER_EPOCH, message)
            return self._next(member, self.target_epoch)
        return self._unsubscribe(member) if self.has_new_subscription else member

    def _reports(self, owned: Owned) -> bool:
        """Return whether the member may still have any of the partitions; True if it does not report partitions."""
        if self.reported is None:
            return True
        return any(
            partition in owned.get(topic_id, ())
            for topic_id, partitions in self.reported.items()
            for partition in partitions
        )

    def _unsubscribe(self, member: ConsumerMember) -> ConsumerMember:
        """Revoke topics that the member no longer reads, without waiting for a new target."""
        unread = [topic_id for topic_id in member.assigned if topic_id not in self.readable]
        if not unread:
            return member
        assigned = {topic_id: parts for topic_id, parts in member.assigned.items() if topic_id in self.readable}
        revoking = dict(member.revoking)
        for topic_id in unread:
            revoking[topic_id] = {**revoking.get(topic_id, {}), **member.assigned[topic_id]}
        changed = replace(member, epoch=member.epoch, previous_epoch=member.epoch, assigned=assigned)
        if self._reports(revoking):
            return replace(changed, state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
        return changed

    def _next(self, member: ConsumerMember, epoch: int) -> ConsumerMember:
        """Revoke partitions that are not in the target; if there are none, move to the target's epoch."""
        assigned: dict[bytes, dict[int, int]] = {}
        revoking: dict[bytes, dict[int, int]] = {}
        wanted: dict[bytes, set[int]] = {}
        is_waiting = False
        for topic_id in {**self.target, **member.assigned}:
            target = self.target.get(topic_id, frozenset()) if topic_id in self.readable else frozenset()
            has = member.assigned.get(topic_id, {})
            kept = {partition: since for partition, since in has.items() if partition in target}
            lost = {partition: since for partition, since in has.items() if partition not in target}
            new = {partition for partition in target if partition not in has}
            free = {partition for partition in new if self._may_take(member, topic_id, partition)}
            is_waiting = is_waiting or len(free) < len(new)
            if kept:
                assigned[topic_id] = kept
            if lost:
                revoking[topic_id] = lost
            if free:
                wanted[topic_id] = free
        if revoking and self._reports(revoking):
            return replace(
                member,
                state=MemberState.UNREVOKED_PARTITIONS,
                epoch=epoch,
                previous_epoch=member.epoch,
                assigned=assigned,
                revoking=revoking,
            )
        for topic_id, partitions in wanted.items():
            assigned.setdefault(topic_id, {}).update(dict.fromkeys(sorted(partitions), self.target_epoch))
        return replace(
            member,
            state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
            epoch=self.target_epoch,
            previous_epoch=member.epoch,
            assigned=assigned,
            revoking=NOTHING,
        )

    def _may_take(self, member: ConsumerMember, topic_id: bytes, partition: int) -> bool:
        return self.owner_epoch(topic_id, partition) == FREE or partition in member.revoking.get(topic_id, ())
