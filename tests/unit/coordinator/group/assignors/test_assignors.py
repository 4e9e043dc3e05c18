"""Assignors: each partition once, evenly, and with as many kept partitions as possible."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.group.assignors import mixed, uniform
from coordinator.group.assignors import range as by_range
from coordinator.group.assignors.java_order import copied_set_buckets, member_order, uuid_hash, uuid_rank
from coordinator.group.assignors.spec import GroupSpec, MemberSpec, Target, Targets
from protocol.java_order import grown, hash_order
from tests.support.scale import scaled

A, B, C = (bytes([number]) * 16 for number in (1, 2, 200))

TOPICS = st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 9), min_size=1)
MEMBERS = st.lists(st.text("abcdef", min_size=1, max_size=4), min_size=1, max_size=6, unique=True)


def spec(
    members: dict[str, dict[bytes, int]], targets: Targets | None = None, *, homogeneous: bool = True
) -> GroupSpec:
    return GroupSpec(
        {name: MemberSpec(None, topics, (targets or {}).get(name, {})) for name, topics in members.items()}, homogeneous
    )


def count(target: Target) -> int:
    return sum(map(len, target.values()))


def places(targets: Targets) -> Counter[tuple[bytes, int]]:
    return Counter((topic, index) for target in targets.values() for topic, each in target.items() for index in each)


@settings(max_examples=scaled(60))
@given(topics=TOPICS, members=MEMBERS, others=MEMBERS, grown_by=st.integers(0, 4))
def test_uniform_is_even_and_sticky(
    topics: dict[bytes, int], members: list[str], others: list[str], grown_by: int
) -> None:
    targets: Targets = {}
    for line in (members, others):
        before = {name: target for name, target in targets.items() if name in line}
        targets = uniform.assign(spec(dict.fromkeys(line, topics), before))
        total = sum(topics.values())
        assert places(targets) == Counter((topic, index) for topic, n in topics.items() for index in range(n))
        quota, extras = divmod(total, len(line))
        assert sorted(map(count, targets.values())) == [quota] * (len(line) - extras) + [quota + 1] * extras
        for name, target in before.items():
            kept = sum(len(each & targets[name].get(topic, frozenset())) for topic, each in target.items())
            assert kept >= min(count(target), quota)
        topics = {topic: n + grown_by for topic, n in topics.items()}


@settings(max_examples=scaled(60))
@given(data=st.data(), members=MEMBERS, topics=TOPICS)
def test_mixed_assigns_to_readers_evenly(data: st.DataObject, members: list[str], topics: dict[bytes, int]) -> None:
    reads = {
        name: {topic: topics[topic] for topic in data.draw(st.lists(st.sampled_from(list(topics)), unique=True))}
        for name in members
    }
    targets = mixed.assign(spec(reads, homogeneous=False))
    read = {topic for each in reads.values() for topic in each}
    assert places(targets) == Counter((topic, index) for topic in read for index in range(topics[topic]))
    for name, target in targets.items():
        assert set(target) <= set(reads[name])
        for other in targets:
            movable = any(topic in reads[other] for topic, each in target.items() if each)
            assert not movable or count(target) - count(targets[other]) <= 1
    assert mixed.assign(spec(reads, targets, homogeneous=False)) == targets


def test_mixed_keeps_partitions_that_are_still_read() -> None:
    before = {"a": {A: frozenset({0, 1})}, "b": {B: frozenset({0})}}
    targets = mixed.assign(spec({"a": {A: 2}, "b": {A: 2, B: 1}}, before, homogeneous=False))
    assert targets == before
    targets = mixed.assign(spec({"a": {A: 2}, "b": {A: 2}}, before, homogeneous=False))
    assert sorted(map(count, targets.values())) == [1, 1]


def test_members_without_subscription_get_no_partitions() -> None:
    assert uniform.assign(spec({"a": {}, "b": {}})) == {}
    assert uniform.assign(spec({"a": {}}, homogeneous=False)) == {}
    assert uniform.assign(spec({})) == {}
    assert by_range.assign(spec({"a": {}})) == {"a": {}}


def test_range_assigns_adjacent_partitions_in_order() -> None:
    targets = by_range.assign(spec({"b": {A: 5, B: 2}, "a": {A: 5, B: 2}, "c": {A: 5}}, homogeneous=False))
    assert targets == {
        "a": {A: frozenset({0, 1}), B: frozenset({0})},
        "b": {A: frozenset({2, 3}), B: frozenset({1})},
        "c": {A: frozenset({4})},
    }


def test_range_orders_static_members_by_instance_id() -> None:
    members = {
        "a": MemberSpec(None, {A: 3}, {}),
        "y": MemberSpec("i2", {A: 3}, {}),
        "z": MemberSpec("i1", {A: 3}, {}),
    }
    targets = by_range.assign(GroupSpec(members, True))
    assert {name: min(target[A]) for name, target in targets.items()} == {"z": 0, "y": 1, "a": 2}


def test_order_is_that_of_javas_tables() -> None:
    """From Java 17: `new HashMap` of these keys, and `new HashSet<>(List.of(...))` of these numbers."""
    assert member_order(["consumer-1", "consumer-2", "b", "a"]) == ["a", "b", "consumer-2", "consumer-1"]
    assert hash_order([1, 33, 16, 0], int, copied_set_buckets(4)) == [16, 0, 1, 33]
    assert (grown(12), grown(13), copied_set_buckets(11), copied_set_buckets(12)) == (16, 32, 16, 32)
    assert uuid_hash(bytes(15) + b"\5") == 5
    assert uuid_rank(b"\xff" * 16) < uuid_rank(bytes(16))
