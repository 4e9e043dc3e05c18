"""Share groups: heartbeats answered as by Apache Kafka 4.3.1, and state that follows from the log alone."""

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.group.admin import delete_group
from coordinator.group.cluster import ShareGroupConfig
from coordinator.group.kinds import parse_record
from coordinator.group.refused import Refused
from coordinator.group.settings import GroupSettings, ShareSettings
from coordinator.group.shard import TimerKey
from coordinator.group.share import assignor
from coordinator.group.share.describe import describe
from coordinator.group.share.heartbeat import answer_if_unchanged
from coordinator.group.share.offsets import alter, begin_delete, finish_delete, topics_of, without_topic_records
from coordinator.group.share.records import TopicStates
from protocol.error_codes import ErrorCode
from protocol.messages.share_group_heartbeat import SHARE_GROUP_HEARTBEAT
from tests.support.consumer_groups import by_name, topic_id
from tests.support.scale import scaled
from tests.support.share_groups import CALLER, ShareHarness, ShareTopics, simply_assigned

ALL = {"t": [0, 1, 2, 3]}


@pytest.fixture
def h() -> ShareHarness:
    return ShareHarness()


def types_of(h, since=0):
    return [key[1] for key, _ in h.log[since:]]


def code_epoch_and_assignment(answer):
    """Return (code, epoch, assignment)."""
    given = answer.assignment and {
        each.topic_id.rstrip(b"\1").decode(): each.partitions for each in answer.assignment.topic_partitions
    }
    return ErrorCode(answer.error_code), answer.member_epoch, given


def test_partitions_are_assigned_once_they_have_a_state(h):
    """The records are Kafka's, in its order."""
    assert code_epoch_and_assignment(h.beat("a", 0, ["t"])) == (ErrorCode.NONE, 2, {})
    assert types_of(h) == [10, 11, 13, 12, 14, 15]
    assert TimerKey("initialize", "g") in h.timers
    assert code_epoch_and_assignment(h.beat("a", 2)) == (ErrorCode.NONE, 2, None)
    h.initialize()
    before = len(h.log)
    assert code_epoch_and_assignment(h.beat("a", 2)) == (ErrorCode.NONE, 3, ALL)
    assert types_of(h, before) == [11, 13, 12, 14]
    assert code_epoch_and_assignment(h.beat("a", 3)) == (ErrorCode.NONE, 3, None)
    assert code_epoch_and_assignment(h.beat("a", 3, ["t"])) == (ErrorCode.NONE, 3, ALL)
    assert h.group.state.value == "Stable"


def test_members_share_and_take_over(h):
    """Assignments are balanced, and members keep some of their partitions."""
    h.beat("a", 0, ["t"])
    h.initialize()
    h.beat("a", 2)
    h.beat("b", 0, ["t"])
    h.beat("a", 3)
    given = h.assigned()
    assert sorted(given["a"]["t"] + given["b"]["t"]) == [0, 1, 2, 3]
    assert len(given["a"]["t"]) == 2
    before = len(h.log)
    assert code_epoch_and_assignment(h.beat("b", -1)) == (ErrorCode.NONE, -1, None)
    assert types_of(h, before) == [14, 13, 10, 11]
    assert code_epoch_and_assignment(h.beat("a", 4)) == (ErrorCode.NONE, 5, ALL)


def test_targets_wait_for_their_interval(h):
    """share.assignment.interval.ms: a new member waits, and gets no partitions meanwhile."""
    h.topics.share = ShareGroupConfig(assignment_interval_ms=1_000)
    h.beat("a", 0, ["t"])
    h.initialize()
    assert code_epoch_and_assignment(h.beat("a", 2)) == (ErrorCode.NONE, 2, None)
    assert (h.group.epoch, h.group.target_epoch) == (3, 2)
    assert code_epoch_and_assignment(h.beat("b", 0, ["t"])) == (ErrorCode.NONE, 2, {})
    h.wall_ms += 1_000
    assert code_epoch_and_assignment(h.beat("a", 2))[:2] == (ErrorCode.NONE, 4)


def stays(h, member_id="a", epoch=3, caller=CALLER, **fields):
    """Return the response to a heartbeat if it uses the short path."""
    named = {"group_id": "g", "member_id": member_id, "member_epoch": epoch, **fields}
    return answer_if_unchanged(h.shard, SHARE_GROUP_HEARTBEAT.request(**named), caller, h.now)


