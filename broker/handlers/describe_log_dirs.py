"""DescribeLogDirs v0-v5: list the log directories, their free space, and the sizes of their partitions (KIP-113).

Versions: v2 flexible; v3 error of the whole; v4 bytes of the volume (KIP-827); v5 whether the directory is cordoned
(KIP-1066). Kafka 4 has dropped v0. A partition that is being moved appears in both directories: in the new one as
future, with its lag. An offline directory has KAFKA_STORAGE_ERROR. The metadata log is not listed, as in Kafka.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import handles
from metadata.features import CORDONED_DIRECTORIES_LEVEL
from metadata.image import MetadataImage
from protocol.error_codes import ErrorCode
from protocol.messages.describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from protocol.schema import Struct
from runtime.deferred import Deferred
from storage.checkpoints import TopicPartition
from storage.log.directory import LogDirectory
from storage.log.stored_log import UnopenedLog
from storage.recovery.job import size_of_segments

if TYPE_CHECKING:
    from broker.maintenance.replica_moves import ReplicaMoves
    from broker.metadata_cache import MetadataCache
    from runtime.thread_pool import ThreadPool
    from storage.log_manager import LogManager

Wanted = set[TopicPartition] | None
Sizes = dict[TopicPartition, int | OSError]


@handles(DESCRIBE_LOG_DIRS)
def describe_log_dirs(
    ctx: RequestContext,
    request: Struct,
    *,
    logs: LogManager,
    moves: ReplicaMoves,
    metadata: MetadataCache,
    offload: ThreadPool,
) -> Deferred[Struct]:
    wanted: Wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    waiting = [each for key, each in logs.unopened.items() if _is_asked_for(key, wanted) and each.problem is None]

    def answer(sizes: Sizes) -> Struct:
        return DESCRIBE_LOG_DIRS.response(
            results=[_describe(logs, moves, metadata.image, each, wanted, sizes) for each in logs.directories]
        )

    if not waiting:
        return Deferred.resolved(answer({}))
    return offload(_sizes, waiting).then(answer)


def _is_asked_for(key: TopicPartition, wanted: Wanted) -> bool:
    return wanted is None or key in wanted


def _sizes(waiting: list[UnopenedLog]) -> Sizes:
    """Return the sizes of unopened logs, or the errors that kept their files from being listed. Runs in a thread."""
    sizes: Sizes = {}
    for directory, stored, _ in waiting:
        try:
            sizes[stored.topic, stored.partition] = size_of_segments(directory.fs, stored.path)
        except OSError as error:
            sizes[stored.topic, stored.partition] = error
    return sizes


def _sizes_in(
    logs: LogManager, directory: LogDirectory, wanted: Wanted, sizes: Sizes
) -> Iterator[tuple[TopicPartition, int]]:
    """Yield the sizes of a directory's logs; `sizes` has those of unopened logs."""
    for key, log in logs.logs.items():
        if log.directory is directory and _is_asked_for(key, wanted):
            yield key, log.size_bytes
    for key, size in sizes.items():
        unopened = logs.unopened.get(key)
        if unopened is None or unopened.directory is not directory:
            continue  # it is open now, or deleted
        if not isinstance(size, OSError):
            yield key, size
        elif not directory.is_only_missing_file(size):
            directory.fail(size)


def _describe(
    logs: LogManager, moves: ReplicaMoves, image: MetadataImage, directory: LogDirectory, wanted: Wanted, sizes: Sizes
) -> Struct:
    """Describe one directory; `wanted` is None for all partitions."""
    path = os.path.abspath(directory.path)
    result = DescribeLogDirsResult(log_dir=path)
    try:
        volume = shutil.disk_usage(path)
    except OSError:
        volume = None
    topics: dict[str, list[Struct]] = {}
    for (topic, index), size_bytes in _sizes_in(logs, directory, wanted, sizes):
        topics.setdefault(topic, []).append(DescribeLogDirsPartition(partition_index=index, partition_size=size_bytes))
    if volume is None or not directory.is_online:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    for move in moves.futures():
        if move.directory is directory and _is_asked_for((move.topic, move.partition), wanted):
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
    has_cordons = image.metadata_version >= CORDONED_DIRECTORIES_LEVEL
    result.is_cordoned = has_cordons and directory.is_cordoned
    return result
