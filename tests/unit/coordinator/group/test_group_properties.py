"""Any sequence of joins, syncs, leaves, timeouts, commits and restarts keeps the rules of coordinator/README.md."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from coordinator.group.admin import delete_group
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.state import GroupState
from coordinator.group.kinds import GROUP_KINDS, parse_record
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupShard, TimerKey
from coordinator.timers import Timers
from protocol.error_codes import ErrorCode
from tests.support.groups import GroupHarness, ParkedRequest, subscription
from tests.support.scale import scaled

GROUPS = st.sampled_from(["g", "h"])
PROTOCOLS = st.lists(
    st.sampled_from([("range", subscription("t")), ("range", subscription("u")), ("roundrobin", subscription("t"))]),
    min_size=1,
    max_size=2,
    unique_by=lambda protocol: protocol[0],
)
INSTANCES = st.none() | st.sampled_from(["one", "two"])
VERSIONS = st.sampled_from([0, 3, 4, 8, 9])


class Groups(RuleBasedStateMachine):
    """A small model: stored state must be loaded again, responses must agree, and every request is answered."""

    joins = Bundle("joins")

    def __init__(self):
        super().__init__()
        self.h = GroupHarness(GroupSettings(max_size=4, offsets_retention_ms=200_000))
        self.parked: list[ParkedRequest] = []
        self.generations: dict[str, int] = {}

    def park(self, group_id, parked, *, member_id=None):
        """Park a request; a later one of the same member replaces it."""
        parked.group_id, parked.for_member = group_id, member_id
        if member_id:
            self.parked = [p for p in self.parked if (p.for_member, p.response) != (member_id, None)]
        self.parked.append(parked)

    # -- requests ---------------------------------------------------------------------------------------------------

    @rule(target=joins, group_id=GROUPS, instance=INSTANCES, protocols=PROTOCOLS, version=VERSIONS)
    def join(self, group_id, instance, protocols, version):
        instance = instance if version >= 5 else None
        parked = self.h.join(group_id, instance=instance, protocols=protocols, version=version, session_ms=20_000)
        parked.instance = instance
        self.park(group_id, parked)
        return parked

    @rule(earlier=joins, protocols=PROTOCOLS)
    def join_again(self, earlier, protocols):
        if earlier.response is not None and earlier.response.member_id:
            member_id = earlier.response.member_id
            parked = self.h.join(
                earlier.group_id, member_id, instance=earlier.instance, protocols=protocols, session_ms=20_000
            )
            self.park(earlier.group_id, parked, member_id=f"join {member_id}")

    @rule(earlier=joins, stale=st.booleans())
    def sync(self, earlier, stale):
        if earlier.response is None or not earlier.response.member_id:
            return
        member_id, group = earlier.response.member_id, self.h.shard.classic(earlier.group_id)
        generation = group.generation - stale if group else 1
        assignments = {member: member.encode() for member in group.members} if group else {}
        parked = self.h.sync(member_id, generation, assignments, group_id=earlier.group_id, instance=earlier.instance)
        self.park(earlier.group_id, parked, member_id=f"sync {member_id}")

    @rule(earlier=joins)
    def heartbeat(self, earlier):
        group = self.h.shard.classic(earlier.group_id)
        if group is not None and earlier.response is not None:
            self.h.heartbeat(earlier.response.member_id, group.generation, earlier.instance, earlier.group_id)

    @rule(earlier=consumes(joins), by_instance=st.booleans())
    def leave(self, earlier, by_instance):
        if earlier.response is not None:
            member_id = "" if by_instance else earlier.response.member_id
            self.h.leave((member_id, earlier.instance), group_id=earlier.group_id)

    @rule(earlier=joins, offset=st.integers(0, 9), partition=st.integers(0, 1))
    def commit(self, earlier, offset, partition):
        group = self.h.shard.classic(earlier.group_id)
        if group is not None and earlier.response is not None:
            member_id = earlier.response.member_id
            code = self.h.commit({("t", partition): offset}, member_id, group.generation, group_id=earlier.group_id)
            if code is ErrorCode.NONE:
                assert member_id in group.members
                assert self.h.shard.offsets.get(earlier.group_id, "t", partition).offset == offset

    @rule(group_id=GROUPS, offset=st.integers(0, 9))
    def commit_from_outside(self, group_id, offset):
        group = self.h.shard.classic(group_id)
        is_free = group is None or group.state is GroupState.EMPTY
        assert (self.h.commit({("x", 0): offset}, group_id=group_id) is ErrorCode.NONE) == is_free

    @rule(group_id=GROUPS)
    def delete(self, group_id):
        group = self.h.shard.classic(group_id)
        is_empty = group is not None and group.state is GroupState.EMPTY
        codes = []
        self.h.run(lambda effects: codes.append(delete_group(self.h.shard, group_id, effects)))
        assert (codes == [ErrorCode.NONE]) == is_empty
        if codes == [ErrorCode.NONE]:
            self.generations.pop(group_id, None)

    @rule(milliseconds=st.sampled_from([1, 500, 3_000, 10_000, 60_000, 300_000]))
    def advance(self, milliseconds):
        self.h.advance(milliseconds)

    @rule()
    def expire(self):
        before = set(self.h.shard.groups)
        self.h.expire_offsets()
        for group_id in before - set(self.h.shard.groups):
            self.generations.pop(group_id, None)

    @rule()
    def restart(self):
        """Parked requests are lost with their connections."""
        self.h = self.h.reloaded()
        self.parked = [parked for parked in self.parked if parked.response is not None]
        self.generations = {group_id: group.generation for group_id, group in self.h.shard.groups.items()}

    # -- rules ------------------------------------------------------------------------------------------------------

    @invariant()
    def books_agree(self):
        """The counters and indexes of a group match its members."""
        for group in self.h.shard.groups.values():
            members = group.members.values()
            assert group.awaiting_join_count == sum(member.awaiting_join is not None for member in members)
            assert group.static_members == {m.group_instance_id: m.member_id for m in members if m.group_instance_id}
            assert +group._supported == sum_of(member.protocols for member in members)
            assert group.pending_syncs <= set(group.members)
            assert not set(group.pending_joins) & set(group.members)
            assert group.leader_id in group.members if group.members else group.leader_id is None
            assert len({member.member_id for member in members}) == len(group.members)

    @invariant()
    def states_fit(self):
        """Each state has its members, parked requests and deadlines."""
        for group in self.h.shard.groups.values():
            timers, members = self.h.timers, group.members.values()
            join_due = TimerKey("join", group.group_id) in timers
            sync_due = TimerKey("sync", group.group_id) in timers
            assert join_due == (group.state is GroupState.PREPARING_REBALANCE)
            assert sync_due == bool(group.pending_syncs)
            assert (group.state is GroupState.EMPTY) <= (not members)
            assert (group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)) <= bool(members)
            if group.state is not GroupState.PREPARING_REBALANCE:
                assert group.awaiting_join_count == 0
            if group.state is not GroupState.COMPLETING_REBALANCE:
                assert all(member.awaiting_sync is None for member in members)
            for member in members:
                has_session = TimerKey("session", group.group_id, member.member_id) in timers
                assert has_session or member.satisfies_heartbeat
            for member_id in group.pending_joins:
                assert TimerKey("session", group.group_id, member_id) in timers

    @invariant()
    def what_is_stored_comes_back(self):
        """The state after live traffic equals the state after replaying its records."""
        again = GroupShard(GROUP_KINDS, 0, self.h.settings, Timers())
        for offset, (key, value) in enumerate(self.h.log):
            again.replay(parse_record(key, value), offset)
        assert set(again.groups) == set(self.h.shard.groups)
        for group_id, group in self.h.shard.groups.items():
            assert again.offsets.of_group(group_id) == self.h.shard.offsets.of_group(group_id)
            if group.state in (GroupState.STABLE, GroupState.EMPTY):
                stored = again.groups[group_id]
                assert isinstance(stored, ClassicGroup)
                assert (stored.state, stored.metadata()) == (group.state, group.metadata())
                assert stored.subscribed_topics == group.subscribed_topics

    @invariant()
    def generations_only_grow(self):
        for group_id, group in self.h.shard.groups.items():
            assert group.generation >= self.generations.get(group_id, 0)
            self.generations[group_id] = group.generation

    @invariant()
    def answers_of_a_generation_agree(self):
        """One protocol and one leader; the leader gets the members."""
        for parked in self.parked:
            response = parked.response
            if response is None or response.struct_type.name != "JoinGroupResponse" or response.error_code:
                continue
            assert bool(response.members) == (response.leader == response.member_id)
            assert not response.members or response.member_id in {m.member_id for m in response.members}

    def teardown(self):
        """Without further events every request is answered, and every group becomes empty."""
        self.h.advance(2_000_000)
        assert all(parked.response is not None for parked in self.parked)
        assert all(group.state is GroupState.EMPTY for group in self.h.shard.groups.values())
        assert len(self.h.timers) == 0


def sum_of(protocol_lists):
    counts: dict[str, int] = {}
    for protocols in protocol_lists:
        for protocol in protocols:
            counts[protocol.name] = counts.get(protocol.name, 0) + 1
    return counts


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=min(1500, scaled(60)), stateful_step_count=30, deadline=None)
