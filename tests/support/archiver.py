"""A process that archives a data directory and compacts the archive, with pyarrow instead of Spark: `python -m`.

Arguments: the archive, the data directory, the topic, offsets a step. It reads back what it writes, as Spark does.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pybroker.archive.archiving import archive_ranges
from pybroker.archive.compacting import Compaction, compact
from pybroker.archive.inputs import DirectoryInput
from pybroker.archive.planning import wanted_ranges
from pybroker.archive.store import Archive
from pybroker.source.bounds import at_offset
from pybroker.source.ranges import OffsetRange
from pybroker.source.reader import Reader
from tests.support.failing_files import RowSums, sums_of

COLUMNS = ["key", "value", "partition", "offset", "timestamp", "timestampType", "headers"]


def count_rows(path: Path) -> int:
    """Count rows as the archive's own function does, which belongs to the Spark code."""
    rows: int = pq.read_metadata(path).num_rows
    return rows


def main(root: str, data: str, topic: str, step: str) -> None:
    """Archive the new records, and compact."""
    source = DirectoryInput(data, committed=True, active=True)
    with Reader() as reader, Archive(Path(root), writing=True) as archive:

        def write(ranges: Sequence[OffsetRange], folder: Path) -> list[RowSums]:
            for each in ranges:
                _put(folder, topic, _read(reader, data, each))
            return _sums(topic, sorted(folder.rglob("*.parquet")))

        def rewrite(wanted: Compaction, folder: Path) -> tuple[Any, Any]:
            paths = [archive.root / each.path for each in wanted.files]
            _put(folder, topic, pa.concat_tables([pq.ParquetFile(path).read() for path in paths]))
            return _sums(topic, paths), _sums(topic, sorted(folder.rglob("*.parquet")))

        plan = wanted_ranges(source.ends([topic]), archive.manifest.ends(), skip_lost=False)
        archive_ranges(archive, plan.ranges, write, count_rows, step_offsets=int(step))
        compact(archive, rewrite, count_rows)


def _read(reader: Reader, data: str, of: OffsetRange) -> pa.Table:
    bounds = {"start": at_offset(of.start).to_json(), "end": at_offset(of.end).to_json()}
    assigned = [[of.topic, of.partition]]
    splits = reader.ask("plan_log", path=data, topics=None, assigned=assigned, committed=True, **bounds)
    return pa.Table.from_batches([batch for split in splits for batch in reader.batches("read_log", COLUMNS, **split)])


def _put(folder: Path, topic: str, rows: pa.Table) -> None:
    """Write one file for each day."""
    dates = [each.date().isoformat() for each in rows.column("timestamp").to_pylist()]
    for date in sorted(set(dates)):
        below = folder / f"topic={topic}" / f"date={date}"
        below.mkdir(parents=True, exist_ok=True)
        mask = pa.array([each == date for each in dates])
        pq.write_table(rows.filter(mask), below / f"part-{uuid.uuid4()}.parquet")


def _sums(topic: str, paths: Sequence[Path]) -> list[RowSums]:
    tables = [pq.ParquetFile(path).read(["partition", "offset"]).to_pylist() for path in paths]
    return sums_of([(topic, row["partition"], row["offset"]) for table in tables for row in table])


if __name__ == "__main__":
    main(*sys.argv[1:])
