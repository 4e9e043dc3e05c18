"""This controller as the leader of its quorum: the answers that all requests about the metadata log have in common."""

from __future__ import annotations

from collections.abc import Sequence

from controller.metadata_log import TOPIC, MetadataLog
from metadata.image import Endpoint
from protocol.error_codes import ErrorCode
from protocol.schema import Struct, StructType

#: Neither the cluster nor a voter is named.
ANY = -1


class RaftLeader:
    """The node, its cluster and its epoch. `endpoints` are those of its controller listeners."""

    def __init__(self, node_id: int, cluster_id: str, metadata_log: MetadataLog, endpoints: Sequence[Endpoint]) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.endpoints = tuple(endpoints)
        self._log = metadata_log

    @property
    def epoch(self) -> int:
        """The leader epoch."""
        return self._log.epoch

    @property
    def directory_id(self) -> bytes | None:
        """The id of the directory by which the log names this voter; None where the configuration names the voters."""
        voters = self._log.quorum.voters
        if voters is None:
            return None
        directory_id: bytes = voters.voters[0].voter_directory_id
        return directory_id

    def cluster_error(self, cluster_id: str | None) -> ErrorCode:
        """Return INCONSISTENT_CLUSTER_ID for a request that names another cluster."""
        is_ours = cluster_id is None or cluster_id == self.cluster_id
        return ErrorCode.NONE if is_ours else ErrorCode.INCONSISTENT_CLUSTER_ID

    def epoch_error(self, epoch: int) -> ErrorCode:
        """Return the error of a request that knows another leader epoch."""
        if epoch == self.epoch:
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    def node_endpoints(self, kind: StructType, listener_name: str) -> list[Struct]:
        """Return this node's address on a listener, in the form of a response."""
        return [
            kind(node_id=self.node_id, host=each.host, port=each.port)
            for each in self.endpoints
            if each.name == listener_name
        ]


def only_partition(topics: Sequence[Struct], name_of: str = "topic_name") -> Struct | None:
    """Return the one partition of a request, if it is that of the metadata log; else None."""
    if len(topics) != 1 or getattr(topics[0], name_of) != TOPIC or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    index = partition.partition_index if hasattr(partition, "partition_index") else partition.partition
    return partition if index == 0 else None
