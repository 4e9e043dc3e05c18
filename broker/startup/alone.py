"""Refuse to serve a cluster's data as a node alone: the records would not reach the other replicas."""

from __future__ import annotations

from controller.metadata_log import MetadataLog
from metadata.image import MetadataImage
from storage.errors import DirectoryRefused


def check_alone(metadata_log: MetadataLog, image: MetadataImage, node_id: int) -> None:
    """Check that no partition of this node has in-sync replicas on other brokers. Raises DirectoryRefused.

    Producers would get answers for records that only this node has. Another replica, which the metadata still calls in
    sync, could lead later without them.
    """
    for topic in image.topics_by_name.values():
        for index, partition in topic.partitions.items():
            others = [each for each in partition.isr if each != node_id]
            if others and node_id in partition.replicas:
                brokers = ", ".join(str(each) for each in others)
                raise DirectoryRefused(
                    metadata_log.path,
                    f"{topic.name}-{index} has in-sync replicas on other brokers ({brokers}), which a node alone would"
                    " not replicate to. Start with process.roles=broker,controller and a controller listener, or"
                    " reassign such partitions to this node first",
                )
