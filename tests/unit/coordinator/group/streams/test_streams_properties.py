"""Any sequence of heartbeats, leaves, timeouts, topic changes and restarts keeps streams groups valid."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.cluster import StreamsGroupConfig
from coordinator.group.settings import GroupSettings, StreamsSettings
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.member import MemberState
from coordinator.group.streams.tasks import each_task
from protocol.error_codes import ErrorCode
from protocol.messages.streams_group_heartbeat import TaskOffset
from tests.support.consumer_groups import Topics
from tests.support.scale import scaled
from tests.support.streams_groups import PLAIN, WORD_COUNT, StreamsHarness, topology

MEMBERS = st.sampled_from(["a", "b", "c", "d", "e"])
#: Some members are threads of one process.
PROCESSES = {"a": "p", "b": "p", "c": "q", "d": "r", "e": "r"}
INSTANCES = st.sampled_from(["one", "two"])
EPOCHS = st.sampled_from([-3, -2, -1, 1, 2, 3, 2**31 - 1])


class StreamsGroups(RuleBasedStateMachine):
    """Applications that follow the protocol, or violate it."""

    def __init__(self) -> None:
        super().__init__()
        self.h = StreamsHarness(
            GroupSettings(initial_rebalance_delay_ms=0, streams=StreamsSettings(max_size=4)),
            topics=Topics({"t": 3, "u": 2}),
        )
        #: A recreated topic has no fewer partitions: a member with a task that does not exist is rejected.
        self.most = {"t": 3, "u": 2, "app-rep": 1}

    @initialize(interval_ms=st.sampled_from([0, 1_000]), delay_ms=st.sampled_from([0, 3_000]))
    def begin(self, interval_ms: int, delay_ms: int) -> None:
        """Some groups have an assignment interval."""
        self.h.topics.streams = StreamsGroupConfig(
            assignment_interval_ms=interval_ms, initial_rebalance_delay_ms=delay_ms
        )

    @property
    def group(self) -> StreamsGroup | None:
        return self.h.shard.streams("g")

    # -- members ----------------------------------------------------------------------------------------------------

    @rule(member=MEMBERS, counts=st.booleans(), epoch=st.sampled_from([0, 0, 1]))
    def join(self, member: str, counts: bool, epoch: int) -> None:
        wanted = WORD_COUNT if counts else PLAIN
        wanted = topology(*wanted.subtopologies, epoch=epoch)
        self.h.enter_streams(member, wanted, process_id=PROCESSES[member], rebalance_timeout_ms=10_000)

    @rule(member=MEMBERS, instance=INSTANCES, comes_back=st.booleans())
    def join_static(self, member: str, instance: str, comes_back: bool) -> None:
        """Join with an instance id, which another member may have; some first let that one leave."""
        holder = self.group.static_member(instance) if self.group is not None else None
        if holder is not None and comes_back:
            assert self.h.beat(holder.member_id, -2, instance_id=instance).error_code == ErrorCode.NONE
        self.h.enter_streams(member, WORD_COUNT, process_id=PROCESSES[member], instance_id=instance)

    @rule(instance=INSTANCES)
    def leave_for_a_while(self, instance: str) -> None:
        holder = self.group.static_member(instance) if self.group is not None else None
        if holder is not None:
            self.h.beat(holder.member_id, -2, instance_id=instance)

    @rule(member=MEMBERS, partition=st.integers(0, 2), offset=st.integers(0, 9))
    def report(self, member: str, partition: int, offset: int) -> None:
        """Report offsets of a task, which the member need not have."""
        if self.group is not None and member in self.group.members:
            offsets = [TaskOffset(subtopology_id="1", partition=partition, offset=offset)]
            self.h.beat(member, self.group.members[member].epoch, task_offsets=offsets)

    @rule(member=MEMBERS)
    def follow(self, member: str) -> None:
        if self.group is not None and member in self.group.members and self.group.members[member].epoch >= 0:
            answer = self.h.follow(member)
            assert answer.error_code == ErrorCode.NONE

    @rule(member=MEMBERS, epoch=EPOCHS, tasks=st.dictionaries(st.sampled_from("012"), st.just([0, 2])))
    def lie(self, member: str, epoch: int, tasks: dict[str, list[int]]) -> None:
        """Send a heartbeat with other tasks than the member's."""
        self.h.beat(member, epoch, active=tasks)

    @rule(member=MEMBERS)
    def keep_silent(self, member: str) -> None:
        """Send a heartbeat without tasks."""
        if self.group is not None and member in self.group.members:
            self.h.beat(member, self.group.members[member].epoch)

    @rule(member=MEMBERS, shuts_down=st.booleans())
    def leave(self, member: str, shuts_down: bool) -> None:
        self.h.beat(member, -1, shutdown_application=shuts_down)

    @rule()
    def join_classic(self) -> None:
        """Replace an empty group by a classic one, and delete it."""
        self.h.join()
        self.h.join(member_id="nobody")

    # -- what else happens ------------------------------------------------------------------------------------------

    @rule(member=MEMBERS, partition=st.integers(0, 1), offset=st.integers(0, 9))
    def commit(self, member: str, partition: int, offset: int) -> None:
        known = self.group.members.get(member) if self.group is not None else None
        if known is not None and known.epoch > 0:
            assert self.h.commit({("t", partition): offset}, member, known.epoch) is ErrorCode.NONE

    @rule()
    def make_topics(self) -> None:
        self.h.make_topics()

    @rule(name=st.sampled_from(["t", "u", "app-rep"]), count=st.integers(1, 5))
    def change_topic(self, name: str, count: int) -> None:
        self.most[name] = max(count, self.most[name])
        self.h.topics.put(name, self.most[name])

    @rule(name=st.sampled_from(["t", "app-rep", "app-log"]))
    def delete_topic(self, name: str) -> None:
        if self.h.topics.topic(name) is not None:
            self.h.topics.remove(name)

    @rule(replicas=st.integers(0, 2))
    def configure(self, replicas: int) -> None:
        known = self.h.topics.streams
        self.h.topics.streams = StreamsGroupConfig(
            assignment_interval_ms=known.assignment_interval_ms,
            initial_rebalance_delay_ms=known.initial_rebalance_delay_ms,
            num_standby_replicas=replicas,
        )

    @rule(milliseconds=st.sampled_from([1, 1_000, 11_000, 46_000]))
    def advance(self, milliseconds: int) -> None:
        self.h.advance(milliseconds)

    @rule(member=MEMBERS)
    def fail(self, member: str) -> None:
        """A failed write changes no stored state."""
        before = stored(self.h)
        self.h.failure = ErrorCode.NOT_COORDINATOR
        self.h.enter_streams(member)
        self.h.beat(member, -1)
        self.h.failure = ErrorCode.NONE
        assert stored(self.h) == before

    @rule()
    def restart(self) -> None:
        missing = self.h.missing
        self.h = self.h.reloaded()
        self.h.missing = missing

    # -- rules ------------------------------------------------------------------------------------------------------

    @invariant()
    def what_is_stored_loads_again(self) -> None:
        assert stored(self.h.reloaded()) == stored(self.h)

    @invariant()
    def books_agree(self) -> None:
        group = self.group
        if group is None:
            return
        again = StreamsGroup("g")
        for member in group.members.values():
            again._put(None, member)
        assert again._active == group._active
        assert again.static_members == group.static_members
        for one, other in ((again._standby, group._standby), (again._warmup, group._warmup)):
            assert one == {task: processes for task, processes in other.items() if processes}

    @invariant()
    def nobody_shares_a_task(self) -> None:
        """An active task has one member, and one member of a process has a task, perhaps on its way to another role."""
        group = self.group
        if group is None:
            return
        actives = Counter(
            task
            for member in group.members.values()
            for owned in (member.assigned, member.revoking)
            for task in each_task(owned.active)
        )
        assert all(count == 1 for count in actives.values())
        of_processes = Counter(
            (member.process_id, task)
            for member in group.members.values()
            for task in {
                task
                for owned in (member.assigned, member.revoking)
                for tasks in (owned.active, owned.standby, owned.warmup)
                for task in each_task(tasks)
            }
        )
        assert all(count == 1 for count in of_processes.values())
        targets = Counter(task for target in group.targets.values() for task in each_task(target.active))
        assert all(count == 1 for count in targets.values())
        assert set(group.targets) <= set(group.members)

    @invariant()
    def members_are_where_they_can_be(self) -> None:
        group = self.group
        for member in group.members.values() if group is not None else ():
            assert member.epoch <= group.target_epoch <= group.epoch  # type: ignore[union-attr]
            assert (member.state is MemberState.UNREVOKED_TASKS) == (not member.revoking.is_empty)

    def teardown(self) -> None:
        """Without further events, members reach their targets, and all tasks are assigned."""
        for name in ("t", "u"):
            if self.h.topics.topic(name) is None:
                self.h.topics.put(name, self.most[name])
        for member in [*self.group.members.values()] if self.group is not None else ():
            if member.epoch < 0:
                self.h.enter_streams(member.member_id, WORD_COUNT, instance_id=member.instance_id)
                self.h.enter_streams(member.member_id, PLAIN, instance_id=member.instance_id)
        for _ in range(12):
            for member_id in list(self.group.members) if self.group is not None else ():
                if self.group is not None and member_id in self.group.members:
                    self.h.follow(member_id)
                    self.h.make_topics()
            self.h.advance(1_000)
        group = self.group
        if group is None or group.is_empty:
            return
        configured = group.soft.configured
        assert configured is not None
        assert all(member.is_reconciled_to(group.epoch) for member in group.members.values())
        has = Counter(task for member in group.members.values() for task in each_task(member.assigned.active))
        subtopologies = configured.subtopologies or {}
        tasks = {(each, p) for each, s in subtopologies.items() for p in range(s.task_count)}
        assert has == Counter(tasks if configured.is_ready else ())


def stored(h: StreamsHarness) -> dict[str, Any]:
    """Return all state in the log."""
    found: dict[str, Any] = {}
    for group_id, group in h.shard.groups.items():
        if isinstance(group, StreamsGroup):
            found[group_id] = (
                group.epoch,
                group.metadata_hash,
                group.validated_topology_epoch,
                dict(group.assignment_configs),
                group.target_epoch,
                group.target_timestamp_ms,
                group.topology,
                group.members,
                group.targets,
            )
        else:
            assert isinstance(group, ClassicGroup)
            found[group_id] = group.generation
        found[f"{group_id} offsets"] = h.shard.offsets.of_group(group_id)
    return found


TestStreamsGroups = StreamsGroups.TestCase
TestStreamsGroups.settings = settings(max_examples=scaled(25), stateful_step_count=40, deadline=None)
