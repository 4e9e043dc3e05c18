"""The comparison guide has the figures of the benchmarks' table."""

from __future__ import annotations

import re
from pathlib import Path

from bench.comparison.table import BEGIN, END

DOCS = Path(__file__).parents[3] / "docs"
#: For each load and figure: pybroker's, Apache Kafka's, and the ratio.
FIGURES: dict[tuple[str, str], tuple[str, str, float]] = {}
_load = ""
for _line in (DOCS / "how-it-works" / "benchmarks.md").read_text().partition(BEGIN)[2].partition(END)[0].splitlines():
    _cells = [cell.strip() for cell in _line.strip("|").split("|")]
    if len(_cells) == 6 and re.fullmatch(r"[0-9.]+", _cells[4]):
        _load = _cells[0] or _load
        FIGURES[_load, _cells[1]] = (_cells[2], _cells[3], float(_cells[4]))


def test_guide_has_the_figures_of_the_benchmarks() -> None:
    """Start, memory, and the least and the most that a request saves."""
    page = " ".join((DOCS / "start/comparison.md").read_text().split())
    ours, theirs, _ = FIGURES["start", "s until it answers"]
    assert f"started in {ours} s instead of {theirs} s" in page
    ours, theirs, _ = FIGURES["idle", "MB of memory"]
    assert f"took {ours} MB of memory idle instead of {theirs} MB" in page
    costs = [times for (_, figure), (*_, times) in FIGURES.items() if re.match("CPU (us a re|s a GB)", figure)]
    assert len(costs) > 10
    assert f"in every load that was measured: {min(costs):.2f} to {max(costs):.2f} times less" in page