def test_only_unchanged_heartbeats_use_the_short_path(h):
    h.beat("a", 0, ["t"])
    h.initialize()
    h.beat("a", 2)
    assert stays(h) is None  # until a heartbeat finds nothing to change
    h.beat("a", 3)
    assert code_epoch_and_assignment(stays(h)) == (ErrorCode.NONE, 3, None)
    assert stays(h, "b") is stays(h, epoch=0) is stays(h, epoch=2) is stays(h, group_id="h") is None
    assert stays(h, rack_id="r") is stays(h, subscribed_topic_names=["t"]) is None
    assert stays(h, caller=CALLER._replace(client_id="other")) is None
    assert stays(h, caller=CALLER._replace(client_host="/127.0.0.2")) is None
    h.topics.put("t", 5)
    assert stays(h) is None
    h.beat("a", 3)
    h.beat("a", h.group.epoch)
    assert stays(h, epoch=h.group.epoch) is not None
    h.initialize()
    assert stays(h, epoch=h.group.epoch) is None


def test_short_path_extends_the_session(h):
    h.beat("a", 0, ["t"])
    h.initialize()
    h.beat("a", 2)
    h.beat("a", 3)
    h.tick_ms += 44_999
    assert code_epoch_and_assignment(h.beat("a", 3)) == (ErrorCode.NONE, 3, None)
    h.tick_ms += 44_999
    h.expire()
    assert list(h.group.members) == ["a"]
    h.tick_ms += 1
    h.expire()
    assert h.group.is_empty


def test_other_topics_at_once_or_at_the_next_target(h):
    """Topics that are no longer read are revoked at once."""
    h.topics.put("u", 1)
    h.beat("a", 0, ["t"])
    h.initialize()
    h.beat("a", 2)
    assert code_epoch_and_assignment(h.beat("a", 3, ["nope"])) == (ErrorCode.NONE, 4, {})
    assert h.group.metadata_hash == 0
    h.beat("a", 4, ["u"])
    h.initialize()
    assert code_epoch_and_assignment(h.beat("a", 5)) == (ErrorCode.NONE, 6, {"u": [0]})


def test_new_partitions_are_assigned_once_they_have_a_state(h):
    h.beat("a", 0, ["t"])
    h.initialize()
    h.beat("a", 2)
    h.topics.put("t", 6)
    h.beat("a", 3)
    assert by_name({k: v.partitions for k, v in h.group.states.initializing.items()}) == {"t": [4, 5]}
    h.initialize()
    assert code_epoch_and_assignment(h.beat("a", 4))[2] == {"t": [0, 1, 2, 3, 4, 5]}


