"""A broker's data directory as data, whether the broker runs or not."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pybroker.source.bounds import EARLIEST, LATEST, bounds_of
from pybroker.source.columns import arrow_schema, chosen_columns
from pybroker.source.reader import Reader

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
) -> pa.RecordBatchReader:
    """Records of `data/orders-0`, or of all topics in `data`, as Arrow record batches: for pandas, Polars or DuckDB.

    `pybroker.read("data/orders-0").read_pandas()`. Nothing is locked or written, and a running broker is not asked.

    Args:
        path: the directory of a partition, or one that has several.
        topics: of a directory with several partitions those of these topics; else of all but the broker's own.
        columns: of key, value, topic, partition, offset, timestamp, timestampType and headers; usually all but headers.
        start, end: offsets, 'earliest' or 'latest'; the end is not included.
        start_ms, end_ms: instead of those times: the offset of the first record that is no older.
        committed: leave out transactions that were aborted, and stop before the first that is open.

    Errors: UnusableOption, UnknownPartition at once; DamagedLog, DataLoss also while batches are read. Needs pyarrow.
    """
    import pyarrow as pa

    chosen = chosen_columns(columns)
    wanted = {
        "path": os.path.abspath(path),
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
