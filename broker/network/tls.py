"""TLS connections: OpenSSL between the socket of a plaintext transport and the connection.

OpenSSL has no access to the socket: it gets received bytes piece by piece, and its output is sent for it. With access
it would read as long as a client sends records without data (key updates of TLS 1.3), and block the loop.

Log data is copied to be encrypted: sendfile would send it in plaintext. A pool runs the steps of the handshake, which
take processor time; until the handshake is complete no request is read.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from broker.network.connection import Connection
from broker.network.output_queue import TURN_BYTES, FileEndedEarly, OutputQueue, release
from broker.network.plaintext import DisconnectWatcher, PlaintextTransport
from protocol.schema import Chunk
from runtime.deferred import Deferred

#: Bytes that are encrypted at once. OpenSSL keeps buffers of the largest piece for as long as the connection lasts.
_PIECE_BYTES = 32 * 1024
#: Encrypted bytes that are received in a turn; a record has little more than 16 KiB. OpenSSL needs some 20 ms for as
#: many bytes of key updates.
_TURN_RECEIVED_BYTES = 40 * 1024
#: Records that are decrypted in a turn; further ones follow in the next turn.
_TURN_RECORDS = 16
_BYTES = (bytes, bytearray, memoryview)

#: The buffer in which all connections receive; OpenSSL gets its content before the next receive.
_received = memoryview(bytearray(_TURN_RECEIVED_BYTES))

Run: TypeAlias = Callable[[Callable[[], None]], Deferred[None]]
"""Runs a function elsewhere; the Deferred is done when it has returned."""


class TlsTransport(PlaintextTransport):
    """Transfers the bytes of one TLS connection.

    Args:
        context: has the server's certificate.
        run: runs the steps of the handshake.
        on_secured: called with the client's certificate in DER, or None, before any request is served; an exception
            that it raises ends the connection.
    """

    __slots__ = ("_has_more", "_incoming", "_on_secured", "_outgoing", "_run", "_secured", "_stepping", "_tls")

    _queue: TlsOutputQueue

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        connection: Connection,
        hang_ups: DisconnectWatcher,
        context: ssl.SSLContext,
        run: Run,
        on_secured: Callable[[Connection, bytes | None], None],
    ) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)  # may raise: before the watch
        super().__init__(loop, sock, connection, hang_ups)
        self._run = run
        self._on_secured = on_secured
        self._secured = False
        self._stepping = False
        self._has_more = False  # whether OpenSSL may have unread records
        self._queue = TlsOutputQueue(self._encrypt)

    def send(self, chunks: list[Chunk]) -> int:
        """Send as `Transport.send` does."""
        queue = self._queue
        if self._closing:
            release(chunks)
            return queue.size_bytes
        queue.put(chunks)
        if not self._writing:
            self._send_queued()
        return queue.size_bytes

    def resume_reading(self) -> None:
        """Receive again, first the records that OpenSSL already has."""
        super().resume_reading()
        if self._stepping:
            self._loop.remove_reader(self._fd)  # watched again after the step
        elif self._has_more:
            self._loop.call_soon(self._read_more)

    def _encrypt(self, data: bytes) -> bytes:
        """Return the bytes to send: OpenSSL's own messages, and `data`, encrypted."""
        if data:
            self._tls.write(data)
        return self._outgoing.read()

    # -- the handshake -------------------------------------------------------------------------------------------------

    def _shake_hands(self) -> None:
        """Run the next step. Until it ends, no other code uses OpenSSL's state, and the socket is not watched."""
        self._loop.remove_reader(self._fd)
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)
        self._stepping = True
        self._run(self._tls.do_handshake).add_done_callback(self._on_step)

    def _on_step(self, step: Deferred[None]) -> None:
        self._stepping = False
        if self._sock is None:
            return  # the connection was closed during the step
        try:
            step.result()
            self._on_secured(self._connection, self._tls.getpeercert(binary_form=True))
        except ssl.SSLWantReadError:
            pass
        except Exception as error:
            self._fail_handshake(error)
            return
        else:
            self._secured = self._has_more = True
        self._send_queued()
        if self._reading:
            self._loop.add_reader(self._fd, self._on_readable)
        self._read_more()

    def _fail_handshake(self, error: Exception) -> None:
        self._connection.close(f"Failed authentication (SSL handshake failed: {error})")

    # -- receiving -----------------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        if self._has_more:
            return  # OpenSSL's records come first, in this turn or once there is room
        try:
            received = self._recv_into(_received)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            if self._secured:
                self._close()
            else:
                self._fail_handshake(error)
            return
        if not self._secured:
            if received:
                self._incoming.write(_received[:received])
            else:
                self._incoming.write_eof()
            self._shake_hands()
        elif received:
            self._incoming.write(_received[:received])
            if not self._read() and received == _TURN_RECEIVED_BYTES:
                self._connection.close(f"{received} bytes of TLS records without data")
        else:
            self._on_end()

    def _read_more(self) -> None:
        """Read OpenSSL's remaining records, for which the socket does not become readable."""
        if self._has_more and self._reading and self._sock is not None:
            self._read()

    def _read(self) -> bool:
        """Pass on the data of some records; return False if there was none, although there is room for it."""
        self._has_more = True
        try:
            room = self._connection.get_buffer()
        except BlockingIOError:
            return True
        taken = 0
        ended = broken = False
        try:
            for _ in range(_TURN_RECORDS):
                received: int = self._tls.read(len(room) - taken, room[taken:])  # type: ignore[assignment]  # as `recv_into`
                taken += received
                if not received:
                    ended = True
                    break
                if taken == len(room):
                    break
        except ssl.SSLWantReadError:
            self._has_more = False
        except OSError:
            broken = True
        # Once a turn, as a plaintext read, even if records are tiny: each call costs a copy of the rest.
        if taken:
            self._connection.buffer_updated(taken)
        if broken:
            self._close()
        elif ended:
            self._on_end()
        elif self._sock is not None:
            if self._outgoing.pending:
                self._send_besides()
            if self._has_more:
                self._loop.call_soon(self._read_more)
        return taken > 0 or ended or broken

    def _send_besides(self) -> None:
        """Send OpenSSL's own messages: responses to key updates, which a client may request again and again."""
        if not self._writing:
            self._send_queued()
        elif self._outgoing.pending > _TURN_RECEIVED_BYTES:
            self._connection.close("it requests key updates without reading the responses")

    def _on_end(self) -> None:
        """Handle the end of what the client sends."""
        self._has_more = False
        if not self._closing:
            self._stop_reading()
            self._connection.on_eof()

    # -- closing -------------------------------------------------------------------------------------------------------

    def close_when_sent(self) -> None:
        """Close as `Transport.close_when_sent` does; abort during the handshake, when nothing can be sent."""
        if self._secured:
            super().close_when_sent()
        else:
            self.abort()

    def _close_socket(self, sock: socket.socket) -> None:
        if not self._stepping:
            if self._secured:
                with suppress(OSError, ValueError):
                    self._tls.unwrap()  # close_notify: proves that no attacker cut the connection
            with suppress(OSError):
                sock.send(self._outgoing.read())  # close_notify, or the alert of a failed handshake
        sock.close()


