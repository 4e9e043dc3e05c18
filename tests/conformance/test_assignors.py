"""The assignors give exactly Apache Kafka's assignments, so that a group keeps its targets on either broker."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from random import Random
from typing import Any

from coordinator.group.assignors.spec import GroupSpec, MemberSpec, Target, Targets
from coordinator.group.consumer.target import ASSIGNORS
from tests.support.java import JavaRunner
from tests.support.scale import scaled

SEED = 848
ROUNDS = 5


def random_groups(random: Random) -> Iterator[tuple[str, GroupSpec]]:
    """Yield changing groups: members leave and join, topics grow, subscriptions differ or not."""
    for _ in range(scaled(40)):
        assignor = random.choice(["uniform", "uniform", "range"])
        topics = {
            random.randbytes(16): random.randint(1, random.choice([3, 12, 40])) for _ in range(random.randint(1, 8))
        }
        is_homogeneous = random.random() < 0.5
        targets: Targets = {}
        members = {f"m{random.randrange(10**6)}": None for _ in range(random.randint(1, random.choice([4, 20])))}
        reads = {member: choose(random, topics, is_homogeneous) for member in members}
        for _ in range(ROUNDS):
            specs = {
                member: MemberSpec(
                    f"i-{member[::-1]}" if int(member[1:]) % 3 == 0 else None,
                    {topic: topics[topic] for topic in reads[member]},
                    targets.get(member, {}),
                )
                for member in reads
            }
            group = GroupSpec(specs, is_homogeneous)
            yield assignor, group
            targets = ASSIGNORS[assignor](group)
            for member in [each for each in reads if random.random() < 0.2]:
                del reads[member]
            for _ in range(random.choice([0, 1, 1, 3])):
                reads[f"m{random.randrange(10**6)}"] = choose(random, topics, is_homogeneous)
            if not is_homogeneous and reads and random.random() < 0.5:
                reads[random.choice(list(reads))] = choose(random, topics, False)
            if random.random() < 0.3:
                topics[random.choice(list(topics))] += random.randint(1, 5)
            if not reads:
                break


def choose(random: Random, topics: dict[bytes, int], is_homogeneous: bool) -> list[bytes]:
    """Return the topics of a member."""
    return list(topics) if is_homogeneous else random.sample(list(topics), random.randint(0, len(topics)))


def text(uuid: bytes) -> str:
    return urlsafe_b64encode(uuid).decode().rstrip("=")


def named(target: Target) -> dict[str, list[int]]:
    return {text(topic): sorted(partitions) for topic, partitions in target.items()}


def as_json(assignor: str, group: GroupSpec) -> str:
    """Return the group as the Java program reads it."""
    members: list[dict[str, Any]] = [
        {
            "id": member_id,
            "instance": member.instance_id,
            "topics": {text(topic): count for topic, count in member.topics.items()},
            "target": named(member.target),
        }
        for member_id, member in group.members.items()
    ]
    return json.dumps({"assignor": assignor, "homogeneous": group.is_homogeneous, "members": members})


def test_targets_are_those_of_kafka(java: JavaRunner) -> None:
    groups = list(random_groups(Random(SEED)))
    done = java.run("Assign", stdin="".join(as_json(*each) + "\n" for each in groups))
    assert done.exit_code == 0, done.stderr
    expected = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(expected) == len(groups)
    for number, ((assignor, group), targets) in enumerate(zip(groups, expected, strict=True)):
        ours = {member_id: named(target) for member_id, target in ASSIGNORS[assignor](group).items()}
        assert ours == targets, f"{assignor}, group {number}"
