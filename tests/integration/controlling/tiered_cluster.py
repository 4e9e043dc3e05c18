"""Members with tiered storage in one directory, under pybroker's own controller."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.integration.controlling.own_controller import OwnCluster
from tests.support.brokers import HOST
from tests.support.tiered_brokers import tiered_properties
from tests.support.tiered_client import TieredClient

#: Factors as in production: most members lead none of the metadata of what they lead.
_REPLICATED = {
    "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
    "rlmm.config.remote.log.metadata.topic.min.isr": "1",
    "offsets.topic.replication.factor": "3",
}
#: Closed segments have a batch each, and go from the local disk once they are copied.
TOPIC = {
    "remote_storage_enable": "true",
    "segment_bytes": "1048576",
    "internal_segment_bytes": "1000",
    "local_retention_bytes": "1",
}


def tiered_cluster(directory: Path, properties: Mapping[str, str] | None = None) -> OwnCluster:
    """Start a controller and three members, whose remote storage is one directory."""
    return OwnCluster(directory, tiered_properties(directory / "remote", {**_REPLICATED, **(properties or {})}))


def offsets(cluster: OwnCluster, topic: str, at: int, *times: int) -> list[str]:
    """Return what a member answers to ListOffsets for each of the times."""
    with TieredClient(HOST, cluster.members[at].port) as client:
        return client.offsets(topic, times)
