"""Choose send buffers for clients that receive little at a time.

A Java consumer receives 64 KiB at a time by default. The broker's socket then buffers twice as much of a large answer,
and wakes the loop whenever a third of that is free. These wake-ups are the cost of such a client. A large buffer holds
the whole answer. For a client that reads fast a large buffer would be slower: bytes that stay in it longer than the
processor's caches hold them come from memory (docs/decisions/network.md). TCP shows which kind a client is: its window
grows, or stays small.
"""

from __future__ import annotations

import socket
from struct import Struct

#: The requested size. The kernel doubles it, and limits it to net.core.wmem_max.
WIDE_BYTES = 512 * 1024
#: The window of a client that asks for a buffer of 64 KiB grows to 120 KiB, as its kernel doubles what is asked for;
#: that of one whose kernel decides is larger at the second answer, and some MiB soon.
_SMALL_BYTES = 144 * 1024
#: Checks of a client, one for each answer that the socket does not accept whole, before its window counts as small.
_LOOKS = 8
#: In the kernel's struct tcp_info, from Linux 5.4 on.
_TCP_INFO, _AT = getattr(socket, "TCP_INFO", 11), 228
_WINDOW = Struct("=I")


class PeerWindow:
    """Tracks how much a client receives at a time."""

    __slots__ = ("_looks_left",)

    def __init__(self) -> None:
        self._looks_left = _LOOKS

    def look(self, sock: socket.socket) -> None:
        """Check the window, when an answer was not sent whole. The last check enlarges the buffer."""
        if not self._looks_left:
            return
        try:
            window = window_bytes(sock)
            if window is None or window > _SMALL_BYTES:
                self._looks_left = 0  # the window is unknown, or large: then the buffer is right
                return
            self._looks_left -= 1
            if not self._looks_left:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, WIDE_BYTES)
        except OSError:
            self._looks_left = 0  # the connection is broken, as the next send finds


def window_bytes(sock: socket.socket) -> int | None:
    """Return the window that the client last advertised; None if the kernel does not report it. Raises OSError."""
    info = sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _AT + _WINDOW.size)
    return _WINDOW.unpack_from(info, _AT)[0] if len(info) == _AT + _WINDOW.size else None
