"""A topology in a cluster: the number of tasks of each subtopology, and the internal topics that are missing.

The number of partitions of an internal topic follows from the topics that are read before it, through all
subtopologies, and from copartitioning. A topology with a problem has no tasks until its topics change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from typing import TypeAlias

import msgspec
from msgspec import field

from coordinator.group.assignors.java_order import string_rank
from coordinator.group.cluster import Cluster
from coordinator.group.refused import Refused
from coordinator.group.streams.topology import Subtopology, TopicInfo, Topology
from protocol.error_codes import ErrorCode
from protocol.java_order import grown, hash_order, java_hash

#: Topic -> number of partitions; None for an unknown topic.
Counts: TypeAlias = Callable[[str], int | None]
#: The number of topics that a message names.
NAMED = 3


class Status(IntEnum):
    """A status that members get beside their tasks. The values are those of the response."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class Problem(msgspec.Struct, frozen=True):
    """Why a topology has no tasks."""

    status: Status
    detail: str


class ConfiguredSubtopology(msgspec.Struct, frozen=True):
    """A subtopology with its internal topics, existing or to be created."""

    subtopology_id: str
    task_count: int
    source_topics: frozenset[str]
    repartition_source_topics: Mapping[str, TopicInfo]
    repartition_sink_topics: frozenset[str]
    state_changelog_topics: Mapping[str, TopicInfo]

    @property
    def is_stateful(self) -> bool:
        return bool(self.state_changelog_topics)


class ConfiguredTopology(msgspec.Struct, frozen=True):
    """A topology at an epoch. `subtopologies` are ordered by id; None if source topics are missing or do not fit.

    `missing`: internal topics that have to be created. While there are any, there is a problem, too.
    """

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: Mapping[str, TopicInfo] = field(default_factory=dict)
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _Unfit(Exception):
    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(status, detail)


