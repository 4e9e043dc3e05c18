"""The progress of a long operation: a bar on a terminal, else a log line every few seconds."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from typing import TextIO

log = logging.getLogger(__name__)

#: Seconds between two log lines.
LINE_S = 5.0
_BAR_WIDTH = 30
_CLEAR = "\r\x1b[K"


class Progress:
    """The progress in `parts` parts with `total_bytes` bytes. Short operations show nothing."""

    def __init__(
        self,
        name: str,
        parts: int,
        total_bytes: int,
        *,
        stream: TextIO = sys.stderr,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._parts = parts
        self._total_bytes = total_bytes
        self._stream = stream
        self._now = now
        self._began = self._logged_at = now()
        self._on_terminal = stream.isatty()

    def show(self, parts: int, done_bytes: int) -> None:
        """Show that this much is done. More than the total counts as the total."""
        done_bytes = min(done_bytes, self._total_bytes)
        if self._on_terminal:
            share = done_bytes / self._total_bytes if self._total_bytes else 1.0
            bar = ("#" * round(share * _BAR_WIDTH)).ljust(_BAR_WIDTH, ".")
            line = f"{self._name} [{bar}] {self._text(parts, done_bytes)}"
            self._stream.write(_CLEAR + line[: self._columns()])
            self._stream.flush()
        elif self._now() - self._logged_at >= LINE_S:
            self._logged_at = self._now()
            log.info("%s: %s", self._name, self._text(parts, done_bytes))

    def end(self) -> None:
        """Remove the bar when the operation ends."""
        if self._on_terminal:
            self._stream.write(_CLEAR)
            self._stream.flush()

    def _columns(self) -> int | None:
        """Return the longest line that fits the terminal: of a line that wraps, only the last row would be cleared."""
        try:
            width = os.get_terminal_size(self._stream.fileno()).columns
        except OSError:
            return None
        return max(1, width - 1) if width else None

    def _text(self, parts: int, done_bytes: int) -> str:
        text = f"{parts} of {self._parts} partitions, {done_bytes >> 20} of {self._total_bytes >> 20} MB"
        if done_bytes:
            left_s = (self._now() - self._began) * (self._total_bytes - done_bytes) / done_bytes
            text += f", about {left_s:.0f} s left"
        return text
