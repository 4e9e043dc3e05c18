"""Any sequence of heartbeats, classic requests, leaves, timeouts, new topics and restarts keeps consumer groups
valid.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.heartbeat import answer_if_unchanged
from coordinator.group.consumer.member import MemberState
from coordinator.group.settings import ConsumerSettings, GroupSettings
from coordinator.group.shard import TimerKey
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from tests.support.consumer_groups import CALLER, ConsumerHarness, Topics, by_name
from tests.support.groups import subscription
from tests.support.scale import scaled

MEMBERS = st.sampled_from(["a", "b", "c", "d", "e"])
NAMES = st.sampled_from([["t"], ["u"], ["t", "u"], ["t", "u", "v"], []])
REGEXES = st.sampled_from(["", "t|u", "[u-w]", ".*"])
#: Two clients use the same instance id: one has to leave temporarily before the other gets it.
INSTANCES = {"a": "one", "b": "one", "c": "two"}


class ConsumerGroups(RuleBasedStateMachine):
    """Clients that follow the protocol, or violate it; the model knows the partitions of each."""

    def __init__(self) -> None:
        super().__init__()
        self.h = ConsumerHarness(
            GroupSettings(initial_rebalance_delay_ms=0, consumer=ConsumerSettings(max_size=4)),
            topics=Topics({"t": 3, "u": 2}),
        )
        self.owned: dict[str, dict[str, list[int]]] = {}
        #: A consumer upgraded the group by taking the place of a static classic member that had no assignment yet. Its
        #: subscription is the same, so nothing bumps the group epoch, and the empty target stays until something does.
        self.took_over_at_upgrade = False

    @initialize(policy=st.integers(0, 1_000))
    def begin(self, policy: int) -> None:
        """Some groups have an assignment interval."""
        if policy % 2:
            self.h.topics.config = type(self.h.topics.config)(assignment_interval_ms=1_000)

    def take(self, member_id: str, answer: Any) -> None:
        """Follow the response."""
        if answer.error_code == ErrorCode.NONE and answer.member_epoch > 0:
            if answer.assignment is not None:
                topics = answer.assignment.topic_partitions
                self.owned[member_id] = by_name({topic.topic_id: topic.partitions for topic in topics})
        elif answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.owned.pop(member_id, None)

    # -- the consumer protocol --------------------------------------------------------------------------------------

    @rule(member=MEMBERS, names=NAMES, regex=REGEXES, assignor=st.sampled_from([None, "range"]))
    def join(self, member: str, names: list[str], regex: str, assignor: str | None) -> None:
        group = self.h.shard.groups.get("g")
        if isinstance(group, ClassicGroup) and INSTANCES.get(member) in group.static_members:
            self.took_over_at_upgrade = True
        answer = self.h.beat(
            member,
            0,
            {},
            topics=names,
            subscribed_topic_regex=regex,
            instance_id=INSTANCES.get(member),
            server_assignor=assignor,
            rebalance_timeout_ms=10_000,
        )
        self.owned[member] = {}
        self.take(member, answer)

    @rule(member=MEMBERS, obeys=st.booleans(), stale=st.sampled_from([0, 0, 0, 1]))
    def beat(self, member: str, obeys: bool, stale: int) -> None:
        group = self.h.shard.consumer("g")
        known = group.members.get(member) if group else None
        epoch = known.epoch - stale if known else 1
        owned = by_name(known.assigned) if known and obeys else self.owned.get(member)
        self.take(member, self.h.beat(member, epoch, owned, instance_id=INSTANCES.get(member)))

    @rule(member=MEMBERS, names=NAMES, regex=REGEXES)
    def subscribe(self, member: str, names: list[str], regex: str) -> None:
        group = self.h.shard.consumer("g")
        known = group.members.get(member) if group else None
        if known is not None and not known.uses_classic_protocol:
            instance = known.instance_id
            owned = self.owned.get(member, {})
            answer = self.h.beat(
                member, known.epoch, owned, topics=names, subscribed_topic_regex=regex, instance_id=instance
            )
            self.take(member, answer)

    @rule(member=MEMBERS, epoch=st.sampled_from([-1, -2]))
    def leave(self, member: str, epoch: int) -> None:
        self.h.beat(member, epoch, instance_id=INSTANCES.get(member))

    # -- the classic protocol ---------------------------------------------------------------------------------------

    @rule(member=MEMBERS, names=NAMES)
    def join_classic(self, member: str, names: list[str]) -> None:
        instance = INSTANCES.get(member)
        parked = self.h.join("g", member, instance=instance, protocols=[("range", subscription(*names))])
        if parked.response is not None and parked.code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.h.enter("g", instance=instance, protocols=[("range", subscription(*names))])
        self.h.advance(0)

    @rule(sends=st.booleans())
    def follow_classic(self, sends: bool) -> None:
        """All classic members follow their heartbeats."""
        group = self.h.shard.groups.get("g")
        for member_id in list(group.members) if isinstance(group, ClassicGroup | ConsumerGroup) else []:
            group = self.h.shard.groups.get("g")
            if isinstance(group, ConsumerGroup):
                known = group.members.get(member_id)
                if known is not None and known.classic is not None:
                    code = self.h.heartbeat(member_id, known.epoch, known.instance_id)
                    if code is ErrorCode.REBALANCE_IN_PROGRESS and sends:
                        parked = self.h.join(
                            "g", member_id, instance=known.instance_id, protocols=known.classic.protocols
                        )
                        if parked.code is ErrorCode.NONE:
                            assert parked.response is not None
                            self.h.sync(member_id, parked.response.generation_id, instance=known.instance_id)
            elif isinstance(group, ClassicGroup) and member_id in group.members:
                member = group.members[member_id]
                self.h.join("g", member_id, instance=member.group_instance_id, protocols=member.protocols)
                if group.leader_id is not None:
                    self.h.sync(group.leader_id, group.generation, {})

    @rule(member=MEMBERS)
    def leave_group(self, member: str) -> None:
        self.h.leave((member, None))

    # -- what else happens ------------------------------------------------------------------------------------------

    @rule(member=MEMBERS, partition=st.integers(0, 1), offset=st.integers(0, 9))
    def commit(self, member: str, partition: int, offset: int) -> None:
        group = self.h.shard.consumer("g")
        known = group.members.get(member) if group else None
        if known is not None and known.epoch > 0:
            assert self.h.commit({("t", partition): offset}, member, known.epoch) is ErrorCode.NONE

    @rule(name=st.sampled_from(["t", "u", "v"]), count=st.integers(1, 5))
    def change_topic(self, name: str, count: int) -> None:
        known = self.h.topics.topic(name)
        self.h.topics.put(name, max(count, known.partition_count if known else 0))

    @rule(name=st.sampled_from(["u", "v"]))
    def delete_topic(self, name: str) -> None:
        if self.h.topics.topic(name) is not None:
            self.h.topics.remove(name)

    @rule(milliseconds=st.sampled_from([1, 1_000, 11_000, 46_000]))
    def advance(self, milliseconds: int) -> None:
        self.h.advance(milliseconds)

    @rule(code=st.sampled_from([ErrorCode.NOT_COORDINATOR]), member=MEMBERS, names=NAMES)
    def fail(self, code: ErrorCode, member: str, names: list[str]) -> None:
        """A failed write changes no stored state."""
        before = stored(self.h)
        self.h.failure = code
        self.h.beat(member, 0, {}, topics=names, rebalance_timeout_ms=10_000)
        self.h.beat(member, -1)
        self.h.failure = ErrorCode.NONE
        assert stored(self.h) == before

    @rule()
    def restart(self) -> None:
        self.h = self.h.reloaded()

    # -- rules ------------------------------------------------------------------------------------------------------

    @invariant()
    def what_is_stored_loads_again(self) -> None:
        assert stored(self.h.reloaded()) == stored(self.h)

    @invariant()
    def books_agree(self) -> None:
        group = self.h.shard.consumer("g")
        if group is None:
            return
        again = ConsumerGroup("g")
        for member in group.members.values():
            again._put(None, member)
        for expression, resolved in group.regexes.items():
            again._replay_regex(expression, resolved)
        assert again.subscription() == group.subscription()
        assert again._owners == group._owners
        assert again.static_members == group.static_members
        assert set(group.regexes) <= set(group.subscribed_regexes)

    @invariant()
    def short_way_ends_where_the_long_one_does(self) -> None:
        group = self.h.shard.consumer("g")
        for member in list(group.members.values()) if group is not None else ():
            fields = {"member_epoch": member.epoch, "instance_id": member.instance_id}
            request = CONSUMER_GROUP_HEARTBEAT.request(group_id="g", member_id=member.member_id, **fields)
            before = self.h.timers.deadline_ms(TimerKey("session", "g", member.member_id))
            short = answer_if_unchanged(self.h.shard, request, CALLER, self.h.now)
            if short is not None:
                deadlines, written = dict(self.h.timers._deadlines), len(self.h.log)
                with patch("coordinator.group.consumer.heartbeat.answer_if_unchanged", return_value=None):
                    long = self.h.beat(member.member_id, member.epoch, instance_id=member.instance_id)
                assert (short, deadlines, written) == (long, self.h.timers._deadlines, len(self.h.log))
                assert before is not None
                self.h.timers.schedule(TimerKey("session", "g", member.member_id), before)

    @invariant()
    def nobody_shares_a_partition(self) -> None:
        group = self.h.shard.consumer("g")
        if group is not None:
            owned = [place for member in group.members.values() for place in member.owned()]
            assert len(owned) == len(set(owned))
            targets = [(t, p) for target in group.targets.values() for t, parts in target.items() for p in parts]
            assert len(targets) == len(set(targets))
            assert set(group.targets) <= set(group.members)

    @invariant()
    def members_are_where_they_can_be(self) -> None:
        group = self.h.shard.consumer("g")
        for member in group.members.values() if group is not None else ():
            assert member.epoch <= group.target_epoch <= group.epoch  # type: ignore[union-attr]
            assert (member.state is MemberState.UNREVOKED_PARTITIONS) >= bool(member.revoking)

    def subscribe_to(self, member_id: str, names: list[str]) -> None:
        """Change the subscription of a consumer."""
        group = self.h.shard.consumer("g")
        known = group.members.get(member_id) if group else None
        if known is not None and not known.uses_classic_protocol and known.epoch >= 0:
            owned = by_name(known.assigned)
            self.h.beat(
                member_id, known.epoch, owned, topics=names, subscribed_topic_regex="", instance_id=known.instance_id
            )

    def teardown(self) -> None:
        """Without further events, consumers reach their targets, and all partitions are assigned."""
        self.h.advance(10_001)
        group = self.h.shard.consumer("g")
        if group is None:
            return
        if self.took_over_at_upgrade:  # any change of a subscription gives the group its partitions
            for member_id in list(group.members):
                self.subscribe_to(member_id, ["v"])
                self.subscribe_to(member_id, ["t", "u"])
            group = self.h.shard.consumer("g")
            if group is None:
                return
        for _ in range(60):
            for member in list(group.members.values()):
                if member.uses_classic_protocol or member.epoch < 0:
                    continue
                self.h.beat(member.member_id, member.epoch, by_name(member.assigned), instance_id=member.instance_id)
            self.h.advance(1_000)
            group = self.h.shard.consumer("g")
            if (
                group is None
                or not group.members
                or any(m.uses_classic_protocol or m.epoch < 0 for m in group.members.values())
            ):
                return
            if group.state.value == "Stable":
                break
        assert group.state.value == "Stable"
        for name in group.subscription().topics:
            topic = self.h.topics.topic(name)
            for index in range(topic.partition_count if topic else 0):
                assert group.owner_epoch(topic.topic_id, index) == group.epoch  # type: ignore[union-attr]


def stored(h: ConsumerHarness) -> dict[str, Any]:
    """Return all state that the log defines."""
    group = h.shard.groups.get("g")
    offsets: Any = h.shard.offsets.of_group("g")
    if isinstance(group, ClassicGroup):  # its own test checks more
        return {"classic": True, "offsets": offsets}
    if group is None:
        return {"offsets": offsets}
    assert isinstance(group, ConsumerGroup)
    return {
        "members": group.members,
        "targets": group.targets,
        "regexes": group.regexes,
        "epochs": (group.epoch, group.metadata_hash, group.target_epoch, group.target_timestamp_ms),
        "static": group.static_members,
        "offsets": offsets,
    }


TestConsumerGroups = ConsumerGroups.TestCase
TestConsumerGroups.settings = settings(max_examples=scaled(25), stateful_step_count=30, deadline=None)
