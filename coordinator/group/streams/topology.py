"""The topology of an application: its subtopologies, the topics that each reads, and those that hold its state.

It is as the members sent it. configured.py computes its tasks and topics in a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import msgspec

from protocol.messages.coordinator import streams_group as messages
from protocol.schema import Struct


class TopicInfo(msgspec.Struct, frozen=True):
    """An internal topic as the application wants it; 0 partitions or replicas: the broker decides."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(msgspec.Struct, frozen=True):
    """Topics that need the same number of partitions, as indexes into the lists of their subtopology."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


class Subtopology(msgspec.Struct, frozen=True):
    """A part of the topology in which each partition is a task. It has state if it has changelogs."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    def inputs(self) -> Iterator[str]:
        """Yield the names of all topics that it reads."""
        yield from self.source_topics
        for topic in self.repartition_source_topics:
            yield topic.name

    def copartitioned(self) -> Iterator[frozenset[str]]:
        """Yield the names of the topics of each copartition group."""
        for group in self.copartition_groups:
            sources = {self.source_topics[index] for index in group.source_topics}
            yield frozenset(sources | {self.repartition_source_topics[i].name for i in group.repartition_source_topics})


@dataclass(frozen=True)
class Topology:
    """The whole topology. The order of subtopologies is the application's."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """All topics that the topology needs, including internal ones."""
        names = set(self.source_subtopologies)
        return frozenset(names.union(t.name for each in self.subtopologies for t in each.state_changelog_topics))

    @cached_property
    def source_subtopologies(self) -> dict[str, str]:
        """Topic -> the subtopology that reads it; the last one if there are several."""
        return {topic: each.subtopology_id for each in self.subtopologies for topic in each.inputs()}

    def equals_ignoring_order(self, other: Topology) -> bool:
        """Return whether both are equal, apart from the order of their subtopologies."""
        return self.epoch == other.epoch and self._by_id == other._by_id

    @cached_property
    def _by_id(self) -> dict[str, Subtopology]:
        return {each.subtopology_id: each for each in self.subtopologies}


def topology_of(request_topology: Struct) -> Topology:
    """Return the topology of a heartbeat or a record, which have the same fields."""
    return Topology(request_topology.epoch, tuple(map(_subtopology, request_topology.subtopologies)))


def topology_struct(topology: Topology) -> Struct:
    """Return the topology as the struct of its record."""
    return messages.StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            messages.Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=list(each.source_topics),
                source_topic_regex=list(each.source_topic_regex),
                state_changelog_topics=[_topic_struct(topic) for topic in each.state_changelog_topics],
                repartition_sink_topics=list(each.repartition_sink_topics),
                repartition_source_topics=[_topic_struct(topic) for topic in each.repartition_source_topics],
                copartition_groups=[
                    messages.CopartitionGroup(
                        source_topics=list(group.source_topics),
                        source_topic_regex=list(group.source_topic_regex),
                        repartition_source_topics=list(group.repartition_source_topics),
                    )
                    for group in each.copartition_groups
                ],
            )
            for each in topology.subtopologies
        ],
    )


def _subtopology(request_topology: Struct) -> Subtopology:
    return Subtopology(
        request_topology.subtopology_id,
        tuple(request_topology.source_topics),
        tuple(request_topology.source_topic_regex),
        tuple(map(_topic, request_topology.state_changelog_topics)),
        tuple(request_topology.repartition_sink_topics),
        tuple(map(_topic, request_topology.repartition_source_topics)),
        tuple(
            CopartitionGroup(
                tuple(group.source_topics), tuple(group.source_topic_regex), tuple(group.repartition_source_topics)
            )
            for group in request_topology.copartition_groups
        ),
    )


def _topic(request_topology: Struct) -> TopicInfo:
    configs = tuple((config.key, config.value) for config in request_topology.topic_configs)
    return TopicInfo(request_topology.name, request_topology.partitions, request_topology.replication_factor, configs)


def _topic_struct(topic: TopicInfo) -> Struct:
    return messages.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[messages.TopicConfig(key=key, value=value) for key, value in topic.configs],
    )
