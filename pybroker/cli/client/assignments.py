"""Replica assignments: the files of kafka-reassign-partitions, proposals, and the values that throttle moves.

Pure: no broker is asked here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from pybroker.cli.client.errors import UsageError
from pybroker.text_files import UnreadableText, file_bytes, utf8_text

Place: TypeAlias = tuple[str, int]
#: A partition at a broker.
Replica: TypeAlias = tuple[str, int, int]
#: The replicas of each partition, the preferred leader first.
Assignment: TypeAlias = dict[Place, list[int]]

#: In a file: the broker chooses the log directory of a replica.
ANY_DIRECTORY = "any"

#: Kafka's keys of throttles: of topics, with the replicas to slow down, and of brokers, with bytes per second.
LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"


def read_plan(path: Path) -> str:
    """Return the text of a file with Kafka's JSON. Raises UsageError."""
    try:
        return utf8_text(file_bytes(path))
    except (OSError, UnreadableText) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def parse_assignment(text: str) -> tuple[Assignment, dict[Replica, str]]:
    """Return the assignment in a file with Kafka's JSON, and the log directories that are not `any`.

    Raises UsageError.
    """
    found: Assignment = {}
    placed: dict[Replica, str] = {}
    for entry in _entries(text, "partitions"):
        try:
            place = str(entry["topic"]), int(entry["partition"])
            replicas = [int(each) for each in entry["replicas"]]
            directories = [str(each) for each in entry.get("log_dirs") or [ANY_DIRECTORY] * len(replicas)]
        except (KeyError, TypeError, ValueError):
            raise UsageError(f"a partition lacks topic, partition or replicas: {json.dumps(entry)}") from None
        if place in found:
            raise UsageError(f"Partition reassignment contains duplicate entries for {name_of(place)}")
        if not replicas or len(set(replicas)) < len(replicas):
            raise UsageError(f"Partition replica lists may not contain duplicate entries or be empty: {name_of(place)}")
        if len(directories) != len(replicas):
            raise UsageError(
                f"Size of replicas list {replicas} is different from size of log dirs list"
                f" [{', '.join(directories)}] for partition {name_of(place)}"
            )
        found[place] = replicas
        placed |= {
            (*place, broker): directory
            for broker, directory in zip(replicas, directories, strict=True)
            if directory != ANY_DIRECTORY
        }
    if not found:
        raise UsageError("Partition reassignment list cannot be empty")
    return found, placed


def parse_topics(text: str) -> list[str]:
    """Return the topics in a file with Kafka's JSON of topics to move. Raises UsageError."""
    try:
        return [str(each["topic"]) for each in _entries(text, "topics")]
    except (KeyError, TypeError):
        raise UsageError("an entry of topics lacks the topic") from None


def parse_partitions(text: str) -> dict[str, list[int]]:
    """Return the partitions of each topic in a file with Kafka's JSON of elections. Raises UsageError."""
    found: dict[str, list[int]] = {}
    for entry in _entries(text, "partitions"):
        try:
            topic, index = str(entry["topic"]), int(entry["partition"])
        except (KeyError, TypeError, ValueError):
            raise UsageError(f"a partition lacks topic or partition: {json.dumps(entry)}") from None
        if index in found.setdefault(topic, []):
            raise UsageError(f"the file has {name_of((topic, index))} twice")
        found[topic].append(index)
    if not found:
        raise UsageError("the list of partitions cannot be empty")
    return found


def _entries(text: str, field: str) -> list[Any]:
    try:
        found = json.loads(text)
        version, entries = found.get("version", 1), found[field]
    except (ValueError, KeyError, AttributeError, TypeError):
        raise UsageError(f"the file is not JSON with a list {field}") from None
    if version != 1:
        raise UsageError(f"Not supported version field value {version}")
    if not isinstance(entries, list):
        raise UsageError(f"the file is not JSON with a list {field}")
    return entries


def to_json(
    assignment: Mapping[Place, Sequence[int]], directories: Mapping[Replica, str] = MappingProxyType({})
) -> str:
    """Return the JSON of an assignment, as Kafka's tool prints it. Args: `directories` are those that are known."""
    partitions = [
        {
            "topic": topic,
            "partition": index,
            "replicas": list(replicas),
            "log_dirs": [directories.get((topic, index, each), ANY_DIRECTORY) for each in replicas],
        }
        for (topic, index), replicas in sorted(assignment.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


def propose(
    current: Mapping[Place, Sequence[int]], racks: Mapping[int, str | None], replication_factor: int | None = None
) -> Assignment:
    """Spread partitions over brokers. Raises UsageError for too few brokers.

    Leaders go round the brokers; the replicas of a partition are on different racks while there are racks left, if all
    brokers have one.

    Args:
        racks: the brokers to use, with their racks.
        replication_factor: the number of replicas of each partition; by default as many as now.
    """
    order = _by_turns(racks)
    has_racks = None not in racks.values()
    found: Assignment = {}
    for number, place in enumerate(sorted(current)):
        factor = replication_factor or len(current[place])
        if factor > len(order):
            raise UsageError(f"Replication factor: {factor} larger than available brokers: {len(order)}")
        start = number % len(order)
        shift = number // len(order) % max(len(order) - 1, 1)  # followers of a leader differ from round to round
        turned = order[start:] + order[:start]
        candidates = turned[:1] + turned[1 + shift :] + turned[1 : 1 + shift]
        found[place] = _on_different_racks(candidates, factor, racks) if has_racks else candidates[:factor]
    return found


def _by_turns(racks: Mapping[int, str | None]) -> list[int]:
    """Return the brokers so that neighbours are on different racks, as far as possible."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker] or "", []).append(broker)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for each in rounds for broker in each if broker is not None]


def _on_different_racks(candidates: Sequence[int], factor: int, racks: Mapping[int, str | None]) -> list[int]:
    chosen: list[int] = []
    used: set[str | None] = set()
    rest = list(candidates)
    while len(chosen) < factor:
        found = next((each for each in rest if racks[each] not in used), None)
        if found is None:
            used = set()
            continue
        chosen.append(found)
        used.add(racks[found])
        rest.remove(found)
    return chosen


def throttled_replicas(
    current: Mapping[Place, Sequence[int]], target: Mapping[Place, Sequence[int]]
) -> dict[str, dict[str, str]]:
    """Return the values of the two keys of each topic: leaders are today's replicas, followers the new ones."""
    found: dict[str, dict[str, list[str]]] = {}
    for place in sorted(target):
        topic, index = place
        keys = found.setdefault(topic, {LEADER_REPLICAS: [], FOLLOWER_REPLICAS: []})
        added = [each for each in target[place] if each not in current[place]]
        if added:
            keys[LEADER_REPLICAS] += [f"{index}:{each}" for each in sorted(current[place])]
            keys[FOLLOWER_REPLICAS] += [f"{index}:{each}" for each in sorted(added)]
    return {topic: {key: ",".join(values) for key, values in keys.items() if values} for topic, keys in found.items()}


def brokers_of(*assignments: Mapping[Place, Sequence[int]]) -> list[int]:
    """Return the brokers that have a replica in one of these assignments."""
    return sorted({each for assignment in assignments for replicas in assignment.values() for each in replicas})


def name_of(place: Place) -> str:
    """Return topic and partition as Kafka writes them."""
    return f"{place[0]}-{place[1]}"


def names_of(places: Iterable[Place]) -> str:
    """Return several, in order, with commas."""
    return ",".join(map(name_of, sorted(places)))
