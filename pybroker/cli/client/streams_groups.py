"""The description of a streams group's topology (KIP-1331), in the lines that Kafka Streams prints."""

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
    request = StreamsGroupDescribeRequest(
        group_ids=[group], include_authorized_operations=False, include_topology_description=True, min_version=1
    )
    (described,) = client.send(request, client.group_coordinator(group)).groups
    client.check(described, group)
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
