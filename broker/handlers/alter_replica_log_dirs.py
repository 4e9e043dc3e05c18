"""AlterReplicaLogDirs v0-v2: move partitions between log directories (KIP-113).

Versions: v2 flexible. Kafka 4 has dropped v0. The answer is sent once the moves have begun; DescribeLogDirs reports
their progress. For a partition that does not exist yet, the directory is remembered for its creation, and the answer is
UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from protocol.messages.alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirTopicResult,
)
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.maintenance.replica_moves import ReplicaMoves


@handles(ALTER_REPLICA_LOG_DIRS)
def alter_replica_log_dirs(ctx: RequestContext, request: Struct, *, moves: ReplicaMoves) -> Reply:
    wanted = {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    results: dict[str, list[Struct]] = {}
    for (name, index), path in wanted.items():
        code = moves.alter(name, index, path)
        results.setdefault(name, []).append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return ALTER_REPLICA_LOG_DIRS.response(
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=each) for name, each in results.items()]
    )
