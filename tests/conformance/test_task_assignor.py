"""The task assignor gives exactly the assignments of Apache Kafka 4.4, so that a streams group keeps its tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pytest

from coordinator.group.streams.assignor import MemberSpec, SubtopologySpec, assign
from coordinator.group.streams.tasks import NO_TASKS, Tasks, TaskSet
from tests.support.java import KAFKA_LINE, JavaRunner
from tests.support.scale import scaled

SEED = 1071
ROUNDS = 5
AT_ONCE = 200  # as many as one run of the program can take


@dataclass
class Group:
    """The input of an assignor."""

    subtopologies: dict[str, SubtopologySpec]
    members: dict[str, MemberSpec]
    standbys: int

    def targets(self) -> dict[str, Tasks]:
        return assign(self.subtopologies, self.members, self.standbys)


def random_groups(random: Random) -> Iterator[Group]:
    """Yield changing groups: threads and their processes come and go, topics grow, replicas are added."""
    for _ in range(scaled(30)):
        names = sorted({str(random.randrange(30)) for _ in range(random.randint(1, 6))})
        subtopologies = {
            each: SubtopologySpec(random.randint(1, random.choice([3, 12, 40])), random.random() < 0.6)
            for each in names
        }
        processes = [f"process-{random.randrange(10**6)}" for _ in range(random.randint(1, random.choice([3, 20])))]
        members = {f"m{random.randrange(10**6)}": random.choice(processes) for _ in range(random.randint(1, 24))}
        targets: dict[str, Tasks] = {}
        for _ in range(ROUNDS):
            specs = {
                each: MemberSpec(process, targets.get(each, NO_TASKS), random_offsets(random, subtopologies))
                for each, process in members.items()
            }
            group = Group(dict(subtopologies), specs, random.choice([0, 0, 1, 2]))
            yield group
            targets = group.targets()
            gone = random.choice(processes) if random.random() < 0.4 else ""
            for member_id in [m for m, process in members.items() if process == gone or random.random() < 0.15]:
                del members[member_id]
            for _ in range(random.choice([0, 1, 1, 3])):
                members[f"m{random.randrange(10**6)}"] = random.choice(processes)
            if random.random() < 0.3:
                grown = random.choice(names)
                subtopologies[grown] = subtopologies[grown]._replace(
                    task_count=subtopologies[grown].task_count + random.randint(1, 5)
                )
            if not members:
                break


def random_offsets(random: Random, subtopologies: dict[str, SubtopologySpec]) -> dict[str, dict[int, int]]:
    """Return what a member reports: often nothing, else offsets of some tasks, which it need not have."""
    if random.random() < 0.5:
        return {}
    return {
        each: {random.randrange(spec.task_count): random.choice([0, 1, 10**12]) for _ in range(random.randint(1, 8))}
        for each, spec in subtopologies.items()
    }


def named(tasks: TaskSet) -> dict[str, list[int]]:
    return {each: sorted(partitions) for each, partitions in tasks.items()}


def as_json(group: Group) -> str:
    """Return the group as the Java program reads it."""
    members = [
        {
            "id": member_id,
            "process": member.process_id,
            "active": named(member.assigned.active),
            "standby": named(member.assigned.standby),
            "offsets": member.offsets,
        }
        for member_id, member in group.members.items()
    ]
    return json.dumps({"subtopologies": group.subtopologies, "members": members, "standbys": group.standbys})


@pytest.mark.skipif(KAFKA_LINE < (4, 4), reason="the assignor of 4.3 gives other tasks")
def test_tasks_are_those_of_kafka(java: JavaRunner) -> None:
    groups = list(random_groups(Random(SEED)))
    expected = []
    for start in range(0, len(groups), AT_ONCE):
        asked = "".join(as_json(each) + "\n" for each in groups[start : start + AT_ONCE])
        done = java.run("AssignTasks", stdin=asked)
        assert done.exit_code == 0, done.stderr
        expected += [json.loads(line) for line in done.stdout.splitlines()]
    assert len(expected) == len(groups)
    for number, (group, targets) in enumerate(zip(groups, expected, strict=True)):
        ours = {
            member_id: [named(target.active), named(target.standby)] for member_id, target in group.targets().items()
        }
        assert ours == targets, f"group {number}"
