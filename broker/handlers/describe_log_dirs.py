"""DescribeLogDirs v0-v5: the log directories, how full they are, and the sizes of the partitions in them (KIP-113).

Versions: v2 flexible; v3 error of the whole; v4 bytes of the volume (KIP-827); v5 whether new partitions keep away
(KIP-1066). Kafka 4 has dropped v0. A partition that is moving is in two directories, in one as future, with how far it
is behind. An offline directory answers KAFKA_STORAGE_ERROR. The metadata log is not listed, as in Kafka.
"""

from __future__ import annotations

import os
import shutil

from broker.dispatch import RequestContext, handles
from protocol.errors import ErrorCode
from protocol.messages.describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from protocol.schema import Struct
from storage.log.directory import LogDirectory

Wanted = set[tuple[str, int]] | None


@handles(DESCRIBE_LOG_DIRS)
def describe_log_dirs(ctx: RequestContext, request: Struct) -> Struct:
    wanted: Wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DESCRIBE_LOG_DIRS.response(results=[_describe(ctx, each, wanted) for each in ctx.broker.logs.directories])


def _describe(ctx: RequestContext, directory: LogDirectory, wanted: Wanted) -> Struct:
    """One directory; `wanted` None for all partitions."""
    path = os.path.abspath(directory.path)
    result = DescribeLogDirsResult(log_dir=path)
    try:
        volume = shutil.disk_usage(path)
    except OSError:
        volume = None
    if volume is None or not directory.is_online:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    topics: dict[str, list[Struct]] = {}
    for log in ctx.broker.logs.logs.values():
        if log.directory is directory and (wanted is None or (log.topic, log.partition) in wanted):
            topics.setdefault(log.topic, []).append(
                DescribeLogDirsPartition(partition_index=log.partition, partition_size=log.size_bytes)
            )
    for move in ctx.broker.moves.futures():
        if move.directory is directory and (wanted is None or (move.topic, move.partition) in wanted):
            topics.setdefault(move.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=move.partition,
                    partition_size=move.size_bytes,
                    offset_lag=move.lag,
                    is_future_key=True,
                )
            )
    result.topics = [DescribeLogDirsTopic(name=name, partitions=found) for name, found in topics.items()]
    result.total_bytes = volume.total
    result.usable_bytes = volume.free
    cordoned = ctx.broker.config.get_list("cordoned.log.dirs")
    result.is_cordoned = "*" in cordoned or path in map(os.path.abspath, cordoned)
    return result
