"""Logs that are as a clean stop leaves them: known by the names of their files, and opened in a moment.

A start looks at every log, so it asks for nothing but names. What is in order by them may be opened later, while
clients are served: that reads the small files and the end of the log, and neither repairs nor checks anything. What
is not in order is opened by `load_log`, which does both; so is what turns out not to be, as names do not tell all.
"""

from __future__ import annotations

from collections.abc import Collection

from storage.checkpoints import PARTITION_METADATA, read_topic_id
from storage.errors import CorruptFile, EndNotFound, NotInOrder
from storage.fs import FileSystem
from storage.log.directory import LogDirectory
from storage.log.leader_epoch import FILE_NAME as LEADER_EPOCHS
from storage.log.leader_epoch import LeaderEpochs
from storage.log.partition import PartitionLog
from storage.log.stored_log import StoredLog
from storage.log.tasks import DELETED_SUFFIX
from storage.log_config import LogConfig
from storage.producers.loading import snapshot_path
from storage.producers.snapshot import read_snapshot
from storage.producers.state import ProducerState
from storage.recovery.loading import are_indexes_whole, file_sizes, files_by_offset, found_segment
from storage.segment.files import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from storage.segment.segments import Segments

#: A log with more takes longer to open than others may be kept waiting: a segment, which has three, takes some 35 us.
_MOST_FILES = 100
#: Of the files that are read whole: 1,400 producers, which take 10 ms.
_MOST_BYTES_READ = 64 << 10
#: Each is opened, and read.
_MOST_TXN_INDEXES = 4
#: The last batch of a log begins no further behind the last index entry than entries are apart. With a larger interval
#: it takes longer to find.
_MOST_INDEX_INTERVAL_BYTES = 64 << 10
#: What something that was interrupted leaves.
_UNFINISHED = frozenset((DELETED_SUFFIX, SWAP_SUFFIX, CLEANED_SUFFIX, ".tmp"))


def is_opened_in_a_moment(config: LogConfig) -> bool:
    """Whether a log with these values is, if it is in order."""
    return config.index_interval_bytes <= _MOST_INDEX_INTERVAL_BYTES


def is_read_in_a_moment(fs: FileSystem, path: str, names: Collection[str], recovery_point: int) -> bool:
    """Whether what opens a log with the files `names` reads but little: producers, epochs, transactions. OSError."""
    txn_indexes = [name for name in names if name.endswith(TXN_INDEX_SUFFIX)]
    if len(txn_indexes) > _MOST_TXN_INDEXES:
        return False
    read = {LEADER_EPOCHS, file_name(recovery_point, SNAPSHOT_SUFFIX), *txn_indexes}
    return sum(fs.size_of(f"{path}/{name}") for name in read.intersection(names)) <= _MOST_BYTES_READ


def is_in_order(names: Collection[str], recovery_point: int, log_start_offset: int) -> bool:
    """Whether the files with these `names` are those of a log that was closed when it ended at `recovery_point`."""
    if len(names) > _MOST_FILES:
        return False
    stems: dict[str, set[str]] = {}
    for name in names:
        stem, _, ending = name.rpartition(".")
        stems.setdefault(f".{ending}", set()).add(stem)
    logs = stems.get(LOG_SUFFIX)
    if not logs or stems.get(INDEX_SUFFIX) != logs or stems.get(TIME_INDEX_SUFFIX) != logs:
        return False
    if not (stems.get(TXN_INDEX_SUFFIX, logs) <= logs and _UNFINISHED.isdisjoint(stems)):
        return False
    end = file_name(recovery_point, "")
    is_empty = end == max(min(logs), file_name(log_start_offset, ""))
    return is_empty or (LEADER_EPOCHS in names and end in stems.get(SNAPSHOT_SUFFIX, ()))


def open_in_order(directory: LogDirectory, stored: StoredLog) -> PartitionLog:
    """The log in the directory `stored.path`, with the end that its clean stop has left.

    NotInOrder: it has to be repaired, or EndNotFound; nothing was changed. CorruptFile: it has lost all its segments.
    OSError.
    """
    fs, path, end_offset = directory.fs, stored.path, stored.recovery_point
    if not stored.in_order:
        raise NotInOrder(path, "it was not closed in order")
    sizes = file_sizes(fs, path)
    by_offset, snapshots = files_by_offset(sizes)
    if end_offset and not any(LOG_SUFFIX in found for found in by_offset.values()):
        raise CorruptFile(path, f"has no segment any more, though the log ended at offset {end_offset}")
    if not by_offset or not is_in_order(sizes, end_offset, stored.log_start_offset):
        raise NotInOrder(path, "its files are not those of a log that was closed")
    segments = Segments()
    for base_offset, found in by_offset.items():
        segments.add(found_segment(directory, stored, base_offset, found))
        if not are_indexes_whole(segments[-1], found):
            raise NotInOrder(segments[-1].log.path, "an index is damaged")
    log_start_offset = max(stored.log_start_offset, segments[0].base_offset)
    ends_there = segments[-1].ends_at(end_offset, _MOST_INDEX_INTERVAL_BYTES)
    if ends_there is None:
        raise EndNotFound(path, "its end is far behind the last entry of its index")
    if end_offset < log_start_offset or not ends_there:
        raise NotInOrder(path, f"it does not end at offset {end_offset}, where it was closed")
    epochs = LeaderEpochs(fs, path, exists=LEADER_EPOCHS in sizes)
    if epochs.damaged and LEADER_EPOCHS in sizes:
        raise NotInOrder(path, "its leader epochs are damaged")
    state = ProducerState(stored.producer_expiration_ms)
    state.clear(end_offset)
    if end_offset in snapshots:
        try:
            state.load(read_snapshot(fs, snapshot_path(path, end_offset)), end_offset, stored.now_ms)
        except CorruptFile as error:
            raise NotInOrder(path, str(error)) from error

    # All is in order. What earlier stops have left beside it goes, as ever.
    epochs.truncate_from_end(end_offset + 1)
    epochs.truncate_from_start(log_start_offset)
    for offset in list(snapshots):
        if offset <= log_start_offset or offset not in (*by_offset, end_offset):
            fs.remove(snapshot_path(path, offset))
            snapshots.remove(offset)
    segments[-1].make_active(stored.config)
    return PartitionLog(
        directory,
        path,
        stored.topic,
        stored.partition,
        stored.config,
        segments=segments,
        producer_state=state,
        leader_epochs=epochs,
        snapshots=snapshots,
        log_start_offset=log_start_offset,
        log_end_offset=end_offset,
        recovery_point=end_offset,
        now_ms=stored.now_ms,
        topic_id=read_topic_id(fs, path) if PARTITION_METADATA in sizes else None,
    )
