"""Clean a log in a test as the broker does it, but in one thread."""

from collections.abc import Sequence

from protocol.records.entries import iter_records
from protocol.records.record import Record
from storage.cleaner.job import CleanJob, CleanResult, Resources
from storage.cleaner.round import clean
from storage.cleaner.selection import find_cleanable
from storage.cleaner.swap import SwapInTask, still_fits
from storage.fs import LOCAL, FileSystem
from storage.log.partition_log import PartitionLog
from storage.segment.scan import parse_entry


def job_for(
    log: PartitionLog, now_ms: int, checkpoint: int | None = None, resources: Resources | None = None
) -> CleanJob | None:
    """Return the cleaning job of a log, due or not."""
    cleanable = find_cleanable(log, checkpoint, now_ms)
    return None if cleanable is None else cleanable.job(resources or Resources(), now_ms)


def swap_in(log: PartitionLog, result: CleanResult, now_ms: int) -> list[str]:
    """Swap in the new segments; return the names of the old files."""
    removed: list[str] = []

    def note(paths: Sequence[str]) -> None:
        removed.extend(paths)

    for cleaned in result.segments:
        task = SwapInTask(log, cleaned, now_ms, note)
        task.run()
        task.apply()
        if task.following is None:
            break
        task.following.run()
        task.following.apply()
    return removed


def consume(log: PartitionLog, start: int | None = None) -> list[Record]:
    """Read all records from `start` on as a consumer does, batch by batch; some batches have no records."""
    offset = log.log_start_offset if start is None else start
    found: list[Record] = []
    while offset < log.log_end_offset:
        part = log.read(offset, 4096, log.log_end_offset)
        data = part if isinstance(part, bytes) else part.read()
        if not data:
            break
        end = offset
        position = 0
        while (entry := parse_entry(data, position, position)) is not None and position + entry.size_bytes <= len(data):
            end = entry.last_offset + 1
            position += entry.size_bytes
        assert end > offset, "a whole batch, and not one before"
        found += [record for record in iter_records(data[:position]) if record.offset >= offset]
        offset = end
    return found


def clean_log(
    log: PartitionLog,
    now_ms: int,
    checkpoint: int | None = None,
    *,
    resources: Resources | None = None,
    fs: FileSystem = LOCAL,
) -> CleanResult | None:
    """Run one round of cleaning; None if nothing can be cleaned."""
    job = job_for(log, now_ms, checkpoint, resources)
    if job is None:
        return None
    result = clean(job, fs)
    assert still_fits(log, job)
    swap_in(log, result, now_ms)
    return result
