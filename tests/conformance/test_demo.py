"""The example of `make demo`, whole: a log's lines through the broker and Spark into Parquet."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.support.scale import scaled

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "access-log"
LINES = min(scaled(1000), 6000)


def test_every_line_of_the_log_is_a_row(tmp_path: Path) -> None:
    """Of the recorded log it takes each so many; counts are printed, lines that are none counted, charts drawn."""
    recorded = (EXAMPLE / "access.log").read_text().splitlines(keepends=True)
    log = tmp_path / "access.log"
    log.write_text("".join(recorded[:: len(recorded) // LINES][:LINES]))

    command = [sys.executable, str(EXAMPLE / "demo.py"), "--log", str(log), "--keep", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{LINES + 3} lines in the log, {LINES} rows" in done.stdout
    assert "and 3 dead letters: all there" in done.stdout
    assert re.search(r"^\|2026-11-21 14:\d\d:00\| +200\| +/\|", done.stdout, re.MULTILINE)
    assert list((tmp_path / "lake" / "requests").glob("date=*/*.parquet"))
    report = (tmp_path / "report.html").read_text()
    assert f"<b>{LINES:,}</b> requests from 2026-11-21" in report
    charts = [ElementTree.fromstring(chart) for chart in re.findall(r"<svg.*?</svg>", report)]
    assert len(charts) == 3
    assert all(chart.findall("{http://www.w3.org/2000/svg}rect") for chart in charts)
