"""SIGINT and SIGTERM as a KeyboardInterrupt between steps: inside the client library it may become a SystemError."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupt:
    """Remembers a signal while it is entered. A second signal interrupts at once."""

    def __init__(self) -> None:
        self._is_requested = False
        self._former: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._former[number] = signal.signal(number, self._request)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has arrived, once."""
        if self._is_requested:
            self._is_requested = False
            raise KeyboardInterrupt

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self._is_requested:
            signal.default_int_handler(number, frame)
        self._is_requested = True