def configure(topology: Topology, cluster: Cluster) -> ConfiguredTopology:
    """Configure a topology. Raises Refused STREAMS_INVALID_TOPOLOGY if it is invalid for any topics."""
    _check_form(topology)
    try:
        _check_sources(topology, cluster)
        decided = _decide_counts(topology, cluster)
        count = _counts(cluster, decided)
        subtopologies = {
            each.subtopology_id: _configured(each, decided, count)
            for each in sorted(topology.subtopologies, key=lambda each: string_rank(each.subtopology_id))
        }
        missing = _missing(topology, subtopologies, cluster)
    except _Unfit as unfit:
        return ConfiguredTopology(topology.epoch, None, problem=unfit.problem)
    problem = None
    if missing:
        total = sum(len(s.repartition_source_topics) + len(s.state_changelog_topics) for s in subtopologies.values())
        names = hash_order(list(missing), java_hash, grown(total))
        problem = Problem(Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {named(names)}")
    return ConfiguredTopology(topology.epoch, subtopologies, missing, problem)


def named(names: Collection[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join([*names][:NAMED]) + (f" and {more} additional topics" if more > 0 else "")


def _check_form(topology: Topology) -> None:
    """Check for errors that Kafka's own client never makes and Kafka does not handle."""
    ids = [each.subtopology_id for each in topology.subtopologies]
    indexes_are_good = all(
        all(0 <= index < len(each.source_topics) for index in group.source_topics)
        and all(0 <= index < len(each.repartition_source_topics) for index in group.repartition_source_topics)
        for each in topology.subtopologies
        for group in each.copartition_groups
    )
    if topology.epoch < 0 or len(set(ids)) < len(ids) or not indexes_are_good:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)


def _check_sources(topology: Topology, cluster: Cluster) -> None:
    names = {name for each in topology.subtopologies for name in each.source_topics}
    missing = sorted((name for name in names if cluster.topic(name) is None), key=string_rank)
    if missing:
        raise _Unfit(Status.MISSING_SOURCE_TOPICS, f"Source topics {named(missing)} are missing.")


# -- partitions -------------------------------------------------------------------------------------------------------


def _counts(cluster: Cluster, decided: Mapping[str, int]) -> Counts:
    def count(name: str) -> int | None:
        topic = cluster.topic(name)
        return decided.get(name) if topic is None else topic.partition_count

    return count


def _decide_counts(topology: Topology, cluster: Cluster) -> dict[str, int]:
    """Return the number of partitions of each internal topic."""
    decided: dict[str, int] = {}
    decided.update(_repartition_counts(topology, _counts(cluster, {})))
    _copartition(topology, _counts(cluster, decided), decided)
    count = _counts(cluster, decided)
    for each in topology.subtopologies:
        largest = _most(count(name) for name in each.inputs())
        if largest is None:
            raise invalid(f"No source topics found for subtopology {each.subtopology_id}")
        decided.update((topic.name, largest) for topic in each.state_changelog_topics)
    return decided


def _repartition_counts(topology: Topology, count: Counts) -> dict[str, int]:
    """Return the partitions of topics between subtopologies.

    The application's number counts. Else it is the largest number of partitions of the topics that a subtopology reads
    which writes the topic.
    """
    # The result depends on the order in which topics are looked at. This is the order of Kafka's hash table.
    by_id = {each.subtopology_id: each for each in topology.subtopologies}
    subtopologies = [by_id[each] for each in hash_order(list(by_id), java_hash)]
    counts = {topic.name: topic.partitions for each in subtopologies for topic in each.repartition_source_topics}
    counts = {name: partitions for name, partitions in counts.items() if partitions}
    _decide_by_sources(subtopologies, counts, count)
    if any(topic.name not in counts for each in subtopologies for topic in each.repartition_source_topics):
        raise invalid(f"{_FAILED[:-1]}, because a repartition source topic is never used as a sink topic.")
    return counts


def _decide_by_sources(subtopologies: Sequence[Subtopology], counts: dict[str, int], count: Counts) -> None:
    """Add to `counts` the topics that subtopologies write, each once a topic is known that they read. Raises Refused.

    Kafka visits all subtopologies in rounds, as long as a round finds something new. Here each is visited in the first
    round, and later only if a topic that it reads has become known.
    """
    readers = defaultdict[str, list[int]](list)
    for place, each in enumerate(subtopologies):
        for topic in each.repartition_source_topics:
            readers[topic.name].append(place)
    turns = [(0, place) for place in range(len(subtopologies))]
    unknown = {
        place
        for place, each in enumerate(subtopologies)
        if any(sink not in counts for sink in each.repartition_sink_topics)
    }
    while turns:
        round_, place = heappop(turns)
        if place not in unknown:
            continue
        each = subtopologies[place]
        sources = [counts.get(topic.name) for topic in each.repartition_source_topics]
        largest = _most([*sources, *map(count, each.source_topics)])
        if largest is None:
            continue
        unknown.remove(place)
        for sink in each.repartition_sink_topics:
            if sink not in counts:
                counts[sink] = largest
                for reader in readers[sink]:
                    heappush(turns, (round_ if reader > place else round_ + 1, reader))
    if any(sink not in counts for place in unknown for sink in subtopologies[place].repartition_sink_topics):
        raise invalid(f"{_FAILED} There may be loops in the topology that cannot be resolved.")


_FAILED = "Failed to compute number of partitions for all repartition topics."


def _copartition(topology: Topology, count: Counts, decided: dict[str, int]) -> None:
    """Give repartition topics the same number of partitions as the topics that are copartitioned with them."""
    wanted = {
        topic.name: topic.partitions for each in topology.subtopologies for topic in each.repartition_source_topics
    }
    fixed = {name: count(name) or 0 for name, partitions in wanted.items() if partitions}
    fixed_counts = set(fixed.values())
    for each in topology.subtopologies:
        for group in each.copartitioned():
            if not group:
                continue
            counts = {name: count(name) or 0 for name in group}
            inner = {name: counts[name] for name in group if name in wanted}
            outer = {name: counts[name] for name in group if name not in wanted}
            if outer:
                partitions = _same(outer.values(), outer)
            elif fixed:
                partitions = _same(fixed_counts, inner)
            else:
                partitions = max(inner.values())
            for name, has in inner.items():
                if name in fixed and has != partitions:
                    raise _Unfit(
                        Status.INCORRECTLY_PARTITIONED_TOPICS,
                        f"Number of partitions [{has}] of repartition topic [{name}] doesn't match number of partitions"
                        f" [{partitions}] of the source topic.",
                    )
                decided[name] = partitions


def _same(counts: Collection[int], expected: Mapping[str, int]) -> int:
    if len(set(counts)) > 1:
        listed = ", ".join(f"{name}={expected[name]}" for name in sorted(expected, key=string_rank))
        raise _Unfit(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    return next(iter(counts))


def _most(counts: Iterable[int | None]) -> int | None:
    return max((count for count in counts if count is not None), default=None)


# -- internal topics --------------------------------------------------------------------------------------------------


def _configured(each: Subtopology, decided: Mapping[str, int], count: Counts) -> ConfiguredSubtopology:
    def settled(topics: Collection[TopicInfo]) -> dict[str, TopicInfo]:
        return {
            topic.name: TopicInfo(
                topic.name,
                topic.partitions or decided[topic.name],
                topic.replication_factor,
                _in_order(dict(topic.configs)),
            )
            for topic in topics
        }

    return ConfiguredSubtopology(
        each.subtopology_id,
        _most(count(name) for name in each.inputs()) or 0,
        frozenset(each.source_topics),
        settled(each.repartition_source_topics),
        frozenset(each.repartition_sink_topics),
        settled(each.state_changelog_topics),
    )


def _in_order(configs: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the entries in Kafka's order."""
    return tuple((key, configs[key]) for key in hash_order(list(configs), java_hash))


def _missing(
    topology: Topology, subtopologies: Mapping[str, ConfiguredSubtopology], cluster: Cluster
) -> dict[str, TopicInfo]:
    """Return the internal topics that do not exist. Raises Refused if one exists with another number of partitions."""
    missing: dict[str, TopicInfo] = {}
    for each in subtopologies.values():
        missing.update(each.repartition_source_topics)
        missing.update(each.state_changelog_topics)
    for name in hash_order(list(topology.required_topics), java_hash):
        there = cluster.topic(name)
        wanted = None if there is None else missing.pop(name, None)
        if there is not None and wanted is not None and there.partition_count != wanted.partitions:
            raise _Unfit(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {wanted.partitions}, found"
                f" {there.partition_count}",
            )
    return missing


def invalid(message: str) -> Refused:
    """Return the error for a topology that is invalid for any topics."""
    return Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
