"""The description of a streams group's topology, which a member sends on request (KIP-1331).

A description has the processors, stores and topics of the application, for people to read. The group's record says
which epoch of the topology it describes. The description itself is kept in memory, as by the plugin that Apache Kafka
ships: a restart loses it, and the broker does not ask again for an epoch that the record names.
"""

from __future__ import annotations

from msgspec.structs import replace

from coordinator.clock import Now
from coordinator.group.modern.checks import bad_request, check_not_blank, member_of
from coordinator.group.shard import GroupEffects, GroupShard
from coordinator.group.streams.configured import Status
from coordinator.group.streams.group import NO_DESCRIPTION, Solicitation, StreamsGroup
from coordinator.group.streams.membership import existing_group
from coordinator.group.streams.records import GROUP, StreamsRecord
from protocol.messages import streams_group_describe as messages
from protocol.schema import Struct

#: How long the broker waits for a description before it asks another member, doubled with each attempt.
FIRST_WAIT_MS, LONGEST_WAIT_MS = 30_000, 3_600_000
SOURCE, PROCESSOR, SINK = 1, 2, 3
NOT_STORED, AVAILABLE = 1, 3


def request_description(group: StreamsGroup, response: Struct, now: Now) -> None:
    """Ask the member of a heartbeat for the description, unless it is known, has failed or was just asked for."""
    if group.topology is None:
        return
    epoch = group.topology.epoch
    if epoch in (group.stored_description_epoch, group.failed_description_epoch):
        return
    if any(each.status_code == Status.STALE_TOPOLOGY for each in response.status or ()):
        return
    last = group.soft.solicitation
    if last is not None and last.epoch == epoch and now.tick_ms < last.until_ms:
        return
    attempts = last.attempts + 1 if last is not None and last.epoch == epoch else 1
    wait_ms = min(FIRST_WAIT_MS << min(attempts - 1, 10), LONGEST_WAIT_MS)
    group.soft.solicitation = Solicitation(epoch, attempts, now.tick_ms + wait_ms)
    response.topology_description_required = True


def check_ids(request: Struct) -> None:
    """Check the ids of an update. Raises Refused: INVALID_REQUEST."""
    check_not_blank(request.member_id, "MemberId")
    check_not_blank(request.group_id, "GroupId")


def update_description(shard: GroupShard, request: Struct, effects: GroupEffects) -> None:
    """Store the description of a request.

    Raises Refused: INVALID_REQUEST, also for another epoch than that of the group's topology; GROUP_ID_NOT_FOUND,
    UNKNOWN_MEMBER_ID.
    """
    group = existing_group(shard, request.group_id)
    member_of(group, request.member_id)
    epoch, current = request.topology_epoch, -1 if group.topology is None else group.topology.epoch
    if epoch != current:
        raise bad_request(f"Topology epoch {epoch} does not match the group's current topology epoch {current}.")
    description = _described(request.topology_description)

    def keep() -> None:
        if shard.streams(group.group_id) is group:
            group.soft.description, group.soft.solicitation = (epoch, description), None

    stored = replace(group.stored_epochs, stored_description_epoch=epoch)
    effects.write([StreamsRecord(group.group_id, GROUP, "", stored)], keep)


def describe(group: StreamsGroup, described: Struct) -> None:
    """Add the description to a described group, with its status."""
    known = group.soft.description
    described.topology_description_status = NOT_STORED
    if group.topology is None or known is None or group.stored_description_epoch == NO_DESCRIPTION:
        return
    epoch, description = known
    if epoch == group.topology.epoch == group.stored_description_epoch:
        described.topology_description, described.topology_description_status = description, AVAILABLE


def _described(description: Struct) -> Struct:
    """Return a description of a request as descriptions of groups have it. Raises Refused: INVALID_REQUEST."""
    return messages.TopologyDescription(
        subtopologies=[
            messages.TopologyDescriptionSubtopology(
                subtopology_id=each.subtopology_id, nodes=[_node(node) for node in each.nodes]
            )
            for each in description.subtopologies
        ],
        global_stores=[_global_store(each) for each in description.global_stores],
    )


def _global_store(store: Struct) -> Struct:
    described = messages.TopologyDescriptionGlobalStore(source=_node(store.source), processor=_node(store.processor))
    if (store.source.node_type, store.processor.node_type) != (SOURCE, PROCESSOR):
        raise bad_request("Global store must be composed of a source and a processor node.")
    return described


def _node(node: Struct) -> Struct:
    """Return a node with the fields that its type has."""
    if node.node_type not in (SOURCE, PROCESSOR, SINK):
        raise bad_request(f"Unknown topology node type: {node.node_type}")
    return messages.TopologyDescriptionNode(
        name=node.name,
        node_type=node.node_type,
        source_topics=list(dict.fromkeys(node.source_topics)) if node.node_type == SOURCE else [],
        sink_topic=node.sink_topic if node.node_type == SINK else None,
        stores=list(dict.fromkeys(node.stores)) if node.node_type == PROCESSOR else [],
        successors=list(dict.fromkeys(node.successors)),
    )
