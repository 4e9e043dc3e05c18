"""How far a long command is: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TextIO

_WIDTH = 30
_CLEAR = "\r\x1b[K"
#: Seconds between two drawings.
_TURN_S = 0.1


class ProgressBar:
    """Of `total` things, which may grow. Drawn on standard error; a context manager, at whose end it goes."""

    def __init__(self, name: str, *, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._stream = sys.stderr if stream is None else stream
        self._now = now
        self._drawn = -_TURN_S
        self._on_terminal = self._stream.isatty()

    def show(self, done: int, total: int, text: str) -> None:
        """So much is done; `text` stands behind the bar."""
        now = self._now()
        if not self._on_terminal or now - self._drawn < _TURN_S:
            return
        self._drawn = now
        share = min(1.0, done / total) if total else 1.0
        bar = ("#" * round(share * _WIDTH)).ljust(_WIDTH, ".")
        self._stream.write(_CLEAR + f"{self._name} [{bar}] {text}"[: self._columns()])
        self._stream.flush()

    def _columns(self) -> int | None:
        """How long a line may be: of one that goes on in the next row, only the last row would be cleared."""
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
        """It is over, or a line is to be printed: the bar goes."""
        if self._on_terminal:
            self._stream.write(_CLEAR)
            self._stream.flush()