class TlsOutputQueue(OutputQueue):
    """Chunks that are not encrypted yet, in order. File slices are read as the socket accepts bytes.

    Args:
        encrypt: returns the bytes to send for some data; without data, OpenSSL's pending messages.
    """

    __slots__ = ("_encrypt", "_piece", "_piece_bytes")

    def __init__(self, encrypt: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self._encrypt = encrypt
        self._piece = memoryview(b"")  # encrypted bytes from the front of the chunks
        self._piece_bytes = 0  # their size before encryption

    def send(self, sock: socket.socket) -> bool:
        """Send as `OutputQueue.send` does."""
        budget = TURN_BYTES
        try:
            while budget > 0:
                if not self._piece and not self._encrypt_next():
                    return True
                sent = sock.send(self._piece)
                self._piece = self._piece[sent:]
                budget -= sent
                if not self._piece:
                    self.size_bytes -= self._piece_bytes
        except (BlockingIOError, InterruptedError):
            pass
        return False

    def clear(self) -> None:
        """Drop everything, and release the files."""
        super().clear()
        self._piece = memoryview(b"")
        self._encrypt = bytes  # breaks the cycle of this queue and the method's object

    def _encrypt_next(self) -> bool:
        """Encrypt the next piece; return whether there is anything to send."""
        data = self._next_piece()
        self._piece_bytes = len(data)
        self._piece = memoryview(self._encrypt(data))
        return len(self._piece) > 0

    def _next_piece(self) -> bytes:
        """Return the next bytes to encrypt at once; small chunks are joined."""
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
