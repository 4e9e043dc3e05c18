"""Read the data directory of a running or stopped broker, or its remote storage, as data."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pybroker.source.bounds import EARLIEST, LATEST, bounds_of
from pybroker.source.columns import arrow_schema, chosen_columns
from pybroker.source.reader import Reader
from pybroker.source.remote_options import place_of

if TYPE_CHECKING:
    import pyarrow as pa


def read(
    path: str | os.PathLike[str],
    *,
    topics: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    start: int | str | None = None,
    end: int | str | None = None,
    start_ms: int | None = None,
    end_ms: int | None = None,
    committed: bool = False,
    remote: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> pa.RecordBatchReader:
    """Read records of `data/orders-0`, or of all topics in `data`, as Arrow batches for pandas, Polars or DuckDB.

    Example: `pybroker.read("data/orders-0").read_pandas()`. It locks and writes nothing, and needs no running broker.

    Args:
        path: the directory of one partition, or a directory with several; or the URL of remote storage.
        topics: in a directory with several partitions, the topics to read; by default all but the internal topics.
        columns: of key, value, topic, partition, offset, timestamp, timestampType, headers; default: all but headers.
        start, end: offsets, 'earliest' or 'latest'; the end is not included.
        start_ms, end_ms: times in place of offsets: each means the first record at or after it.
        committed: skip aborted transactions, and stop before the first open one.
        remote: the URL of remote storage (s3, gs, az, file) that has the older segments of the partitions in `path`.
        storage_options: keys of the storage class pybroker.ObjectStore, such as `endpoint.url`; default: environment.

    A URL is that of all segments, of a topic or of a partition: `pybroker.read("s3://bucket/prefix/orders-<id>/0")`.

    Errors: UnusableOption, UnknownPartition at the call; DamagedLog, DataLoss also from the batches. Needs pyarrow.
    """
    import pyarrow as pa

    chosen = chosen_columns(columns)
    wanted = {
        **place_of(os.fspath(path), remote, storage_options)._asdict(),
        "topics": None if topics is None else list(topics),
        "start": bounds_of(start, start_ms, EARLIEST, name="start").to_json(),
        "end": bounds_of(end, end_ms, LATEST, name="end").to_json(),
        "committed": committed,
    }
    reader = Reader()
    try:
        splits = reader.ask("plan_log", **wanted)
    except BaseException:
        reader.close()
        raise
    return pa.RecordBatchReader.from_batches(arrow_schema(chosen), _batches(reader, splits, chosen))


def _batches(reader: Reader, splits: list[dict[str, Any]], columns: Sequence[str]) -> Iterator[Any]:
    with reader:
        for split in splits:
            yield from reader.batches("read_log", columns, **split)
