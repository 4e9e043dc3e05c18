"""The progress of a long command: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TextIO

_WIDTH = 30
_CLEAR = "\r\x1b[K"
#: Seconds between two updates of the bar.
_TURN_S = 0.1


class ProgressBar:
    """A bar for `total` units, which may grow, on standard error. A context manager clears it at its end."""

    def __init__(self, name: str, *, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._stream = sys.stderr if stream is None else stream
        self._now = now
        self._drawn = -_TURN_S
        self._on_terminal = self._stream.isatty()

    def show(self, done: int, total: int, text: str) -> None:
        """Set how much is done; `text` follows the bar."""
        now = self._now()
        if not self._on_terminal or now - self._drawn < _TURN_S:
            return
        self._drawn = now
        share = min(1.0, done / total) if total else 1.0
        bar = ("#" * round(share * _WIDTH)).ljust(_WIDTH, ".")
        self._stream.write(_CLEAR + f"{self._name} [{bar}] {text}"[: self._columns()])
        self._stream.flush()

    def _columns(self) -> int | None:
        """Return the longest line: of a line that wraps, only the last row would be cleared."""
        try:
            width = os.get_terminal_size(self._stream.fileno()).columns
        except OSError:
            return None
        return max(1, width - 1) if width else None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Clear the bar, at the end or before a line is printed."""
        if self._on_terminal:
            self._stream.write(_CLEAR)
            self._stream.flush()
