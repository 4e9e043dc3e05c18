"""The task assignor gives exactly the assignments of Apache Kafka 4.3, so that a streams group keeps its targets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from coordinator.group.streams.assignor import MemberSpec, SubtopologySpec, assign
from coordinator.group.streams.tasks import NO_TASKS, Tasks, TaskSet
from tests.conformance.conftest import JAVA_SOURCES
from tests.support.java import JavaRunner, compile_java
from tests.support.kafka_releases import release_classpath, release_jars
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
            specs = {each: MemberSpec(process, targets.get(each, NO_TASKS)) for each, process in members.items()}
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


def named(tasks: TaskSet) -> dict[str, list[int]]:
    return {each: sorted(partitions) for each, partitions in tasks.items()}


def as_json(group: Group) -> str:
    """Return the group as the Java program reads it."""
    members = [
        {
            "id": member_id,
            "process": member.process_id,
            "active": named(member.target.active),
            "standby": named(member.target.standby),
        }
        for member_id, member in group.members.items()
    ]
    return json.dumps({"subtopologies": group.subtopologies, "members": members, "standbys": group.standbys})


@pytest.fixture
def java_of_4_3(tmp_path: Path) -> Iterator[JavaRunner]:
    """Start a JVM with the assignor of Apache Kafka 4.3.1: that of 4.4 gives other tasks."""
    sources = [*JAVA_SOURCES.glob("*.java"), *JAVA_SOURCES.with_name("java_4.3").glob("*.java")]
    compile_java(sorted(sources), release_jars("4.3.1"), tmp_path)
    runner = JavaRunner([release_classpath("4.3.1"), tmp_path, JAVA_SOURCES])
    yield runner
    runner.close()


def test_tasks_are_those_of_kafka(java_of_4_3: JavaRunner) -> None:
    groups = list(random_groups(Random(SEED)))
    expected = []
    for start in range(0, len(groups), AT_ONCE):
        asked = "".join(as_json(each) + "\n" for each in groups[start : start + AT_ONCE])
        done = java_of_4_3.run("AssignTasks", stdin=asked)
        assert done.exit_code == 0, done.stderr
        expected += [json.loads(line) for line in done.stdout.splitlines()]
    assert len(expected) == len(groups)
    for number, (group, targets) in enumerate(zip(groups, expected, strict=True)):
        ours = {
            member_id: [named(target.active), named(target.standby)] for member_id, target in group.targets().items()
        }
        assert ours == targets, f"group {number}"
