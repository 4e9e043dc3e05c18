"""Check that this node is no voter of the controllers' quorum: its fetches would count as those of the voter."""

from __future__ import annotations

from broker.membership.controllers import ControllerChannel
from broker.membership.progress import Progress
from broker.network.outbound_errors import OutboundError
from broker.process.start_errors import CannotStart
from controller.metadata_snapshot import Quorum
from metadata.topic_names import CLUSTER_METADATA
from protocol.error_codes import ProtocolError
from protocol.messages.describe_quorum import DESCRIBE_QUORUM, RequestPartitionData, RequestTopicData
from replication.observing import Endpoint


async def check_no_voter(
    node_id: int, quorum: Quorum, leader: Endpoint | None, channel: ControllerChannel, progress: Progress
) -> None:
    """Check the voters of the metadata log; if it has none (kraft.version 0), those that the leader describes.

    A principal that may not describe the cluster is not checked, as in Apache Kafka. Raises CannotStart.
    """
    if quorum.voters is not None:
        voters = [each.voter_id for each in quorum.voters.voters]
        remedy = "Remove the voter (kafka-metadata-quorum remove-controller), or choose another node.id"
    else:
        voters = await _described_voters(leader, channel, progress)
        remedy = "Choose another node.id"
    if node_id in voters:
        raise CannotStart(
            f"node.id {node_id} is a voter of the controllers' quorum, but process.roles is broker. {remedy}"
        )


async def _described_voters(leader: Endpoint | None, channel: ControllerChannel, progress: Progress) -> list[int]:
    topic = RequestTopicData(topic_name=CLUSTER_METADATA, partitions=[RequestPartitionData(partition_index=0)])
    asked = channel.request(leader, DESCRIBE_QUORUM, DESCRIBE_QUORUM.request(topics=[topic]))
    asked.add_done_callback(lambda _: progress.changed())
    try:
        await progress.until(lambda: asked.done)
        topics = asked.result().fields.topics
    except (OutboundError, ProtocolError):  # the leader has just changed
        return []
    finally:
        channel.close()
    return [voter.replica_id for each in topics for one in each.partitions for voter in one.current_voters]
