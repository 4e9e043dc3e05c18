"""What the broker tells systemd, or whoever else set NOTIFY_SOCKET: that it serves, that it stops, that its loop turns.

The protocol is that of sd_notify(3): lines of VARIABLE=value in a datagram. Where nobody listens, nothing is done.
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
    """Belongs to the loop's thread. `environ` is the process's; `watchdog_s`: how often to hear of us, None: never."""

    def __init__(self, environ: Mapping[str, str], loop: _Loop) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._loop = loop
        self._timer: _Handle | None = None
        self.watchdog_s = _watchdog_s(environ) if self._address else None

    def ready(self, status: str) -> None:
        """Clients are served; from now on the manager hears that the loop turns, twice as often as it asks for."""
        self._tell("READY=1", f"STATUS={status}", f"MAINPID={os.getpid()}")
        self._beat()

    def stopping(self) -> None:
        """The broker goes down."""
        self._tell("STOPPING=1", "STATUS=Shutting down")

    def close(self) -> None:
        """The loop is about to end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        if self.watchdog_s is not None:
            self._tell("WATCHDOG=1")
            self._timer = self._loop.call_later(self.watchdog_s / 2, self._beat)

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        # "@" stands for the zero byte with which names outside of the file system begin
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as sock:
                sock.sendto("\n".join(lines).encode(), address)
        except OSError as error:
            log.warning("The service manager at %s cannot be told %s: %s", self._address, lines[0], error)


def _watchdog_s(environ: Mapping[str, str]) -> float | None:
    """What WATCHDOG_USEC says, unless it is meant for another process."""
    pid, usec = environ.get("WATCHDOG_PID", ""), environ.get("WATCHDOG_USEC", "")
    if not usec.isdecimal() or int(usec) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(usec) / 1e6
