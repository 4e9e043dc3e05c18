"""An archiving process is killed at random moments and started again: each record is in the archive once, at any time.

Kills at each of its own calls: tests/unit/pybroker/archive/test_store.py; kills of a restore: tests/integration.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import pybroker
from pybroker.archive.store import Archive
from tests.support.archiver import COLUMNS
from tests.support.logs import T0, append, batch, close, open_log
from tests.support.scale import scaled

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
    command = [sys.executable, "-m", "tests.support.archiver", str(lake), str(data), TOPIC, "20"]
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
