"""Authorization of log directories."""

from __future__ import annotations

from protocol.error_codes import ErrorCode
from protocol.messages.alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDir,
    AlterReplicaLogDirTopic,
)
from tests.support.guarded import Guarded


def test_moves_are_rejected_partition_by_partition() -> None:
    """By the names of the topics, in every directory."""
    dirs = [
        AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=[0, 2])])
        for path, name in (("/a", "open"), ("/b", "secret"))
    ]
    results = Guarded().ask(ALTER_REPLICA_LOG_DIRS, 2, None, dirs=dirs).results
    found = {(each.topic_name, one.partition_index): one.error_code for each in results for one in each.partitions}
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert found == {("open", 0): code, ("open", 2): code, ("secret", 0): code, ("secret", 2): code}
