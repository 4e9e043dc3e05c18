"""The interface between a connection's protocol and the transport of its bytes.

A `Connection` finds requests in bytes, and writes answers as chunks. A `Transport` transfers them, in plaintext or by
TLS. A transport drives its connection by the methods of asyncio's BufferedProtocol (get_buffer, buffer_updated) and by
`on_sent`, `on_eof`, `on_hang_up` and `on_lost`, so that asyncio's own transports fit behind a thin adapter.
"""

from __future__ import annotations

from typing import Protocol

from broker.network.output_queue import release
from protocol.schema import Chunk


class Transport(Protocol):
    """The transport, as a connection uses it. No method blocks or raises."""

    @property
    def queued_bytes(self) -> int:
        """Bytes given to `send` that the kernel has not accepted yet."""

    @property
    def sendfile_bytes(self) -> int:
        """Bytes of files that sendfile sent to the client."""

    def send(self, chunks: list[Chunk]) -> int:
        """Send chunks in order, and return `queued_bytes`. The transport now owns the chunks, and releases file slices.

        Calls `on_sent` when the queue has become empty, if it was not empty after a `send`.
        """

    def pause_reading(self) -> None:
        """Stop receiving until `resume_reading`. A disconnect of the client is still noticed."""

    def resume_reading(self) -> None:
        """Receive again."""

    def close_when_sent(self) -> None:
        """Stop receiving, and close once the queue is empty."""

    def abort(self) -> None:
        """Close now, and drop what is queued. `on_lost` has been called when this returns."""


class _Gone:
    """The transport of a closed connection: it does nothing."""

    __slots__ = ()

    queued_bytes = sendfile_bytes = 0

    def send(self, chunks: list[Chunk]) -> int:
        release(chunks)
        return 0

    def do_nothing(self) -> None:
        """Do nothing: there is nothing to receive or close."""

    pause_reading = resume_reading = close_when_sent = abort = do_nothing


GONE: Transport = _Gone()
