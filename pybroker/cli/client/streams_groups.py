"""Streams groups (KIP-1071): state, members, and the topology (KIP-1331) in the lines that Kafka Streams prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.messages import StreamsGroupDescribeRequest

if TYPE_CHECKING:
    from pybroker.cli.client.administration import Administration

SOURCE, PROCESSOR, SINK = 1, 2, 3
_TYPES = {SOURCE: "source", PROCESSOR: "processor", SINK: "sink"}
_AVAILABLE = 3


def describe(client: Administration, group: str, *, with_description: bool = False) -> Any:
    """Return state, members and topology of a streams group; `with_description` needs a broker of 4.4.

    Raises CommandError.
    """
    request = StreamsGroupDescribeRequest(
        group_ids=[group],
        include_authorized_operations=False,
        include_topology_description=with_description,
        min_version=1 if with_description else 0,
    )
    (described,) = client.send(request, client.group_coordinator(group)).groups
    client.check(described, group)
    return described


def member_rows(described: Any) -> list[dict[str, object]]:
    """Return a row for each member, with its tasks as SUBTOPOLOGY_PARTITION."""
    return [
        {
            "member": each.member_id,
            "process": each.process_id,
            "client": each.client_id,
            "host": each.client_host,
            "epoch": each.member_epoch,
            "topology_epoch": each.topology_epoch,
            "active": _tasks(each.assignment.active_tasks),
            "standby": _tasks(each.assignment.standby_tasks),
            "warmup": _tasks(each.assignment.warmup_tasks),
        }
        for each in described.members
    ]


def _tasks(groups: Iterable[Any]) -> list[str]:
    return sorted(f"{each.subtopology_id}_{partition}" for each in groups for partition in each.partitions)


def internal_topics(described: Any) -> list[str]:
    """Return the topics that Kafka Streams made for the group: of its stores, and between its subtopologies."""
    parts = described.topology.subtopologies if described.topology is not None else None
    return sorted(
        {
            topic.name
            for part in parts or ()
            for topic in (*part.state_changelog_topics, *part.repartition_source_topics)
        }
    )


def topology_lines(client: Administration, group: str) -> list[str]:
    """Return the description as lines. Raises CommandError."""
    description = _topology(client, group)
    lines = ["Topologies:"]
    for part in description.subtopologies:
        lines += _part(f"{part.subtopology_id}", part.nodes)
    for number, store in enumerate(description.global_stores, len(description.subtopologies)):
        nodes = (store.source, store.processor)
        lines += _part(f"{number} for global store (will not generate tasks)", nodes)
    return [*lines, ""]


def topology_rows(client: Administration, group: str) -> list[dict[str, object]]:
    """Return a row for each node of the topology. Raises CommandError."""
    description = _topology(client, group)
    parts = [(each.subtopology_id, each.nodes) for each in description.subtopologies]
    parts += [("global store", (each.source, each.processor)) for each in description.global_stores]
    return [
        {
            "group": group,
            "subtopology": name,
            "node": node.name,
            "type": _TYPES[node.node_type],
            "topics": [node.sink_topic] if node.sink_topic is not None else list(node.source_topics),
            "stores": list(node.stores),
            "successors": list(node.successors),
        }
        for name, nodes in parts
        for node in nodes
    ]


def _topology(client: Administration, group: str) -> Any:
    described = describe(client, group, with_description=True)
    if described.topology_description_status != _AVAILABLE:
        raise CommandError(f"No topology description is stored for streams group '{group}'.")
    return described.topology_description


def _part(title: str, nodes: Sequence[Any]) -> list[str]:
    lines = [f"   Sub-topology: {title}"]
    for node in nodes:
        before = [each.name for each in nodes if node.name in each.successors]
        if node.node_type == SOURCE:
            lines.append(f"    Source: {node.name} (topics: [{_names(node.source_topics)}])")
        elif node.node_type == PROCESSOR:
            lines.append(f"    Processor: {node.name} (stores: [{_names(node.stores)}])")
        else:
            topic = "null" if node.sink_topic is None else node.sink_topic
            lines.append(f"    Sink: {node.name} (topic: {topic})")
        if node.node_type != SINK:
            lines.append(f"      --> {_names(node.successors) or 'none'}")
        if node.node_type != SOURCE:
            lines.append(f"      <-- {_names(before) or 'none'}")
    return [*lines, ""]


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))
