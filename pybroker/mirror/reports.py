"""What `pybroker mirror` prints: rows on standard output, problems on standard error, and a bar on a terminal."""

from __future__ import annotations

import sys
import time

from pybroker.cli.client.output import print_line, show
from pybroker.cli.client.progress import ProgressBar
from pybroker.cli.terminal_escape import escape_controls
from pybroker.mirror.partition import Progress

_OUTAGE_AGAIN_S = 60.0


class Reports:
    """Prints rows as text or as JSON; each problem once."""

    def __init__(self, *, as_json: bool) -> None:
        self.total = 0
        """The number of offsets to copy, for the bar."""
        self._as_json = as_json
        self._bar = ProgressBar("Mirroring")
        self._noted: set[str] = set()
        self._outages: dict[str, float] = {}

    def show(self, progress: Progress) -> None:
        """Update the bar."""
        text = f"{progress.records} records, {progress.bytes >> 20} MB"
        self._bar.show(progress.records + progress.filled, self.total, text)

    def end(self) -> None:
        """End the bar."""
        self._bar.end()

    def topic(self, name: str, partitions: int, copied_before: int, *, is_created: bool) -> None:
        """Print that a topic, or new partitions of it, are copied from now on."""
        row = {"topic": name, "partitions": partitions, "created": is_created, "copied_before": copied_before}
        how = "made" if is_created else f"goes on behind {copied_before} offsets"
        self._say(row, f"topic {name}: {partitions} partitions, {how}")

    def group(self, name: str, offsets: int) -> None:
        """Print that offsets of a group were copied."""
        self._say({"group": name, "offsets": offsets}, f"group {name}: {offsets} offsets")

    def summary(self, done: Progress, topics: int) -> None:
        """Print what the run has copied."""
        if done.undated:
            self.note(f"{done.undated} records with timestamp 0 got the time of the copy")
        row: dict[str, object] = {
            "records": done.records,
            "bytes": done.bytes,
            "filled_offsets": done.filled,
            "topics": topics,
        }
        records = f"copied {done.records} records, {done.bytes >> 20} MB, of {topics} topics"
        self._say(row, f"{records}; {done.filled} offsets without a record")

    def note(self, line: str, *, again: bool = False) -> None:
        """Print a problem, unless it was printed before; `again`: always."""
        if again or line not in self._noted:
            self._noted.add(line)
            self._bar.end()
            print(f"pybroker mirror: {escape_controls(line)}", file=sys.stderr, flush=True)

    def outage(self, line: str) -> None:
        """Print a problem that passes: once, and again if it comes back after a minute."""
        now = time.monotonic()
        if now - self._outages.get(line, -_OUTAGE_AGAIN_S) >= _OUTAGE_AGAIN_S:
            self.note(line, again=True)
        self._outages[line] = now

    def _say(self, row: dict[str, object], line: str) -> None:
        self._bar.end()
        if self._as_json:
            show([row], as_json=True)
        else:
            print_line(line)
        sys.stdout.flush()
