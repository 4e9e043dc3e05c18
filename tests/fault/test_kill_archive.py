"""An archiving process is killed at random moments and started again: each record is in the archive once, at any time.

Kills at each of its own calls: tests/unit/pybroker/archive/test_store.py; kills of a restore: tests/integration.

Run as a module, this is the process: it archives a data directory and compacts the archive, with pyarrow instead of
Spark. Arguments: the archive, the data directory, the topic, offsets a step.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pybroker
from pybroker.archive.archiving import archive_ranges
from pybroker.archive.compacting import Compaction, compact
from pybroker.archive.inputs import DirectoryInput
from pybroker.archive.planning import wanted_ranges
from pybroker.archive.store import Archive
from pybroker.source.bounds import at_offset
from pybroker.source.ranges import OffsetRange
from pybroker.source.reader import Reader
from tests.support.failing_files import RowSums, sums_of
from tests.support.logs import T0, append, batch, close, open_log
from tests.support.scale import scaled

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


KILLS = min(scaled(8), 100)
TOPIC = "orders"
#: How many records are written before each attempt.
RECORDS = 33


def archived(lake: Path) -> list[dict[str, Any]]:
    """Return an archive's rows by offset, as any reader of Parquet sees them."""
    rows = [row for path in lake.glob("topic=*/date=*/*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted(rows, key=lambda row: row["offset"])


def test_each_record_is_archived_once_through_kills(tmp_path: Path) -> None:
    """In small steps, with compaction. Records are written between the attempts, and the last attempt completes."""
    dice, data, lake = random.Random(7), tmp_path / "data", tmp_path / "lake"
    data.mkdir()
    log = open_log(data)
    command = [sys.executable, "-m", "tests.fault.test_kill_archive", str(lake), str(data), TOPIC, "20"]
    started = time.monotonic()
    killed = 0
    for attempt in range(KILLS + 1):
        for number in range(0, RECORDS, 3):
            append(log, batch(*[b"%d" % (number + each) for each in range(3)], timestamp=T0 - number * 7_200_000))
        process = subprocess.Popen(command)
        if attempt < KILLS:
            before = _state(lake)
            while process.poll() is None and _state(lake) == before:
                time.sleep(0.001)
            time.sleep(dice.uniform(0, 0.3))
            killed += process.poll() is None
            process.kill()
            process.wait()
        else:
            assert process.wait(240) == 0
        offsets = [row["offset"] for row in archived(lake)]
        assert len(offsets) == len(set(offsets)), f"rows are seen twice after {time.monotonic() - started:.1f} s"
    close(log)

    expected = pybroker.read(data, topics=[TOPIC], columns=COLUMNS).read_all().to_pylist()
    assert archived(lake) == expected
    assert killed
    with Archive(lake, writing=False) as archive:
        assert archive.unknown_files() == archive.missing() == []
        assert sum(each.records for each in archive.manifest.ranges) == len(expected)
        assert sum(each.checksum for each in archive.manifest.ranges) == sum(row["offset"] ** 2 for row in expected)


def _state(lake: Path) -> tuple[float, int]:
    """Return a value that changes with each commit."""
    manifest = lake / "_pybroker" / "manifest.json"
    return (manifest.stat().st_mtime, manifest.stat().st_ino) if manifest.exists() else (0, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
