"""TLS connections: as plaintext ones a socket of ours on the loop's readers and writers, with OpenSSL on it.

What is read from log files is copied on its way: sendfile would put it on the wire as it lies on the disk. The
handshake's steps, which compute, are run by a pool; until it is done nothing of the client is looked at.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

from broker.network.connection import Connection
from broker.network.output_queue import TURN_BYTES, FileEndedEarly, OutputQueue, release
from broker.network.plaintext import HangUps, PlaintextTransport
from broker.waiting.deferred import Deferred
from protocol.schema import Chunk

#: Bytes that are encrypted in one go: larger pieces would stand in memory twice for no gain.
_PIECE_BYTES = 256 * 1024
#: Records that are decrypted in a turn, of 16 KiB at most; what OpenSSL has beyond them comes in the next.
_TURN_RECORDS = 16
_BYTES = (bytes, bytearray, memoryview)

Run: TypeAlias = Callable[[Callable[[], None]], Deferred[None]]
"""Has a function run by somebody else; done when it has."""


class TlsTransport(PlaintextTransport):
    """Moves the bytes of one connection.

    Args:
        context: with the server's certificate.
        run: runs the steps of the handshake.
        on_secured: called with the client's certificate, as `ssl.SSLSocket.getpeercert` has it, before anything is
            served; what it raises ends the connection.
    """

    __slots__ = ("_on_secured", "_run", "_secured", "_stepping", "_tls")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        connection: Connection,
        hang_ups: HangUps,
        context: ssl.SSLContext,
        run: Run,
        on_secured: Callable[[Connection, Mapping[str, object]], None],
    ) -> None:
        tls = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True)
        super().__init__(loop, tls, connection, hang_ups)
        self._tls = tls
        self._run = run
        self._on_secured = on_secured
        self._secured = False
        self._stepping = False
        self._queue = TlsOutputQueue()

    def send(self, chunks: list[Chunk]) -> int:
        """As `Transport.send`."""
        queue = self._queue
        if self._closing:
            release(chunks)
            return queue.size_bytes
        queue.put(chunks)
        if not self._writing:
            self._send_queued()
        return queue.size_bytes

    def resume_reading(self) -> None:
        """Receive again, beginning with what was decrypted already."""
        super().resume_reading()
        if self._stepping:
            self._loop.remove_reader(self._fd)  # the step's end has it watched again
        elif self._reading and self._secured:
            self._loop.call_soon(self._read_pending)

    # -- the handshake -------------------------------------------------------------------------------------------------

    def _shake_hands(self) -> None:
        """Have the next step taken. Until it is, nobody else touches the socket, nor is it watched."""
        self._loop.remove_reader(self._fd)
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)
        self._stepping = True
        self._run(self._tls.do_handshake).add_done_callback(self._on_step)

    def _on_step(self, step: Deferred[None]) -> None:
        self._stepping = False
        if self._sock is None:
            self._tls.close()  # the client was let go while a step was under way
            return
        try:
            step.result()
            self._on_secured(self._connection, self._tls.getpeercert() or {})
        except ssl.SSLWantReadError:
            self._watch_again()
            return
        except ssl.SSLWantWriteError:
            self._writing = True
            self._loop.add_writer(self._fd, self._shake_hands)
            return
        except Exception as error:
            self._connection.close(f"Failed authentication (SSL handshake failed: {error})")
            return
        self._secured = True
        self._watch_again()
        self._read_pending()

    def _watch_again(self) -> None:
        if self._reading:
            self._loop.add_reader(self._fd, self._on_readable)

    # -- receiving -----------------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        if not self._secured:
            self._shake_hands()
            return
        try:
            room = self._connection.get_buffer()
        except BlockingIOError:
            return
        taken = 0
        ended = broken = False
        try:
            for _ in range(_TURN_RECORDS):
                received = self._recv_into(room[taken:])
                taken += received
                if not received:
                    ended = True
                    break
                if taken == len(room):
                    break
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, InterruptedError):
            pass
        except OSError:
            broken = True
        # As a plaintext read, once a turn, however little each record brings: each time costs a copy of the rest.
        if taken:
            self._connection.buffer_updated(taken)
        if broken:
            self._close()
        elif ended:
            if not self._closing:
                self._stop_reading()
                self._connection.on_eof()
        elif self._tls.pending():
            self._loop.call_soon(self._read_pending)

    def _read_pending(self) -> None:
        """What OpenSSL has decrypted already does not make the socket readable."""
        if self._reading and self._sock is not None and self._tls.pending():
            self._on_readable()

    # -- closing -------------------------------------------------------------------------------------------------------

    def close_when_sent(self) -> None:
        """As `Transport.close_when_sent`; during the handshake there is nothing to send."""
        if self._secured:
            super().close_when_sent()
        else:
            self.abort()

    def _close_socket(self, sock: socket.socket) -> None:
        if self._stepping:
            return  # OpenSSL is at it in another thread: the step's end closes it
        if self._secured:
            with suppress(OSError, ValueError):
                self._tls.unwrap()  # tells the client that this is the end, and no attacker's doing
        sock.close()


class TlsOutputQueue(OutputQueue):
    """Chunks not yet encrypted, in order. Slices of files are read as the socket takes them."""

    __slots__ = ("_piece",)

    def __init__(self) -> None:
        super().__init__()
        # At the front of the chunks; OpenSSL wants to see the same bytes until it has taken them, a record at a time.
        self._piece = memoryview(b"")

    def send(self, sock: socket.socket) -> bool:
        """As `OutputQueue.send`."""
        budget = TURN_BYTES
        try:
            while self.size_bytes and budget > 0:
                if not self._piece:
                    self._piece = memoryview(self._next_piece())
                sent = sock.send(self._piece)
                self._piece = self._piece[sent:]
                self.size_bytes -= sent
                budget -= sent
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError, InterruptedError):
            pass
        return not self.size_bytes

    def clear(self) -> None:
        """Drop everything, and let go of the files."""
        super().clear()
        self._piece = memoryview(b"")

    def _next_piece(self) -> bytes:
        """So many bytes from the front as are encrypted in one go; small chunks together."""
        parts: list[bytes | bytearray | memoryview] = []
        room = _PIECE_BYTES
        while self._chunks and room:
            chunk = self._chunks[0]
            end = min(self._sent + room, len(chunk))
            if isinstance(chunk, _BYTES):
                part: bytes | bytearray | memoryview = memoryview(chunk)[self._sent : end]
            else:
                part = chunk.read(self._sent, end - self._sent)  # type: ignore[attr-defined]
                if len(part) != end - self._sent:
                    raise FileEndedEarly(f"the file ends {end - self._sent - len(part)} bytes before the slice does")
            parts.append(part)
            room -= len(part)
            self._sent = end
            if end == len(chunk):
                self._chunks.popleft()
                self._sent = 0
                release([chunk])
        return b"".join(parts)
