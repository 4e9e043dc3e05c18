"""The example of `make demo`, whole: a log's lines through the broker and Spark into Parquet."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.scale import scaled

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "access-log"
LINES = min(scaled(1000), 6000)


def test_every_line_of_the_log_is_a_row(tmp_path: Path) -> None:
    """Of the recorded log, of which it takes each so many; the counts by minute, status and path are printed."""
    recorded = (EXAMPLE / "access.log").read_text().splitlines(keepends=True)
    log = tmp_path / "access.log"
    log.write_text("".join(recorded[:: len(recorded) // LINES][:LINES]))

    command = [sys.executable, str(EXAMPLE / "demo.py"), "--log", str(log), "--keep", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{LINES} lines in the log, {LINES} rows" in done.stdout
    assert re.search(r"^\|2026-11-21 14:\d\d:00\| +200\| +/\|", done.stdout, re.MULTILINE)
    assert list((tmp_path / "lake" / "requests").glob("date=*/*.parquet"))
