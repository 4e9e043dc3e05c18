"""Send buffers for clients that take little at a time.

A Java consumer receives 64 KiB at a time unless it is told otherwise. Of a large answer the broker's socket takes twice
as much, and whenever a third of that is free the loop is woken to send a little more: waking up is what such a
client costs. A large buffer takes the answer in one go. For a client that takes all it gets it would be the wrong
thing: what lies in a buffer longer than the processor's caches hold it comes from memory (docs/decisions/network.md).
Which of the two a client is, TCP tells: its window grows, or stays as small as it was.
"""

from __future__ import annotations

import socket
from struct import Struct

#: What the kernel is asked for; it doubles that, and allows no more than net.core.wmem_max.
WIDE_BYTES = 512 * 1024
#: The window of a client that asks for a buffer of 64 KiB grows to 120 KiB, as its kernel doubles what is asked for;
#: that of one whose kernel decides is larger at the second answer, and some MiB soon.
_SMALL_BYTES = 144 * 1024
#: Looks at a client, one for each answer that the socket does not take whole, before it is taken for a small one.
_LOOKS = 8
#: In the kernel's struct tcp_info, from Linux 5.4 on.
_TCP_INFO, _AT = getattr(socket, "TCP_INFO", 11), 228
_WINDOW = Struct("=I")


class PeerWindow:
    """What is known of how much a client takes at a time."""

    __slots__ = ("_looks_left",)

    def __init__(self) -> None:
        self._looks_left = _LOOKS

    def look(self, sock: socket.socket) -> None:
        """Look once more, when an answer was not taken whole; at the last look the buffer is made large."""
        if not self._looks_left:
            return
        try:
            window = window_bytes(sock)
            if window is None or window > _SMALL_BYTES:
                self._looks_left = 0  # it is not known, or large: then the buffer is right
                return
            self._looks_left -= 1
            if not self._looks_left:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, WIDE_BYTES)
        except OSError:
            self._looks_left = 0  # the connection is broken, as the next send finds


def window_bytes(sock: socket.socket) -> int | None:
    """How much the other side has room for, as it has said last; None where the kernel does not tell. OSError."""
    info = sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _AT + _WINDOW.size)
    return _WINDOW.unpack_from(info, _AT)[0] if len(info) == _AT + _WINDOW.size else None
