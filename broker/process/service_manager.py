"""Notify systemd, or another program that set NOTIFY_SOCKET: the broker serves, it stops, its loop runs.

The protocol is that of sd_notify(3): lines of VARIABLE=value in a datagram. Without NOTIFY_SOCKET nothing is sent.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping
from typing import Protocol

log = logging.getLogger(__name__)


class _Handle(Protocol):
    def cancel(self) -> None: ...


class _Loop(Protocol):
    def call_later(self, delay: float, callback: Callable[[], None]) -> _Handle: ...


class ServiceManager:
    """Sends notifications from the loop's thread. `watchdog_s`: the interval that the manager asks for, or None."""

    def __init__(self, environ: Mapping[str, str], loop: _Loop) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._loop = loop
        self._timer: _Handle | None = None
        self.watchdog_s = _watchdog_s(environ) if self._address else None

    def ready(self, status: str) -> None:
        """Report that clients are served. From now on send watchdog signals, twice as often as the manager asks for."""
        self._notify("READY=1", f"STATUS={status}", f"MAINPID={os.getpid()}")
        self._beat()

    def stopping(self) -> None:
        """Report that the broker stops."""
        self._notify("STOPPING=1", "STATUS=Shutting down")

    def close(self) -> None:
        """Stop the watchdog signals: the loop is about to end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        if self.watchdog_s is not None:
            self._notify("WATCHDOG=1")
            self._timer = self._loop.call_later(self.watchdog_s / 2, self._beat)

    def _notify(self, *lines: str) -> None:
        if not self._address:
            return
        # "@" stands for the zero byte with which names outside of the file system begin
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as sock:
                sock.sendto("\n".join(lines).encode(), address)
        except OSError as error:
            log.warning("Notifying the service manager at %s of %s failed: %s", self._address, lines[0], error)


def _watchdog_s(environ: Mapping[str, str]) -> float | None:
    """Return the interval of WATCHDOG_USEC, unless it is meant for another process."""
    pid, usec = environ.get("WATCHDOG_PID", ""), environ.get("WATCHDOG_USEC", "")
    if not usec.isdecimal() or int(usec) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(usec) / 1e6
