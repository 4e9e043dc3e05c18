"""Send the bytes and file slices of a connection's answers through its socket.

Bytes are sent by send or sendmsg. A slice of a log file is sent by sendfile, from the page cache to the socket, without
passing through this process. MSG_MORE holds back the bytes before it, so that header and data share packets.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterable
from typing import Protocol

from protocol.schema import Chunk

# Unsent bytes of one connection above which none of its requests are served.
OUTPUT_LIMIT_BYTES = 1024 * 1024
# The most that is sent in one turn, so that one fast reader does not delay the others of its loop.
TURN_BYTES = 1024 * 1024
# Slices up to this size are cheaper to read and send with the bytes around them than by sendfile: on loopback 2 us
# instead of 3 at 200 bytes, the same at 4 KiB, 10 instead of 8 at 12 kB.
_READ_BYTES = 4 * 1024
# Bytes in pieces of at most this size are copied together; larger ones go to sendmsg as they are.
_COPIED_BYTES = 16 * 1024
_BYTES = (bytes, bytearray, memoryview)
_BYTES_ALONE = frozenset([bytes])
# Pieces handed to one sendmsg; the kernel takes 1024.
_PIECES = 256


class FileSlice(Protocol):
    """A part of an open file, which stays open until released (storage.fetch_slice.FetchSlice)."""

    position: int

    def __len__(self) -> int: ...
    def fileno(self) -> int: ...
    def read(self) -> bytes: ...
    def release(self) -> None: ...


class FileEndedEarly(OSError):
    """A file ended within a slice whose length was already sent: the connection must be closed."""


def is_around_slice(chunks: list[Chunk]) -> bool:
    """Return whether chunks are a head, a slice, and perhaps a tail, as for `OutputQueue.send_around`."""
    return (
        len(chunks) <= 3
        and type(chunks[0]) is bytes
        and not isinstance(chunks[1], _BYTES)
        and len(chunks[1]) > _READ_BYTES
        and (len(chunks) == 2 or type(chunks[2]) is bytes)
    )


def joined(chunks: list[Chunk]) -> list[Chunk]:
    """Return the same bytes in fewer pieces: small ones are joined, and small slices are read and released.

    Raises OSError when a slice cannot be read whole; all slices have been released then.
    """
    if _BYTES_ALONE.issuperset(map(type, chunks)) and sum(map(len, chunks)) <= _COPIED_BYTES:
        return [b"".join(chunks)]  # type: ignore[arg-type]
    pieces: list[Chunk] = []
    run: list[bytes | bytearray | memoryview] = []
    try:
        for chunk in chunks:
            if type(chunk) is bytes or isinstance(chunk, _BYTES):
                small = len(chunk) <= _COPIED_BYTES
                data = chunk
            else:
                small = len(chunk) <= _READ_BYTES
                data = _read_whole(chunk) if small else b""  # type: ignore[arg-type]
            if small:
                run.append(data)
                continue
            if run:
                pieces.append(b"".join(run))
                run = []
            pieces.append(chunk)
    except OSError:
        release(chunks)
        raise
    if run:
        pieces.append(b"".join(run))
    return pieces


def release(chunks: Iterable[Chunk]) -> None:
    """Release the slices among chunks that will not be sent."""
    for chunk in chunks:
        if not isinstance(chunk, _BYTES):
            chunk.release()  # type: ignore[attr-defined]


def _read_whole(piece: FileSlice) -> bytes:
    data = piece.read()
    if len(data) != len(piece):
        raise FileEndedEarly(f"the file ends {len(piece) - len(data)} bytes before the slice does")
    piece.release()
    return data


class OutputQueue:
    """Chunks that the kernel has not accepted yet, in order."""

    __slots__ = ("_chunks", "_sent", "sendfile_bytes", "size_bytes")

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._sent = 0  # of the first chunk
        self.size_bytes = 0
        #: All bytes that sendfile sent.
        self.sendfile_bytes = 0

    def put(self, chunks: list[Chunk]) -> None:
        """Append chunks; slices are released once sent, or by `clear`."""
        for chunk in chunks:
            if len(chunk):
                self._chunks.append(chunk)
                self.size_bytes += len(chunk)
            elif not isinstance(chunk, _BYTES):
                chunk.release()  # type: ignore[attr-defined]

    def send_around(self, sock: socket.socket, head: bytes, piece: FileSlice, tail: bytes = b"") -> bool:
        """Do `put` and `send` for a head, a slice and a tail, as in most answers to a Fetch, without queueing them.

        Only while the queue is empty. Raises as `send` does.
        """
        sent = sent_of_file = sent_of_tail = 0
        size = len(piece)
        try:
            sent = sock.send(head, socket.MSG_MORE)
            if sent == len(head):
                wanted = size if size < TURN_BYTES else TURN_BYTES
                sent_of_file = os.sendfile(sock.fileno(), piece.fileno(), piece.position, wanted)
                self.sendfile_bytes += sent_of_file
                if sent_of_file == size:
                    if tail:
                        sent_of_tail = sock.send(tail)
                    if sent_of_tail == len(tail):
                        piece.release()
                        return True
                elif not sent_of_file:
                    raise FileEndedEarly(f"sendfile gave nothing at position {piece.position}")
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            piece.release()
            raise
        if sent_of_file == size:
            piece.release()
            self.put([tail[sent_of_tail:]])
        else:
            self.put([head[sent:], piece, tail])
            self._sent = sent_of_file
            self.size_bytes -= sent_of_file
        return False

    def clear(self) -> None:
        """Drop everything, and release the files."""
        release(self._chunks)
        self._chunks.clear()
        self._sent = 0
        self.size_bytes = 0

    def send(self, sock: socket.socket) -> bool:
        """Send what the kernel accepts now, at most some 1 MiB; return True when nothing is left.

        Raises OSError when the connection is broken, and FileEndedEarly: close it in either case.
        """
        budget = TURN_BYTES
        try:
            while self._chunks and budget > 0:
                chunk = self._chunks[0]
                if isinstance(chunk, _BYTES):
                    wanted, sent = self._send_bytes(sock)
                else:
                    wanted, sent = self._send_file(sock, chunk, budget)  # type: ignore[arg-type]
                if sent < wanted:
                    break  # the socket is full: another try would send nothing
                budget -= sent
        except (BlockingIOError, InterruptedError):
            pass
        return not self._chunks

    def _send_bytes(self, sock: socket.socket) -> tuple[int, int]:
        """Send the byte chunks at the front; return (how many bytes there were, how many were sent)."""
        pieces: list[bytes | bytearray | memoryview] = []
        flags = wanted = 0
        for chunk in self._chunks:
            if not isinstance(chunk, _BYTES):
                flags = socket.MSG_MORE
                break
            if len(pieces) == _PIECES or wanted >= TURN_BYTES:
                break
            pieces.append(chunk)
            wanted += len(chunk)
        if self._sent:
            pieces[0] = memoryview(pieces[0])[self._sent :]
            wanted -= self._sent
        sent = sock.send(pieces[0], flags) if len(pieces) == 1 else sock.sendmsg(pieces, (), flags)
        self.size_bytes -= sent
        left = self._sent + sent
        while self._chunks and left >= (size := len(self._chunks[0])):
            left -= size
            self._chunks.popleft()
        self._sent = left
        return wanted, sent

    def _send_file(self, sock: socket.socket, piece: FileSlice, budget: int) -> tuple[int, int]:
        """Send from the file slice at the front; return (how many bytes were due, how many were sent)."""
        left = len(piece) - self._sent
        wanted = left if left < budget else budget
        sent = os.sendfile(sock.fileno(), piece.fileno(), piece.position + self._sent, wanted)
        if sent == 0:
            raise FileEndedEarly(f"sendfile gave nothing at position {piece.position + self._sent}")
        self.sendfile_bytes += sent
        self.size_bytes -= sent
        if sent == left:
            self._chunks.popleft()
            self._sent = 0
            piece.release()
        else:
            self._sent += sent
        return wanted, sent