EPOCHS = "The member must abandon all its partitions and rejoin."
REFUSED = [
    ("", "a", 0, ["t"], None, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
    ("g", "", 0, ["t"], None, ErrorCode.INVALID_REQUEST, None),
    ("g", "x" * 37, 0, ["t"], None, ErrorCode.INVALID_REQUEST, None),
    ("g", " ", 0, ["t"], None, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
    ("g", "a", 0, ["t"], "", ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
    ("g", "a", 0, None, None, ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request."),
    ("g", "a", 0, [], None, ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request."),
    ("g", "a", -2, ["t"], None, ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid."),
    ("h", "a", 5, ["t"], None, ErrorCode.GROUP_ID_NOT_FOUND, "Share group h not found."),
    ("h", "a", -1, None, None, ErrorCode.GROUP_ID_NOT_FOUND, "Group h not found."),
    ("c", "a", 0, ["t"], None, ErrorCode.GROUP_ID_NOT_FOUND, "Group c is not a share group."),
    ("c", "a", -1, ["t"], None, ErrorCode.GROUP_ID_NOT_FOUND, "Group c is not a share group."),
    ("g", "b", 1, None, None, ErrorCode.UNKNOWN_MEMBER_ID, "Member b is not a member of group g."),
    ("g", "b", -1, None, None, ErrorCode.UNKNOWN_MEMBER_ID, "Member b is not a member of group g."),
    (
        "g", "a", 4, None, None, ErrorCode.FENCED_MEMBER_EPOCH,
        "The share group member has a greater member epoch (4) than the one known by the group coordinator (2)."
        f" {EPOCHS}",
    ),
    (
        "g", "a", 1, None, None, ErrorCode.FENCED_MEMBER_EPOCH,
        "The share group member has a smaller member epoch (1) than the one known by the group coordinator (2), and it"
        f" does not match the previous member epoch (0). {EPOCHS}",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("group", "member", "epoch", "topics", "rack", "code", "message"), REFUSED)
def test_bad_heartbeats_change_nothing(h, group, member, epoch, topics, rack, code, message):
    h.beat("a", 0, ["t"])
    h.stable_group(group_id="c")
    before = list(h.log)
    answer = h.beat(member, epoch, topics, group_id=group, rack=rack)
    assert (answer.error_code, answer.error_message) == (code, message)
    assert before == h.log


def test_group_is_full():
    """group.share.max.size; existing members may join again."""
    h = ShareHarness(GroupSettings(share=ShareSettings(max_size=1)))
    h.beat("a", 0, ["t"])
    assert h.beat("b", 0, ["t"]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert h.beat("a", 0, ["t"]).error_code == ErrorCode.NONE


def test_silent_member_is_removed(h):
    """A loaded member that does not return is removed as well."""
    h.beat("a", 0, ["t"])
    again = h.reloaded()
    assert TimerKey("initialize", "g") in again.timers
    for each in (h, again):
        each.tick_ms += 44_999
        each.expire()
        assert list(each.group.members) == ["a"]
        each.tick_ms += 1
        each.expire()
        assert each.group.is_empty
        assert each.group.epoch == 3


def test_description(h):
    h.beat("a", 0, ["t"], rack="r")
    h.initialize()
    h.beat("a", 2)
    found = describe(h.shard, "g")
    assert (found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name) == (
        "Stable", 3, 3, "simple",
    )  # fmt: skip
    [member] = found.members
    assert (member.member_id, member.rack_id, member.member_epoch, member.subscribed_topic_names) == (
        "a",
        "r",
        3,
        ["t"],
    )
    assert [(t.topic_name, t.partitions) for t in member.assignment.topic_partitions] == [("t", [0, 1, 2, 3])]
    h.topics.remove("t")
    assert describe(h.shard, "g").members[0].assignment.topic_partitions == []
    with pytest.raises(Refused, match="Group nope not found"):
        describe(h.shard, "nope")


def test_offsets_of_a_group_without_members(h):
    """Altered offsets create the group, deleted topics are removed, and a deleted group leaves three tombstones."""
    wanted = {topic_id("t"): TopicStates("t", frozenset({0, 2}))}
    h.run(lambda effects: alter(h.shard, "g", wanted, effects))
    assert types_of(h) == [11, 15]
    h.initialize()
    assert topics_of(h.group) == {topic_id("t"): "t"}
    assert list(h.group.share_partitions()) == [(topic_id("t"), 0), (topic_id("t"), 2)]
    h.run(lambda effects: begin_delete(h.shard, "g", [topic_id("t")], effects))
    assert h.group.states.deleting == {topic_id("t"): "t"}
    assert topics_of(h.reloaded().group) == {topic_id("t"): "t"}
    h.run(lambda effects: finish_delete(h.group, [topic_id("t")], effects))
    assert topics_of(h.group) == {}
    before = len(h.log)
    h.run(lambda effects: delete_group(h.shard, "g", effects))
    assert types_of(h, before) == [12, 15, 11]
    assert h.shard.groups == {}


def test_offsets_of_a_live_group_are_not_changed(h):
    h.beat("a", 0, ["t"])
    with pytest.raises(Refused) as caught:
        h.run(lambda effects: alter(h.shard, "g", {}, effects))
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP
    with pytest.raises(Refused) as caught:
        h.run(lambda effects: begin_delete(h.shard, "g", [topic_id("t")], effects))
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP


def test_deleted_topic_leaves_the_groups(h):
    h.beat("a", 0, ["t"])
    [record] = without_topic_records(h.shard, topic_id("t"))
    h.run(lambda effects: effects.write([record]))
    assert topics_of(h.group) == {}
    assert without_topic_records(h.shard, topic_id("t")) == []


COUNTS = st.dictionaries(st.sampled_from("tuv"), st.integers(1, 5), max_size=3)


@given(st.lists(st.frozensets(st.sampled_from("tuv"), min_size=1), min_size=1, max_size=7), COUNTS, st.booleans())
@settings(max_examples=scaled(60))
def test_every_member_and_every_partition_is_assigned(reads, counts, alike):
    """Each partition has a member, and each member a partition; loads differ by at most one if all read the same."""
    if alike:
        reads = [reads[0]] * len(reads)
    spec = {
        f"m{number}": {topic_id(name): range(counts[name]) for name in sorted(names) if name in counts}
        for number, names in enumerate(reads)
    }
    first = assignor.assign(spec, {})
    for targets in (first, assignor.assign(spec, first), assignor.assign({**spec, "new": spec["m0"]}, first)):
        given = {(topic, each) for target in targets.values() for topic, parts in target.items() for each in parts}
        assert given == {(topic, each) for topics in spec.values() for topic, parts in topics.items() for each in parts}
        for member, target in targets.items():
            assert target.keys() <= spec.get(member, spec["m0"]).keys()
            assert any(target.values()) == any(spec.get(member, spec["m0"]).values())
        if alike:
            loads = [sum(map(len, target.values())) for target in targets.values()]
            assert max(loads) - min(loads) <= 1
    assert assignor.assign(spec, first) == first


PARTITIONS = st.frozensets(st.integers(0, 9), max_size=10)


@given(
    st.lists(st.frozensets(st.sampled_from("tuv")), max_size=9),
    st.dictionaries(st.sampled_from("tuv"), st.integers(1, 8), max_size=3),
    st.lists(st.dictionaries(st.sampled_from("tuvx"), PARTITIONS, max_size=4), max_size=9),
    st.booleans(),
)
@settings(max_examples=scaled(200))
def test_assignments_equal_a_simple_model(reads, counts, had, alike):
    """Whatever the last assignments were, including removed topics and partitions."""
    if alike:
        reads = reads[:1] * len(reads)
    spec = {
        f"m{number}": {topic_id(name): range(counts[name]) for name in sorted(names) if name in counts}
        for number, names in enumerate(reads)
    }
    last = {f"m{number}": {topic_id(name): parts for name, parts in each.items()} for number, each in enumerate(had)}
    targets = assignor.assign(spec, last)
    given = {
        member: {(topic, each) for topic, parts in target.items() for each in parts}
        for member, target in targets.items()
    }
    assert given == simply_assigned(spec, last)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["join", "beat", "leave", "initialize", "time", "topic", "alter", "delete", "forget"]),
        st.sampled_from("abc"),
        st.lists(st.sampled_from("tux"), min_size=1, max_size=2),
    ),
    max_size=25,
)


def check_short_way(h):
    """If a heartbeat uses the short path, the long path has the same result."""
    group = h.shard.share("g")
    for member in list(group.members.values()) if group is not None else ():
        key = TimerKey("session", "g", member.member_id)
        before = h.timers.deadline_ms(key)
        short = stays(h, member.member_id, member.epoch)
        if short is not None:
            deadlines, written = dict(h.timers._deadlines), len(h.log)
            with patch("coordinator.group.share.heartbeat.answer_if_unchanged", return_value=None):
                long = h.beat(member.member_id, member.epoch)
            assert (short, deadlines, written) == (long, h.timers._deadlines, len(h.log))
            h.timers.schedule(key, before)


@given(STEPS)
@settings(max_examples=scaled(60))
def test_state_after_traffic_is_the_state_of_its_log(steps):
    """The records also survive encoding."""
    h = ShareHarness(topics=ShareTopics({"t": 2, "u": 3}))
    for what, member, topics in steps:
        group = h.shard.share("g")
        check_short_way(h)
        if what == "join":
            h.beat(member, 0, topics)
        elif what == "time":
            h.wall_ms += 20_000
            h.tick_ms += 20_000
            h.expire()
        elif what == "topic":
            h.topics.put(topics[0], 4)
        elif what == "alter":
            try:
                wanted = {topic_id(topics[0]): TopicStates(topics[0], frozenset({0, 1}))}
                h.run(lambda effects, wanted=wanted: alter(h.shard, "g", wanted, effects))
            except Refused:
                pass
        elif group is None:
            continue
        elif what == "beat" and member in group.members:
            h.beat(member, group.members[member].epoch, topics if len(topics) > 1 else None)
        elif what == "leave":
            h.beat(member, -1)
        elif what == "initialize":
            h.initialize()
        elif what == "delete":
            h.run(lambda effects: delete_group(h.shard, "g", effects) and None)
        elif what == "forget":
            for record in without_topic_records(h.shard, topic_id(topics[0])):
                h.run(lambda effects, record=record: effects.write([record]))
    again = h.reloaded()
    live, loaded = (each.shard.share("g") for each in (h, again))
    assert (live is None) == (loaded is None)
    if live is not None and loaded is not None:
        names = ("epoch", "metadata_hash", "target_epoch", "target_timestamp_ms", "members", "targets", "states")
        for name in (*names, "subscribers"):
            assert getattr(live, name) == getattr(loaded, name), name
    for key, value in h.log:
        record = parse_record(key, value)
        assert (record.key, record.value) == (key, value)
