"""Progress of batches: lines, a bar, metrics."""

from __future__ import annotations

import io
from pathlib import Path

from pybroker.pipeline.progress import Batch, Reporter, Totals, bar_of

REPORT = {
    "batchId": 3,
    "numInputRows": 100,
    "processedRowsPerSecond": 1234.5,
    "observedMetrics": {"source:s": {"records": 60, "unparsed": 5}, "source:t": {"records": 40, "unparsed": 2}},
    "stateOperators": [{"numRowsDroppedByWatermark": 2}],
    "sources": [
        {"endOffset": '{"t":{"0":50,"1":50}}', "latestOffset": '{"t":{"0":70,"1":50,"2":5}}'},
        {"endOffset": "0", "latestOffset": "null"},
    ],
}


def test_batch_is_one_line() -> None:
    """With errors, speed, and remaining lag."""
    assert str(Batch.of("q", REPORT)) == (
        "q: batch 3: 100 records, 7 of them could not be parsed, 2 too late, 1,234 records/s, 25 behind"
    )


def test_empty_batch_is_a_short_line() -> None:
    """Spark reports neither metrics nor a rate for it."""
    report = REPORT | {
        "numInputRows": 0,
        "observedMetrics": {},
        "stateOperators": [],
        "sources": [],
        "processedRowsPerSecond": None,
    }
    assert str(Batch.of("q", report)) == "q: batch 3: 0 records"


def test_metrics_are_written_to_a_file(tmp_path: Path) -> None:
    """Sums over all batches, and the lag of the last, in Prometheus' text format."""
    file = tmp_path / "metrics.prom"
    reporter = Reporter(file, io.StringIO())

    reporter.batch(Batch.of("q", REPORT))
    reporter.batch(Batch("q", 4, 25, 10.0, 0, 0, 1))

    lines = file.read_text().splitlines()
    assert "# TYPE pybroker_pipeline_records_total counter" in lines
    assert 'pybroker_pipeline_records_total{query="q"} 125' in lines
    assert 'pybroker_pipeline_unparsed_total{query="q"} 7' in lines
    assert 'pybroker_pipeline_late_total{query="q"} 3' in lines
    assert 'pybroker_pipeline_lag{query="q"} 0' in lines


def test_unwritable_metrics_are_reported_once(tmp_path: Path) -> None:
    """The query continues, and later metrics include all batches."""
    folder, out = tmp_path / "metrics", io.StringIO()
    reporter = Reporter(folder / "metrics.prom", out)

    for _ in range(2):
        reporter.batch(Batch.of("q", REPORT))
    reporter.restarted("q")
    expected = f"{folder}/metrics.prom: No such file or directory: metrics are not kept"
    assert out.getvalue().splitlines().count(expected) == 1

    folder.mkdir()
    reporter.batch(Batch.of("q", REPORT))
    assert 'pybroker_pipeline_batches_total{query="q"} 3' in (folder / "metrics.prom").read_text()


def test_bar_is_below_the_lines() -> None:
    """The next line overwrites it."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    reporter = Reporter(out=terminal)
    reporter.batch(Batch("q", 0, 25, 10.0, 0, 75, 0))
    reporter.close()

    assert terminal.getvalue().endswith("\n[########......................]  25%  25 of 100  10 records/s\n")


def test_bar_of_an_empty_topic_is_full() -> None:
    assert bar_of([Totals()]).startswith(f"[{'#' * 30}] 100%")
