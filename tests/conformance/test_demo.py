"""The whole example of `make demo`: a log's lines through the broker and Spark into Parquet, and a report."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page
from pyarrow import parquet

from tests.support.access_logs import EXAMPLE
from tests.support.browsers import chromium
from tests.support.scale import scaled

LINES = min(scaled(1000), 6000)


class Demo(NamedTuple):
    """A finished run: its output, and its folder."""

    printed: str
    folder: Path

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the lake."""
        rows: list[dict[str, Any]] = parquet.read_table(self.folder / "lake" / "requests").to_pylist()
        return rows


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Run the demo on every so-many-th line of the recorded log."""
    folder = tmp_path_factory.mktemp("demo")
    recorded = (EXAMPLE / "access.log").read_text().splitlines(keepends=True)
    log = folder / "access.log"
    log.write_text("".join(recorded[:: len(recorded) // LINES][:LINES]))

    command = [sys.executable, str(EXAMPLE / "demo.py"), "--log", str(log), "--keep", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)

    assert done.returncode == 0, done.stdout + done.stderr
    return Demo(done.stdout, folder)


@pytest.fixture
def page(demo: Demo) -> Iterator[Page]:
    """Open the report in a browser that logs no error."""
    with chromium() as browser:
        found = browser.new_page()
        complaints: list[str] = []
        found.on("console", lambda message: complaints.append(message.text))
        found.on("pageerror", lambda error: complaints.append(str(error)))
        found.on("requestfailed", lambda request: complaints.append(request.url))
        found.goto((demo.folder / "report.html").as_uri())
        yield found
        assert complaints == []


def test_every_line_of_the_log_is_a_row(demo: Demo) -> None:
    """The counts are printed, those of invalid lines, too."""
    assert f"{LINES + 3} lines in the log, {LINES} rows" in demo.printed
    assert "and 3 dead letters: all there" in demo.printed
    assert re.search(r"^\|2026-11-21 14:\d\d:00\| +200\| +/\|", demo.printed, re.MULTILINE)
    assert list((demo.folder / "lake" / "requests").glob("date=*/*.parquet"))
    assert len(demo.rows()) == LINES


def test_report_shows_what_is_in_the_lake(demo: Demo, page: Page) -> None:
    """Its sentence, charts and table have the numbers that plain Python counts in the lake's files."""
    rows = demo.rows()
    times = sorted(f"{row['time']:%Y-%m-%d %H:%M:%S}" for row in rows)
    failed = [row for row in rows if row["status"] >= 400]
    assert " ".join((page.locator("p").text_content() or "").split()) == (
        f"{LINES:,} requests from {times[0]} to {times[-1]} UTC, {len(failed) / LINES:.1%} of them errors, "
        f"{sum(row['bytes'] for row in rows) / 1e6:,.1f} MB sent."
    )

    minutes, pages, errors = page.get_by_role("img").all()
    drawn = dict(title.split(": ") for title in minutes.locator("rect title").all_text_contents())
    by_minute = Counter(f"{row['time']:%H:%M}, {row['status'] // 100}xx" for row in rows)
    assert {bar: int(number.replace(",", "")) for bar, number in drawn.items() if number != "0"} == by_minute
    assert ranked(pages) == Counter(row["path"] for row in rows)
    assert ranked(errors) == Counter(row["path"] for row in failed)
    cells = page.locator("td").all_text_contents()
    programs = Counter(re.split(r"[ (]", row["user_agent"])[0] for row in rows)
    assert {program: int(number.replace(",", "")) for program, number in pairs(cells)} == programs


def test_report_can_be_seen(page: Page) -> None:
    """Each chart has bars within its frame, in proportion to their numbers, and the page is accessible."""
    for chart in page.get_by_role("img").all():
        frame = chart.bounding_box()
        assert frame is not None
        boxes = [box for bar in chart.locator("rect").all() if (box := bar.bounding_box()) and box["height"] > 0]
        assert len(boxes) > 1
        for box in boxes:
            assert box["width"] > 0
            assert frame["x"] <= box["x"] < box["x"] + box["width"] <= frame["x"] + frame["width"]
            assert frame["y"] <= box["y"] < box["y"] + box["height"] <= frame["y"] + frame["height"]
    _, pages, _ = page.get_by_role("img").all()
    lengths = [float(bar.get_attribute("width") or 0) for bar in pages.locator("rect").all()]
    requests = list(ranked(pages).values())
    assert [length / lengths[0] for length in lengths] == pytest.approx(
        [each / requests[0] for each in requests], abs=0.01
    )
    assert requests == sorted(requests, reverse=True)

    found = Axe().run(page).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []


def ranked(chart: Locator) -> dict[str, int]:
    """Return the bars of a chart by name."""
    texts = chart.locator("text").all_text_contents()
    return {name: int(number.replace(",", "")) for name, number in pairs(texts)}


def pairs(texts: list[str]) -> Iterator[tuple[str, str]]:
    return zip(texts[::2], texts[1::2], strict=True)
