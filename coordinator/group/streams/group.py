"""A streams group (KIP-1071), as its records define it, and the counters that decisions use.

Only `replay` changes stored state. Not stored, and lost with a restart, are `soft` and the deadlines, which the shard
has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum

import msgspec
from msgspec import field
from msgspec.structs import replace

from coordinator.group.modern.group import ModernGroup
from coordinator.group.modern.record import ModernRecord, TargetEpoch
from coordinator.group.streams import records as stored
from coordinator.group.streams.configured import ConfiguredTopology
from coordinator.group.streams.member import StreamsMember
from coordinator.group.streams.records import Current, GroupEpoch, StreamsRecord
from coordinator.group.streams.task_offsets import TaskOffsets
from coordinator.group.streams.tasks import NO_TASKS, OWNS_NOTHING, OwnedTasks, Tasks, each_task
from coordinator.group.streams.topology import Topology
from protocol.schema import Struct

#: The epoch of a new group; its first member bumps it.
FIRST_EPOCH = 1
#: The epoch of the topology whose description is stored, if there is none.
NO_DESCRIPTION = -1

NOBODY: Collection[str] = ()
NO_OFFSETS = TaskOffsets()


class StreamsGroupState(Enum):
    """States of a streams group. The values are the names that clients see."""

    EMPTY = "Empty"
    """No members."""
    NOT_READY = "NotReady"
    """Its topology has no tasks: topics are missing, or do not fit together."""
    ASSIGNING = "Assigning"
    """The group has changed since its targets were computed."""
    RECONCILING = "Reconciling"
    """Some members do not have their targets yet."""
    STABLE = "Stable"
    """All members have their targets."""


class Solicitation(msgspec.Struct, frozen=True):
    """A request for the description of the topology of `epoch`: no member is asked again before `until_ms` (ticks)."""

    epoch: int
    attempts: int
    until_ms: float


class VolatileState(msgspec.Struct):
    """The state of a group that is not stored.

    - `configured`: its topology in the cluster, for the version `checked_version` of the topics.
    - `shutdown_by`: the member that requested the shutdown of the whole application.
    - `endpoint_epoch`: the version of the members' endpoints and of their partitions.
    - `task_offsets`: those that members have reported, by member.
    - `description`: a topology's epoch and description; `solicitation`: the last request for it.
    """

    configured: ConfiguredTopology | None = None
    checked_version: int | None = None
    shutdown_by: str | None = None
    endpoint_epoch: int = 0
    task_offsets: dict[str, TaskOffsets] = field(default_factory=dict)
    description: tuple[int, Struct] | None = None
    solicitation: Solicitation | None = None


class StreamsGroup(ModernGroup):
    """The group. `targets` belong to `target_epoch`; a member without a target gets no tasks."""

    __slots__ = (
        "_active",
        "_standby",
        "_warmup",
        "assignment_configs",
        "epoch",
        "failed_description_epoch",
        "group_id",
        "members",
        "metadata_hash",
        "soft",
        "static_members",
        "stored_description_epoch",
        "target_epoch",
        "target_timestamp_ms",
        "targets",
        "topology",
        "validated_topology_epoch",
    )

    group_type = "streams"

    def __init__(self, group_id: str, records: Iterable[StreamsRecord] = ()) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.validated_topology_epoch = -1
        self.assignment_configs: Mapping[str, str] = {}
        self.stored_description_epoch = NO_DESCRIPTION
        self.failed_description_epoch = NO_DESCRIPTION
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp_ms = 0
        self.topology: Topology | None = None
        self.members: dict[str, StreamsMember] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.targets: dict[str, Tasks] = {}
        self.soft = VolatileState()
        # (subtopology id, partition) -> process ids
        self._active: dict[tuple[str, int], str] = {}
        self._standby: dict[tuple[str, int], set[str]] = {}
        self._warmup: dict[tuple[str, int], set[str]] = {}
        for record in records:
            self.replay(record)

    # -- state ------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> StreamsGroupState:
        """Compute the state, which takes a look at every member: only for descriptions and lists."""
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def static_member(self, instance_id: str) -> StreamsMember | None:
        """Return the member with that instance id, or None."""
        return self.members.get(self.static_members.get(instance_id, ""))

    def target_of(self, member_id: str) -> Tasks:
        """Return a member's target."""
        return self.targets.get(member_id, NO_TASKS)

    def offsets_of(self, member_id: str) -> TaskOffsets:
        """Return the offsets that a member has reported."""
        return self.soft.task_offsets.get(member_id, NO_OFFSETS)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether the group has members and its application reads the topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.source_subtopologies

    @property
    def stored_epochs(self) -> GroupEpoch:
        """The content of the group's own record."""
        return GroupEpoch(
            self.epoch,
            self.metadata_hash,
            self.validated_topology_epoch,
            self.assignment_configs,
            self.stored_description_epoch,
            self.failed_description_epoch,
        )

    # -- owners of tasks --------------------------------------------------------------------------------------------

    def active_process(self, subtopology_id: str, partition: int) -> str | None:
        """Return the process of the active task, or None."""
        return self._active.get((subtopology_id, partition))

    def standby_processes(self, subtopology_id: str, partition: int) -> Collection[str]:
        """Return the processes with a standby of the task."""
        return self._standby.get((subtopology_id, partition), NOBODY)

    def warmup_processes(self, subtopology_id: str, partition: int) -> Collection[str]:
        """Return the processes that warm the task up."""
        return self._warmup.get((subtopology_id, partition), NOBODY)

    # -- replay -----------------------------------------------------------------------------------------------------

    def replay(self, record: ModernRecord[object]) -> None:
        """Apply a record. The shard itself removes the group on a tombstone of type GROUP."""
        content, member_id = record.content, record.item
        if record.record_type == stored.MEMBER:
            self._replay_member(member_id, content if isinstance(content, StreamsMember) else None)
        elif record.record_type == stored.CURRENT:
            self._replay_current(member_id, content if isinstance(content, Current) else None)
        elif record.record_type == stored.TOPOLOGY:
            self.topology = content if isinstance(content, Topology) else None
            self.soft.configured = None
        elif isinstance(content, GroupEpoch):
            self.epoch, self.metadata_hash = content.epoch, content.metadata_hash
            self.validated_topology_epoch = content.validated_topology_epoch
            self.assignment_configs = content.assignment_configs
            self.stored_description_epoch = content.stored_description_epoch
            self.failed_description_epoch = content.failed_description_epoch
        elif record.record_type == stored.TARGET_EPOCH:
            target = content if isinstance(content, TargetEpoch) else TargetEpoch(-1, 0)
            self.target_epoch, self.target_timestamp_ms = target.epoch, target.timestamp_ms
        elif record.record_type == stored.TARGET:
            if isinstance(content, Tasks):
                self.targets[member_id] = content
            else:
                self.targets.pop(member_id, None)

    def _replay_member(self, member_id: str, content: StreamsMember | None) -> None:
        """Apply a member's own fields; its epoch and its assignment are in another record."""
        old = self.members.get(member_id)
        if content is None:
            if old is not None:
                self._put(old, None)
                self.soft.task_offsets.pop(member_id, None)
            if not self.members:
                self.soft.shutdown_by = None
            return
        known = old or StreamsMember(member_id)
        kept = {name: getattr(known, name) for name in ("epoch", "previous_epoch", "state", "assigned", "revoking")}
        self._put(old, replace(content, member_id=member_id, **kept))

    def _replay_current(self, member_id: str, current: Current | None) -> None:
        old = self.members.get(member_id)
        if current is None:
            if old is not None:
                gone = replace(old, epoch=-1, previous_epoch=-1, assigned=OWNS_NOTHING, revoking=OWNS_NOTHING)
                self._put(old, gone)
            return
        new = replace(
            old or StreamsMember(member_id),
            epoch=current.epoch,
            previous_epoch=current.previous_epoch,
            state=current.state,
            assigned=current.assigned,
            revoking=current.revoking,
        )
        self._put(old, new)

    def _put(self, old: StreamsMember | None, new: StreamsMember | None) -> None:
        """Replace, add or remove a member, and update the counters."""
        if old is not None:
            self._release(old.assigned, old.process_id)
            self._release(old.revoking, old.process_id)
            if old.instance_id is not None and self.static_members.get(old.instance_id) == old.member_id:
                del self.static_members[old.instance_id]
            if new is None:
                del self.members[old.member_id]
        if new is not None:
            self._take(new.assigned, new.process_id)
            self._take(new.revoking, new.process_id)
            self.members[new.member_id] = new
            if new.instance_id is not None:
                self.static_members[new.instance_id] = new.member_id

    def _take(self, tasks: OwnedTasks, process_id: str) -> None:
        for task in each_task(tasks.active):
            self._active[task] = process_id
        for task in each_task(tasks.standby):
            self._standby.setdefault(task, set()).add(process_id)
        for task in each_task(tasks.warmup):
            self._warmup.setdefault(task, set()).add(process_id)

    def _release(self, tasks: OwnedTasks, process_id: str) -> None:
        for task in each_task(tasks.active):
            if self._active.get(task) == process_id:
                del self._active[task]
        for task in each_task(tasks.standby):
            self._standby.get(task, set()).discard(process_id)
        for task in each_task(tasks.warmup):
            self._warmup.get(task, set()).discard(process_id)

    # -- removal ----------------------------------------------------------------------------------------------------

    def tombstones(self) -> list[StreamsRecord]:
        """Return the records that delete the group, in the order in which they have to be written."""
        group_id = self.group_id
        members = list(self.members)
        records = [stored.tombstone(group_id, stored.CURRENT, member_id) for member_id in members]
        records += [stored.tombstone(group_id, stored.TARGET, member_id) for member_id in members]
        records.append(stored.tombstone(group_id, stored.TARGET_EPOCH))
        records += [stored.tombstone(group_id, stored.MEMBER, member_id) for member_id in members]
        records.append(stored.tombstone(group_id, stored.GROUP))
        records.append(stored.tombstone(group_id, stored.TOPOLOGY))
        return records
