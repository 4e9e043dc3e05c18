"""Output: the bytes and file slices of a connection's answers on their way into its socket.

Bytes go by send or sendmsg; a slice of a log file goes by sendfile, from the page cache to the socket without passing
through this process, and the bytes before it are held back by MSG_MORE so that header and data share packets.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from typing import Protocol

from protocol.schema import Chunk

# Sent in one go at most, so that one reader that takes all it can get does not hold up the others of its loop.
TURN_BYTES = 1024 * 1024
# Pieces handed to one sendmsg; the kernel takes 1024.
_PIECES = 256


class FileSlice(Protocol):
    """A part of an open file, kept open until released: what storage.fetch_slice.FetchSlice is."""

    position: int

    def __len__(self) -> int: ...
    def fileno(self) -> int: ...
    def read(self) -> bytes: ...
    def release(self) -> None: ...


class FileEndedEarly(OSError):
    """A file ended within a slice whose length had been sent already: nothing sensible can follow it."""


class OutputQueue:
    """Chunks not yet taken by the kernel, in order."""

    __slots__ = ("_chunks", "_sent", "size_bytes")

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._sent = 0  # of the first chunk
        self.size_bytes = 0

    def put(self, chunks: list[Chunk]) -> None:
        """Append chunks; slices are released once sent, or by `clear`."""
        for chunk in chunks:
            if len(chunk):
                self._chunks.append(chunk)
                self.size_bytes += len(chunk)
            elif not isinstance(chunk, (bytes, bytearray, memoryview)):
                chunk.release()  # type: ignore[attr-defined]

    def clear(self) -> None:
        """Drop everything, and let go of the files."""
        for chunk in self._chunks:
            if not isinstance(chunk, (bytes, bytearray, memoryview)):
                chunk.release()  # type: ignore[attr-defined]
        self._chunks.clear()
        self._sent = 0
        self.size_bytes = 0

    def send(self, sock: socket.socket) -> bool:
        """Give the kernel what it takes now, at most 1 MiB or so; True when nothing is left.

        Raises OSError when the connection is broken, and FileEndedEarly: close it in either case.
        """
        budget = TURN_BYTES
        try:
            while self._chunks and budget > 0:
                chunk = self._chunks[0]
                if isinstance(chunk, (bytes, bytearray, memoryview)):
                    sent = self._send_bytes(sock)
                else:
                    sent = self._send_file(sock, chunk, budget)  # type: ignore[arg-type]
                budget -= sent
        except (BlockingIOError, InterruptedError):
            pass
        return not self._chunks

    def _send_bytes(self, sock: socket.socket) -> int:
        """Send the run of byte chunks at the front; how many bytes went."""
        pieces: list[bytes | bytearray | memoryview] = []
        flags = 0
        for chunk in self._chunks:
            if not isinstance(chunk, (bytes, bytearray, memoryview)):
                flags = socket.MSG_MORE
                break
            if len(pieces) == _PIECES:
                break
            pieces.append(chunk)
        if self._sent:
            pieces[0] = memoryview(pieces[0])[self._sent :]
        sent = sock.send(pieces[0], flags) if len(pieces) == 1 else sock.sendmsg(pieces, (), flags)
        self.size_bytes -= sent
        left = self._sent + sent
        while self._chunks and left >= (size := len(self._chunks[0])):
            left -= size
            self._chunks.popleft()
        self._sent = left
        return sent

    def _send_file(self, sock: socket.socket, piece: FileSlice, budget: int) -> int:
        """Send from the file slice at the front; how many bytes went."""
        left = len(piece) - self._sent
        sent = os.sendfile(sock.fileno(), piece.fileno(), piece.position + self._sent, min(left, budget))
        if sent == 0:
            raise FileEndedEarly(f"sendfile gave nothing at position {piece.position + self._sent}")
        self.size_bytes -= sent
        if sent == left:
            self._chunks.popleft()
            self._sent = 0
            piece.release()
        else:
            self._sent += sent
        return sent
